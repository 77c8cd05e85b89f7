"""A compiled function ends as NumPy's does: in the same value, dtype and shape, or in the same kind of error."""

import numpy as np
import pytest

import rune

INPUTS = dict(
    x=np.array([1.5, -0.0, np.inf, np.nan]),
    k=np.array([3, -1, 0, 2]),
    u=np.array([3, 1, 0, 2], np.uint64),
    b=np.array([True, False]),
    m=np.arange(6.0).reshape(2, 3),
    none=np.zeros((0, 3)),
)

CASES = """
np.ldexp(5, k)
np.ldexp(5.0, k)
np.ldexp(True, k)
np.ldexp(k, 2)
np.ldexp(2, u)
np.ldexp(2, x)
np.isin(x, [1.5, 2.0], kind="sort")
np.isin(k, [3, 1], kind="table")
np.isin(b, [True], kind="table")
np.isin(x, [1.5], kind="table")
np.isin(k, [3], kind="quick")
np.isin(k, u)
np.isin(k, [2**62, -1])
np.convolve(m[0], m[1], 0)
np.convolve(m[0], m[1], 1)
np.convolve(m[0], m[1], 2)
np.convolve(m[0], m[1], 3)
np.convolve(m[0], m[1], None)
np.convolve(m[0], m[1], True)
np.convolve(m[0], m[1], "middle")
np.correlate(m[0], m[1], np.int64(1))
np.correlate(m[0], m[1], -1)
np.nanpercentile(none, 50, axis=0)
np.nanpercentile(none, [20, 50], axis=0)
np.nanpercentile(none, 50, axis=1, keepdims=True)
np.nanquantile(none.astype(np.int32), 0.5, method="lower")
np.nanquantile(none.astype(np.float32), 0.5, axis=0)
np.quantile(none, 0.5, axis=0)
np.quantile(none, [0.2, 0.5], axis=1)
np.percentile(none, 5)
np.ravel_multi_index((x, x), (3, 4))
np.ravel_multi_index((b, b), (3, 4))
np.ravel_multi_index((u, u), (4, 5))
np.ravel_multi_index((u, u), (3, 5))
np.ravel_multi_index((k, k), (4, 5))
np.ravel_multi_index((k, k), (4, 5), mode="wrap")
np.ravel_multi_index((k, k), (2, 2), mode=("clip", "wrap"))
np.ravel_multi_index((k, k), (4, 5), mode="cut")
np.unravel_index(x, (2, 2))
np.unravel_index(u, (2, 2))
np.unravel_index(u, (3,))
np.unravel_index(k, (2, 2))
np.add(k, 2, casting="equiv")
np.add(k, 2, casting="no")
np.maximum(k.astype(np.int32), 2, casting="equiv")
np.add(k, 2.5, casting="safe")
np.add(k, 2.5, dtype=np.int64)
np.add(b, 5, dtype=np.bool_)
np.multiply(m, 2, dtype=np.float32, casting="safe")
np.matmul(m, m.T, dtype=np.int64)
np.matmul(m, m.T, dtype=np.int64, casting="unsafe")
np.vecdot(m, m[:, :1])
np.matvec(m, m[0])
np.matvec(m, m[:, :2])
np.matvec(m, 1.0)
np.vecmat(m[0], m[0])
np.vecmat(m[0, :2], m)
np.power(m, np.array(2.5))
np.float_power(k, np.array(-2))
m ** np.array(2)
np.spacing(x.astype(np.float16) - 5)
np.spacing(k.astype(np.int8))
np.select(np.stack([m > 2, m < 1]), np.stack([m, -m]))
np.angle(b)
np.angle(k.astype(np.int8))
np.polyval(m, k[:3])
np.polyval(none, m[0].astype(np.float32))
np.polyval(k, x)
np.polyadd(m, m)
np.polysub(m, m[:1])
np.polymul(m, m)
np.hypot.reduce(m, initial=2, where=m > 1)
np.convolve(m[0], x)
np.convolve(m[0] + 1, x[:3], "same")
np.correlate(x, m[0] + 1, "full")
np.quantile(x[:3], 1)
np.quantile(k, [0, 1])
np.nanquantile(k, 1)
np.median(none.astype(complex))
np.take(k, [])
np.take(k, x)
k.take([], axis=0)
np.choose(k, [k, -k, k, k])
np.choose(u, [k, -k, k, k])
np.choose(k % 3, [k, -k, 2 * k])
np.choose(k % 3, [k, -k])
np.choose(x, [k, -k])
np.histogram(x)
np.histogram(x[:2])
np.histogram_bin_edges(x[:3])
np.nanargmax(x * np.nan)
np.nanargmin(np.stack([x, x * np.nan]), axis=1)
np.nanargmax(x)
np.bincount(m.astype(int), minlength=9)
np.compress(m > 2, m)
np.geomspace(1.0 + m[0], 1000, 4, dtype=int)
np.geomspace(m[0], 5.0)
np.geomspace(-1.0 - m[0], -9.0, 5, endpoint=False)
np.geomspace(1j + m[0], 8j, 4)
np.linalg.multi_dot([m.T, m[:, :1], m])
np.linalg.multi_dot([m, m.T, m])
np.linalg.solve(m[:, :2], x[:2].astype(np.float16))
np.linalg.pinv(m, rcond=0.1, rtol=0.1)
np.hypot.reduce(-m, where=m > 1)
np.gcd.reduce(-k, where=True)
np.bitwise_and.reduce(k, where=k > 1)
np.add.accumulate(m[0, 0], axis=1)
np.add.accumulate(m[0, 0], axis=0)
np.add.reduceat(m[0, 0], [0])
np.linalg.lstsq(m, m[:, 0], rcond=None)
np.linalg.matrix_rank(m, tol=0.1, rtol=0.1)
np.linalg.matrix_rank(m[0], tol=0.1, rtol=0.1)
"""


def outcome(f, args):
    """The leaves of what f gives, or the kind of error that it raises."""
    try:
        out = f(*args)
    except Exception as error:
        return next(
            kind for kind in (IndexError, ValueError, TypeError, ArithmeticError) if isinstance(error, kind)
        )
    return [np.asarray(leaf) for leaf in (out if isinstance(out, (tuple, list)) else [out])]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_compiled_ends_as_numpy_does(case):
    code = compile(case, case, "eval")
    names = [n for n in INPUTS if n in code.co_names]
    f = eval(f"lambda {', '.join(names)}: {case}", {"np": np})
    args = [INPUTS[n] for n in names]
    want, got = outcome(f, args), outcome(rune.jit(f), args)
    if isinstance(want, type) or isinstance(got, type):
        assert got is want
        return
    assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in want]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-13, atol=1e-13)
        if w.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(g) & (g == 0), np.signbit(w) & (w == 0))


CONSTANTS = [0.0, -0.0, 1.0, -2.0, 0.5, np.inf, -np.inf, np.nan, 5e-324]
BINARY = [
    u
    for u in vars(np).values()
    if isinstance(u, np.ufunc)
    and (u.nin, u.signature) == (2, None)
    and {"dd->d", "dd->dd", "dd->?"} & {*u.types}
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ufunc", BINARY, ids=lambda u: u.__name__)
def test_what_the_compiler_knows_of_an_operand_changes_no_result(ufunc):
    """Finite, because it was a boolean; not negative; a constant, which may be NaN."""

    def f(b, x):
        known = [np.where(b, 1.0, 0.0), b * 1.0 - 3.0, np.abs(x)]
        return [ufunc(*pair) for k in known for c in CONSTANTS for pair in ((k, c), (c, k))]

    args = np.array([False, True, True, False]), np.array([0.3, np.nan, np.inf, -0.0])
    for got, want in zip(rune.jit(f)(*args), f(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_a_convolution_makes_no_array_of_windows(mode):
    a, v = np.ones(20_000), np.ones(300)
    loss = lambda a, v: np.sum(np.convolve(a, v, mode) ** 2)
    for f in (loss, rune.grad(loss, (0, 1))):
        assert sum(rune.explain(f)(a, v).buffers) < 20 * a.nbytes


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_one_row_whose_number_is_not_known_is_deleted(axis):
    x = np.arange(12.0).reshape(3, 4)
    n = x.size if axis is None else x.shape[axis]
    f = lambda x, k: np.delete(x, k, axis)
    for k in range(-n, n):
        want = np.delete(x, k, axis)
        np.testing.assert_array_equal(rune.jit(f)(x, np.int64(k)), want)
        np.testing.assert_array_equal(rune.jit(rune.vmap(f, (None, 0)))(x, np.array([k, 0]))[0], want)
        kept = rune.jit(rune.grad(lambda x, k: np.sum(f(x, k))))(x, np.int64(k))
        assert np.sum(kept) == want.size and np.all((kept == 1) == np.isin(x, want))
    with pytest.raises(IndexError):
        rune.jit(f)(x, np.int64(n))
    with pytest.raises(
        rune.TracedValueError, match=r"^delete: the value is traced by rune\.jit; a shape would depend"
    ):
        rune.jit(lambda x: np.delete(x, x[0] > 2, axis))(x)
