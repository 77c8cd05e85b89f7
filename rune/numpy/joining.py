"""Joining arrays and splitting them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import (
    asarray,
    axis_of,
    castable,
    dtype_of,
    integer,
    lifted,
    promote,
    shape_of,
    shape_to,
)
from rune.numpy.needed import concrete
from rune.numpy.register import function
from rune.numpy.shapes import array_box, at_least, entries, moveaxis, ravel, rows_of, size_of
from rune.primitives import movement
from rune.primitives.indexing import gather
from rune.primitives.map import cast
from rune.primitives.scalar import e

__all__ = ["concatenate", "stack"]


def joined(arrays: Any, dtype: Any, casting: str) -> list:
    """The arrays in their common dtype, or in the one asked for."""
    if isinstance(arrays, Value):
        arrays = entries(arrays)
    arrays = [asarray(a) for a in arrays]
    if dtype is None:
        return promote(*arrays) if arrays else arrays
    for a in arrays:
        castable(a, dtype, casting)
    return [cast(a, dtype) for a in arrays]


@function("concatenate", "concat")
def concatenate(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    arrays = joined(arrays, dtype, casting)
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        return movement.concatenate([movement.reshape(a, (size_of(a),)) for a in arrays], 0)
    shapes = [shape_of(a) for a in arrays]
    if not shapes[0]:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = axis_of(axis, len(shapes[0]))
    for k, s in enumerate(shapes):
        if len(s) != len(shapes[0]):
            raise ValueError(
                f"all the input array dimensions except for the concatenation axis must match exactly, but along dimension 0, "
                f"the array at index 0 has {len(shapes[0])} dimension(s) and the array at index {k} has {len(s)} dimension(s)"
            )
        for d, (m, n) in enumerate(zip(shapes[0], s, strict=True)):
            if d != axis and m != n:
                raise ValueError(
                    f"all the input array dimensions except for the concatenation axis must match exactly, but along dimension {d}, "
                    f"the array at index 0 has size {m} and the array at index {k} has size {n}"
                )
    return movement.concatenate(arrays, axis)


@function("stack")
def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    arrays = joined(arrays, dtype, casting)
    if not arrays:
        raise ValueError("need at least one array to stack")
    shape = shape_of(arrays[0])
    if any(shape_of(a) != shape for a in arrays):
        raise ValueError("all input arrays must have the same shape")
    axis = axis_of(axis, len(shape) + 1)
    return movement.concatenate(
        [movement.reshape(a, (*shape[:axis], 1, *shape[axis:])) for a in arrays], axis
    )


def each(arrays: Any, n: int) -> list:
    return [at_least(n, a) for a in joined(arrays, None, "")]


@function("hstack")
def hstack(tup, *, dtype=None, casting="same_kind"):
    arrays = each(tup, 1)
    return concatenate(arrays, 0 if len(shape_of(arrays[0])) == 1 else 1, dtype=dtype, casting=casting)


@function("vstack", "row_stack")
def vstack(tup, *, dtype=None, casting="same_kind"):
    return concatenate(each(tup, 2), 0, dtype=dtype, casting=casting)


@function("dstack")
def dstack(tup):
    return concatenate(each(tup, 3), 2)


@function("column_stack")
def column_stack(tup):
    arrays = joined(tup, None, "")
    return concatenate(
        [movement.reshape(a, (size_of(a), 1)) if len(shape_of(a)) < 2 else a for a in arrays], 1
    )


@function("block")
def block(arrays):
    def depth(x):
        return 1 + max(map(depth, x)) if isinstance(x, list) else 0

    levels = depth(arrays)
    leaves = []

    def collect(x):
        if isinstance(x, list):
            for part in x:
                collect(part)
        else:
            leaves.append(asarray(x))

    collect(arrays)
    ndim = max(levels, *(len(shape_of(x)) for x in leaves))

    def build(x, level):
        if isinstance(x, list):
            return concatenate([build(part, level + 1) for part in x], level - levels)
        x = asarray(x)
        return movement.reshape(x, (1,) * (ndim - len(shape_of(x))) + shape_of(x))

    return build(arrays, 0)


@function("append")
def append(arr, values, axis=None):
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


def pieces(ary: Any, cuts: list[int], axis: int) -> list:
    n = shape_of(ary)[axis]
    ends = [0, *cuts, None]
    parts = []
    for a, b in itertools.pairwise(ends):
        start, stop, _ = slice(a, b).indices(n)
        parts.append(movement.part(ary, axis, start, max(start, stop)))
    return parts


@function("array_split", view=True)
def array_split(ary, indices_or_sections, axis=0):
    ary = asarray(ary)
    axis = axis_of(axis, len(shape_of(ary)))
    if np.ndim(indices_or_sections):
        return pieces(ary, [int(k) for k in indices_or_sections], axis)
    sections = integer(indices_or_sections)
    if sections <= 0:
        raise ValueError("number sections must be larger than 0.")
    size, extra = divmod(shape_of(ary)[axis], sections)
    return pieces(ary, [k * size + min(k, extra) for k in range(1, sections)], axis)


@function("split", view=True)
def split(ary, indices_or_sections, axis=0):
    ary = asarray(ary)
    axis = axis_of(axis, len(shape_of(ary)))
    if not np.ndim(indices_or_sections) and shape_of(ary)[axis] % integer(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


def dimensions(name: str, x: Any, least: int) -> int:
    n = len(shape_of(asarray(x)))
    if n < least:
        raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
    return n


@function("hsplit", view=True)
def hsplit(ary, indices_or_sections):
    return split(ary, indices_or_sections, 1 if dimensions("hsplit", ary, 1) > 1 else 0)


@function("vsplit", view=True)
def vsplit(ary, indices_or_sections):
    dimensions("vsplit", ary, 2)
    return split(ary, indices_or_sections, 0)


@function("dsplit", view=True)
def dsplit(ary, indices_or_sections):
    dimensions("dsplit", ary, 3)
    return split(ary, indices_or_sections, 2)


@function("unstack", boxed=True)
def unstack(x, /, *, axis=0):
    return tuple(np.moveaxis(array_box(x), axis, 0))


@function("delete")
def delete(arr, obj, axis=None):
    arr = asarray(arr)
    if axis is None:
        arr, axis = movement.reshape(arr, (size_of(arr),)), 0
    axis = axis_of(axis, len(shape_of(arr)))
    rows = np.arange(shape_of(arr)[axis])
    if isinstance(obj, Value) and not obj.type.shape and obj.type.dtype.kind in "iu":
        gone, rest = gather(rows, [obj]), rows[:-1]  # of one row the shape is known, whichever it is
        return rows_of(arr, axis, e.add(rest, cast(e.ge(rest, gone), np.int64)))
    return rows_of(arr, axis, np.delete(rows, concrete("delete", obj) if isinstance(obj, Value) else obj))


@function("insert")
def insert(arr, obj, values, axis=None):
    arr = asarray(arr)
    if axis is None:
        arr, axis = movement.reshape(arr, (size_of(arr),)), 0
    ndim = len(shape_of(arr))
    axis = axis_of(axis, ndim)
    n = shape_of(arr)[axis]
    values = cast(asarray(values), dtype_of(arr))
    where = places_for(obj, n)
    if where.size == 1:  # one place takes as many rows as there are values
        values = movement.reshape(values, (1,) * (ndim - len(shape_of(values))) + shape_of(values))
        if where.ndim == 0:
            values = moveaxis(values, 0, axis)
        where = np.repeat(where, shape_of(values)[axis])
    new = -1 - np.arange(where.size)  # the k-th new row is -1 - k
    places = np.insert(np.arange(n), where, new)
    extra = len(shape_of(values)) - ndim
    if extra > 0 and set(shape_of(values)[:extra]) == {1}:  # an assignment drops them
        values = movement.reshape(values, shape_of(values)[extra:])
    rows = tuple(where.size if k == axis else m for k, m in enumerate(shape_of(arr)))
    source = np.where(places < 0, n - 1 - places, places)
    return rows_of(movement.concatenate([arr, movement.broadcast(values, rows)], axis), axis, source)


def places_for(obj: Any, n: int) -> np.ndarray:
    """Where np.insert puts new rows, before which of n: a number, or one for each."""
    if isinstance(obj, slice):
        return np.arange(n)[obj]
    places = np.asarray(integer(obj) if isinstance(obj, Value) else obj)
    if places.ndim > 1 or (places.dtype == bool and places.ndim != 1):
        raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    if places.dtype == bool:
        return np.flatnonzero(places)
    return places if places.size else places.astype(int)


@function("resize")
def resize(a, new_shape):
    a, shape = asarray(a), shape_to(new_shape)
    if not size_of(a):
        return lifted(a, np.zeros(shape, dtype_of(a)))
    flat = movement.reshape(a, (size_of(a),))
    return movement.reshape(gather(flat, [np.arange(math.prod(shape)) % size_of(a)]), shape)
