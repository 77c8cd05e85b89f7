"""Reductions and running sums: NumPy's axes, `keepdims`, `where`, `initial` and dtypes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import asarray, axes_of, axis_of, dtype_of, operand, real_dtype, require, shape_of
from rune.numpy.register import function
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.reduce import cumulative, kept, reduce
from rune.primitives.scalar import e
from rune.value import tables

__all__ = ["MISSING", "count", "cumsum", "keep", "mean", "nan_extreme", "reduced", "running", "safe_root"]


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
    return out if keepdims is MISSING or not keepdims else kept(out, shape, axes)


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
    axes = tuple(sorted(axes_of(axis, len(shape), scalars=True)))
    if op in ("max", "min") and any(shape[k] == 0 for k in axes):
        if not given:
            raise ValueError(f"zero-size array to reduction operation {op}imum which has no identity")
        rest = tuple(n for k, n in enumerate(shape) if k not in axes)
        out = movement.broadcast(cast(operand(initial), dtype), rest)
    else:
        out = reduce(op, a, axes)
        if given:
            out = COMBINE[op](out, cast(operand(initial), dtype))
    return keep(out, shape, axes, keepdims)


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
    return reduce("sum", cast(movement.broadcast(cast(operand(where), bool), shape), real_dtype(dtype)), axes)


@function("mean", method="mean")
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    a = asarray(a)
    result = np.dtype(dtype) if dtype is not None else None
    if result is None:
        result = dtype_of(a) if dtype_of(a).kind in "fc" else np.dtype(np.float64)
    inner = np.dtype(np.float32) if result == np.float16 and dtype is None else result
    axes = tuple(sorted(axes_of(axis, len(shape_of(a)))))
    total = reduced("sum", a, axes, keepdims, where, dtype=inner)
    n = count(a, axes, where, inner)
    if where is not True:
        n = keep(n, shape_of(a), axes, keepdims)
    return cast(e.div(total, n), result)


def moments(a, axis, dtype, ddof, keepdims, where, mean_, correction, few=0.0):
    """The variance, in the dtype it is computed in, and the dtype it is returned in.

    Where `ddof` leaves nothing of the number of elements, it is divided by `few`.
    """
    if correction is not MISSING:
        if type(ddof) is not int or ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
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
    n = count(a, axes, where, inner)
    ddof = operand(ddof)
    if type(n) is int and not isinstance(ddof, Value):
        left = n - ddof if n > ddof else few
    else:
        left = e.sub(n, ddof)
        left = cast(e.select(e.gt(left, 0), left, few), real_dtype(inner))
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
    return cast(safe_root(variance), result)


def safe_root(total: Any) -> Any:
    """The square root, with derivative 0 at 0."""
    zero = e.eq(total, 0)
    return e.select(zero, total, e.sqrt(e.select(zero, cast(1, dtype_of(total)), total)))


@function("ptp")
def ptp(a, axis=None, out=None, keepdims=False):
    return e.sub(reduced("max", a, axis, keepdims), reduced("min", a, axis, keepdims))


def extreme_index(op: str, a: Any, axis: Any, keepdims: Any) -> Any:
    a = asarray(a)
    shape = shape_of(a)
    if axis is None or not shape:
        axes_of(axis, len(shape), scalars=True)
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
    x = x if shape_of(x) else movement.reshape(x, (1,))
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
    if initial is not MISSING and initial is not None:
        return out
    return e.select(reduced("all", missing, axis, keepdims), cast(np.nan, dtype_of(a)), out)


@function("nanmax")
def nanmax(a, axis=None, out=None, keepdims=False, initial=MISSING, where=True):
    return nan_extreme("max", a, axis, keepdims, initial, where)


@function("nanmin")
def nanmin(a, axis=None, out=None, keepdims=False, initial=MISSING, where=True):
    return nan_extreme("min", a, axis, keepdims, initial, where)


@function("nanargmax")
def nanargmax(a, axis=None, out=None, *, keepdims=False):
    return known_extreme_index("argmax", *without_nan(a, -np.inf), axis, keepdims)


@function("nanargmin")
def nanargmin(a, axis=None, out=None, *, keepdims=False):
    return known_extreme_index("argmin", *without_nan(a, np.inf), axis, keepdims)


def known_extreme_index(op: str, a: Any, missing: Any, axis: Any, keepdims: Any) -> Any:
    if missing is not None:
        require(e.logical_not(reduced("all", missing, axis)), "All-NaN slice encountered")
    return extreme_index(op, a, axis, keepdims)


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
    return cast(*moments(without_nan(a, 0)[0], axis, dtype, ddof, keepdims, where, mean, correction, np.nan))


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
    return safe_root(
        nanvar(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    )


# A reduction is computed in its own dtype and converted to that of `out`.
tables.converts |= {f for f in tables.outs if f.__module__ == __name__}
