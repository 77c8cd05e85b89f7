"""One law over the table of scalar operations: every operation of every dtype gives what NumPy gives."""

import itertools
import warnings

import numpy as np
import pytest

from rune import native
from rune.native.nest import Block, Elementwise
from rune.program import Type, Var

warnings.filterwarnings("ignore")

REAL = ["f8", "f4", "f2"]
COMPLEX = ["c16", "c8"]
INTS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
BOOL = ["?"]
ALL = BOOL + INTS + REAL + COMPLEX

NAMES = {
    "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floor_div": np.floor_divide, "mod": np.remainder,
    "pow": np.power, "neg": np.negative, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.bitwise_not, "conj": np.conjugate, "real": np.real, "imag": np.imag,
}  # fmt: skip

ARITHMETIC1 = (
    "neg abs sign reciprocal square sqrt floor ceil trunc rint conj isnan isinf isfinite logical_not".split()
)
ARITHMETIC2 = (
    "add sub mul div floor_div mod maximum minimum fmax fmin logical_and logical_or logical_xor".split()
)
COMPARE = "eq ne lt le gt ge".split()
FLOAT1 = """exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh cbrt deg2rad rad2deg signbit""".split()
FLOAT2 = "pow fmod copysign hypot arctan2 heaviside logaddexp logaddexp2 nextafter".split()
BITS2 = "and or xor left_shift right_shift gcd lcm pow fmod".split()
EXACT = {
    *ARITHMETIC1,
    *ARITHMETIC2,
    *COMPARE,
    *BITS2,
    "signbit",
    "copysign",
    "heaviside",
    "nextafter",
    "fmod",
} - {"pow"}


def ufunc(op):
    return NAMES.get(op) or getattr(np, op)


def values(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        width = 8 * dtype.itemsize
        ints = {0, 1, 2, 3, 5, 7, width - 1, width, width + 1, info.max, info.max - 1, info.min, info.min + 1}
        ints |= {-1, -2, -3, -7, -width} if dtype.kind == "i" else set()
        return np.array(sorted(ints), dtype)
    info = np.finfo(dtype)
    if dtype.kind == "f":
        xs = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0, 0.1, 1e-3, 20.0, 100.0, float(info.max), float(info.tiny),
              float(info.smallest_subnormal), np.inf]  # fmt: skip
        return np.array([*xs, *(-x for x in xs), np.nan], dtype)
    parts = [0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 10.0]
    zs = [complex(a, b) for a, b in itertools.product(parts, parts)]
    return np.array(zs, dtype)


def compiled(op, types, out, n):
    xs = [Var(Type(np.dtype(t), (n,))) for t in types]
    o = Var(Type(np.dtype(out), (n,)))
    return native.compile(Block(xs, [Elementwise((o,), tuple(xs), op)], [o]), "C" * len(xs))


def close(op, got, expected, args):
    inexact = args[0].dtype.kind == "c" and op == "abs"
    if expected.dtype.kind not in "fc" or (op in EXACT and expected.dtype.kind == "f" and not inexact):
        np.testing.assert_array_equal(got, expected)
        if expected.dtype.kind == "f" and op not in ("maximum", "minimum", "fmax", "fmin", "lcm", "sign"):
            same = np.signbit(got) == np.signbit(expected)
            assert np.all(same | np.isnan(expected)), (got[~same], expected[~same])
        return
    eps = np.finfo(expected.dtype).eps
    if expected.dtype.kind == "c":
        bad = ~(np.isfinite(expected.real) & np.isfinite(expected.imag))
        scale = np.abs(np.where(bad, 1, expected))
        assert np.all(
            np.abs(np.where(bad, 0, got) - np.where(bad, 0, expected))
            <= (64 if op == "pow" else 8) * eps * np.maximum(scale, 1e-30)
        )
        return
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    with np.errstate(all="ignore"):
        error = np.abs(got.astype("f8") - expected.astype("f8"))
        scale = np.abs(expected.astype("f8"))
        if op.startswith("logaddexp"):  # a result near zero is a difference of larger terms
            scale = np.maximum(scale, np.abs(args[0].astype("f8")))
        limit = 4 * eps * scale + 4 * float(np.finfo(expected.dtype).smallest_subnormal)
    worst = (error > limit) & np.isfinite(expected)
    assert not worst.any(), (op, got[worst], expected[worst])


def cases():
    for op in ARITHMETIC1:
        for t in ALL:
            yield op, t, 1
    for op in FLOAT1:
        for t in REAL + COMPLEX:
            yield op, t, 1
    for op in ARITHMETIC2 + COMPARE:
        for t in ALL:
            yield op, t, 2
    for op in FLOAT2:
        for t in REAL + COMPLEX:
            yield op, t, 2
    for op in BITS2:
        for t in INTS + BOOL:
            yield op, t, 2
    for t in INTS + BOOL:
        yield "not", t, 1
    for t in INTS:
        yield "signbit", t, 1
    for t in COMPLEX + REAL:
        yield "real", t, 1
        yield "imag", t, 1


def accepted(op, t, arity):
    """NumPy's own result, or None where NumPy does not take the dtype as it is."""
    xs = values(t)
    args = [xs] if arity == 1 else [a.ravel().copy() for a in np.meshgrid(xs, xs)]
    if op == "pow" and np.dtype(t).kind == "i":
        keep = args[1] >= 0
        args = [a[keep] for a in args]
    try:
        r = ufunc(op)(*args)
    except TypeError:
        return None
    f = ufunc(op)
    if isinstance(f, np.ufunc):
        computed = f.resolve_dtypes((np.dtype(t),) * arity + (None,))[0]
        if computed != np.dtype(t):
            return None  # NumPy casts first, and so does the primitive's lowering
    return args, r


@pytest.mark.parametrize("case", list(cases()), ids=lambda c: f"{c[0]}-{c[1]}")
def test_operation(case):
    op, t, arity = case
    found = accepted(op, t, arity)
    if found is None:
        return
    args, expected = found
    for repeat in (1, 4):  # alone, and in vectors
        args = [np.tile(a, repeat) for a in args]
        expected = np.tile(expected, repeat)
        got = compiled(op, [t] * arity, expected.dtype, args[0].size)(args)[0]
        close(op, got, expected, args)
    n = min(args[0].size, 7)
    got = compiled(op, [t] * arity, expected.dtype, n)([a[:n].copy() for a in args])[0]
    close(op, got, expected[:n], [a[:n] for a in args])


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("to", ALL)
def test_cast(source, to):
    xs = np.tile(values(source), 3)
    if np.dtype(source).kind in "fc" and np.dtype(to).kind in "iu":
        small = np.abs(xs.real) < (100 if np.dtype(to).itemsize == 1 else 1000)
        native_all = compiled("cast", [source], to, xs.size)([xs])[0]  # out of range: any value, no trap
        assert native_all.dtype == np.dtype(to)
        xs = xs[small & (xs.real >= 0 if np.dtype(to).kind == "u" else small)]
        xs = xs[np.isfinite(xs.real)]
    expected = xs.astype(to)
    got = compiled("cast", [source], to, xs.size)([xs])[0]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("to", ["i4", "i8"])
@pytest.mark.parametrize("source", ["f8", "f4"])
def test_cast_out_of_range_is_numpys(source, to):
    xs = values(source)
    expected = np.array([xs[i : i + 1].astype(to)[0] for i in range(xs.size)])
    got = compiled("cast", [source], to, xs.size)([xs])[0]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("t", ALL)
def test_select(t):
    xs = np.tile(values(t), 20)
    c = np.arange(xs.size) % 3 == 0
    x, y, o = (Var(Type(np.dtype(t), xs.shape)) for _ in range(3))
    k = Var(Type(np.dtype(bool), xs.shape))
    f = native.compile(Block([k, x, y], [Elementwise((o,), (k, x, y), "select")], [o]), "CCC")
    np.testing.assert_array_equal(f([c, xs, xs[::-1].copy()])[0], np.where(c, xs, xs[::-1]))


SPECIAL1 = "gammaln psi ndtr ndtri log_ndtr expit logit j0 j1 y0 i0 i0e i1 i1e erf erfc erfinv gamma digamma spence".split()


@pytest.mark.parametrize("name", SPECIAL1)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_special(name, dtype):
    import scipy.special

    xs = np.linspace(0.05, 0.95, 50).astype(dtype)
    got = compiled(f"special:{name}", [dtype], dtype, xs.size)([xs])[0]
    np.testing.assert_allclose(got, getattr(scipy.special, name)(xs), rtol=1e-12 if dtype == "f8" else 1e-5)
