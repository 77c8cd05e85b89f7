"""What the derivative of a loop that stops on its own keeps: room for the steps it takes, not for `max_steps`."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import rune
from rune.constructs import iterate

total = rune.Total("squares")


def decay(n):
    def f(x):
        step = lambda c: (c[0] * 0.5 + np.sin(c[0] * c[1]), c[1])
        return rune.iterate(step, (x, x * 0.1), until=lambda c: np.abs(c[0]) < 1e-3, max_steps=n)[0]

    return f


def collected(n):
    def f(x):
        def step(c):
            total.add(c * c)
            return c * 0.5 + np.sin(c) * 0.1

        loop = lambda: rune.iterate(step, x, until=lambda c: np.abs(c) < 1e-2, max_steps=n)
        return total.collect(0.0, loop)[1]

    return f


def steps_differ(n):
    """Lanes of one map stop after different numbers of steps."""
    return lambda x: np.sum(rune.vmap(decay(n))(x * np.array([1.0, 0.1, 0.5])))


LOOPS = {"decay": decay, "collected": collected, "steps differ": steps_differ}
lanes = np.array([1.0, 0.3])
MODES = {
    "grad of jit": lambda f: rune.grad(rune.jit(f)),
    "jit of grad": lambda f: rune.jit(rune.grad(f)),
    "hessian": lambda f: rune.jit(rune.hessian(f)),
    "grad of grad": lambda f: rune.jit(rune.grad(rune.grad(f))),
    "grad of jvp": lambda f: rune.grad(lambda x: rune.jvp(f, (x,), (1.0,))[1]),
    "vmap of grad": lambda f: lambda x: rune.vmap(rune.grad(f))(x * lanes),
    "jit of vmap of hessian": lambda f: lambda x: rune.jit(rune.vmap(rune.hessian(f)))(x * lanes),
}


@pytest.mark.parametrize("n", [5, 17, 18, 300])
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_in_segments_is_the_loop(loop, mode, n, monkeypatch):
    def outcome(room):
        monkeypatch.setattr(iterate, "ROOM", room)
        try:
            return mode(loop(n))(0.7)
        except ValueError as error:
            return str(error)

    whole, cut = outcome(1 << 30), outcome(0)
    if n == 5:
        assert "max_steps = 5" in whole
        assert whole == cut
    else:
        np.testing.assert_allclose(cut, whole, rtol=1e-12)


@pytest.mark.parametrize("extra", [-1, 0])
def test_a_loop_in_segments_takes_max_steps_and_no_more(extra, monkeypatch):
    monkeypatch.setattr(iterate, "ROOM", 0)
    for n in range(17, 40):
        count = lambda x, n=n: rune.iterate(
            lambda c: (c[0] * x, c[1] + 1), (x, 0), until=lambda c: c[1] >= n, max_steps=n + extra
        )[0]
        gradient = rune.jit(rune.grad(count))
        if extra:
            with pytest.raises(ValueError, match=f"max_steps = {n - 1} steps"):
                gradient(1.0)
        else:
            assert gradient(1.0) == n + 1


@pytest.mark.parametrize("mode", [rune.grad, rune.hessian], ids=["grad", "hessian"])
def test_a_failure_names_the_step_of_a_loop_that_runs_in_segments(mode, monkeypatch):
    monkeypatch.setattr(iterate, "ROOM", 0)

    def step(c):
        rune.check(c < 29.5, "large")
        return c + 1.0

    stops = rune.jit(mode(lambda x: rune.iterate(step, x, until=lambda c: c > 99, max_steps=300)))
    with pytest.raises(ValueError, match=r"large \(in step 30\)"):
        stops(0.0)
    inner = lambda c: rune.scan(lambda c, _: (step(c), None), c, None, length=4)[0]
    stops = rune.jit(mode(lambda x: rune.iterate(inner, x, until=lambda c: c > 99, max_steps=300)))
    with pytest.raises(ValueError, match=r"large \(in step 7, step 2\)"):
        stops(0.0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n, every", [(9, 1), (9, 3), (9, 4), (9, 20)])
def test_a_failure_names_the_step_of_a_scan_with_checkpoints(n, every, reverse):
    def step(c, x):
        rune.check(x != 5, "five")
        return c + x, None

    for mode in (lambda f: f, rune.grad):
        f = mode(lambda c: rune.scan(step, c, np.arange(9.0), reverse=reverse, checkpoint_every=every)[0])
        with pytest.raises(ValueError, match=r"five \(in step 5\)"):
            rune.jit(f)(0.0)


def test_python_is_called_once_in_each_step(monkeypatch):
    monkeypatch.setattr(iterate, "ROOM", 0)
    seen = []
    one = np.float64(1)

    def step(c):
        x, k = c
        return x * rune.callback(lambda k: (seen.append(int(k)), one)[1], one, k), k + 1

    f = rune.jit(lambda x: rune.iterate(step, (x, 0), until=lambda c: c[1] >= 20, max_steps=100)[0])
    assert rune.grad(f)(2.0) == 1
    assert seen == list(range(20))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of an address space is Linux's")
@pytest.mark.parametrize(
    "gradient",
    [
        "rune.grad(rune.jit(f))",
        "rune.jit(rune.grad(f))",
        "rune.jit(rune.hessian(f))",
        "rune.jit(rune.vmap(rune.grad(f)))",
        "rune.grad(lambda x: np.sum(rune.vmap(f)(x)))",
        "rune.jit(lambda x: total.collect(0.0, lambda: f(x))[1])",
        "rune.jit(rune.grad(lambda x: total.collect(0.0, lambda: f(x))[1]))",
    ],
)
def test_storage_grows_with_the_steps_taken(gradient):
    """10**8 rows of a few numbers are gigabytes; the process may take 256 MiB more."""
    code = """
        import resource
        import numpy as np
        import rune

        total = rune.Total("total")

        def f(x):
            def step(c):
                total.add(np.sum(c))
                return c * 0.5 + np.sin(c) * 0.1 * c

            return np.sum(rune.iterate(step, x, until=lambda c: np.max(np.abs(c)) < 1e-3, max_steps=MOST))

        x = np.linspace(0.1, 1.0, 4)
        if "vmap" in GRADIENT:
            x = np.stack([x, x * 0.7])
        MOST = 100
        expected = eval(GRADIENT)(x)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
        MOST = 10**8
        np.testing.assert_allclose(eval(GRADIENT)(x), expected, rtol=1e-12)
    """
    code = textwrap.dedent(code).replace("GRADIENT", repr(gradient))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
