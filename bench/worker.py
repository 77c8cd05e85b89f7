"""One peer on one workload, in a process of its own.

It answers three questions, a line each on standard input: `first` makes the call for the first time,
from the function to a result (tracing and compiling included, importing not), and saves the result;
`round` gives the seconds of one warm call, the best within a short turn; `peak` gives the memory that
a warm call takes beyond what the process held before it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import sys
import time

import numpy as np

from bench import workloads

TURN = 0.15  # seconds of one round
SHORT = 20e-6  # a call shorter than this is timed many at a time


def one_round(call, estimate: float) -> float:
    """Seconds per call: the best of batches that are long beside the clock's own cost.

    Whatever else runs on the machine can only add to a call, so the best says most about the code.
    """
    batch = max(1, int(50e-6 / max(estimate, 1e-9))) if estimate < SHORT else 1
    seconds = []
    end = time.perf_counter() + TURN
    while not seconds or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(batch):
            call()
        seconds.append((time.perf_counter() - start) / batch)
    return min(seconds)


def peak_bytes(call) -> int | None:
    """How far the resident set rises above where it stood, by Linux's own high-water mark."""
    with contextlib.suppress(AttributeError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)  # give back what earlier calls freed, so that it counts again
    gc.collect()
    try:
        with open("/proc/self/clear_refs", "w") as mark:
            mark.write("5")  # the mark falls to the present size
    except OSError:
        return None
    before = status("VmRSS")
    call()
    return max(0, status("VmHWM") - before)


def status(field: str) -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def leaves(result) -> list[np.ndarray]:
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]


def main() -> None:
    name, peer, scale, path = sys.argv[1:]
    workload = workloads.load(name)
    reply = sys.stdout
    sys.stdout = sys.stderr  # what a peer prints is no answer
    try:
        workloads.prepare(peer)
    except workloads.Missing as missing:
        print(json.dumps({"missing": str(missing)}), file=reply, flush=True)
        return
    data = workload.data(int(scale)) if workloads.scales(workload) else workload.data()
    make = getattr(workload, f"with_{peer}")
    call = None
    estimate = 0.0
    for line in sys.stdin:
        question = line.strip()
        if question == "first":
            start = time.perf_counter()
            call = make(*data)
            result = call()
            answer = {"first_call": time.perf_counter() - start}
            np.savez(path, *leaves(result))
            call()
            start = time.perf_counter()
            call()
            estimate = time.perf_counter() - start
        elif question == "round":
            estimate = one_round(call, estimate)
            answer = {"seconds": estimate}
        else:
            answer = {"peak_bytes": peak_bytes(call)}
        print(json.dumps(answer), file=reply, flush=True)


if __name__ == "__main__":
    main()
