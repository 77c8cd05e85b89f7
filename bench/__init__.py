"""The benchmark: rune beside its peers on the workloads of `bench/workloads`, one file each.

`python -m bench` runs it; `bench.runner` says how it measures.
"""
