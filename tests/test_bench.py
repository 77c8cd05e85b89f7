"""The benchmark: rows as promised, results compared, missing peers named."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import runner, workloads
from bench.worker import one_round, peak_bytes
from rune.structure import leaves

ROOT = Path(__file__).parent.parent
TINY = {
    "running_sum_gradient": lambda data: (data[0][:50],),
    "eager_gradient": lambda data: data,
    "eager_operations": lambda data: data,
    "lorenz": lambda data: (*data[:2], 20, data[3]),
    "lorenz_gradient": lambda data: (*data[:2], 20, data[3]),
    "pair_potential_gradient": lambda data: (data[0][:7],),
    "small_call": lambda data: data,
    "kalman_gradient": lambda data: (data[0], data[1][:9], *data[2:]),
    "many_scalars_gradient": lambda data: (data[0], 5),
    "hmm_gradient": lambda data: (*data[:2], data[2][:9]),
    "garch_gradient": lambda data: (data[0][:9],),
    "tridiagonal": lambda data: tuple(x[:9] for x in data),
    "tridiagonal_gradient": lambda data: tuple(x[:9] for x in data),
    "heat_gradient": lambda data: (data[0][:9, :8], 3),
    "lstm_gradient": lambda data: (data[0], data[1][:3, :2]),
    "black_scholes": lambda data: (*(x[:9] for x in data[:3]), *data[3:]),
    "black_scholes_gradient": lambda data: (*(x[:9] for x in data[:3]), *data[3:]),
    "logistic_hvp": lambda data: (data[0][:9], data[1][:9], *data[2:]),
    "mlp_gradient": lambda data: (data[0], data[1][:3], data[2][:3]),
    "attention_gradient": lambda data: tuple(x[:2, :5] for x in data),
    "softmax": lambda data: (data[0][:3, :5],),
    "row_sums": lambda data: (data[0][:3, :5],),
    "fma": lambda data: tuple(x[:9] for x in data),
}


def test_every_workload_is_here():
    assert set(workloads.names()) == set(TINY)


@pytest.mark.parametrize(
    ("name", "peer"),
    [(n, p) for n in TINY for p in workloads.PEERS[1:] if workloads.has(workloads.load(n), p)],
)
def test_peers_compute_what_rune_computes(name, peer):
    workload = workloads.load(name)
    try:
        workloads.prepare(peer)
    except workloads.Missing as missing:
        pytest.skip(str(missing))
    data = TINY[name](workload.data())
    ours, theirs = (leaves(getattr(workload, f"with_{who}")(*data)()) for who in ("rune", peer))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=workload.TOLERANCE * np.max(np.abs(b)))


def test_rune_runs_every_workload():
    """Those whose peers are not installed too: the result is finite, and the same again."""
    for name, tiny in TINY.items():
        workload = workloads.load(name)
        call = workload.with_rune(*tiny(workload.data()))
        for first, again in zip(leaves(call()), leaves(call()), strict=True):
            assert np.all(np.isfinite(first)), name
            np.testing.assert_array_equal(first, again, err_msg=name)


def test_the_command_writes_a_row_per_workload(tmp_path):
    out = tmp_path / "rows.json"
    command = [
        sys.executable,
        "-m",
        "bench",
        "--only",
        "small_call",
        "--peers",
        "numpy",
        "--rounds",
        "1",
        "--out",
        out,
    ]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert "small_call" in text and "x rune" in text
    (row,) = json.loads(out.read_text())
    assert row["workload"] == "small_call"
    for column in ("times", "first_call", "peak_bytes"):
        assert set(row[column]) == {"rune", "numpy"}
    assert 0 < row["times"]["rune"] <= row["first_call"]["rune"] < 60


def test_an_unknown_workload_or_peer_is_refused():
    for arguments, message in (
        (["--only", "loreny"], "no workload loreny"),
        (["--peers", "jaxx"], "no peer jaxx"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 2 and message in done.stderr


def test_results_that_differ_are_reported(tmp_path):
    class Stub:
        def __init__(self, peer, *leaves):
            self.peer, self.result = peer, tmp_path / f"{peer}.npz"
            np.savez(self.result, *leaves)

    ours = Stub("rune", np.array([1.0, 2.0]))
    assert runner.disagreements("w", [ours, Stub("c", np.array([1.0, 2.0 + 1e-13]))], 1e-12) == []
    assert runner.disagreements("w", [Stub("c", np.ones(2))], 1e-12) == []  # nothing to compare with
    (wrong,) = runner.disagreements("w", [ours, Stub("c", np.array([1.0, 2.2]))], 1e-12)
    assert wrong == "w: c and rune differ by 9.1e-02 of the largest element"
    (wrong,) = runner.disagreements("w", [ours, Stub("c", np.array([1.0, np.nan]))], 1e-12)
    assert "differ by nan" in wrong
    (wrong,) = runner.disagreements("w", [ours, Stub("c", np.ones(3))], 1e-12)
    assert "other shapes" in wrong


def test_a_missing_compiler_is_named(monkeypatch):
    workloads.limits.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(workloads.Missing, match="gcc is not installed"):
        workloads.prepare("c")


def test_a_round_gives_seconds_per_call():
    calls = []
    seconds = one_round(lambda: calls.append(1), 1e-7)
    assert len(calls) > 1000 and 0 < seconds < 1e-4


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's high-water mark is Linux's")
def test_the_peak_is_what_a_call_takes_for_a_while():
    size = 64 << 20
    peak = peak_bytes(lambda: np.ones(size // 8).sum())
    assert peak is None or 0.95 * size < peak < 1.2 * size


def test_durations_and_sizes_read_well():
    assert [runner.duration(s) for s in (2.5, 0.0123, 4.56e-5, 7e-8)] == [
        "2.5 s",
        "12.3 ms",
        "45.6 us",
        "70 ns",
    ]
    assert [runner.size(b) for b in (12, 2048, 3 << 20)] == ["12 B", "2 KiB", "3 MiB"]
