"""Functions that write into their first argument: copyto, put, fill_diagonal, x.sort(), x.fill().

Each returns what the array holds afterwards; the traced value stores it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.level import TracedValueError, Value
from rune.numpy.arguments import asarray, axis_of, castable, dtype_of, operand, shape_of
from rune.numpy.elementwise import choose_between
from rune.numpy.indexing import assigned, setitem
from rune.numpy.register import function, method
from rune.numpy.sorting import bounded, sort
from rune.primitives import movement
from rune.primitives.indexing import gather
from rune.primitives.map import cast

__all__ = ["copyto"]


@function("copyto", writes=True)
def copyto(dst, src, casting="same_kind", where=True):
    src = operand(src)
    castable(src, dtype_of(dst), casting)
    new = assigned(src, dtype_of(dst), shape_of(dst))
    return setitem(dst, Ellipsis, new) if where is True else choose_between(where, new, dst)


@method("fill", writes=True)
def fill(a, value):
    return setitem(a, Ellipsis, value)


@function("put", method="put", writes=True)
def put(a, ind, v, mode="raise"):
    n = math.prod(shape_of(a))
    ind, v = asarray(ind), asarray(v)
    size = math.prod(shape_of(ind))
    have = math.prod(shape_of(v))
    if not size or not have:
        return a
    ind = bounded(movement.reshape(ind, (size,)), n, mode)
    v = movement.reshape(v, (have,))
    if have != size:
        v = gather(v, [np.arange(size) % have])
    flat = setitem(movement.reshape(a, (n,)), ind, v)
    return movement.reshape(flat, shape_of(a))


@function("put_along_axis", writes=True)
def put_along_axis(arr, indices, values, axis):
    indices = asarray(indices)
    if axis is None:
        if len(shape_of(indices)) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        flat = setitem(movement.reshape(arr, (math.prod(shape_of(arr)),)), indices, values)
        return movement.reshape(flat, shape_of(arr))
    shape = shape_of(arr)
    axis = axis_of(axis, len(shape))
    if len(shape_of(indices)) != len(shape):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    grid = [
        indices if k == axis else np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))])
        for k, n in enumerate(shape)
    ]
    return setitem(arr, tuple(grid), values)


@function("fill_diagonal", writes=True)
def fill_diagonal(a, val, wrap=False):
    shape = shape_of(a)
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    if len(shape) == 2:
        step = shape[1] + 1
        end = None if wrap else shape[1] * shape[1]
    else:
        if len(set(shape)) != 1:
            raise ValueError("All dimensions of input must be of equal length")
        step, end = 1 + sum(math.prod(shape[:k]) for k in range(1, len(shape))), None
    places = np.arange(math.prod(shape))[:end:step]
    val = asarray(val)
    return put(a, places, movement.reshape(val, (math.prod(shape_of(val)),)))


@function("putmask", writes=True)
def putmask(a, mask, values):
    values = safely(values, dtype_of(a))
    n = math.prod(shape_of(a))
    if shape_of(values) != shape_of(a):
        flat = movement.reshape(values, (math.prod(shape_of(values)),))
        values = movement.reshape(gather(flat, [np.arange(n) % shape_of(flat)[0]]), shape_of(a))
    return choose_between(
        movement.reshape(cast(asarray(mask), bool), shape_of(a)), cast(values, dtype_of(a)), a
    )


@function("place", writes=True)
def place(arr, mask, vals):
    if isinstance(mask, Value):
        raise TracedValueError(
            f"place: the value is traced by {mask.level.name}; write np.where(mask, values, x)"
        )
    return put(arr, np.flatnonzero(mask), safely(vals, dtype_of(arr)))


def safely(values: Any, dtype: np.dtype) -> Any:
    """Values that are stored under the rule "safe", which keeps every number; numbers and lists are converted."""
    array = isinstance(values, (Value, np.ndarray)) and shape_of(values)
    values = asarray(values)
    if array:
        castable(values, dtype, "safe")
    return values


@method("sort", writes=True)
def sort_method(a, axis=-1, kind=None, order=None, *, stable=None):
    return sort(a, axis, kind, order, stable=stable)


@method("partition", writes=True)
def partition_method(a, kth, axis=-1, kind="introselect", order=None):
    return sort(a, axis)


@method("setflags", writes=True)
def setflags(a, write=None, align=None, uic=None):
    raise TypeError("setflags: the flags of a traced array are fixed")
