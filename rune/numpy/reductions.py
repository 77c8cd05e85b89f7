"""Reductions and running sums: NumPy's axes, `keepdims`, `where`, `initial` and dtypes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import (
    asarray,
    axes_of,
    axis_of,
    dtype_of,
    inexact,
    integer,
    operand,
    promote,
    real_dtype,
    shape_of,
)
from rune.numpy.register import function
from rune.primitives import movement
from rune.primitives.indexing import argsort, gather
from rune.primitives.map import cast
from rune.primitives.reduce import cumulative, reduce
from rune.primitives.scalar import e

__all__ = ["cumsum", "diff", "mean", "reduced"]

MISSING = np._NoValue


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype NumPy adds and multiplies in: integers narrower than a word widen to it."""
    if dtype.kind == "b":
        return np.dtype(np.int_)
    if dtype.kind in "iu" and dtype.itemsize < np.dtype(np.int_).itemsize:
        return np.dtype(np.int_ if dtype.kind == "i" else np.uint)
    return dtype


def least(dtype: np.dtype) -> Any:
    return dtype.type(-np.inf) if dtype.kind == "f" else (False if dtype.kind == "b" else np.iinfo(dtype).min)


def greatest(dtype: np.dtype) -> Any:
    return dtype.type(np.inf) if dtype.kind == "f" else (True if dtype.kind == "b" else np.iinfo(dtype).max)


NEUTRAL = {
    "sum": lambda dtype: 0, "prod": lambda dtype: 1, "max": least, "min": greatest,
    "any": lambda dtype: False, "all": lambda dtype: True,
}  # fmt: skip
COMBINE = {
    "sum": e.add,
    "prod": e.mul,
    "max": e.maximum,
    "min": e.minimum,
    "any": e.logical_or,
    "all": e.logical_and,
}


def keep(out: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: Any) -> Any:
    """A reduced array, with its axes back as ones where `keepdims`."""
    if keepdims is MISSING or not keepdims:
        return out
    return movement.reshape(out, tuple(1 if k in axes else n for k, n in enumerate(shape)))


def reduced(op: str, a: Any, axis: Any = None, keepdims: Any = False, where: Any = True,
            initial: Any = MISSING, dtype: Any = None) -> Any:  # fmt: skip
    a = asarray(a)
    if op in ("any", "all"):
        a = cast(a, bool)
    elif op in ("sum", "prod"):
        a = cast(a, dtype if dtype is not None else accumulator(dtype_of(a)))
    elif dtype is not None:
        a = cast(a, dtype)
    dtype, given = dtype_of(a), initial is not MISSING and initial is not None
    if where is not True:
        if op in ("max", "min") and not given:
            raise ValueError(
                f"reduction operation '{op}imum' does not have an identity, so to use a where mask one has to specify 'initial'"
            )
        where = cast(operand(where), bool)
        a = movement.broadcast(a, np.broadcast_shapes(shape_of(a), shape_of(where)))
        spare = cast(operand(initial), dtype) if op in ("max", "min") else cast(NEUTRAL[op](dtype), dtype)
        a = e.select(where, a, spare)
    shape = shape_of(a)
    axes = tuple(sorted(axes_of(axis, len(shape))))
    if op in ("max", "min") and any(shape[k] == 0 for k in axes):
        if not given:
            raise ValueError(f"zero-size array to reduction operation {op}imum which has no identity")
        kept = tuple(n for k, n in enumerate(shape) if k not in axes)
        out = movement.broadcast(cast(operand(initial), dtype), kept)
    else:
        out = (
            complex_extreme(op, a, axes)
            if op in ("max", "min") and dtype.kind == "c"
            else reduce(op, a, axes)
        )
        if given:
            out = COMBINE[op](out, cast(operand(initial), dtype))
    return keep(out, shape, axes, keepdims)


def complex_extreme(op: str, a: Any, axes: tuple[int, ...]) -> Any:
    raise TypeError(f"numpy.{op}: complex numbers have no order here: compare np.abs(x) or np.real(x)")


def reduction(op: str, *names: str, by_dtype: bool = False) -> None:
    if by_dtype:

        @function(*names, method=op)
        def answer(a, axis=None, dtype=None, out=None, keepdims=False, initial=MISSING, where=True):
            return reduced(op, a, axis, keepdims, where, initial, dtype)

    elif op in ("any", "all"):

        @function(*names, method=op)
        def answer(a, axis=None, out=None, keepdims=False, *, where=True):
            return reduced(op, a, axis, keepdims, where)

    else:

        @function(*names, method=op)
        def answer(a, axis=None, out=None, keepdims=False, initial=MISSING, where=True):
            return reduced(op, a, axis, keepdims, where, initial)


reduction("sum", "sum", by_dtype=True)
reduction("prod", "prod", by_dtype=True)
reduction("max", "max", "amax")
reduction("min", "min", "amin")
reduction("any", "any")
reduction("all", "all")


def count(a: Any, axes: tuple[int, ...], where: Any, dtype: np.dtype) -> Any:
    """How many elements are reduced: a number, or an array where a mask chooses them."""
    shape = shape_of(a)
    if where is True:
        return math.prod(shape[k] for k in axes)
    return reduce("sum", cast(movement.broadcast(cast(operand(where), bool), shape), dtype), axes)


@function("mean", method="mean")
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    a = asarray(a)
    result = np.dtype(dtype) if dtype is not None else None
    if result is None:
        result = dtype_of(a) if dtype_of(a).kind in "fc" else np.dtype(np.float64)
    inner = np.dtype(np.float32) if result == np.float16 and dtype is None else result
    axes = tuple(sorted(axes_of(axis, len(shape_of(a)))))
    total = reduced("sum", a, axes, keepdims, where, dtype=inner)
    n = count(a, axes, where, real_dtype(inner) if inner.kind in "fc" else inner)
    if where is not True:
        n = keep(n, shape_of(a), axes, keepdims)
    return cast(e.div(total, n), result)


def moments(a, axis, dtype, ddof, keepdims, where, mean_, correction):
    """The variance, in the dtype it is computed in, and the dtype it is returned in."""
    if correction is not MISSING:
        ddof = correction
    a = asarray(a)
    asked = np.dtype(dtype) if dtype is not None else None
    inner = asked or (dtype_of(a) if dtype_of(a).kind in "fc" else np.dtype(np.float64))
    result = real_dtype(inner)
    if inner == np.float16 and asked is None:
        inner = np.dtype(np.float32)
    a = cast(a, inner)
    shape = shape_of(a)
    axes = tuple(sorted(axes_of(axis, len(shape))))
    middle = mean(a, axes, dtype=inner, keepdims=True, where=where) if mean_ is MISSING else asarray(mean_)
    d = e.sub(a, middle)
    squares = e.add(e.square(e.real(d)), e.square(e.imag(d))) if inner.kind == "c" else e.square(d)
    total = reduced("sum", squares, axes, False, where)
    n = count(a, axes, where, real_dtype(inner))
    left = e.maximum(e.sub(n, ddof), 0) if isinstance(n, Value) or np.ndim(n) else max(n - ddof, 0)
    return keep(e.div(total, left), shape, axes, keepdims), result


@function("var", method="var")
def var(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof=0,
    keepdims=False,
    *,
    where=True,
    mean=MISSING,
    correction=MISSING,
):
    return cast(*moments(a, axis, dtype, ddof, keepdims, where, mean, correction))


@function("std", method="std")
def std(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof=0,
    keepdims=False,
    *,
    where=True,
    mean=MISSING,
    correction=MISSING,
):
    variance, result = moments(a, axis, dtype, ddof, keepdims, where, mean, correction)
    return cast(e.sqrt(variance), result)


@function("ptp")
def ptp(a, axis=None, out=None, keepdims=False):
    return e.sub(reduced("max", a, axis, keepdims), reduced("min", a, axis, keepdims))


def extreme_index(op: str, a: Any, axis: Any, keepdims: Any) -> Any:
    a = asarray(a)
    shape = shape_of(a)
    if axis is None:
        flat = movement.reshape(a, (math.prod(shape),))
        axes = tuple(range(len(shape)))
        axis = 0
    else:
        flat, axis = a, axis_of(axis, len(shape))
        axes = (axis,)
    if shape_of(flat)[axis] == 0:
        raise ValueError(f"attempt to get {op} of an empty sequence")
    return keep(reduce(op, flat, (axis,)), shape, axes, keepdims)


@function("argmax", method="argmax")
def argmax(a, axis=None, out=None, *, keepdims=False):
    return extreme_index("argmax", a, axis, keepdims)


@function("argmin", method="argmin")
def argmin(a, axis=None, out=None, *, keepdims=False):
    return extreme_index("argmin", a, axis, keepdims)


@function("count_nonzero")
def count_nonzero(a, axis=None, *, keepdims=False):
    return reduced("sum", cast(asarray(a), bool), axis, keepdims)


# Running reductions


def running(op: str, a: Any, axis: Any, dtype: Any) -> Any:
    a = asarray(a)
    if axis is None:
        a, axis = movement.reshape(a, (math.prod(shape_of(a)),)), 0
    elif not shape_of(a):
        a = movement.reshape(a, (1,))
    a = cast(a, dtype if dtype is not None else accumulator(dtype_of(a)))
    return cumulative(op, a, axis_of(axis, len(shape_of(a))))


@function("cumsum", method="cumsum")
def cumsum(a, axis=None, dtype=None, out=None):
    return running("sum", a, axis, dtype)


@function("cumprod", method="cumprod")
def cumprod(a, axis=None, dtype=None, out=None):
    return running("prod", a, axis, dtype)


def with_initial(op: str, start: int, x: Any, axis: Any, dtype: Any, include_initial: bool) -> Any:
    x = asarray(x)
    if axis is None:
        if len(shape_of(x)) != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    axis = axis_of(axis, len(shape_of(x)))
    out = running(op, x, axis, dtype)
    if not include_initial:
        return out
    first = tuple(1 if k == axis else n for k, n in enumerate(shape_of(out)))
    return movement.concatenate([movement.full(first, cast(start, dtype_of(out))), out], axis)


@function("cumulative_sum")
def cumulative_sum(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    return with_initial("sum", 0, x, axis, dtype, include_initial)


@function("cumulative_prod")
def cumulative_prod(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    return with_initial("prod", 1, x, axis, dtype, include_initial)


# NaN left out


def without_nan(a: Any, instead: Any) -> tuple:
    a = asarray(a)
    if dtype_of(a).kind not in "fc":
        return a, None
    missing = e.isnan(a)
    return e.select(missing, cast(instead, dtype_of(a)), a), missing


@function("nansum")
def nansum(a, axis=None, dtype=None, out=None, keepdims=False, initial=MISSING, where=True):
    return reduced("sum", without_nan(a, 0)[0], axis, keepdims, where, initial, dtype)


@function("nanprod")
def nanprod(a, axis=None, dtype=None, out=None, keepdims=False, initial=MISSING, where=True):
    return reduced("prod", without_nan(a, 1)[0], axis, keepdims, where, initial, dtype)


@function("nancumsum")
def nancumsum(a, axis=None, dtype=None, out=None):
    return running("sum", without_nan(a, 0)[0], axis, dtype)


@function("nancumprod")
def nancumprod(a, axis=None, dtype=None, out=None):
    return running("prod", without_nan(a, 1)[0], axis, dtype)


def nan_extreme(op: str, a: Any, axis: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    a = asarray(a)
    if dtype_of(a).kind != "f":
        return reduced(op, a, axis, keepdims, where, initial)
    filled, missing = without_nan(a, NEUTRAL[op](dtype_of(a)))
    out = reduced(op, filled, axis, keepdims, where, initial)
    return e.select(reduced("all", missing, axis, keepdims), cast(np.nan, dtype_of(a)), out)


@function("nanmax")
def nanmax(a, axis=None, out=None, keepdims=False, initial=MISSING, where=True):
    return nan_extreme("max", a, axis, keepdims, initial, where)


@function("nanmin")
def nanmin(a, axis=None, out=None, keepdims=False, initial=MISSING, where=True):
    return nan_extreme("min", a, axis, keepdims, initial, where)


@function("nanargmax")
def nanargmax(a, axis=None, out=None, *, keepdims=False):
    return extreme_index("argmax", without_nan(a, -np.inf)[0], axis, keepdims)


@function("nanargmin")
def nanargmin(a, axis=None, out=None, *, keepdims=False):
    return extreme_index("argmin", without_nan(a, np.inf)[0], axis, keepdims)


def present(a: Any, where: Any) -> Any:
    here = e.logical_not(e.isnan(a))
    return here if where is True else e.logical_and(here, cast(operand(where), bool))


@function("nanmean")
def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    a = asarray(a)
    return mean(
        a, axis, dtype, None, keepdims, where=present(a, where) if dtype_of(a).kind in "fc" else where
    )


@function("nanvar")
def nanvar(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof=0,
    keepdims=False,
    *,
    where=True,
    mean=MISSING,
    correction=MISSING,
):
    a = asarray(a)
    where = present(a, where) if dtype_of(a).kind in "fc" else where
    return cast(*moments(without_nan(a, 0)[0], axis, dtype, ddof, keepdims, where, mean, correction))


@function("nanstd")
def nanstd(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof=0,
    keepdims=False,
    *,
    where=True,
    mean=MISSING,
    correction=MISSING,
):
    return e.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


# Averages and quantiles


@function("average")
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    a = asarray(a)
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        total = cast(count(a, axes, True, None), dtype_of(out))
    else:
        w = asarray(weights)
        if shape_of(w) != shape:
            if axis is None:
                raise TypeError("Axis must be specified when shapes of a and weights differ.")
            if shape_of(w) != tuple(shape[k] for k in axes):
                raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
            w = movement.permute(w, tuple(int(k) for k in np.argsort(axes)))
            w = movement.reshape(w, tuple(n if k in axes else 1 for k, n in enumerate(shape)))
        # NumPy widens integers: the average of integers is a float64.
        dtype = np.result_type(dtype_of(a), dtype_of(w), *([np.float64] if dtype_of(a).kind in "iub" else []))
        a, w = cast(a, dtype), cast(w, dtype)
        total = reduced("sum", movement.broadcast(w, shape), axis, keepdims)
        out = e.div(reduced("sum", e.mul(a, w), axis, keepdims), total)
    return (out, movement.broadcast(total, shape_of(out))) if returned else out


def sorted_last(a: Any, axis: Any) -> tuple:
    """`a` sorted along `axis` (several are one), which comes last; and the shape it had."""
    a = asarray(a)
    shape = shape_of(a)
    axes = tuple(sorted(axes_of(axis, len(shape))))
    rest = tuple(k for k in range(len(shape)) if k not in axes)
    a = movement.permute(a, rest + axes)
    a = movement.reshape(a, tuple(shape[k] for k in rest) + (math.prod(shape[k] for k in axes),))
    return sort_last(a), shape, axes


def sort_last(a: Any) -> Any:
    from rune.primitives.indexing import take_along

    return take_along(a, argsort(a), len(shape_of(a)) - 1)


def quantile_of(a: Any, q: Any, axis: Any, method: str, keepdims: Any, skip_nan: bool) -> Any:
    """Quantiles by interpolation between neighbours in sorted order; a NaN makes its row NaN."""
    a, shape, axes = sorted_last(inexact(asarray(a)), axis)
    q = asarray(q)
    lead, n, dtype = shape_of(a)[:-1], shape_of(a)[-1], dtype_of(a)
    missing = e.isnan(a)
    size = e.sub(n, reduce("sum", cast(missing, np.float64), (len(lead),))) if skip_nan else float(n)
    parts = []
    flat = movement.reshape(q, (math.prod(shape_of(q)),))
    for k in range(shape_of(flat)[0]):
        p = movement.reshape(movement.part(flat, 0, k, k + 1), ())
        p = p if isinstance(p, Value) else p[()]
        below, share = place_of(p, size, method)
        top = e.maximum(e.sub(size, 1.0), 0.0)
        first = cast(e.minimum(e.maximum(below, 0.0), top), np.int64)
        second = cast(e.minimum(e.maximum(e.add(below, 1.0), 0.0), top), np.int64)
        low, high = pick(a, first), pick(a, second)
        share = cast(share, dtype)
        # NumPy's lerp: exact at both ends.
        d = e.sub(high, low)
        upper = e.sub(high, e.mul(d, e.sub(1, share)))
        parts.append(e.select(e.ge(share, 0.5), upper, e.add(low, e.mul(d, share))))
    bad = reduce("all" if skip_nan else "any", missing, (len(lead),))
    parts = [e.select(bad, cast(np.nan, dtype), part) for part in parts]
    parts = [keep(part, shape, axes, keepdims) for part in parts]
    if not shape_of(q):
        return parts[0]
    rows = [movement.reshape(part, (1, *shape_of(part))) for part in parts]
    return movement.reshape(movement.concatenate(rows, 0), shape_of(q) + shape_of(parts[0]))


PLACES = {  # method -> (alpha, beta) of Hyndman and Fan (1996)
    "linear": (1, 1), "weibull": (0, 0), "hazen": (0.5, 0.5), "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8), "interpolated_inverted_cdf": (0, 1),
}  # fmt: skip


def place_of(p: Any, n: Any, method: str) -> tuple:
    """The index below the quantile, and the share of the one above."""
    if method in PLACES:
        alpha, beta = PLACES[method]
        at = e.sub(e.add(e.mul(n, p), e.add(alpha, e.mul(p, 1 - alpha - beta))), 1)
        at = at if method != "linear" else e.mul(e.sub(n, 1.0), p)
        below = e.floor(at)
        return below, e.sub(at, below)
    at = e.mul(e.sub(n, 1.0), p)
    if method in ("lower", "higher", "nearest", "midpoint"):
        round_ = {"lower": e.floor, "higher": e.ceil, "nearest": e.rint, "midpoint": e.floor}[method]
        below = round_(at)
        half = e.select(e.eq(e.sub(at, e.floor(at)), 0.0), 0.0, 0.5) if method == "midpoint" else 0.0
        return below, half
    if method in ("inverted_cdf", "averaged_inverted_cdf", "closest_observation"):
        at = e.mul(n, p) if method != "closest_observation" else e.sub(e.mul(n, p), 0.5)
        below = e.sub(e.ceil(at), 1.0)
        exact = e.eq(at, e.floor(at))
        if method == "inverted_cdf":
            return below, 0.0
        if method == "averaged_inverted_cdf":
            return below, e.select(exact, 0.5, 0.0)
        odd = e.eq(e.mod(e.floor(at), 2.0), 1.0)
        return e.select(e.logical_and(exact, odd), e.sub(e.floor(at), 1.0), e.floor(at)), 0.0
    raise ValueError(f"{method!r} is not a valid method")


def pick(a: Any, index: Any) -> Any:
    """a[..., index] for an integer, or an array of them, one per row of `a`."""
    lead, _n = shape_of(a)[:-1], shape_of(a)[-1]
    if not isinstance(index, Value) and np.ndim(index) == 0:
        return movement.reshape(movement.part(a, len(lead), int(index), int(index) + 1), lead)
    index = movement.broadcast(index, lead)
    grid = [np.broadcast_to(g, lead) for g in np.ix_(*map(np.arange, lead))]
    return gather(a, [*grid, index], checked=True)


def check_q(q: Any, top: float) -> Any:
    q = asarray(q)
    if not isinstance(q, Value) and not (np.all(q >= 0) and np.all(q <= top)):
        raise ValueError(
            "Quantiles must be in the range [0, 1]"
            if top == 1
            else "Percentiles must be in the range [0, 100]"
        )
    return q if top == 1 else e.div(q, 100)


def quantiles(name: str, top: float, skip_nan: bool) -> None:
    @function(name)
    def answer(
        a,
        q,
        axis=None,
        out=None,
        overwrite_input=False,
        method="linear",
        keepdims=False,
        *,
        weights=None,
        interpolation=None,
    ):
        if weights is not None:
            raise TypeError(
                f"numpy.{name}: weights are not supported for traced values: sort and accumulate them yourself"
            )
        return quantile_of(a, check_q(q, top), axis, interpolation or method, keepdims, skip_nan)


quantiles("quantile", 1, False)
quantiles("percentile", 100, False)
quantiles("nanquantile", 1, True)
quantiles("nanpercentile", 100, True)


@function("median")
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    a, shape, axes = sorted_last(a, axis)
    n = shape_of(a)[-1]
    if n == 0:
        raise ValueError("numpy.median: of no elements")
    last = len(shape_of(a)) - 1
    low, high = pick(a, (n - 1) // 2), pick(a, n // 2)
    out = (
        mean(low, ()) if n % 2 else mean(movement.concatenate([kept_last(low), kept_last(high)], last), last)
    )
    if dtype_of(a).kind in "fc":
        out = e.select(e.isnan(pick(a, n - 1)), cast(np.nan, dtype_of(out)), out)  # NaN sorts last
    return keep(out, shape, axes, keepdims)


def kept_last(x: Any) -> Any:
    return movement.reshape(x, (*shape_of(x), 1))


@function("nanmedian")
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    return quantile_of(a, 0.5, axis, "linear", keepdims, True)


# Differences


@function("diff")
def diff(a, n=1, axis=-1, prepend=MISSING, append=MISSING):
    n = integer(n)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    a = asarray(a)
    if n == 0:
        return a
    if not shape_of(a):
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_of(axis, len(shape_of(a)))
    row = tuple(1 if k == axis else m for k, m in enumerate(shape_of(a)))
    ends = []
    for end in (prepend, append):
        if end is MISSING or end is None:
            ends.append([])
        else:
            end = asarray(end)
            ends.append([end if shape_of(end) else movement.broadcast(end, row)])
    if ends[0] or ends[1]:
        a = movement.concatenate(promote(*ends[0], a, *ends[1]), axis)
    for _ in range(n):
        m = shape_of(a)[axis]
        after, before = movement.part(a, axis, min(1, m), m), movement.part(a, axis, 0, max(m - 1, 0))
        a = e.ne(after, before) if dtype_of(a).kind == "b" else e.sub(after, before)
    return a


@function("ediff1d")
def ediff1d(ary, to_end=None, to_begin=None):
    flat = asarray(ary)
    flat = movement.reshape(flat, (math.prod(shape_of(flat)),))
    ends = [
        []
        if v is None
        else [cast(movement.reshape(asarray(v), (math.prod(shape_of(asarray(v))),)), dtype_of(flat))]
        for v in (to_begin, to_end)
    ]
    return movement.concatenate([*ends[0], diff(flat), *ends[1]], 0)


@function("trapezoid")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = asarray(y)
    axis = axis_of(axis, len(shape_of(y)))
    n = shape_of(y)[axis]
    if x is None:
        d = operand(dx)
        if shape_of(d):
            d = asarray(d)
    else:
        x = asarray(x)
        if len(shape_of(x)) == 1:
            d = diff(x)
            d = movement.reshape(
                d, tuple(shape_of(d)[0] if k == axis else 1 for k in range(len(shape_of(y))))
            )
        else:
            d = diff(x, axis=axis)
    pair = e.add(movement.part(y, axis, 1, n), movement.part(y, axis, 0, n - 1))
    return reduced("sum", e.div(e.mul(d, pair), 2.0), axis)


@function("gradient")
def gradient(f, *varargs, axis=None, edge_order=1):
    f = inexact(asarray(f))
    shape = shape_of(f)
    axes = axes_of(axis, len(shape))
    spacings = list(varargs) if varargs else [1.0] * len(axes)
    if len(spacings) == 1:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    out = [slope(f, operand(h), k, edge_order) for h, k in zip(spacings, axes, strict=True)]
    return out[0] if len(out) == 1 else tuple(out)


def slope(f: Any, h: Any, axis: int, edge_order: int) -> Any:
    """Second-order differences inside, one-sided ones of `edge_order` at both ends."""
    shape = shape_of(f)
    n = shape[axis]
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required."
        )
    at = lambda a, b: movement.part(f, axis, a % n if a < 0 else a, n + b if b <= 0 else b)
    if shape_of(h):
        if shape_of(h) != (n,):
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        d = diff(inexact(asarray(h)))
        d = movement.reshape(d, tuple(n - 1 if k == axis else 1 for k in range(len(shape))))
        step = lambda a, b: movement.part(d, axis, a, b)
    else:
        step = lambda a, b: h
    parts = []
    first, last = step(0, 1), step(n - 2, n - 1)
    if edge_order == 1:
        parts = [e.div(e.sub(at(1, 2), at(0, 1)), first)]
        end = [e.div(e.sub(at(n - 1, n), at(n - 2, n - 1)), last)]
    else:
        parts = [one_sided(at(0, 1), at(1, 2), at(2, 3), first, step(1, 2))]
        end = [e.neg(one_sided(at(n - 1, n), at(n - 2, n - 1), at(n - 3, n - 2), last, step(n - 3, n - 2)))]
    if n > 2:
        if shape_of(h):
            a, b = step(0, n - 2), step(1, n - 1)
            ends = e.sub(e.mul(e.mul(a, a), at(2, n)), e.mul(e.mul(b, b), at(0, n - 2)))
            middle = e.mul(e.sub(e.mul(b, b), e.mul(a, a)), at(1, n - 1))
            inside = e.div(e.add(ends, middle), e.mul(e.mul(a, b), e.add(a, b)))
        else:
            inside = e.div(e.sub(at(2, n), at(0, n - 2)), e.mul(2.0, h))
        parts.append(inside)
    return movement.concatenate(promote(*parts, *end), axis)


def one_sided(a: Any, b: Any, c: Any, h: Any, k: Any) -> Any:
    """The derivative at `a` from three points, h and k apart."""
    whole = e.add(h, k)
    by_a = e.neg(e.div(e.add(e.mul(2.0, h), k), e.mul(h, whole)))
    by_b = e.div(whole, e.mul(h, k))
    by_c = e.neg(e.div(h, e.mul(k, whole)))
    return e.add(e.add(e.mul(by_a, a), e.mul(by_b, b)), e.mul(by_c, c))


@function("cov")
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    from rune.numpy.products import matmul

    m = asarray(m)
    if y is not None:
        y = asarray(y)
    dtype = dtype or np.result_type(dtype_of(m), np.float64, *([] if y is None else [dtype_of(y)]))
    rows = lambda x: (
        movement.reshape(x, (1, *shape_of(x)))
        if len(shape_of(x)) == 1
        else (x if rowvar else movement.permute(x, (1, 0)))
    )
    if len(shape_of(m)) > 2:
        raise ValueError("m has more than 2 dimensions")
    x = cast(movement.reshape(m, (1, 1)) if not shape_of(m) else rows(m), dtype)
    if y is not None:
        x = movement.concatenate([x, cast(rows(y), dtype)], 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    w = None
    for given in (fweights, aweights):
        if given is not None:
            w = cast(asarray(given), np.float64) if w is None else e.mul(w, cast(asarray(given), np.float64))
    if w is None:
        n = shape_of(x)[1]
        middle, scaled, left = mean(x, 1, keepdims=True), None, float(max(n - ddof, 0))
    else:
        total = reduced("sum", w)
        middle = e.div(reduced("sum", e.mul(x, w), 1, True), total)
        if ddof == 0:
            left = total
        elif aweights is None:
            left = e.sub(total, ddof)
        else:
            left = e.sub(total, e.div(e.mul(float(ddof), reduced("sum", e.mul(w, asarray(aweights)))), total))
    x = e.sub(x, middle)
    scaled = x if w is None else e.mul(x, w)
    scaled = movement.permute(e.conj(scaled) if np.dtype(dtype).kind == "c" else scaled, (1, 0))
    out = e.mul(matmul(x, scaled), e.div(1.0, left))
    return (
        movement.reshape(out, tuple(n for n in shape_of(out) if n != 1)) if shape_of(out) == (1, 1) else out
    )


@function("corrcoef")
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    c = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(c):
        return e.div(c, c)
    n = shape_of(c)[0]
    variances = gather(c, [np.arange(n), np.arange(n)])
    s = e.sqrt(e.real(variances) if dtype_of(c).kind == "c" else variances)
    out = e.div(e.div(c, movement.reshape(s, (n, 1))), movement.reshape(s, (1, n)))
    if dtype_of(out).kind == "c":
        limit = lambda v: e.minimum(e.maximum(v, -1.0), 1.0)
        return e.complex(limit(e.real(out)), limit(e.imag(out)))
    inside = np.eye(n, dtype=bool)
    return e.select(inside, 1.0, e.minimum(e.maximum(out, -1.0), 1.0))
