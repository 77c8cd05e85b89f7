"""Shapes: what moves elements without computing, and what makes arrays like another.

Traced arrays are in C order, so `order` "K" and "A" mean C.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import (
    asarray,
    axes_of,
    axis_of,
    broadcast_shape,
    c_order,
    dtype_of,
    integer,
    lifted,
    operand,
    promote,
    shape_of,
    shape_to,
    supported,
)
from rune.numpy.register import attribute, function, method
from rune.primitives import movement
from rune.primitives.indexing import gather
from rune.primitives.map import cast
from rune.primitives.scalar import e

__all__ = ["axis_part", "concatenate", "diagonal", "swap_last", "take_axis"]


def size_of(x: Any) -> int:
    return math.prod(shape_of(x))


def swap_last(x: Any) -> Any:
    n = len(shape_of(x))
    return movement.permute(x, (*range(n - 2), n - 1, n - 2))


def reverse_axes(x: Any) -> Any:
    return movement.permute(x, tuple(range(len(shape_of(x))))[::-1])


def take_axis(x: Any, axis: int, k: int) -> Any:
    """x[..., k, ...] along one axis."""
    shape = shape_of(x)
    return movement.reshape(movement.part(x, axis, k, k + 1), shape[:axis] + shape[axis + 1 :])


def axis_part(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    start, stop, _ = slice(start, stop).indices(shape_of(x)[axis])
    return movement.part(x, axis, start, max(start, stop))


# Reshaping


@function("reshape", view=True)
def reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    a = asarray(a)
    shape = shape_to(newshape if shape is None else shape)
    size = size_of(a)
    if shape.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    known = math.prod(n for n in shape if n != -1)
    if -1 in shape and known and size % known == 0:
        full = tuple(size // known if n == -1 else n for n in shape)
    else:
        full = shape
    if any(n < 0 for n in full) or math.prod(full) != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
    if order == "F":
        return reverse_axes(movement.reshape(reverse_axes(a), full[::-1]))
    c_order(order, "CKA")
    return movement.reshape(a, full)


@method("reshape", view=True)
def reshape_method(a, *shape, order="C", copy=None):
    return reshape(a, shape[0] if len(shape) == 1 else shape, order)


@function("ravel", method="ravel", view=True)
def ravel(a, order="C"):
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
    axes = tuple(k for k, n in enumerate(shape) if n == 1) if axis is None else axes_of(axis, len(shape))
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


@function("atleast_1d", view=True)
def atleast_1d(*arrays):
    return at_least(1, arrays, lambda s: (1,) * (1 - len(s)) + s)


@function("atleast_2d", view=True)
def atleast_2d(*arrays):
    return at_least(2, arrays, lambda s: (1,) * (2 - len(s)) + s)


@function("atleast_3d", view=True)
def atleast_3d(*arrays):
    return at_least(3, arrays, lambda s: {0: (1, 1, 1), 1: (1, *s, 1), 2: (*s, 1)}.get(len(s), s))


def at_least(n: int, arrays: tuple, to: Any) -> Any:
    out = tuple(movement.reshape(a, to(shape_of(a))) for a in map(asarray, arrays))
    return out[0] if len(out) == 1 else out


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
def mT(a):
    a = asarray(a)
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


@function("broadcast_arrays")
def broadcast_arrays(*args, subok=False):
    arrays = list(map(asarray, args))
    shape = broadcast_shape(*arrays)
    return tuple(movement.broadcast(a, shape) for a in arrays)


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


def rows_of(a: Any, axis: int, rows: np.ndarray) -> Any:
    """a[..., rows, ...] along one axis, for constant rows."""
    n = len(shape_of(a))
    front = movement.permute(a, (axis, *(k for k in range(n) if k != axis)))
    out = gather(front, [rows])
    return movement.permute(out, (*range(1, axis + 1), 0, *range(axis + 1, n)))


# Joining and splitting


def joined(arrays: Any, dtype: Any, casting: str) -> list:
    """The arrays in their common dtype, or in the one asked for."""
    if isinstance(arrays, Value):
        arrays = [take_axis(arrays, 0, k) for k in range(shape_of(arrays)[0])]
    arrays = [asarray(a) for a in arrays]
    if dtype is None:
        return promote(*arrays) if arrays else arrays
    for a in arrays:
        if not np.can_cast(dtype_of(a), dtype, casting):
            raise TypeError(
                f"Cannot cast array data from {dtype_of(a)!r} to {np.dtype(dtype)!r} according to the rule '{casting}'"
            )
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


def each(arrays: Any, f: Any) -> list:
    out = f(*joined(arrays, None, ""))
    return list(out) if isinstance(out, tuple) else [out]


@function("hstack")
def hstack(tup, *, dtype=None, casting="same_kind"):
    arrays = each(tup, atleast_1d)
    return concatenate(arrays, 0 if len(shape_of(arrays[0])) == 1 else 1, dtype=dtype, casting=casting)


@function("vstack", "row_stack")
def vstack(tup, *, dtype=None, casting="same_kind"):
    return concatenate(each(tup, atleast_2d), 0, dtype=dtype, casting=casting)


@function("dstack")
def dstack(tup):
    return concatenate(each(tup, atleast_3d), 2)


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


@function("hsplit", view=True)
def hsplit(ary, indices_or_sections):
    return split(ary, indices_or_sections, 1 if len(shape_of(asarray(ary))) > 1 else 0)


@function("vsplit", view=True)
def vsplit(ary, indices_or_sections):
    return split(ary, indices_or_sections, 0)


@function("dsplit", view=True)
def dsplit(ary, indices_or_sections):
    return split(ary, indices_or_sections, 2)


@function("unstack", view=True)
def unstack(x, /, *, axis=0):
    x = asarray(x)
    axis = axis_of(axis, len(shape_of(x)))
    return tuple(take_axis(x, axis, k) for k in range(shape_of(x)[axis]))


@function("delete")
def delete(arr, obj, axis=None):
    arr = asarray(arr)
    if axis is None:
        arr, axis = movement.reshape(arr, (size_of(arr),)), 0
    axis = axis_of(axis, len(shape_of(arr)))
    return rows_of(arr, axis, np.delete(np.arange(shape_of(arr)[axis]), obj))


@function("insert")
def insert(arr, obj, values, axis=None):
    arr = asarray(arr)
    if axis is None:
        arr, axis = movement.reshape(arr, (size_of(arr),)), 0
    axis = axis_of(axis, len(shape_of(arr)))
    n = shape_of(arr)[axis]
    # Where the places are -1, NumPy has put a new row.
    places = np.insert(np.arange(n), obj, -1)
    new = int(np.sum(places < 0))
    values = cast(asarray(values), dtype_of(arr))
    if np.ndim(obj) == 0 and not isinstance(obj, slice) and len(shape_of(values)) == len(shape_of(arr)):
        places = np.insert(np.arange(n), [int(obj)] * shape_of(values)[axis], -1)
        new = shape_of(values)[axis]
    rows = tuple(new if k == axis else m for k, m in enumerate(shape_of(arr)))
    if (
        np.ndim(obj) == 0
        and not isinstance(obj, slice)
        and shape_of(values)
        and len(shape_of(values)) < len(shape_of(arr))
    ):
        at = rows[:axis] + rows[axis + 1 :]
        values = movement.reshape(movement.broadcast(values, at), (*at[:axis], 1, *at[axis:]))
    values = movement.broadcast(values, rows)
    source = np.where(places < 0, n + np.cumsum(places < 0) - 1, places)
    return rows_of(movement.concatenate([arr, values], axis), axis, source)


@function("trim_zeros")
def trim_zeros(filt, trim="fb", axis=None):
    raise TypeError("numpy.trim_zeros: the shape would depend on traced values: slice with known bounds")


@function("resize")
def resize(a, new_shape):
    a, shape = asarray(a), shape_to(new_shape)
    flat = movement.reshape(a, (size_of(a),))
    return movement.reshape(gather(flat, [np.arange(math.prod(shape)) % max(size_of(a), 1)]), shape)


# Padding


@function("pad")
def pad(array, pad_width, mode="constant", **keywords):
    a = asarray(array)
    n = len(shape_of(a))
    if isinstance(pad_width, dict):
        widths = [(0, 0)] * n
        for axis, width in pad_width.items():
            widths[axis_of(axis, n)] = (width, width) if np.ndim(width) == 0 else tuple(width)
    else:
        widths = np.broadcast_to(pad_width, (n, 2)).tolist()
    widths = [(int(b), int(f)) for b, f in widths]
    if any(k < 0 for pair in widths for k in pair):
        raise ValueError("index can't contain negative values")
    if callable(mode):
        raise TypeError(
            "numpy.pad: a function as mode is not supported for traced values: use np.concatenate"
        )
    if mode == "constant":
        return pad_constant(a, widths, keywords.get("constant_values", 0))
    if mode == "empty":
        return pad_constant(a, widths, 0)
    if mode in ("edge", "wrap", "symmetric", "reflect"):
        if keywords.get("reflect_type", "even") == "odd":
            return pad_odd(a, widths, mode)
        for axis, (before, after) in enumerate(widths):
            if before or after:
                positions = np.pad(np.arange(shape_of(a)[axis]), (before, after), mode=mode)
                a = pad_by(a, axis, positions, before, after, mode)
        return a
    if mode in ("linear_ramp", "maximum", "mean", "median", "minimum"):
        return pad_statistic(a, widths, mode, keywords)
    raise ValueError(f"mode '{mode}' is not supported")


def pad_constant(a: Any, widths: list, values: Any) -> Any:
    n = len(widths)
    if not isinstance(values, Value) and np.ndim(values) == 0 and not isinstance(values, (list, tuple)):
        value = cast(operand(values), dtype_of(a))
        return movement.pad(a, tuple(b for b, _ in widths), tuple(f for _, f in widths), value)
    values = movement.broadcast(cast(asarray(values), dtype_of(a)), (n, 2))
    for axis, (before, after) in enumerate(widths):
        ends = []
        for k, width in enumerate((before, after)):
            shape = tuple(width if j == axis else m for j, m in enumerate(shape_of(a)))
            ends.append(movement.broadcast(take_axis(take_axis(values, 0, axis), 0, k), shape))
        a = movement.concatenate([ends[0], a, ends[1]], axis)
    return a


def pad_by(a: Any, axis: int, positions: np.ndarray, before: int, after: int, mode: str) -> Any:
    """Rows of `a` before and after it: slices where they are runs, a gather where they wind."""
    n = shape_of(a)[axis]
    if n == 0:
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    if mode == "edge":
        row = lambda k, width: movement.broadcast(
            axis_part(a, axis, k, k + 1), tuple(width if j == axis else m for j, m in enumerate(shape_of(a)))
        )
        return movement.concatenate([row(0, before), a, row(n - 1, after)], axis)
    parts = []
    for run in (positions[:before], None, positions[before + n :]):
        if run is None:
            parts.append(a)
        elif len(run):
            steps = np.diff(run)
            if np.all(steps == 1):
                parts.append(movement.part(a, axis, int(run[0]), int(run[-1]) + 1))
            elif np.all(steps == -1):
                parts.append(movement.flip(movement.part(a, axis, int(run[-1]), int(run[0]) + 1), (axis,)))
            else:
                parts.append(rows_of(a, axis, run))
    return movement.concatenate(parts, axis)


def pad_odd(a: Any, widths: list, mode: str) -> Any:
    """reflect_type="odd": 2 * edge - reflection, in as many rounds as the width takes."""
    for axis, (before, after) in enumerate(widths):
        shift = mode == "reflect"
        while before or after:
            m = shape_of(a)[axis]
            b, f = min(before, m - shift), min(after, m - shift)
            if m - shift <= 0:
                return pad(a, widths, mode="edge")
            first, last = axis_part(a, axis, 0, 1), axis_part(a, axis, m - 1, m)
            head = e.sub(e.mul(2, first), movement.flip(axis_part(a, axis, int(shift), b + shift), (axis,)))
            tail = e.sub(e.mul(2, last), movement.flip(axis_part(a, axis, m - f - shift, m - shift), (axis,)))
            a = movement.concatenate([cast(head, dtype_of(a)), a, cast(tail, dtype_of(a))], axis)
            before, after = before - b, after - f
    return a


def pad_statistic(a: Any, widths: list, mode: str, keywords: dict) -> Any:
    from rune.numpy.elementwise import round_
    from rune.numpy.reductions import mean, median, reduced

    lengths = keywords.get("stat_length")
    lengths = (
        [(None, None)] * len(widths)
        if lengths is None
        else np.broadcast_to(lengths, (len(widths), 2)).tolist()
    )
    ends = np.broadcast_to(keywords.get("end_values", 0), (len(widths), 2))
    for axis, (pair, stat) in enumerate(zip(widths, lengths, strict=True)):
        n = shape_of(a)[axis]
        sides = []
        for side, (width, length) in enumerate(zip(pair, stat, strict=True)):
            shape = tuple(width if j == axis else m for j, m in enumerate(shape_of(a)))
            if mode == "linear_ramp":
                edge = axis_part(a, axis, 0, 1) if side == 0 else axis_part(a, axis, n - 1, n)
                share = np.linspace(0, 1, width, endpoint=False)
                share = share if side == 0 else share[::-1]
                share = share.reshape([-1 if j == axis else 1 for j in range(len(shape))])
                end = float(ends[axis, side])
                row = e.add(end, e.mul(e.sub(edge, end), share))
            else:
                length = n if length is None else min(int(length), n)
                rows = axis_part(a, axis, 0, length) if side == 0 else axis_part(a, axis, n - length, n)
                f = {"mean": mean, "median": median}.get(mode)
                row = f(rows, axis, keepdims=True) if f else reduced(mode[:3], rows, axis, True)
                row = movement.broadcast(row, shape)
            if dtype_of(a).kind in "iu" and dtype_of(row).kind == "f" and mode != "linear_ramp":
                row = round_(row)
            sides.append(cast(row, dtype_of(a)))
        a = movement.concatenate([sides[0], a, sides[1]], axis)
    return a


# Diagonals and triangles


def diagonal_positions(shape: tuple[int, int], offset: int) -> tuple:
    n = max(min(shape[0] + min(offset, 0), shape[1] - max(offset, 0)), 0)
    k = np.arange(n)
    return k - min(offset, 0), k + max(offset, 0)


@function("diagonal", method="diagonal", view=True, read_only=True)
def diagonal(a, offset=0, axis1=0, axis2=1):
    a = asarray(a)
    n = len(shape_of(a))
    if n < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    i, j = axes_of((axis1, axis2), n)
    front = movement.permute(a, (i, j, *(k for k in range(n) if k not in (i, j))))
    out = gather(front, list(diagonal_positions(shape_of(front)[:2], integer(offset))))
    return movement.permute(out, (*range(1, n - 1), 0))


@function("linalg.diagonal")
def linalg_diagonal(x, /, *, offset=0):
    return diagonal(x, offset, -2, -1)


@function("trace", method="trace")
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    from rune.numpy.reductions import reduced

    return reduced("sum", diagonal(a, offset, axis1, axis2), -1, dtype=dtype)


@function("linalg.trace")
def linalg_trace(x, /, *, offset=0, dtype=None):
    return trace(x, offset, -2, -1, dtype)


@function("diag")
def diag(v, k=0):
    v, k = asarray(v), integer(k)
    if len(shape_of(v)) == 2:
        return diagonal(v, k)
    if len(shape_of(v)) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = shape_of(v)[0] + abs(k)
    # Row i of the result is v[i], where it stands: one select, and its transpose reads the diagonal.
    rows, columns = diagonal_positions((n, n), k)
    from rune.primitives.indexing import scatter

    return scatter("set", movement.full((n, n), dtype_of(v).type(0)), [rows, columns], v)


@function("diagflat")
def diagflat(v, k=0):
    v = asarray(v)
    return diag(movement.reshape(v, (size_of(v),)), k)


def triangle(m: Any, mask: np.ndarray) -> Any:
    return e.select(mask, m, dtype_of(m).type(0))


def rows_and_columns(m: Any) -> tuple[int, int]:
    shape = shape_of(m)
    return shape[-2:] if len(shape) > 1 else (shape[0], shape[0])


@function("tril")
def tril(m, k=0):
    m = asarray(m)
    return triangle(m, np.tri(*rows_and_columns(m), integer(k), dtype=bool))


@function("triu")
def triu(m, k=0):
    m = asarray(m)
    return triangle(m, ~np.tri(*rows_and_columns(m), integer(k) - 1, dtype=bool))


@function("vander")
def vander(x, N=None, increasing=False):
    from rune.numpy.reductions import running

    x = asarray(x)
    if len(shape_of(x)) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = shape_of(x)[0] if N is None else integer(N)
    x = cast(x, np.result_type(dtype_of(x), int))
    columns = [
        movement.full((shape_of(x)[0], 1), dtype_of(x).type(1)),
        *[movement.reshape(x, (shape_of(x)[0], 1))] * (n - 1),
    ]
    if n <= 0:
        return np.zeros((shape_of(x)[0], 0), dtype_of(x))
    out = running("prod", movement.concatenate(columns, 1), 1, None)
    return out if increasing else movement.flip(out, (1,))


# Arrays like another


def like(a: Any, value: Any, dtype: Any, shape: Any) -> Any:
    a = asarray(a)
    dtype = supported(np.dtype(dtype)) if dtype is not None else dtype_of(a)
    shape = shape_of(a) if shape is None else shape_to(shape)
    return lifted(a, movement.broadcast(cast(operand(value), dtype), shape))


@function("zeros_like")
def zeros_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, 0, dtype, shape)


@function("empty_like")
def empty_like(prototype, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(prototype, 0, dtype, shape)


@function("ones_like")
def ones_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, 1, dtype, shape)


@function("full_like")
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, fill_value, dtype, shape)


@function("copy", method="copy __copy__")
def copy(a, order="K", subok=False):
    return asarray(a)


@method("__deepcopy__")
def deepcopy(a, memo=None):
    return a


@function("astype")
def astype_function(x, dtype, /, *, copy=True, device=None):
    return cast(asarray(x), supported(np.dtype(dtype)))


@method("astype")
def astype(a, dtype, order="K", casting="unsafe", subok=True, copy=True):
    dtype = supported(np.dtype(dtype))
    if not np.can_cast(dtype_of(a), dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {dtype_of(a)!r} to {dtype!r} according to the rule '{casting}'"
        )
    return cast(asarray(a), dtype)


@function("meshgrid")
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    xi = [ravel(x) for x in xi]
    n = len(xi)
    at = list(range(n))
    if indexing == "xy" and n > 1:
        at[:2] = [1, 0]
    out = [
        movement.reshape(x, tuple(shape_of(x)[0] if at[k] == j else 1 for j in range(n)))
        for k, x in enumerate(xi)
    ]
    return tuple(out) if sparse else broadcast_arrays(*out)


@function("linspace")
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    start, stop, num = asarray(start), asarray(stop), integer(num)
    kind = np.result_type(dtype_of(start), dtype_of(stop), float(num))
    start, stop = cast(start, kind), cast(stop, kind)
    parts = num - 1 if endpoint else num
    shape = broadcast_shape(start, stop)
    k = np.arange(num, dtype=kind).reshape((num,) + (1,) * len(shape))
    step = e.div(e.sub(stop, start), parts) if parts > 0 else cast(np.nan, kind)
    out = e.add(start, e.mul(k, step if parts > 0 else 0.0))
    if endpoint and num > 1:
        last = np.arange(num).reshape(k.shape) == num - 1  # NumPy sets the last one exactly
        out = e.select(last, stop, out)
    if axis != 0:
        out = moveaxis(out, 0, axis)
    if dtype is not None:
        out = cast(e.floor(out) if np.dtype(dtype).kind in "iu" else out, dtype)
    return (out, step) if retstep else out


@function("logspace")
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    y = linspace(start, stop, num, endpoint, axis=axis)
    out = e.pow(operand(base), y)
    return out if dtype is None else cast(out, dtype)


@function("geomspace")
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    start, stop = asarray(start), asarray(stop)
    sign = e.sign(start)
    y = linspace(e.log10(e.mul(start, sign)), e.log10(e.mul(stop, sign)), num, endpoint, axis=0)
    out = e.mul(sign, e.pow(10.0, y))
    out = moveaxis(out, 0, axis) if axis != 0 else out
    return out if dtype is None else cast(out, dtype)


# What depends on the type alone


@function("shape")
def shape(a):
    return shape_of(asarray(a))


@function("ndim")
def ndim(a):
    return len(shape_of(asarray(a)))


@function("size")
def size(a, axis=None):
    a = asarray(a)
    return size_of(a) if axis is None else math.prod(shape_of(a)[k] for k in axes_of(axis, len(shape_of(a))))


@function("result_type")
def result_type(*arrays_and_dtypes):
    from rune.numpy.arguments import weak_kind

    return np.result_type(*(weak_kind(x) if isinstance(x, Value) else x for x in arrays_and_dtypes))


@function("can_cast")
def can_cast(from_, to, casting="safe"):
    return np.can_cast(dtype_of(from_) if isinstance(from_, Value) else from_, to, casting)


@function("min_scalar_type")
def min_scalar_type(a):
    raise TypeError("numpy.min_scalar_type: the dtype would depend on traced values")


@function("common_type")
def common_type(*arrays):
    return np.common_type(*(np.zeros((), dtype_of(asarray(a))) for a in arrays))


@function("shares_memory", "may_share_memory")
def shares_memory(a, b, max_work=None):
    return a is b


@attribute("device")
def device(a):
    return "cpu"


@method("to_device")
def to_device(a, device, *, stream=None):
    if device != "cpu":
        raise ValueError(f"Unsupported device for NumPy: {device!r}")
    return a


@method("__array_namespace__")
def array_namespace(a, *, api_version=None):
    return np


@function("lib.stride_tricks.sliding_window_view", view=True, read_only=True)
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    x = asarray(x)
    window = shape_to(window_shape)
    n = len(shape_of(x))
    axes = axes_of(axis, n) if axis is None else tuple(axis_of(k, n) for k in shape_to(axis))
    if len(window) != len(axes):
        raise ValueError("Must provide matching length window_shape and axis")
    for w, k in zip(window, axes, strict=True):
        if w < 0:
            raise ValueError("`window_shape` cannot contain negative values")
        m = shape_of(x)[k] - w + 1
        if m < 1:
            raise ValueError("window shape cannot be larger than input array shape")
        rows = np.arange(m)[:, None] + np.arange(w)
        front = movement.permute(x, (k, *(j for j in range(len(shape_of(x))) if j != k)))
        out = gather(front, [rows])
        total = len(shape_of(out))
        x = movement.permute(out, (*range(2, k + 2), 0, *range(k + 2, total), 1))
    return x
