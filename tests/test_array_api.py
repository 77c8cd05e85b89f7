"""The array API standard (2024.12): every function compiled gives what plain NumPy gives.

`STANDARD` is the standard's list of names.  Each has a case, which draws a call: dtypes, shapes (0-d,
empty, up to four axes), values with NaN, infinities, zeros of both signs and extremes, keywords, and
now and then an argument that NumPy refuses.  The laws run over all of them: compiled, as a function
of NumPy or of the namespace a traced value answers, and under `vmap` and `jvp`, the result has NumPy's
value, dtype and shape, or the error NumPy's kind.
"""

import functools
import operator
import warnings

import numpy as np
import optree
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rune
from rune.numpy.namespace import namespace

STANDARD = {
    "constants": "e inf nan newaxis pi",
    "data types": """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64
        complex128""",
    "creation": """arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones
        ones_like tril triu zeros zeros_like""",
    "data type functions": "astype can_cast finfo iinfo isdtype result_type",
    "elementwise": """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
        bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide
        equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less
        less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum
        minimum multiply negative nextafter not_equal positive pow real reciprocal remainder round sign
        signbit sin sinh square sqrt subtract tan tanh trunc""",
    "indexing": "take take_along_axis",
    "information": "__array_namespace_info__",
    "linear algebra": "matmul matrix_transpose tensordot vecdot",
    "manipulation": """broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat
        reshape roll squeeze stack tile unstack""",
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sets": "unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "statistics": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "utilities": "all any diff",
    "linalg": """linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eigh linalg.eigvalsh
        linalg.inv linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
        linalg.matrix_transpose linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd
        linalg.svdvals linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm""",
    "fft": """fft.fft fft.ifft fft.fftn fft.ifftn fft.rfft fft.irfft fft.rfftn fft.irfftn fft.hfft
        fft.ihfft fft.fftfreq fft.rfftfreq fft.fftshift fft.ifftshift""",
}  # fmt: skip
NAMES = {part: names.split() for part, names in STANDARD.items()}
FUNCTIONS = [name for part in list(NAMES)[2:] for name in NAMES[part]]

INTEGERS = "bhilBHIL"
REAL = "fd"
INEXACT = REAL + "FD"
ALL = "?" + INTEGERS + INEXACT


# Arrays


def pool(dtype, tame=False):
    """Numbers of a dtype that matter: zeros, signs, extremes; a `tame` pool can be added up."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        numbers = [0, 1, 2, 3, 5, 7, 10] + [-1, -2, -3, -7] * (info.min < 0)
        wild = [info.min, info.max, info.min + 1, info.max - 1, info.max // 3, 63, 64, 31, 8]
        return np.array(numbers if tame else numbers + wild, dtype)
    if dtype.kind == "c":
        parts = pool(np.zeros((), dtype).real.dtype, tame)
        return parts.astype(dtype)
    numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -7.0, 0.1, -1.5, 2.5, 3.75, 10.0]
    info = np.finfo(dtype)
    wild = [
        np.inf, -np.inf, np.nan, info.max, info.min, info.eps, -info.eps, info.smallest_normal, np.pi, 1e-3,
        info.smallest_subnormal, -info.smallest_subnormal, 100.25, -1e4, 1e10, -3e15, 709.0, -87.3, 88.5,
    ]  # fmt: skip
    return np.array(numbers if tame else numbers + wild, dtype)


def filled(dtype, shape, seed, tame=False):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    numbers = pool(dtype, tame)
    x = rng.choice(numbers, shape)
    if dtype.kind == "c":
        out = np.empty(shape, dtype)
        out.real, out.imag = x.real, rng.choice(numbers, shape).real
        return out
    if dtype.kind == "f":
        return np.where(rng.random(shape) < 0.3, rng.standard_normal(shape) * 4, x).astype(dtype)
    return np.asarray(x, dtype)


shapes = functools.partial(hnp.array_shapes, min_dims=0, max_dims=4, min_side=0, max_side=3)
SEEDS = st.integers(0, 2**32 - 1)
ARRAYS = {
    (dtypes, tame): st.builds(filled, st.sampled_from(dtypes), shapes(), SEEDS, st.just(tame))
    for dtypes in (ALL, REAL, INEXACT, INTEGERS, INTEGERS + REAL)
    for tame in (False, True)
}


def grid(dtype):
    """Every special number of a dtype; of a complex one every pair of the parts that matter."""
    dtype = np.dtype(dtype)
    if dtype.kind != "c":
        return np.unique(pool(dtype)) if dtype.kind in "biu" else pool(dtype)
    real = np.zeros((), dtype).real.dtype
    parts = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 3e9, -1e-30], real)
    out = np.empty((len(parts), len(parts)), dtype)
    out.real, out.imag = parts[:, None], parts
    return out.ravel()


def array(draw, dtypes=ALL, shape=None, tame=False):
    if shape is None and (dtypes, tame) in ARRAYS:
        return draw(ARRAYS[dtypes, tame])
    shape = draw(shapes()) if shape is None else shape
    return filled(draw(st.sampled_from(dtypes)), shape, draw(SEEDS), tame)


FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.5, 0.5, 2.0, 1e30, np.inf, np.nan])
NUMBERS = {
    "b": st.booleans(),
    "i": st.integers(-3, 9),
    "u": st.integers(0, 9),
    "f": st.one_of(FLOATS, st.integers(-3, 9)),
    "c": st.one_of(FLOATS, st.just(1 - 2j)),
    "any": st.one_of(st.booleans(), FLOATS, st.sampled_from([-1, 300, -129, 2**40, -(2**63), 2**62, 2j])),
}


def numbers(draw, dtype):
    """A Python number beside an array: mostly of its kind, now and then of another or out of its range."""
    return draw(NUMBERS["any" if chance(draw, 6) else np.dtype(dtype).kind])


def axis_of(draw, x, none=True, several=False):
    """An axis of `x`; once in a while one that is not."""
    n = x.ndim
    choices = [st.integers(-n, n - 1)] if n else [st.sampled_from([0, -1])]
    if several and n:
        choices.append(st.lists(st.integers(0, n - 1), unique=True).map(tuple))
    if none:
        choices.append(st.none())
    if draw(st.integers(0, 19)) == 0:
        return n + 1
    return draw(st.one_of(choices))


def chance(draw, n=2):
    return draw(st.integers(1, n)) == 1


def maybe(draw, **strategies):
    """Some of the keywords."""
    return {name: draw(s) for name, s in strategies.items() if chance(draw)}


DTYPES = st.sampled_from(ALL).map(np.dtype)

DEVICES = st.sampled_from(["cpu", None, "cpu", "tpu"])

# Cases: name -> draw -> (arguments, keywords)

CASES = {}


def case(names):
    def register(f):
        for name in names.split():
            CASES[name] = functools.partial(f, name)
        return f

    return register


UNARY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit
sin sinh square sqrt tan tanh trunc"""
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or
logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"""


@case(UNARY)
def unary(name, draw):
    return (array(draw),), {}


@case(BINARY)
def binary(name, draw):
    one, two = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3)).input_shapes
    x = array(draw, shape=one)
    same = chance(draw)
    y = filled(x.dtype, two, draw(SEEDS)) if same else array(draw, shape=two)
    if chance(draw, 4):
        y = numbers(draw, x.dtype)
        return ((x, y) if chance(draw) else (y, x)), {}
    return (x, y), {}


@case("clip")
def clip(name, draw):
    x = array(
        draw, "?" + INTEGERS + REAL
    )  # NumPy's order of complex numbers with NaN differs from call to call
    bound = st.sampled_from(["array", "number", "none"])
    bounds = []
    for _ in range(2):
        how = draw(bound)
        other = filled(x.dtype, x.shape if chance(draw) else (), draw(SEEDS))
        bounds.append({"array": other, "none": None}.get(how) if how != "number" else numbers(draw, x.dtype))
    return ((x, *bounds), {}) if chance(draw) else ((x,), {"min": bounds[0], "max": bounds[1]})


@case("where")
def where(name, draw):
    three = draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3)).input_shapes
    condition, x, y = (array(draw, d, s) for d, s in zip(("?", ALL, ALL), three))
    return (condition, x, y if chance(draw) else numbers(draw, x.dtype)), {}


@case("zeros ones empty")
def made(name, draw):
    return (draw(st.one_of(shapes(), st.integers(0, 4))),), maybe(draw, dtype=DTYPES, device=DEVICES)


@case("full")
def full(name, draw):
    x = array(draw, shape=())
    fill = x if chance(draw) else x.item()
    return (draw(shapes()), fill), maybe(draw, dtype=st.just(x.dtype))


@case("eye")
def eye(name, draw):
    n, m = draw(st.integers(0, 4)), draw(st.one_of(st.none(), st.integers(0, 4)))
    return (n, m), maybe(draw, k=st.integers(-5, 5), dtype=DTYPES)


@case("zeros_like ones_like empty_like")
def like(name, draw):
    return (array(draw),), maybe(draw, dtype=DTYPES, device=DEVICES)


@case("full_like")
def full_like(name, draw):
    x = array(draw)
    return (x, numbers(draw, x.dtype)), maybe(draw, dtype=st.just(x.dtype))


@case("arange")
def arange(name, draw):
    numbers = st.integers(-9, 9)
    args = draw(st.sampled_from([1, 2, 3]))
    step = draw(numbers.filter(bool))
    if chance(draw, 4):
        return (0.5, 3.0, 0.25), {}
    return (draw(numbers), draw(numbers), step)[:args], maybe(draw, dtype=st.sampled_from(INTEGERS + INEXACT))


@case("asarray")
def asarray(name, draw):
    return (array(draw),), maybe(draw, dtype=DTYPES, copy=st.sampled_from([True, None]))


@case("from_dlpack")
def from_dlpack(name, draw):
    return (array(draw),), {}


@case("linspace")
def linspace(name, draw):
    ends = st.sampled_from([0, 1, -3, 5, 0.0, -0.0, 2.5, -1e3, 1e-3, 7j])
    dtype = st.sampled_from(INEXACT)
    more = maybe(draw, endpoint=st.booleans(), dtype=dtype)
    if chance(draw):
        shape = draw(shapes(max_dims=2))
        args = (array(draw, INEXACT, shape, tame=True), array(draw, INTEGERS + INEXACT, shape, tame=True))
        return (*args, draw(st.integers(0, 6))), more | maybe(draw, axis=st.sampled_from([0, -1]))
    return (draw(ends), draw(ends), draw(st.integers(-1, 9))), more


@case("meshgrid")
def meshgrid(name, draw):
    count = draw(st.integers(1, 4))
    xs = [array(draw, shape=draw(shapes(max_dims=1))) for _ in range(count)]
    return tuple(xs), maybe(draw, indexing=st.sampled_from(["xy", "ij"]))


@case("tril triu")
def triangle(name, draw):
    return (array(draw),), maybe(draw, k=st.integers(-4, 4))


@case("astype")
def astype(name, draw):
    # A float out of an integer's range has no defined integer: NumPy's depends on the machine.
    return (array(draw, tame=True), draw(DTYPES)), maybe(draw, copy=st.booleans(), device=DEVICES)


@case("can_cast")
def can_cast(name, draw):
    return (draw(DTYPES) if chance(draw) else array(draw), draw(DTYPES)), {}


@case("finfo iinfo")
def info(name, draw):
    return (draw(DTYPES),), {}


@case("isdtype")
def isdtype(name, draw):
    kinds = st.sampled_from(
        ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating"]
        + ["numeric", "no such kind"]
    )
    kind = draw(st.one_of(kinds, DTYPES, st.tuples(kinds, DTYPES)))
    return (draw(DTYPES), kind), {}


@case("result_type")
def result_type(name, draw):
    x = array(draw)
    return (x, *draw(st.lists(st.one_of(DTYPES, st.sampled_from([1, 1.5, 2j, True])), max_size=3))), {}


@case("__array_namespace_info__")
def nothing(name, draw):
    return (), {}


def integer_like(draw, low, high, shape):
    return draw(
        hnp.arrays(st.sampled_from("il" if low < 0 else "ilBH"), shape, elements=st.integers(low, high))
    )


@case("take")
def take(name, draw):
    x = array(draw)
    axis = axis_of(draw, x, none=x.ndim == 1)
    n = x.shape[axis] if x.ndim and axis is not None and axis < x.ndim else x.size
    low, high = (0, n - 1) if chance(draw) else (-n, n - 1 + (draw(st.integers(0, 9)) == 0))
    shape = (0,) if n == 0 else draw(shapes(max_dims=2))
    return (x, integer_like(draw, low, max(high, low, 0), shape)), {"axis": axis}


@case("take_along_axis")
def take_along_axis(name, draw):
    x = array(draw, shape=draw(shapes(min_dims=1)))
    axis = axis_of(draw, x, none=False)
    k = axis if axis < x.ndim else 0
    shape = list(x.shape)
    shape[k] = draw(st.integers(0, 3)) if x.shape[k] else 0
    n = max(x.shape[k], 1)
    return (x, integer_like(draw, -n, n - 1, tuple(shape))), {"axis": axis}


@case("broadcast_arrays")
def broadcast_arrays(name, draw):
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=3)).input_shapes
    return tuple(array(draw, shape=s) for s in found), {}


@case("broadcast_to")
def broadcast_to(name, draw):
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3))
    return (
        array(draw, shape=found.input_shapes[0]),
        draw(st.sampled_from([found.result_shape, *found.input_shapes])),
    ), {}


@case("concat")
def concat(name, draw):
    x = array(draw)
    axis = axis_of(draw, x)
    xs = [x]
    for _ in range(draw(st.integers(0, 2))):
        shape = list(x.shape)
        if axis is not None and -x.ndim <= axis < x.ndim:
            shape[axis] = draw(st.integers(0, 3))
        xs.append(array(draw, shape=tuple(shape)))
    return (xs if chance(draw) else tuple(xs),), {"axis": axis}


@case("stack")
def stack(name, draw):
    x = array(draw)
    xs = [x, *(array(draw, shape=x.shape) for _ in range(draw(st.integers(0, 2))))]
    return (xs,), maybe(draw, axis=st.integers(-x.ndim - 1, x.ndim))


@case("unstack")
def unstack(name, draw):
    x = array(draw)
    return (x,), {"axis": axis_of(draw, x, none=False)}


@case("expand_dims")
def expand_dims(name, draw):
    x = array(draw)
    return (x,), {"axis": draw(st.integers(-x.ndim - 1, x.ndim + (draw(st.integers(0, 9)) == 0)))}


@case("flip")
def flip(name, draw):
    x = array(draw)
    return (x,), {"axis": axis_of(draw, x, several=True)}


@case("moveaxis")
def moveaxis(name, draw):
    x = array(draw)
    pick = lambda k: tuple(draw(st.permutations(range(x.ndim)))[:k])
    k = draw(st.integers(0, x.ndim))
    return (
        (x, pick(k), pick(k)) if chance(draw) else (x, axis_of(draw, x, False), axis_of(draw, x, False))
    ), {}


@case("permute_dims")
def permute_dims(name, draw):
    x = array(draw)
    axes = draw(st.permutations(range(x.ndim)))
    return (x, tuple(k - x.ndim if chance(draw) else k for k in axes)), {}


@case("repeat")
def repeat(name, draw):
    x = array(draw)
    return (x, draw(st.integers(0, 3))), {"axis": axis_of(draw, x)}


@case("reshape")
def reshape(name, draw):
    x = array(draw)
    shape = draw(st.permutations([*x.shape, 1, *((2, x.size // 2) if x.size % 2 == 0 else ())]))
    shape = draw(st.sampled_from([tuple(shape), x.shape[::-1], (-1,), x.size, (*x.shape[1:], -1), (2, -1)]))
    return (x, shape), maybe(draw, copy=st.sampled_from([True, None, False]))


@case("roll")
def roll(name, draw):
    x = array(draw)
    axis = axis_of(draw, x, several=True)
    n = len(axis) if isinstance(axis, tuple) else 0
    shift = st.integers(-5, 5)
    return (x, draw(st.tuples(*[shift] * n)) if n else draw(shift)), {"axis": axis if axis != () else None}


@case("squeeze")
def squeeze(name, draw):
    x = array(draw, shape=draw(shapes(max_side=2)))
    ones = [k for k, n in enumerate(x.shape) if n == 1]
    return (x,), {"axis": tuple(ones) if chance(draw) else axis_of(draw, x, none=False)}


@case("tile")
def tile(name, draw):
    return (array(draw), draw(st.lists(st.integers(0, 2), max_size=5).map(tuple))), {}


@case("argmax argmin")
def extreme_place(name, draw):
    x = array(draw)
    return (x,), {"axis": axis_of(draw, x)} | maybe(draw, keepdims=st.booleans())


@case("count_nonzero all any max min")
def reduction(name, draw):
    x = array(draw)
    return (x,), {"axis": axis_of(draw, x, several=True)} | maybe(draw, keepdims=st.booleans())


@case("sum prod")
def total(name, draw):
    x = array(draw, tame=True)
    kinds = st.sampled_from({"b": "l", "i": "lfd", "u": "Ld", "f": "fd", "c": "D"}[x.dtype.kind]).map(
        np.dtype
    )
    return (x,), {"axis": axis_of(draw, x, several=True)} | maybe(draw, keepdims=st.booleans(), dtype=kinds)


@case("mean")
def mean(name, draw):
    x = array(draw, tame=True)
    return (x,), {"axis": axis_of(draw, x, several=True)} | maybe(draw, keepdims=st.booleans())


@case("std var")
def spread(name, draw):
    (x,), more = mean(name, draw)
    more |= {"ddof": 1} if chance(draw, 9) else {}
    return (x,), more | maybe(draw, correction=st.sampled_from([0, 1, 1.0, 0.5, 2, 3, 9]))


@case("cumulative_sum cumulative_prod")
def running(name, draw):
    x = array(draw, tame=True)
    kinds = st.sampled_from({"b": "l", "i": "lfd", "u": "Ld", "f": "fd", "c": "D"}[x.dtype.kind]).map(
        np.dtype
    )
    return (x,), {"axis": axis_of(draw, x)} | maybe(draw, include_initial=st.booleans(), dtype=kinds)


@case("diff")
def diff(name, draw):
    x = array(draw)
    more = {"axis": axis_of(draw, x, none=False)} | maybe(draw, n=st.integers(0, 3))
    if x.ndim and more["axis"] < x.ndim and chance(draw):
        shape = list(x.shape)
        shape[more["axis"]] = draw(st.integers(0, 2))
        more |= {"prepend" if chance(draw) else "append": filled(x.dtype, shape, draw(SEEDS))}
    return (x,), more


@case("nonzero unique_all unique_counts unique_inverse unique_values")
def by_value(name, draw):
    return (array(draw),), {}


@case("argsort sort")
def sorting(name, draw):
    x = array(draw)
    return (x,), {"axis": axis_of(draw, x, none=False), "stable": True}


@case("searchsorted")
def searchsorted(name, draw):
    x = array(draw, shape=draw(shapes(min_dims=1, max_dims=1, max_side=9)))
    v = filled(x.dtype, draw(shapes()), draw(SEEDS)) if chance(draw) else array(draw)
    more = maybe(draw, side=st.sampled_from(["left", "right"]))
    return (
        ((x, v), more | {"sorter": np.argsort(x, stable=True)}) if chance(draw) else ((np.sort(x), v), more)
    )


@case("matmul linalg.matmul")
def matmul(name, draw):
    found = draw(hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, max_side=3))
    return tuple(array(draw, shape=s, tame=True) for s in found.input_shapes), {}


@case("vecdot linalg.vecdot")
def vecdot(name, draw):
    one, two = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=3, max_side=3)
    ).input_shapes
    one, two = ((*s[:-1], one[-1]) for s in (one, two))
    xs = tuple(array(draw, shape=s, tame=True) for s in (one, two))
    if len(one) == len(two) and chance(draw):
        return tuple(np.moveaxis(x, -1, 0) for x in xs), {"axis": 0 if chance(draw) else -len(one)}
    return xs, maybe(draw, axis=st.just(-1))


@case("tensordot linalg.tensordot")
def tensordot(name, draw):
    x = array(draw, shape=draw(shapes(max_dims=3)), tame=True)
    k = draw(st.integers(0, x.ndim))
    y = array(draw, shape=(*x.shape[x.ndim - k :], *draw(shapes(max_dims=2))), tame=True)
    several = (tuple(range(x.ndim - k, x.ndim)), tuple(range(k)))
    return (x, y), {"axes": k if chance(draw) else several}


@case("linalg.outer")
def outer(name, draw):
    return tuple(array(draw, shape=draw(shapes(max_dims=1 + chance(draw, 9))), tame=True) for _ in "xy"), {}


@case("linalg.cross")
def cross(name, draw):
    one, two = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3)).input_shapes
    xs = (array(draw, INTEGERS + INEXACT, (*s, 3), tame=True) for s in (one, two))
    if len(one) == len(two) and chance(draw):
        return tuple(np.moveaxis(x, -1, 0) for x in xs), {"axis": 0}
    return tuple(xs), {}


@case("linalg.diagonal linalg.trace")
def diagonal(name, draw):
    x = array(draw, tame=True)
    kinds = st.sampled_from("lD" if x.dtype.kind in "bi" else "D").map(np.dtype)
    return (x,), maybe(draw, offset=st.integers(-3, 3), **{"dtype": kinds} if "trace" in name else {})


@case("matrix_transpose linalg.matrix_transpose")
def matrix_transpose(name, draw):
    return (array(draw),), {}


def matrix(draw, square=True, dtypes=INEXACT, shape=None):
    """A well-conditioned matrix, or several."""
    m = draw(st.integers(0, 4))
    n = m if square else draw(st.integers(1, 4))
    m = m if square else max(m, 1)
    shape = (*draw(shapes(max_dims=2)), m, n) if shape is None else shape
    x = filled(draw(st.sampled_from(dtypes)), shape, draw(SEEDS), tame=True)
    return (x / 7 + 3 * np.eye(*shape[-2:])).astype(x.dtype) if x.dtype.kind in "fc" else x


@case("linalg.det linalg.inv linalg.slogdet")
def square(name, draw):
    return (matrix(draw, dtypes=INEXACT + "bl" if name == "linalg.det" else INEXACT),), {}


@case("linalg.cholesky linalg.eigh linalg.eigvalsh")
def hermitian(name, draw):
    x = matrix(draw)
    x = (x @ np.conj(x.mT) + np.eye(x.shape[-1])).astype(x.dtype)
    return (x,), maybe(draw, upper=st.booleans()) if name == "linalg.cholesky" else {}


@case("linalg.solve")
def solve(name, draw):
    a = matrix(draw)
    n = a.shape[-1]
    shape = (n,) if chance(draw) else (*a.shape[:-2], n, draw(st.integers(0, 3)))
    return (a, filled(a.dtype, shape, draw(SEEDS), tame=True)), {}


@case("linalg.matrix_power")
def matrix_power(name, draw):
    return (matrix(draw), draw(st.integers(-3, 5))), {}


@case("linalg.svdvals linalg.svd linalg.qr linalg.pinv linalg.matrix_rank")
def rectangular(name, draw):
    more = {
        "linalg.svd": {"full_matrices": st.booleans()},
        "linalg.qr": {"mode": st.sampled_from(["reduced", "complete"])},
    }
    x = matrix(draw, square=False)
    tolerance = st.sampled_from([1e-3, np.full(x.shape[:-2], 1e-3)])
    more |= {"linalg.matrix_rank": {"rtol": tolerance}, "linalg.pinv": {"rtol": tolerance}}
    return (x,), maybe(draw, **more.get(name, {}))


@case("linalg.matrix_norm")
def matrix_norm(name, draw):
    orders = st.sampled_from(["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
    return (matrix(draw, square=False),), maybe(draw, keepdims=st.booleans(), ord=orders)


@case("linalg.vector_norm")
def vector_norm(name, draw):
    x = array(draw, INEXACT, tame=True)
    orders = st.sampled_from([0, 1, 2, 3, -1, 2.5, -0.5, np.inf, -np.inf])
    return (x,), {"axis": axis_of(draw, x, several=True)} | maybe(draw, keepdims=st.booleans(), ord=orders)


NORMS = st.sampled_from(["backward", "ortho", "forward", None])


@case("fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft")
def transform(name, draw):
    real = name in ("fft.rfft", "fft.ihfft")
    x = array(draw, REAL if real else INEXACT, draw(shapes(min_dims=1, min_side=1)), tame=True)
    return (x,), maybe(draw, n=st.integers(1, 5), norm=NORMS) | {"axis": axis_of(draw, x, none=False)}


@case("fft.fftn fft.ifftn fft.rfftn fft.irfftn")
def transforms(name, draw):
    x = array(draw, REAL if name == "fft.rfftn" else INEXACT, draw(shapes(min_dims=1, min_side=1)), tame=True)
    axes = draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, unique=True).map(tuple))
    sizes = st.tuples(*[st.integers(1, 4)] * len(axes))
    return (x,), maybe(draw, norm=NORMS, s=sizes) | {"axes": axes}


@case("fft.fftfreq fft.rfftfreq")
def frequencies(name, draw):
    return (draw(st.integers(1, 9)),), maybe(draw, d=st.sampled_from([2, 1, 0.5]), device=DEVICES)


@case("fft.fftshift fft.ifftshift")
def shifted(name, draw):
    x = array(draw, shape=draw(shapes(min_dims=1)))
    return (x,), {"axes": axis_of(draw, x, several=True)}


# Laws


def numpy_function(name):
    return functools.reduce(getattr, name.split("."), np)


KINDS = (TypeError, ValueError, IndexError, OverflowError, np.linalg.LinAlgError)
DECIDING = {"ord"}  # keywords whose value decides what is computed: floats of theirs are no arguments
VALUES = {"nonzero", *NAMES["sets"]}  # a shape would depend on values
PLAIN = {"asarray", "full", "arange", "from_dlpack"}  # NumPy makes a plain array of them, without asking
# Adding up in another order: errors relative to what is added.
SUMS = {
    "sum", "prod", "mean", "std", "var", "cumulative_sum", "cumulative_prod", "linspace", "matmul",
    "tensordot", "vecdot",
}  # fmt: skip
ARBITRARY = {"empty", "empty_like"}
FACTORS = {"linalg.svd", "linalg.qr", "linalg.eigh"}  # unique up to signs


def drawn(data, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CASES[name](data.draw)


def outcome(f, args, keywords):
    """The result, or the exception."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return f(*args, **keywords)
    except Exception as error:
        return error


def leaves(x):
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def total_of(args):
    """What sums of the arguments' elements may reach: the unit of their errors."""
    numbers = [np.asarray(a) for a in leaves(list(args)) if isinstance(a, (np.ndarray, float, complex))]
    with np.errstate(all="ignore"):
        return float(np.prod([1 + np.sum(np.abs(np.nan_to_num(a, posinf=0, neginf=0))) for a in numbers]))


def same(got, want, name, args):
    """Whether a compiled result is NumPy's; the message says where not."""
    if isinstance(want, Exception):
        if any(isinstance(want, kind) and isinstance(got, kind) for kind in KINDS):
            return
        raise AssertionError(f"NumPy raises {want!r}, here {got!r}")
    if isinstance(got, Exception):
        raise AssertionError(f"NumPy gives {want!r}, here {got!r}") from got
    if isinstance(want, (tuple, list)):
        assert type(got) is type(want) and len(got) == len(want), (got, want)
        for one, two in zip(got, want):
            same(one, two, name, args)
        return
    if isinstance(want, (np.finfo, np.iinfo)):
        assert (type(got), got.dtype, got.max) == (type(want), want.dtype, want.max)
        return
    if not isinstance(want, (np.ndarray, np.generic)):
        if name != "__array_namespace_info__":
            assert type(got) is type(want) and got == want, (got, want)
        return
    assert isinstance(got, (np.ndarray, np.generic)), (got, want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (got, want)
    if name in ARBITRARY:
        return
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    real = np.zeros((), want.dtype).real.dtype
    eps = np.finfo(real).eps
    parts = [(got.real, want.real), (got.imag, want.imag)] if want.dtype.kind == "c" else [(got, want)]
    with np.errstate(all="ignore"):
        if name in FACTORS:
            # The factors themselves are free in phase: their sizes are compared, their product elsewhere.
            parts = [(np.abs(got), np.abs(want))]
        size = np.nan_to_num(
            np.abs(want.astype(np.complex128 if want.dtype.kind == "c" else np.float64)), posinf=0
        )
        allowed = 4 * np.maximum(size * eps, np.finfo(real).smallest_subnormal)
        if name in SUMS or "." in name:
            allowed = allowed + 64 * eps * total_of(args)
        for one, two in parts:
            np.testing.assert_array_equal(np.isnan(one), np.isnan(two), err_msg="NaN")
            exact = ~np.isfinite(two) | ~np.isfinite(one)
            near = np.abs(one.astype(float) - two) <= allowed
            known = np.isnan(two) | np.where(exact, one == two, near)
            assert np.all(known), f"{got!r}\nNumPy: {want!r}"
            if name not in SUMS and "." not in name:
                zeros = (one == 0) & (two == 0)
                assert np.array_equal(np.signbit(one) & zeros, np.signbit(two) & zeros), (
                    f"signs of zero: {got!r}\nNumPy: {want!r}"
                )


def dynamic(args, keywords):
    return any(
        isinstance(x, (np.ndarray, np.generic, float, complex)) and type(x) is not bool
        for x in leaves([*args, *keywords.values()])
    )


LIGHT = settings(max_examples=6, suppress_health_check=list(HealthCheck))
DEEP = settings(LIGHT, max_examples=400, derandomize=False)


def over_the_standard(law):
    """The law for every function; with `-m long`, over many more calls."""

    def light(name, data):
        law(name, data)

    def deep(name, data):
        law(name, data)

    each = pytest.mark.parametrize("name", FUNCTIONS)
    draws = given(data=st.data())
    return each(LIGHT(draws(light))), pytest.mark.long(each(DEEP(draws(deep))))


def test_every_name_of_the_standard_has_a_case():
    assert sorted(CASES) == sorted(FUNCTIONS) and len(set(FUNCTIONS)) == len(FUNCTIONS)
    for name in [n for names in NAMES.values() for n in names]:
        functools.reduce(getattr, name.split("."), np)
        functools.reduce(getattr, name.split("."), namespace)


def compiled(name, data):
    args, keywords = drawn(data, name)
    f = numpy_function(name)
    fixed = {k: keywords[k] for k in DECIDING & keywords.keys()}
    given_ = {k: v for k, v in keywords.items() if k not in fixed}
    got = outcome(rune.jit(functools.partial(f, **fixed)), args, given_)
    want = outcome(f, args, keywords)
    if name in VALUES or (name in PLAIN and dynamic(args, keywords)):
        assert isinstance(got, rune.TracedValueError), got
        assert isinstance(want, Exception) or "rune.jit" in str(got)
        return
    same(got, want, name, args)


test_compiled, test_compiled_deeply = over_the_standard(compiled)


def answered(name, data):
    """The function of the namespace that a traced value answers."""
    args, keywords = drawn(data, name)

    fixed = {k: keywords[k] for k in DECIDING & keywords.keys()}

    def f(x, args, keywords):
        g = functools.reduce(getattr, name.split("."), x.__array_namespace__())
        return g(*args, **keywords | fixed)

    got = outcome(rune.jit(f), (np.ones(2), args, keywords), {})
    want = outcome(numpy_function(name), args, keywords)
    if name in VALUES or (name == "arange" and dynamic(args, keywords)):
        assert isinstance(got, rune.TracedValueError), got
        return
    same(got, want, name, args)


test_namespace, test_namespace_deeply = over_the_standard(answered)


def bound(name, data):
    """A drawn call as a function of its arrays alone, and the arrays."""
    args, keywords = drawn(data, name)
    found, tree = optree.tree_flatten((args, keywords), none_is_leaf=True)
    places = [k for k, x in enumerate(found) if isinstance(x, np.ndarray)]

    def f(*arrays):
        whole = list(found)
        for k, x in zip(places, arrays):
            whole[k] = x
        args, keywords = optree.tree_unflatten(tree, whole)
        return numpy_function(name)(*args, **keywords)

    return f, [found[k] for k in places]


UNMAPPED = {*PLAIN, *VALUES, *NAMES["data type functions"]} - {"astype"}


def mapped(name, data):
    f, arrays = bound(name, data)
    if not arrays or name in UNMAPPED:
        return
    # The second lane has the numbers in another order; one that is searched stays in order.
    lanes = [arrays, [x if "search" in name else np.flip(x) for x in arrays]]
    stacked = [np.stack(pair) for pair in zip(*lanes)]
    wants = [outcome(f, xs, {}) for xs in lanes]
    got = outcome(rune.vmap(f), stacked, {})
    for want in wants:
        if isinstance(want, Exception):
            same(got, want, name, arrays)
            return
    for k, (want, xs) in enumerate(zip(wants, lanes)):
        lane = got if isinstance(got, Exception) else optree.tree_map(lambda x, k=k: x[k], got)
        same(lane, want, name, xs)


test_mapped, test_mapped_deeply = over_the_standard(mapped)


def differentiated(name, data):
    """The value beside a tangent: NumPy's, also of functions whose result's shape depends on values."""
    f, arrays = bound(name, data)
    if not any(x.dtype.kind in "fc" for x in arrays) or name in PLAIN:
        return
    want = outcome(f, arrays, {})
    got = outcome(lambda *xs: rune.jvp(f, xs, tuple(map(np.ones_like, xs)))[0], arrays, {})
    if name in FACTORS and isinstance(got, TypeError):
        return  # the factors that are not unique have no derivative, and say so
    if name in NAMES["sets"] and arrays[0].dtype.kind == "c":
        return  # NumPy's order of complex NaN is that of a hash
    same(got, want, name, arrays)


test_differentiated, test_differentiated_deeply = over_the_standard(differentiated)


@pytest.mark.parametrize(
    "name", "sort argsort argmax argmin max min all any count_nonzero searchsorted".split()
)
def test_special_values_in_order(name):
    """The functions that compare elements, over the special numbers in two orders."""
    f = numpy_function(name)
    compiled = rune.jit(f)
    for dtype in ALL:
        for x in (grid(dtype), np.random.default_rng(1).permutation(grid(dtype))):
            # stable everywhere: which of two equal zeros comes first shows in their sign
            keywords = {"stable": True} if "sort" in name and "search" not in name else {}
            args = (np.sort(x), x) if name == "searchsorted" else (x,)
            same(outcome(compiled, args, keywords), outcome(f, args, keywords), name, args)


def test_special_parts_of_complex_numbers():
    """Rounding goes part by part: where NumPy evaluates it, mapped and differentiated, no part touches the other."""
    for dtype in "FD":
        x = grid(dtype)
        want = outcome(np.round, (x,), {})
        for got in (rune.vmap(np.round)(x), rune.jvp(np.round, (x,), (x,))[0], rune.jit(np.round)(x)):
            same(got, want, "round", (x,))


@pytest.mark.parametrize("name", [*UNARY.split(), *BINARY.split()])
def test_special_values(name):
    """Every special number, and every pair of them, in every dtype that NumPy computes in."""
    f = numpy_function(name)
    for dtype in ALL:
        x = grid(dtype)
        args = (x,) if name in UNARY.split() else (x[:, None], x)
        if name == "pow" and x.dtype.kind == "i":
            args = (x[:, None], abs(x[x > x.min()]))
        same(outcome(rune.jit(f), args, {}), outcome(f, args, {}), name, args)


# Operators and methods of arrays inside a compiled function

OPERATORS = {
    name: getattr(operator, name)
    for name in """add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift lt le eq ne gt ge
        iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift""".split()
} | {
    f"r{name}": (lambda f: lambda x, y: f(y, x))(getattr(operator, name))
    for name in "sub truediv pow".split()
}
SINGLE = {
    "pos": operator.pos, "neg": operator.neg, "abs": abs, "invert": operator.invert, "T": lambda x: x.T,
    "mT": lambda x: x.mT, "size": lambda x: x.size, "shape": lambda x: x.shape, "ndim": lambda x: x.ndim,
    "dtype": lambda x: x.dtype, "device": lambda x: x.device, "to_device": lambda x: x.to_device(x.device),
    "len": len, "list": list, "getitem": lambda x: x[..., None], "real": lambda x: x.real, "imag": lambda x: x.imag,
    "copy": lambda x: x.copy(), "reshape": lambda x: np.reshape(x.T, -1, copy=False), "sum": lambda x: x.astype(bool).sum(0), "any": lambda x: x.any(), "max": lambda x: x.max(),
    "argsort": lambda x: x.argsort(stable=True), "flatten": lambda x: x.flatten(), "nbytes": lambda x: x.nbytes,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
@LIGHT
@given(data=st.data())
def test_operators(name, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x, y), _ = binary(name, data.draw)
    f = OPERATORS[name]
    if not isinstance(x, np.ndarray):
        return  # a number on the left, and NumPy's operator on the right of it: see the functions
    if name[0] == "i" and (x.ndim == 0 or np.broadcast_shapes(x.shape, np.shape(y)) != x.shape):
        return  # NumPy's scalars are not written in place, and two faults may raise in either order
    same(
        outcome(rune.jit(lambda x, y: f(x.copy(), y)), (x, y), {}),
        outcome(f, (x.copy(), y), {}),
        name,
        (x, y),
    )


@pytest.mark.parametrize("copy", [True, None])
def test_a_reshaped_copy_is_written_alone(copy):
    def f(x):
        y = np.reshape(x, (2, 3), copy=copy)
        y[0] = 7.0
        return x, y

    for got, want in zip(rune.jit(f)(np.arange(6.0)), f(np.arange(6.0))):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", SINGLE)
@LIGHT
@given(data=st.data())
def test_methods(name, data):
    x = array(data.draw)
    same(outcome(rune.jit(SINGLE[name]), (x,), {}), outcome(SINGLE[name], (x,), {}), name, (x,))
