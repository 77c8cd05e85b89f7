"""Compiled functions: keys, static values, retraces, failures in a trace, threads, copies."""

import copy
import functools
import pickle
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rune
from rune.native import threads as pool

x3 = np.arange(3.0)


def counted(f):
    runs = []

    @functools.wraps(f)
    def g(*args, **keywords):
        runs.append(1)
        return f(*args, **keywords)

    return g, runs


def test_a_key_has_structure_types_and_static_values():
    g, runs = counted(lambda *args, **keywords: None)
    f = rune.jit(g)
    calls = [
        (x3,), (x3, 1), (x3, 1.0), (x3, True), (x3, np.int64(1)), ((x3,),), ([x3],), ({"a": x3},), ({"b": x3},),
        (x3, None), (x3, "s"), (x3, x3), (x3[:2],), (x3.astype(np.float32),), (np.float64(1.0),), (1.0,), (1j,), (np.array(1.0),),
    ]  # fmt: skip
    for k, args in enumerate(calls):
        f(*args)
        f(*args)
        # np.float64(1.0) and np.array(1.0) have one type
        assert len(runs) == min(k + 1, len(calls) - 1)
    f(x3, key=x3)
    assert len(runs) == len(calls)


def test_results_keep_structure_and_statics():
    f = rune.jit(lambda x: {"x": x * 2, "n": 3, "name": "n", "none": None, "t": (x, [x.shape])})
    for _ in range(2):
        out = f(x3)
        assert out["n"] == 3 and type(out["n"]) is int and out["name"] == "n" and out["none"] is None
        assert out["t"][1] == [(3,)]
        np.testing.assert_array_equal(out["x"], 2 * x3)


def test_static_arguments_by_name():
    class Config:
        def __init__(self, n):
            self.n = n

    @functools.partial(rune.jit, static_argnames=("config", "k"))
    def f(x, config, k=2):
        return x * config.n + k

    a, b = Config(2), Config(3)
    assert f(1.0, a) == 4.0 and f(1.0, config=b, k=5) == 8.0 and f(2.0, a) == 6.0
    assert f.stats().traces == 2
    with pytest.raises(TypeError, match=r"^rune\.jit: config: a static argument must be hashable, got"):
        f(1.0, [1])
    with pytest.raises(
        ValueError, match=r"^rune\.jit: static_argnames names 'other', which is no argument of g"
    ):

        def g(x):
            return x

        rune.jit(g, static_argnames="other")(1.0)


def test_a_warning_names_an_int_that_changes_every_call():
    f = rune.jit(lambda x, k: x * k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(5):
            f(x3, k)
    with pytest.warns(UserWarning, match=r"^rune\.jit: .* values of the int 1"):
        [f(x3, k) for k in range(5, 9)]


def test_an_exception_in_a_trace_leaves_nothing_behind():
    calls = []

    def body(x):
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("once")
        return x + 1

    f = rune.jit(body)
    with pytest.raises(KeyError, match="once"):
        f(x3)
    np.testing.assert_array_equal(f(x3), x3 + 1)
    assert f.stats().traces == 1


def test_recursion_and_calls_inside_calls():
    @rune.jit
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    np.testing.assert_allclose(power(x3, 5), x3**5)
    np.testing.assert_allclose(rune.grad(lambda x: np.sum(power(x, 5)))(x3), 5 * x3**4)
    inner = rune.jit(lambda x: np.sin(x) * 2)
    outer = rune.jit(lambda x: inner(inner(x)) + inner(x))
    np.testing.assert_allclose(outer(x3), np.sin(np.sin(x3) * 2) * 2 + np.sin(x3) * 2)
    assert inner.stats().traces == 1


def test_captures_are_bound_by_reference():
    w = np.ones(3)
    f = rune.jit(lambda x: np.sum(x * w))
    assert f(x3) == 3.0
    one = np.array([2.0])
    g = rune.jit(lambda x: x * one)
    np.testing.assert_array_equal(g(x3), 2 * x3)


def test_many_threads_trace_one_key_once():
    g, runs = counted(lambda x: np.sum(np.tanh(x)))
    f = rune.jit(g)
    barrier = threading.Barrier(8)

    def call(k):
        barrier.wait()
        return f(x3 + k)

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(call, range(8)))
    np.testing.assert_allclose(got, [np.sum(np.tanh(x3 + k)) for k in range(8)])
    assert len(runs) == 1


def test_functions_that_call_each_other_do_not_lock_up():
    slow = threading.Barrier(2, timeout=30)
    f = rune.jit(lambda x, other=True: (slow.wait() if other else None, g(x, False) if other else x * 2)[1])
    g = rune.jit(lambda x, other=True: (slow.wait() if other else None, f(x, False) if other else x * 3)[1])
    with ThreadPoolExecutor(2) as pool:
        a, b = pool.submit(f, x3), pool.submit(g, x3)
        np.testing.assert_array_equal(a.result(timeout=60), x3 * 3)
        np.testing.assert_array_equal(b.result(timeout=60), x3 * 2)


def test_gradients_from_many_threads():
    f = rune.jit(lambda x: np.sum(rune.scan(lambda c, r: (c * 0.5 + r, c), 0.0, x)[1] ** 2))
    xs = [np.random.default_rng(k).standard_normal(10 + k % 3) for k in range(60)]
    want = [rune.grad(f._f)(x) for x in xs]
    with ThreadPoolExecutor(8) as pool:
        for got, w in zip(pool.map(rune.grad(f), xs), want, strict=True):
            np.testing.assert_allclose(got, w)


@rune.jit
def decorated(x):
    return x + 1


def plain(x):
    return x + 2


compiled = rune.jit(plain)


def test_copies_and_pickles():
    for f in (decorated, compiled):
        again = pickle.loads(pickle.dumps(f))
        np.testing.assert_array_equal(again(x3), f(x3))
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy({"f": compiled})["f"] is compiled
    cloudpickle = pytest.importorskip("cloudpickle")
    scale = 3.0
    local = rune.jit(lambda x: x * scale)
    np.testing.assert_array_equal(pickle.loads(cloudpickle.dumps(local))(x3), x3 * 3)


def test_clear_forgets_programs():
    f = rune.jit(lambda x: x + 1)
    f(x3), f.clear(), f(x3)
    assert f.stats().traces == 2


def test_it_works_after_a_fork():
    code = """
import os, numpy as np, rune
f = rune.jit(lambda x: np.sum(np.exp(x)))
f(np.ones(3))
pid = os.fork()
if pid == 0:
    ok = abs(f(np.ones(3)) - 3 * np.e) < 1e-12 and abs(f(np.ones(5)) - 5 * np.e) < 1e-12
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_it_works_after_a_fork_while_other_threads_trace_compile_and_free():
    code = """
import os, threading, time, numpy as np, rune
f = rune.jit(lambda x: sum(np.sum(np.sin(x * k)) for k in range(60)))
want = f(np.ones(3))
going = True

def work():
    k = 0
    while going:
        k += 1
        rune.jit(lambda x: np.sin(x + k))(np.ones(3))
        f.clear()
        f(np.ones(3))

threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads:
    t.start()
ends = []
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if abs(f(np.ones(3)) - want) < 1e-12 else 1)
    end = time.monotonic() + 30
    while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.01)
    if done == (0, 0):
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    ends.append(done)
going = False
for t in threads:
    t.join()
assert all(pid and status == 0 for pid, status in ends), ends
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=400)


def test_a_wrong_layout_or_number_of_arguments_reaches_python():
    f = rune.jit(lambda x, y: x + y)
    f(x3, x3)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        f(x3)
    np.testing.assert_array_equal(f(np.arange(6.0)[::2], x3), np.arange(6.0)[::2] + x3)
    np.testing.assert_array_equal(f(x3.astype(">f8"), x3), 2 * x3)
    np.testing.assert_array_equal(f(y=x3, x=x3), 2 * x3)


def test_warm_results_are_fresh_every_time():
    f = rune.jit(lambda x: (x, x * 1.0))
    a, b = f(x3), f(x3)
    for p in (*a, *b):
        assert p.flags.owndata and p.flags.writeable
    assert len({p.ctypes.data for p in (*a, *b)}) == 4


def busy(threads):
    """The processor time of the pool's threads so far."""
    return sum(time.clock_gettime(time.pthread_getcpuclockid(t.ident)) for t in threads)


@pytest.mark.skipif(pool.count() == 1, reason="one processor")
def test_one_thread_is_the_caller_alone_and_computes_the_same():
    f = lambda x: np.sum(np.sin(x) * np.exp(-x))
    x = np.linspace(0.0, 1.0, 2_000_000)
    every = [rune.jit(rune.value_and_grad(f))(x), rune.value_and_grad(rune.jit(f))(x)]
    before = busy(pool._started)
    one = [rune.jit(rune.value_and_grad(f), threads=1)(x), rune.value_and_grad(rune.jit(f, threads=1))(x)]
    assert pool._started and busy(pool._started) - before < 1e-3
    for (v, g), (w, h) in zip(every, one, strict=True):
        assert v == w
        np.testing.assert_array_equal(g, h)


@pytest.mark.parametrize(
    "threads, error, text",
    [
        (0, ValueError, "threads must be 1 or more, not 0"),
        (-3, ValueError, "threads must be 1 or more, not -3"),
        (1.5, TypeError, "threads takes an int or None, not float 1.5"),
        (True, TypeError, "threads takes an int or None, not bool"),
        ("2", TypeError, "threads takes an int or None, not str"),
    ],
)
def test_a_number_of_threads_is_a_positive_int(threads, error, text):
    with pytest.raises(error, match=rf"rune\.jit: {text}"):
        rune.jit(np.sin, threads=threads)


def test_options_alone_give_a_decorator():
    @rune.jit(static_argnames="k")
    def f(x, k):
        return x * len(k)

    assert f(2.0, "abc") == 6.0
    assert f.__name__ == "f"
    with pytest.raises(TypeError, match=r"^rune\.jit"):
        rune.jit(None)


@pytest.mark.parametrize("s", [slice(2), slice(None, None, -1), slice(1, 3, 2), (slice(0, 2), 1)])
def test_a_slice_is_static(s):
    x = np.arange(12.0).reshape(3, 4)
    f = rune.jit(lambda x, s: x[s])
    np.testing.assert_array_equal(f(x, s), x[s])
    f(x, copy.copy(s))
    assert f.stats().traces == 1


def test_a_call_that_needs_much_memory_takes_numpy_s():
    def loss(x):
        return np.sum(rune.scan(lambda c, r: (c + r, c + r), 0.0, x)[1] ** 2)

    g, x = rune.jit(rune.grad(loss)), np.ones(9_000_000)
    assert sum(rune.explain(g)(x).buffers) > 64 << 20
    want = 2 * np.cumsum(np.arange(9_000_000.0, 0.0, -1.0))[::-1]
    for _ in range(2):
        np.testing.assert_allclose(g(x), want, rtol=1e-12)
    assert g._direct is None  # the native call gets its memory from the C library
