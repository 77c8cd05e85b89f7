"""How the benchmark measures.

Every workload and peer has a process of its own (`bench.worker`), so that nothing one peer loads or
leaves behind is felt by another.  The processes of one workload live side by side and take turns, a
short round each, one at a time: a machine that slows down slows all of them, and ratios hold.  A round
gives the best of its calls, and what is reported is the median over rounds.  Results are compared before
any time is.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench import workloads

__all__ = ["run"]

ROOT = Path(__file__).parent.parent


class Worker:
    """One peer's process on one workload; it answers a line of JSON for every line it gets."""

    def __init__(self, workload: str, peer: str, scale: int, results: Path):
        self.peer = peer
        self.result = results / f"{workload}-{peer}-{scale}.npz"
        command = [sys.executable, "-m", "bench.worker", workload, peer, str(scale), str(self.result)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, what: str) -> dict:
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.peer}: the process ended with status {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def run(names: list[str], peers: list[str], scales: list[int], rounds: int, out: str | None) -> int:
    """Measure, print the table, write the rows; the exit status."""
    rows, wrong = [], []
    for name in names:
        module = workloads.load(name)
        for scale in scales if workloads.scales(module) else [1]:
            row, complaints = measure(name, [p for p in peers if workloads.has(module, p)], scale, rounds)
            wrong += complaints
            rows.append(row)
            print(show(row), flush=True)
            for complaint in complaints:
                print(f"  {complaint}", flush=True)
    if out:
        Path(out).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if wrong else 0


def measure(name: str, peers: list[str], scale: int, rounds: int) -> tuple[dict, list[str]]:
    """A row, and what went wrong on the way."""
    label = name if scale == 1 else f"{name}_x{scale}"
    row: dict = {"workload": label, "times": {}, "first_call": {}, "peak_bytes": {}}
    wrong = []
    with tempfile.TemporaryDirectory() as results:
        workers = []
        for peer in peers:
            worker = Worker(name, peer, scale, Path(results))
            answer = worker.ask("first")
            if "missing" in answer:
                print(f"{label}: {peer} is left out: {answer['missing']}", file=sys.stderr)
                worker.close()
                continue
            row["first_call"][peer] = answer["first_call"]
            workers.append(worker)
        wrong += disagreements(label, workers, workloads.load(name).TOLERANCE)
        times: dict[str, list[float]] = {w.peer: [] for w in workers}
        for _ in range(rounds):
            for worker in workers:
                times[worker.peer].append(worker.ask("round")["seconds"])
        for worker in workers:
            row["times"][worker.peer] = statistics.median(times[worker.peer])
            row["peak_bytes"][worker.peer] = worker.ask("peak")["peak_bytes"]
            worker.close()
    return row, wrong


def disagreements(name: str, workers: list[Worker], tolerance: float) -> list[str]:
    """Every peer whose result is not rune's, with the largest difference."""
    results = {}
    for worker in workers:
        with np.load(worker.result) as leaves:
            results[worker.peer] = [leaves[k] for k in leaves.files]
    ours = results.pop("rune", None)
    found = []
    for peer, theirs in results.items() if ours is not None else ():
        if [a.shape for a in ours] != [b.shape for b in theirs]:
            found.append(f"{name}: {peer}'s result has other shapes than rune's")
            continue
        for a, b in zip(ours, theirs, strict=True):
            scale = np.max(np.abs(b), initial=1e-300)
            error = float(np.max(np.abs(a - b), initial=0.0) / scale)
            if not error <= tolerance:
                found.append(f"{name}: {peer} and rune differ by {error:.1e} of the largest element")
    return found


def show(row: dict) -> str:
    """A row of the table: times, and how they compare with rune's."""
    ours = row["times"].get("rune")
    cells = []
    for peer, seconds in row["times"].items():
        ratio = f" ({seconds / ours:.2f} x rune)" if ours and peer != "rune" else ""
        cells.append(f"{peer} {duration(seconds)}{ratio}")
    first = ", ".join(f"{p} {duration(s)}" for p, s in row["first_call"].items())
    peak = ", ".join(f"{p} {size(b)}" for p, b in row["peak_bytes"].items() if b is not None)
    return f"{row['workload']}\n  time        {', '.join(cells)}\n  first call  {first}\n  peak        {peak}"


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
