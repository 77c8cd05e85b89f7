"""Sorting, searching and reading at indices: one permutation, and gathers along an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import asarray, axis_of, castable, dtype_of, operand, promote, require, shape_of
from rune.numpy.register import function
from rune.numpy.shapes import entries, take_axis
from rune.primitives import indexing as primitive
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.scalar import e

__all__ = ["argsort", "bounded", "flat", "searchsorted", "sort", "take", "take_along_axis", "within"]


def last(a: Any, axis: int) -> Any:
    """`a` with `axis` moved behind the others."""
    n = len(shape_of(a))
    return movement.permute(a, (*(k for k in range(n) if k != axis), axis))


def back(a: Any, axis: int) -> Any:
    n = len(shape_of(a))
    return movement.permute(a, (*range(axis), n - 1, *range(axis, n - 1)))


def flat(a: Any) -> Any:
    return movement.reshape(a, (math.prod(shape_of(a)),))


@function("argsort", method="argsort")
def argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    a = asarray(a)
    if not shape_of(a) and axis in (0, -1):
        return np.zeros(1, np.int64)  # as NumPy has it
    if axis is None:
        a, axis = flat(a), -1
    axis = axis_of(axis, len(shape_of(a)))
    return back(primitive.argsort(last(a, axis)), axis)


@function("sort")
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    a = asarray(a)
    if axis is None:
        a, axis = flat(a), -1
    axis = axis_of(axis, len(shape_of(a)))
    return primitive.take_along(a, argsort(a, axis, order=order), axis)


@function("partition")
def partition(a, kth, axis=-1, kind="introselect", order=None):
    check_kth(a, kth, axis)
    return sort(a, axis)


@function("argpartition", method="argpartition")
def argpartition(a, kth, axis=-1, kind="introselect", order=None):
    check_kth(a, kth, axis)
    return argsort(a, axis)


def check_kth(a: Any, kth: Any, axis: Any) -> None:
    """A sorted array is partitioned at every k."""
    a = asarray(a)
    n = math.prod(shape_of(a)) if axis is None else shape_of(a)[axis_of(axis, len(shape_of(a)))]
    for k in np.ravel(kth):
        if not -n <= k < n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")


@function("sort_complex")
def sort_complex(a):
    out = sort(a)
    if dtype_of(out).kind == "c":
        return out
    return cast(out, np.complex64 if dtype_of(out).char in "bhBH" else np.complex128)


@function("lexsort")
def lexsort(keys, axis=-1):
    keys = [asarray(k) for k in keys] if isinstance(keys, (list, tuple)) else entries(keys)
    axis = axis_of(axis, len(shape_of(keys[0])))
    order = argsort(keys[0], axis)
    for key in keys[1:]:
        order = primitive.take_along(order, argsort(primitive.take_along(key, order, axis), axis), axis)
    return order


def sorts_before(x: Any, y: Any) -> Any:
    """Whether `x` stands before `y` in NumPy's sorted order: NaN last, and what holds one behind the rest."""
    kind = dtype_of(x).kind
    if kind not in "fc":
        return e.lt(x, y)
    if kind == "f":
        return e.logical_or(e.lt(x, y), e.logical_and(e.isnan(y), e.logical_not(e.isnan(x))))
    (xr, xi), (yr, yi) = ((e.real(z), e.imag(z)) for z in (x, y))
    nan = e.isnan
    whole, broken = e.logical_not(nan(xi)), nan(yi)
    less = e.logical_and(e.lt(xr, yr), e.logical_or(whole, broken))
    more = e.logical_and(e.gt(xr, yr), e.logical_and(whole, broken))
    last = e.logical_and(e.logical_not(nan(xr)), nan(yr))
    same = e.logical_or(e.eq(xr, yr), e.logical_and(nan(xr), nan(yr)))
    return e.select(same, sorts_before(xi, yi), e.logical_or(e.logical_or(less, more), last))


@function("searchsorted", method="searchsorted")
def searchsorted(a, v, side="left", sorter=None):
    """By bisection: log2(n) reads of the sorted array for all of `v` at once; NaN sorts last."""
    a, v = promote(asarray(a), asarray(v))
    if len(shape_of(a)) != 1:
        raise ValueError(
            "object of too small depth for desired array"
            if not shape_of(a)
            else "object too deep for desired array"
        )
    if sorter is not None:
        a = primitive.gather(a, [asarray(sorter)])
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    n = shape_of(a)[0]
    shape = shape_of(v)
    low, high = np.zeros(shape, np.int64), np.full(shape, n)
    for _ in range(n.bit_length()):
        middle = e.floor_div(e.add(low, high), 2)
        here = primitive.gather(a, [e.minimum(middle, n - 1)], checked=True) if n else v
        before = sorts_before(here, v) if side == "left" else e.logical_not(sorts_before(v, here))
        open_ = e.lt(low, high)
        low, high = (
            e.select(e.logical_and(open_, before), e.add(middle, 1), low),
            e.select(e.logical_and(open_, e.logical_not(before)), middle, high),
        )
    return low


@function("digitize")
def digitize(x, bins, right=False):
    bins = asarray(bins)
    if "c" in (dtype_of(bins).kind, dtype_of(asarray(x)).kind):
        raise TypeError("x may not be complex")
    n = shape_of(bins)[0]
    side = "left" if right else "right"
    rising = lambda: searchsorted(bins, x, side)
    reversed_ = primitive.gather(bins, [np.arange(n)[::-1]])
    falling = lambda: e.sub(n, searchsorted(reversed_, x, side))
    if isinstance(bins, Value):  # in which order they are is asked of both ends
        ends = [take_axis(bins, 0, k) for k in ((0, n - 1) if n else ())]
        return e.select(e.gt(*ends), falling(), rising()) if n else rising()
    if np.any(np.diff(bins) < 0):
        if np.any(np.diff(bins) > 0):
            raise ValueError("bins must be monotonically increasing or decreasing")
        return falling()
    return rising()


@function("interp")
def interp(x, xp, fp, left=None, right=None, period=None):
    x, xp, fp = asarray(x), asarray(xp), asarray(fp)
    if "c" in (dtype_of(x).kind, dtype_of(xp).kind):
        raise TypeError(
            "Cannot cast array data from dtype('complex128') to dtype('float64') according to the rule 'safe'"
        )
    if "c" in [dtype_of(asarray(v)).kind for v in (fp, left, right) if v is not None]:
        of = lambda part: [None if v is None else part(asarray(v)) for v in (fp, left, right)]
        real, imag = (interp(x, xp, *of(part), period) for part in (e.real, e.imag))
        return e.complex(real, imag)
    x, xp, fp = cast(x, np.float64), cast(xp, np.float64), cast(fp, np.float64)
    n = shape_of(xp)[0]
    if shape_of(fp) != (n,) or n == 0:
        raise ValueError("fp and xp are not of the same length." if n else "array of sample points is empty")
    if period is not None:
        left = right = None
        period = abs(period)
        x, xp = e.mod(x, period), e.mod(xp, period)
        order = argsort(xp)
        xp, fp = primitive.gather(xp, [order], checked=True), primitive.gather(fp, [order], checked=True)
        ends = lambda v, k: movement.part(v, 0, k, k + 1)
        xp = movement.concatenate([e.sub(ends(xp, n - 1), period), xp, e.add(ends(xp, 0), period)], 0)
        fp = movement.concatenate([ends(fp, n - 1), fp, ends(fp, 0)], 0)
        n += 2
    end = lambda v, k: take_axis(v, 0, k)
    below = e.lt(x, end(xp, 0))
    above = e.gt(x, end(xp, n - 1))
    left = end(fp, 0) if left is None else operand(left)
    right = end(fp, n - 1) if right is None else operand(right)
    if n == 1:
        middle = movement.broadcast(end(fp, 0), shape_of(x))
    else:
        k = e.minimum(e.maximum(e.sub(searchsorted(xp, x, "right"), 1), 0), n - 2)
        at = lambda v, i: primitive.gather(v, [i], checked=True)
        x0, x1, f0, f1 = at(xp, k), at(xp, e.add(k, 1)), at(fp, k), at(fp, e.add(k, 1))
        slope = e.div(e.sub(f1, f0), e.sub(x1, x0))
        middle = e.add(e.mul(slope, e.sub(x, x0)), f0)
        # Beside an infinity NumPy tries the other end, and then the value that both ends share.
        lost = lambda: e.logical_and(e.isnan(middle), e.logical_not(e.isnan(x)))
        middle = e.select(lost(), e.add(e.mul(slope, e.sub(x, x1)), f1), middle)
        middle = e.select(e.logical_and(lost(), e.eq(f0, f1)), f0, middle)
        middle = e.select(e.eq(x, end(xp, n - 1)), end(fp, n - 1), middle)
    return e.select(below, left, e.select(above, right, middle))


# Reading at indices


def positions(indices: Any, casting: str) -> Any:
    """Indices converted by NumPy's rule of that name."""
    if isinstance(indices, (list, tuple)) and not indices:
        return np.zeros(0, np.int64)
    indices = asarray(indices)
    castable(indices, np.int64, casting)
    return cast(indices, np.int64)


def within(indices: Any, n: int) -> Any:
    return e.logical_and(e.ge(indices, 0), e.lt(indices, n))


def bounded(indices: Any, n: int, mode: str) -> Any:
    """Indices along an axis of n by NumPy's `mode`; what "raise" finds is found where they are used."""
    if mode == "raise":
        return indices
    if mode == "wrap":
        return e.mod(indices, n)
    if mode == "clip":
        return e.minimum(e.maximum(indices, 0), n - 1)
    raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


@function("take", method="take")
def take(a, indices, axis=None, out=None, mode="raise"):
    a, indices = asarray(a), positions(indices, "same_kind")
    if axis is None:
        a, axis = flat(a), 0
    if not shape_of(a):
        a = flat(a)
    axis = axis_of(axis, len(shape_of(a)))
    n, k = len(shape_of(a)), len(shape_of(indices))
    indices = bounded(indices, shape_of(a)[axis], mode)
    if shape_of(a)[axis] == 0 and math.prod(shape_of(indices)):
        raise IndexError("cannot do a non-empty take from an empty axes.")
    front = movement.permute(a, (axis, *(j for j in range(n) if j != axis)))
    out = primitive.gather(front, [indices])
    return movement.permute(out, (*range(k, k + axis), *range(k), *range(k + axis, k + n - 1)))


@function("take_along_axis")
def take_along_axis(arr, indices, axis=-1):
    arr, indices = asarray(arr), asarray(indices)
    if dtype_of(indices).kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if len(shape_of(indices)) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        arr, axis = flat(arr), 0
    axis = axis_of(axis, len(shape_of(arr)))
    if len(shape_of(arr)) != len(shape_of(indices)):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    shape = tuple(
        m if k == axis or n == 1 else n
        for k, (m, n) in enumerate(zip(shape_of(indices), shape_of(arr), strict=True))
    )
    indices = movement.broadcast(cast(indices, np.int64), shape)
    arr = movement.broadcast(
        arr, tuple(n if k == axis else m for k, (m, n) in enumerate(zip(shape, shape_of(arr), strict=True)))
    )
    parts = []
    for k, n in enumerate(shape):
        if k == axis:
            parts.append(indices)
        else:
            counter = np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))])
            parts.append(np.broadcast_to(counter, shape))
    return primitive.gather(arr, parts)


@function("choose", method="choose")
def choose(a, choices, out=None, mode="raise"):
    a = positions(a, "safe")
    choices = promote(*map(operand, choices)) if isinstance(choices, (list, tuple)) else entries(choices)
    n = len(choices)
    if mode == "raise":
        require(within(a, n), "invalid entry in choice array")
    a = bounded(a, n, mode)
    shape = np.broadcast_shapes(shape_of(a), *map(shape_of, choices))
    out = movement.broadcast(choices[-1], shape)
    for k in range(n - 2, -1, -1):
        out = e.select(e.eq(a, k), choices[k], out)
    return out
