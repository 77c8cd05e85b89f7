"""Shapes: what moves elements without computing.

Traced arrays are in C order, so `order` "K" and "A" mean C.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import (
    asarray,
    axes_of,
    axis_of,
    c_order,
    integer,
    shape_of,
    shape_to,
)
from rune.numpy.register import attribute, function, method
from rune.primitives import movement
from rune.primitives.indexing import gather
from rune.value import Traced, box, unbox

__all__ = [
    "array_box",
    "at_least",
    "axis_part",
    "entries",
    "moveaxis",
    "ravel",
    "reshape",
    "roll",
    "rows_of",
    "size_of",
    "swap_last",
    "take_axis",
]


def size_of(x: Any) -> int:
    return math.prod(shape_of(x))


def array_box(x: Any) -> Any:
    """The user's array that stands for an array-like of the user's."""
    return x if isinstance(x, Traced) else box(asarray(unbox(x)))


def swap_last(x: Any) -> Any:
    n = len(shape_of(x))
    return movement.permute(x, (*range(n - 2), n - 1, n - 2))


def reverse_axes(x: Any) -> Any:
    return movement.permute(x, tuple(range(len(shape_of(x))))[::-1])


def take_axis(x: Any, axis: int, k: int) -> Any:
    """x[..., k, ...] along one axis."""
    shape = shape_of(x)
    return movement.reshape(movement.part(x, axis, k, k + 1), shape[:axis] + shape[axis + 1 :])


def entries(x: Any, axis: int = 0) -> list:
    """What iterating over one axis gives: x[..., 0, ...], x[..., 1, ...] and so on."""
    return [take_axis(x, axis, k) for k in range(shape_of(x)[axis])]


def axis_part(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    start, stop, _ = slice(start, stop).indices(shape_of(x)[axis])
    return movement.part(x, axis, start, max(start, stop))


# Reshaping


@function("reshape", view=True)
def reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    a = asarray(a)
    full = full_shape(size_of(a), shape_to(newshape if shape is None else shape))
    if order == "F":
        return reverse_axes(movement.reshape(reverse_axes(a), full[::-1]))
    c_order(order, "CKA")
    return movement.reshape(a, full)


@functools.lru_cache(maxsize=1 << 12)
def full_shape(size: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of so many elements, its -1 replaced."""
    if shape.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    known = math.prod(n for n in shape if n != -1)
    if -1 in shape and known and size % known == 0:
        full = tuple(size // known if n == -1 else n for n in shape)
    else:
        full = shape
    if any(n < 0 for n in full) or math.prod(full) != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
    return full


@method("reshape", view=True)
def reshape_method(a, *shape, order="C", copy=None):
    return reshape(a, shape[0] if len(shape) == 1 else shape, order)


@function("ravel", method="ravel", view=True)
def ravel(a, order="C"):
    if isinstance(a, np.ndarray) and order in ("C", "F"):
        return np.ravel(a, order)  # a copy where elements are not adjacent, unlike reshape's result
    return reshape(a, -1, order)


@attribute("flat", view=True)
def flat(a):
    return ravel(a)


@method("flatten")
def flatten(a, order="C"):
    return reshape(a, -1, order)


@function("squeeze", method="squeeze", view=True)
def squeeze(a, axis=None):
    a = asarray(a)
    shape = shape_of(a)
    axes = (
        tuple(k for k, n in enumerate(shape) if n == 1)
        if axis is None
        else axes_of(axis, len(shape), scalars=True)
    )
    if any(shape[k] != 1 for k in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return movement.reshape(a, tuple(n for k, n in enumerate(shape) if k not in axes))


@function("expand_dims", view=True)
def expand_dims(a, axis):
    a = asarray(a)
    axis = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shape = list(shape_of(a))
    axes = axes_of(axis, len(shape) + len(axis))
    rest = iter(shape)
    return movement.reshape(a, tuple(1 if k in axes else next(rest) for k in range(len(shape) + len(axis))))


@function("atleast_1d", boxed=True)
def atleast_1d(*arrays):
    return each_at_least(1, arrays)


@function("atleast_2d", boxed=True)
def atleast_2d(*arrays):
    return each_at_least(2, arrays)


@function("atleast_3d", boxed=True)
def atleast_3d(*arrays):
    return each_at_least(3, arrays)


def each_at_least(n: int, arrays: tuple) -> Any:
    out = tuple(a.reshape(widened(n, a.shape)) for a in map(array_box, arrays))
    return out[0] if len(out) == 1 else out


def at_least(n: int, a: Any) -> Any:
    """`a` with at least n axes."""
    a = asarray(a)
    return movement.reshape(a, widened(n, shape_of(a)))


def widened(n: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which np.atleast_1d, 2d and 3d bring one."""
    if n == 3 and 0 < len(shape) < 3:
        return (1, *shape, 1) if len(shape) == 1 else (*shape, 1)
    return (1,) * (n - len(shape)) + shape


# Permuting


@function("transpose", "permute_dims", view=True)
def transpose(a, axes=None):
    a = asarray(a)
    if axes is None:
        return reverse_axes(a)
    axes = axes_of(tuple(axes), len(shape_of(a)))
    if len(axes) != len(shape_of(a)):
        raise ValueError("axes don't match array")
    return movement.permute(a, axes)


@method("transpose", view=True)
def transpose_method(a, *axes):
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        axes = axes[0]
    return transpose(a, axes or None)


@attribute("T", view=True)
def T(a):
    return reverse_axes(a)


@function("matrix_transpose", "linalg.matrix_transpose", view=True)
@attribute("mT", view=True)
def mT(x):
    a = asarray(x)
    if len(shape_of(a)) < 2:
        raise ValueError("matrix transpose with ndim < 2 is undefined")
    return swap_last(a)


@function("swapaxes", method="swapaxes", view=True)
def swapaxes(a, axis1, axis2):
    a = asarray(a)
    n = len(shape_of(a))
    order = list(range(n))
    i, j = axis_of(axis1, n), axis_of(axis2, n)
    order[i], order[j] = j, i
    return movement.permute(a, tuple(order))


@function("moveaxis", view=True)
def moveaxis(a, source, destination):
    a = asarray(a)
    n = len(shape_of(a))
    source, destination = axes_of(source, n), axes_of(destination, n)
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [k for k in range(n) if k not in source]
    for to, of in sorted(zip(destination, source, strict=True)):
        order.insert(to, of)
    return movement.permute(a, tuple(order))


@function("rollaxis", view=True)
def rollaxis(a, axis, start=0):
    n = len(shape_of(asarray(a)))
    axis = axis_of(axis, n)
    start = integer(start)
    if not -n <= start <= n:
        raise np.exceptions.AxisError(
            f"'start' arg requires {-n} <= start < {n + 1}, but {start} was passed in"
        )
    start = start + n if start < 0 else start
    start -= axis < start
    return moveaxis(a, axis, start)


@function("flip", view=True)
def flip(m, axis=None):
    m = asarray(m)
    return movement.flip(m, axes_of(axis, len(shape_of(m))))


@function("flipud", view=True)
def flipud(m):
    return flip(m, 0)


@function("fliplr", view=True)
def fliplr(m):
    if len(shape_of(asarray(m))) < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, 1)


@function("rot90", view=True)
def rot90(m, k=1, axes=(0, 1)):
    m = asarray(m)
    i, j = axes_of(tuple(axes), len(shape_of(m)))
    k = integer(k) % 4
    if k == 0:
        return m
    if k == 2:
        return movement.flip(m, (i, j))
    return swapaxes(flip(m, j), i, j) if k == 1 else flip(swapaxes(m, i, j), j)


@function("roll")
def roll(a, shift, axis=None):
    a = asarray(a)
    if axis is None:
        return movement.reshape(roll(movement.reshape(a, (size_of(a),)), shift, 0), shape_of(a))
    pairs = np.broadcast(shift, axis)
    for by, k in pairs:
        k = axis_of(int(k), len(shape_of(a)))
        n = shape_of(a)[k]
        by = int(by) % n if n else 0
        if by:
            a = movement.concatenate([axis_part(a, k, n - by, n), axis_part(a, k, 0, n - by)], k)
    return a


# Broadcasting and repeating


@function("broadcast_to", view=True, read_only=True)
def broadcast_to(array, shape, subok=False):
    array, shape = asarray(array), shape_to(shape)
    if np.broadcast_shapes(shape_of(array), shape) != shape:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes [original->remapped]: {shape_of(array)} and requested shape {shape}"
        )
    return movement.broadcast(array, shape)


@function("broadcast_arrays", boxed=True)
def broadcast_arrays(*args, subok=False):
    arrays = tuple(map(array_box, args))
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return (
        arrays if all(a.shape == shape for a in arrays) else tuple(np.broadcast_to(a, shape) for a in arrays)
    )


@function("tile")
def tile(A, reps):
    a, reps = asarray(A), shape_to(reps)
    n = max(len(reps), len(shape_of(a)))
    shape = (1,) * (n - len(shape_of(a))) + shape_of(a)
    reps = (1,) * (n - len(reps)) + reps
    # Axis k becomes (repeats, n): one broadcast, whatever the number of axes.
    pairs = [(r, s) for r, s in zip(reps, shape, strict=True)]
    a = movement.reshape(
        a, tuple(itertools.chain.from_iterable((1, s) if r != 1 else (s,) for r, s in pairs))
    )
    a = movement.broadcast(
        a, tuple(itertools.chain.from_iterable((r, s) if r != 1 else (s,) for r, s in pairs))
    )
    return movement.reshape(a, tuple(r * s for r, s in pairs))


@function("repeat", method="repeat")
def repeat(a, repeats, axis=None):
    a = asarray(a)
    if axis is None:
        a, axis = movement.reshape(a, (size_of(a),)), 0
    elif not shape_of(a):
        a = movement.reshape(a, (1,))
    if isinstance(repeats, Value):
        integer(repeats)
    axis = axis_of(axis, len(shape_of(a)))
    shape = shape_of(a)
    if np.ndim(repeats) == 0 or np.size(repeats) == 1:
        r = int(np.ravel(repeats)[0])
        a = movement.reshape(a, shape[: axis + 1] + (1,) + shape[axis + 1 :])
        a = movement.broadcast(a, shape[: axis + 1] + (r,) + shape[axis + 1 :])
        return movement.reshape(a, shape[:axis] + (shape[axis] * r,) + shape[axis + 1 :])
    return rows_of(a, axis, np.repeat(np.arange(shape[axis]), repeats))


def rows_of(a: Any, axis: int, rows: Any) -> Any:
    """a[..., rows, ...] along one axis."""
    n = len(shape_of(a))
    front = movement.permute(a, (axis, *(k for k in range(n) if k != axis)))
    out = gather(front, [rows])
    return movement.permute(out, (*range(1, axis + 1), 0, *range(axis + 1, n)))
