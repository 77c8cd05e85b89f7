"""Faults found by attack, each held by a test of its whole kind."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rune


def leaves(x):
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple) else [x]


def same(got, expected, tolerance=1e-9):
    got, expected = leaves(got), leaves(expected)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# Reads before, between and after writes of one array ------------------------------------------------


def view_of_view(x):
    y = x.copy()
    v = y[1:]
    w = v[::-1]
    w[0] = 7.0
    v *= 2
    y[0] = v[0]
    y[1:] += y[:-1]
    return y, w


def overlapping_out(x):
    y = x * 1
    np.add(y[:-1], y[1:], out=y[1:])
    y[1:] *= y[:-1]
    y[::-1] -= y
    return y


def rows_written(x):
    y = x * 1
    for row in y.reshape(5, 1):
        row[0] = row[0] * 2
    for k, v in enumerate(y):
        y[k] = v + y[k - 1]
    return y


def read_write_read(x):
    y = x * 1
    (y[:3])[1:][0] = 100
    y[1:4][::2] += y[0]
    i = np.array([1, 3])
    y[i] = y[i[::-1]]
    return y, y[i] * y[1]


@pytest.mark.parametrize("f", [view_of_view, overlapping_out, rows_written, read_write_read])
def test_a_read_after_a_write_sees_it(f):
    x = np.array([0.3, -1.2, 0.7, 2.0, -0.4])
    xs = np.stack([x, 2 * x])
    same(rune.jit(f)(x), f(x))
    same(rune.jit(rune.vmap(f))(xs), rune.vmap(f)(xs))

    def objective(x):
        return sum(np.sum(np.sin(y) * np.arange(1.0, y.size + 1)) for y in leaves(f(x)))

    eager = rune.grad(objective)(x)
    same(rune.jit(rune.grad(objective))(x), eager)
    same(rune.grad(rune.jit(objective))(x), eager)
    same(rune.jit(rune.hessian(objective))(x), rune.hessian(objective)(x))

    def step(c, r):
        c[:] = 0.1 * leaves(f(c))[0] * r
        return c, np.sum(c)

    rows = np.array([0.5, -0.2, 1.5])
    same(rune.jit(lambda x: rune.scan(step, x, rows))(x), rune.scan(step, x, rows))


def plus_shifted(c, r):
    c[1:] += c[:-1] * r
    c *= 0.9
    return c, c[0]


def counter(c, r):
    k, a = c
    a[k] = a[k - 1] * r + 1
    return (k + 1, a), a[k]


def swapped(c, r):
    a, b = c
    a, b = b, a
    a[0] = r
    b[1] += a[0]
    return (a, b), a


@pytest.mark.parametrize(
    ("step", "init"),
    [
        (plus_shifted, np.ones(4)),
        (counter, (np.int64(1), np.ones(8))),
        (swapped, (np.ones(3), np.zeros(3))),
    ],
)
@pytest.mark.parametrize("captured", [False, True])
def test_an_eager_step_writes_what_is_followed_into_a_plain_carry(step, init, captured):
    rows = np.array([0.5, -0.7, 1.1])

    def f(r):
        if captured:
            out = rune.scan(lambda c, k: step(c, r * 1.0), init, np.zeros(3))
        else:
            out = rune.scan(step, init, r)
        return sum(np.sum(y * y) for y in leaves(out))

    x = np.float64(0.7) if captured else rows
    eager = rune.grad(f)(x)
    same(eager, rune.grad(rune.jit(f))(x))
    same(rune.jvp(f, (x,), (np.ones_like(x),)), rune.jvp(rune.jit(f), (x,), (np.ones_like(x),)))
    xs = np.stack([x, 2 * x])
    same(rune.vmap(rune.grad(f))(xs), rune.jit(rune.vmap(rune.grad(f)))(xs))
    same(rune.vmap(f)(xs), rune.vmap(rune.jit(f))(xs))


def pairs_of_levels():
    """An array made inside a transformation from what an outer one follows, written with the inner one's values."""

    def first_is(w, x):
        y = np.zeros_like(x)
        y[0] = w
        y[1:] = x[:-1] * w
        return y

    def step(c, r, x):
        y = x * 1
        y[1] = c
        v = y[::2]
        v += r
        return np.sum(y), y

    return {
        "scan": lambda x: rune.scan(lambda c, r: step(c, r, x), 0.0, x)[1],
        "grad": lambda x: rune.grad(lambda w: np.sum(first_is(w, x)))(1.5),
        "jvp": lambda x: rune.jvp(lambda w: first_is(w, x), (1.5,), (1.0,)),
        "vmap": lambda x: rune.vmap(lambda w: first_is(w, x * 1))(x),
        "index": lambda x: rune.vmap(lambda k: first_is(0.5, x * k))(np.arange(3)),
    }


@pytest.mark.parametrize("name", sorted(pairs_of_levels()))
def test_an_array_made_inside_a_transformation_may_be_written_there(name):
    f = pairs_of_levels()[name]
    x = np.array([0.5, -1.0, 2.0])
    objective = lambda x: sum(np.sum(np.sin(y)) for y in leaves(f(x)))
    derivative = rune.grad(objective)(x)
    compiled = rune.jit(objective)
    differences = [(compiled(x + e) - compiled(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(derivative, differences, rtol=1e-6, atol=1e-8)
    same(rune.jit(rune.grad(objective))(x), derivative)
    same(rune.grad(lambda x: rune.jit(lambda s: s * objective(x))(1.0))(x), derivative)


def test_an_array_made_outside_a_transformation_may_not_be_written_inside():
    def f(x):
        y = x * 1

        def step(c, r):
            y[0] = c
            return c + r, None

        return rune.scan(step, 0.0, x)[0] + y[0]

    with pytest.raises(rune.TracedValueError, match=r"an array of rune.jit is written inside rune.scan"):
        rune.jit(f)(np.ones(3))


# Python numbers keep their kind ---------------------------------------------------------------------

KINDS = [(1.5, 0), (1j, 0.0), (1j, 1), (2, True), (1.5, np.uint8(1))]


@pytest.mark.parametrize(("number", "like"), KINDS)
@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: lambda: rune.jit(lambda _: f())(0.0)])
def test_a_python_number_is_not_cut_to_the_dtype_asked_for(number, like, wrap):
    with pytest.raises(ValueError, match=r"rune.scan"):
        wrap(lambda: rune.scan(lambda c, _: (number, None), like, None, length=1))()
    with pytest.raises(ValueError, match=r"rune.callback"):
        wrap(lambda: rune.callback(lambda: number, like))()
    if hasattr(rune, "cond"):
        with pytest.raises(ValueError, match=r"rune.cond"):
            rune.jit(lambda p: rune.cond(p, lambda: number, lambda: np.asarray(like)[()]))(np.True_)


# Byte order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8", "c8", "c16"])
def test_every_byte_order_is_read_right(dtype):
    native = np.arange(12).reshape(3, 4).astype(dtype)
    x = native.astype(native.dtype.newbyteorder(">"))
    for f in (
        lambda a: a + a,
        lambda a: (a, a.T),
        lambda a: (np.sum(a, 0), np.cumsum(a, -1)),
        lambda a: a[1:, ..., ::2] * 2,
    ):
        same(rune.jit(f)(x), f(native))
        same(rune.jit(lambda y, f=f: f(x + y))(np.zeros(1, dtype)), f(native))
        same(rune.vmap(f)(np.stack([x, x]).astype(x.dtype)), rune.vmap(f)(np.stack([native, native])))
    step = lambda c, row: (c + row.ravel()[-1], row)
    init = native.dtype.type(0)
    same(rune.jit(lambda a: rune.scan(step, init, a))(x), rune.scan(step, init, native))
    if native.dtype.kind == "f":
        objective = lambda a: np.sum(a * a)
        same(rune.grad(objective)(x), 2 * native)
        same(rune.grad(rune.jit(objective))(x), 2 * native)


def test_powers_of_booleans_have_numpy_s_dtypes():
    x = np.array([True, False])
    for f in (lambda x: x**2, lambda x: np.power(x, 2), lambda x: x**3, lambda x: x**2.0, lambda x: x**True):
        same(rune.jit(f)(x), f(x))


# Numbers --------------------------------------------------------------------------------------------

COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


@pytest.mark.parametrize("f", COMPARISONS)
def test_signed_and_unsigned_integers_compare_by_value(f):
    signed = np.array([-(2**63), -1, 0, 5, 2**63 - 1])[:, None]
    unsigned = np.array([0, 5, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    same(rune.jit(f)(signed, unsigned), f(signed, unsigned))
    same(rune.jit(f)(unsigned, signed), f(unsigned, signed))
    same(rune.jit(lambda x: f(x, np.uint64(2**64 - 1)))(signed), f(signed, np.uint64(2**64 - 1)))
    small = signed[1:4].astype(np.int8)
    same(rune.jit(f)(small, unsigned), f(small, unsigned))


@pytest.mark.parametrize("n", [1, 2, 7, 40, 700])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16"])
def test_sums_of_negative_zeros_have_numpy_s_sign(n, dtype):
    x = np.full((3, n), -0.0, dtype)
    if x.dtype.kind == "c":
        x.imag = -0.0
    ones = np.ones(n, dtype)
    for f in (
        lambda x: np.sum(x, axis=1),
        lambda x: np.sum(x),
        lambda x: np.mean(x, axis=0),
        lambda x: x @ ones,
        lambda x: np.cumsum(x, axis=0),
        lambda x: np.cumsum(x, axis=1),
        lambda x: np.cumsum(np.pad(x, 1)[::-1, ::-1], axis=1),
    ):
        got, expected = rune.jit(f)(x), f(x)
        for part in (np.real, np.imag) if x.dtype.kind == "c" and f(x).ndim < 2 else (np.real,):
            assert np.array_equal(np.signbit(part(got)), np.signbit(part(expected)))


def test_sinc_near_nothing_in_every_precision():
    for dtype in ("f2", "f4", "f8"):
        x = np.array([0.0, -0.0, np.finfo(dtype).tiny, 0.5], dtype)
        same(rune.jit(np.sinc)(x), np.sinc(x), 2e-3 if dtype == "f2" else 1e-6)
        assert np.all(np.isfinite(rune.grad(lambda x: np.sum(np.sinc(x)))(x)))


# Threads --------------------------------------------------------------------------------------------

FIRST_CALLS = """
import threading, numpy as np, rune
from rune.native import dispatch
gate = threading.Barrier(8)
functions = [rune.jit(lambda x, k=k: np.cos(x) * k) for k in range(8)]
x = np.array(0.5)
for f in functions:
    f(x[()])  # compiled; a NumPy scalar makes no native call
def work(k):
    gate.wait()
    for _ in range(200):
        assert np.allclose(functions[k](x), np.cos(x) * k)
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print("made", dispatch.entry.cache_info().misses)  # a second one would die while its builtin is in use
"""


def test_the_first_calls_of_a_process_may_come_from_several_threads():
    out = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, timeout=120)
    assert out.stdout == "made 1\n", out.stderr


def test_threads_that_trace_call_and_forget_one_function_and_others():
    square = rune.jit(lambda x: np.sum(np.sin(x) ** 2))
    gradient = rune.jit(rune.grad(square))

    def work(seed):
        random = np.random.default_rng(seed)
        for k in range(6):
            x = random.normal(size=int(random.integers(1, 12)))
            np.testing.assert_allclose(square(x), np.sum(np.sin(x) ** 2))
            np.testing.assert_allclose(gradient(x), np.sin(2 * x))
            np.testing.assert_allclose(rune.jit(lambda x, k=k: np.cumsum(x) * k)(x), np.cumsum(x) * k)
            if k % 3 == 0:
                square.clear()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@pytest.mark.parametrize("repeat", range(3))
def test_functions_that_call_each_other_are_traced_from_several_threads(repeat):
    f = rune.jit(lambda x, n: g(x, n - 1) + 1 if n > 0 else x)
    g = rune.jit(lambda x, n: f(x, n - 1) * 2 if n > 0 else x)
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(f if k % 2 else g, np.float64(1), 6) for k in range(16)]
        assert [c.result(timeout=60) for c in calls] == [g(np.float64(1), 6), f(np.float64(1), 6)] * 8


# Long programs --------------------------------------------------------------------------------------


def long_chain(n):
    def f(x):
        y = x
        for _ in range(n):
            y = np.sin(y) * 0.9 + x
        return np.sum(y)

    return f


def shared_twice(n):
    """Each value is read three times, so paths through the program grow as 3**n."""

    def f(x):
        y = x
        for _ in range(n):
            y = y * 0.5 + y * y * 0.1
        return np.sum(y)

    return f


def written_between(n):
    def f(x):
        y = x * 1.0
        for k in range(n):
            y[k % 60] = y[3] * 0.5
            y[[1, 2]] = (y * 0.5 + y * y * 0.1)[[2, 3]]
        return np.sum(y)

    return f


@pytest.mark.parametrize("f", [long_chain(600), shared_twice(60), written_between(12)])
def test_programs_of_many_operations_compile(f):
    x = np.linspace(-1.0, 1.0, 64)
    same(rune.jit(f)(x), f(x))
    same(rune.jit(rune.grad(f))(x), rune.grad(f)(x))
