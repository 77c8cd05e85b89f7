"""Primitives that carry programs or functions: compiled calls, loops, calls of the host.

Their rules run the interpreters and derive programs, so they stand above them.
"""
