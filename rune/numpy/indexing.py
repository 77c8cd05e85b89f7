"""Indexing: reading and writing with every index NumPy accepts.

An index is resolved once, axis by axis, into slices, new axes and integer arrays.  Slices are moves;
what integer arrays index is moved to the front, gathered or scattered, and moved back to where NumPy
puts it.  Constant masks become integer arrays.  A mask that is not known is a selection
(`rune.numpy.selection`), since a shape may not depend on values.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import warnings
from typing import Any

import numpy as np

from rune.level import TracedValueError, Value
from rune.numpy.arguments import asarray, dtype_of, holds_value, operand, shape_of
from rune.numpy.selection import Selection
from rune.primitives import movement
from rune.primitives.indexing import gather, scatter
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.value import tables

__all__ = ["assigned", "getitem", "is_mask", "masked", "place", "resolve", "setitem"]

NEW = object()  # a new axis


@dataclasses.dataclass
class Resolved:
    """An index over an array: per axis a (start, stop, step) or an integer array; and new axes.

    `entries` follows the index: NEW, or the number of an axis.  A scalar mask indexes an axis of length 1
    that `shape` has where it stands.
    """

    shape: tuple[int, ...]
    spans: dict[int, tuple[int, int, int]]
    single: set[int]  # axes indexed by an int, when no array indexes another
    arrays: dict[int, Any]
    entries: list

    @property
    def seen(self) -> tuple[int, ...]:
        """The shape of what an index without arrays shows."""
        kept = [k for k in self.entries if k is NEW or k not in self.single]
        return tuple(1 if k is NEW else length(self.spans[k]) for k in kept)


def basic(index: Any) -> bool:
    """Whether an index makes a view: ints, slices, new axes and an ellipsis (an array of no axis copies)."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        p is None or p is Ellipsis or (isinstance(p, (slice, int, np.integer)) and not isinstance(p, bool))
        for p in parts
    )


def converted(part: Any) -> Any:
    """One part of an index: None, Ellipsis, a slice, an int, or an array or value."""
    if part is None or part is Ellipsis or isinstance(part, (slice, Value)):
        return part
    if isinstance(part, (bool, np.bool_)):
        return np.asarray(part)
    if isinstance(part, (int, np.integer)):
        return int(part)
    if isinstance(part, (list, tuple, np.ndarray)):
        listed = not isinstance(part, np.ndarray)
        part = asarray(part) if holds_value(part) else np.asarray(part)
        if not isinstance(part, Value):
            if part.size == 0 and listed:
                part = part.astype(np.intp)  # x[[]]
            if part.ndim == 0 and part.dtype.kind in "iu":
                return int(part)
        return part
    if hasattr(part, "__index__"):
        return operator.index(part)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
    )


def parts_of(index: Any) -> list:
    return [converted(p) for p in (index if isinstance(index, tuple) else (index,))]


def resolve(shape: tuple[int, ...], index: Any) -> Resolved:
    parts = parts_of(index)
    takes = lambda p: 0 if p is None or p is Ellipsis else (len(shape_of(p)) if is_mask(p) else 1)
    used = sum(map(takes, parts))
    if used > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed"
        )
    free = len(shape) - used
    dots = sum(p is Ellipsis for p in parts)
    if dots > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not dots:
        parts.append(Ellipsis)
    r = Resolved(shape, {}, set(), {}, [])
    advanced = any(not (p is None or p is Ellipsis or isinstance(p, (slice, int))) for p in parts)
    axis = 0
    for p in parts:
        if p is Ellipsis:
            for _ in range(free):
                r.spans[axis] = (0, shape[axis], 1)
                r.entries.append(axis)
                axis += 1
        elif p is None:
            r.entries.append(NEW)
        elif isinstance(p, slice):
            r.spans[axis] = p.indices(shape[axis])
            r.entries.append(axis)
            axis += 1
        elif isinstance(p, int):
            n = shape[axis]
            if not -n <= p < n:
                raise IndexError(f"index {p} is out of bounds for axis {axis} with size {n}")
            p %= n
            r.entries.append(axis)
            if advanced:
                r.arrays[axis] = np.asarray(p)
            else:
                r.spans[axis] = (p, p + 1, 1)
                r.single.add(axis)
            axis += 1
        elif is_mask(p):
            found = mask_indices(p, shape, axis, r)
            shape = r.shape
            for i in found:
                r.arrays[axis] = i
                r.entries.append(axis)
                axis += 1
        else:
            if dtype_of(p).kind not in "iu":
                raise IndexError("arrays used as indices must be of integer (or boolean) type")
            r.arrays[axis] = p
            r.entries.append(axis)
            axis += 1
    return r


def is_mask(p: Any) -> bool:
    return isinstance(p, (np.ndarray, Value)) and dtype_of(p).kind == "b"


def mask_indices(mask: Any, shape: tuple[int, ...], axis: int, r: Resolved) -> tuple:
    if isinstance(mask, Value):
        raise TracedValueError(
            f"boolean index: the value is traced by {mask.level.name}; a shape would depend on values: write np.where(mask, x, 0)"
        )
    if mask.ndim == 0:
        r.shape = (*shape[:axis], 1, *shape[axis:])
        return np.nonzero(mask[None])
    for k, n in enumerate(mask.shape):
        if n != shape[axis + k]:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + k}; size of axis is {shape[axis + k]} "
                f"but size of corresponding boolean axis is {n}"
            )
    return np.nonzero(mask)


# Slices


def forward(span: tuple[int, int, int]) -> tuple[int, int, int]:
    """The same places from the lowest up."""
    start, stop, step = span
    n = len(range(start, stop, step))
    if n == 0:
        return (0, 0, 1)
    if step < 0:
        return (start + (n - 1) * step, start + 1, -step)
    return (start, start + (n - 1) * step + 1, step)


def sliced(x: Any, r: Resolved) -> Any:
    """`x` with its slices taken; every axis stays."""
    return movement.flip(movement.slice_(x, *slices(r)), backward(r))


def slices(r: Resolved) -> tuple:
    """The starts, stops and steps of its slices, from the lowest place up."""
    spans = [forward(r.spans[k]) if k in r.spans else (0, n, 1) for k, n in enumerate(r.shape)]
    return tuple(zip(*spans, strict=True)) if spans else ((), (), ())


def backward(r: Resolved) -> tuple[int, ...]:
    return tuple(k for k, span in sorted(r.spans.items()) if span[2] < 0)


@functools.lru_cache(maxsize=1 << 12)
def cut(shape: tuple[int, ...], key: tuple) -> tuple:
    """The slices that a basic index takes, the axes it flips then, and the shape of what it shows."""
    r = resolve(shape, tuple(slice(*p) if isinstance(p, tuple) else p for p in key))
    return *slices(r), backward(r), r.seen


def basic_key(parts: list) -> tuple | None:
    """The parts of an index that makes a view, hashable: a slice is a tuple."""
    key = []
    for p in parts:
        if isinstance(p, slice):
            p = tuple([k if k is None else operator.index(k) for k in (p.start, p.stop, p.step)])
        elif not (p is None or p is Ellipsis or isinstance(p, int)):
            return None
        key.append(p)
    return tuple(key)


def length(span: tuple[int, int, int]) -> int:
    return len(range(*span))


# Where integer arrays index


@dataclasses.dataclass
class Placed:
    """How an array with its slices taken is permuted so that its indexed axes lead; and the result's shape."""

    indices: list  # integer arrays of one shape K
    order: tuple[int, ...]  # the indexed axes, then the others
    at: int  # where the axes K stand among the result's
    rest: tuple[int, ...]  # the result's other axes, new ones too


def place(r: Resolved) -> Placed:
    axes = sorted(r.arrays)
    # The index arrays lead unless they stand next to each other; new axes and slices part them.
    spots = [k for k, entry in enumerate(r.entries) if entry is not NEW and entry in r.arrays]
    adjacent = spots == list(range(spots[0], spots[-1] + 1))
    others = [k for k in range(len(r.shape)) if k not in r.arrays]
    rest = tuple(
        1 if entry is NEW else length(r.spans[entry])
        for entry in r.entries
        if entry is NEW or entry not in r.arrays
    )
    arrays = [r.arrays[k] for k in axes]
    try:
        K = np.broadcast_shapes(*map(shape_of, arrays))
    except ValueError:
        shapes = " ".join(str(shape_of(a)).replace(" ", "") for a in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None
    indices = [movement.broadcast(cast(a, np.int64), K) for a in arrays]
    return Placed(indices, (*axes, *others), spots[0] if adjacent else 0, rest)


def getitem(x: Any, index: Any) -> Any:
    if (
        not isinstance(x, Value)
        and not holds_value(index)
        and not (isinstance(index, tuple) and any(map(holds_value, index)))
    ):
        return x[index]
    mask = mask_of(x, index)
    if mask is not None:
        return Selection.of(x, mask)
    parts = parts_of(index)
    key = basic_key(parts)
    if key is not None:
        *spans, flipped, seen = cut(shape_of(x), key)
        return movement.reshape(movement.flip(movement.slice_(x, *spans), flipped), seen)
    r = resolve(shape_of(x), tuple(parts))
    x = sliced(movement.reshape(x, r.shape), r)
    p = place(r)
    K = shape_of(p.indices[0])
    out = gather(movement.permute(x, p.order), p.indices)
    out = movement.reshape(out, K + p.rest)
    if p.at:
        n, m = len(K), len(K) + len(p.rest)
        out = movement.permute(out, (*range(n, n + p.at), *range(n), *range(n + p.at, m)))
    return out


def mask_of(x: Any, index: Any) -> Any:
    """The traced mask over all of `x` or its leading axes that an index is, where it is one."""
    parts = index if isinstance(index, tuple) else (index,)
    parts = [p for p in parts if p is not Ellipsis]
    if len(parts) != 1 or not isinstance(parts[0], Value) or not is_mask(parts[0]):
        return None
    mask = parts[0]
    shape = shape_of(mask)
    if (
        index is not mask
        and isinstance(index, tuple)
        and index[0] is Ellipsis
        and len(shape) != len(shape_of(x))
    ):
        return None
    if shape != shape_of(x)[: len(shape)]:
        raise IndexError(
            f"boolean index did not match indexed array: its shape is {shape}, the array's {shape_of(x)}"
        )
    return mask


# Writing


def assigned(v: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """`v` as NumPy stores it into a place of that dtype and shape."""
    v = operand(v)
    if dtype_of(v).kind == "c" and dtype.kind != "c":
        if not shape_of(v) and not isinstance(v, np.ndarray):
            raise TypeError(f"float() argument must be a string or a real number, not '{dtype_of(v).name}'")
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=5,
        )
        v = e.real(v)
    given = shape_of(v)
    extra = len(given) - len(shape)
    if extra > 0 and given[:extra] == (1,) * extra:
        v = movement.reshape(v, given[extra:])
    fits = len(shape_of(v)) <= len(shape) and all(
        m in (1, n) for m, n in zip(shape_of(v)[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"could not broadcast input array from shape {str(given).replace(' ', '')} into shape {str(shape).replace(' ', '')}"
        )
    return movement.broadcast(cast(v, dtype), shape)


def setitem(target: Any, index: Any, v: Any) -> Any:
    """What `target` holds after `target[index] = v`."""
    shape = shape_of(target)
    mask = mask_of(target, index)
    if mask is not None:
        return masked(target, mask, v)
    if isinstance(v, Selection):
        raise v.refused("stored under another index")
    r = resolve(shape, index)
    return movement.reshape(stored(movement.reshape(target, r.shape), r, v), shape)


def stored(target: Any, r: Resolved, v: Any) -> Any:
    """`target` with `v` in the places of a resolved index."""
    shape, dtype = r.shape, dtype_of(target)
    if not r.arrays:
        region = tuple(length(r.spans[k]) for k in range(len(shape)))
        v = movement.reshape(assigned(v, dtype, r.seen), region)
        return into(target, movement.flip(v, backward(r)), r)
    p = place(r)
    K = shape_of(p.indices[0])
    seen = p.rest[: p.at] + K + p.rest[p.at :]
    v = assigned(v, dtype, seen)
    if p.at:
        m = len(seen)
        v = movement.permute(v, (*range(p.at, p.at + len(K)), *range(p.at), *range(p.at + len(K), m)))
    block = sliced(target, r)
    front = movement.permute(block, p.order)
    kept = shape_of(front)[len(p.indices) :]
    if math.prod(K) == 0 or math.prod(kept) == 0:
        return target
    front = scatter("set", front, p.indices, movement.reshape(v, K + kept))
    block = movement.permute(front, tuple(int(k) for k in np.argsort(p.order)))
    return into(target, movement.flip(block, backward(r)), r)


def into(target: Any, block: Any, r: Resolved) -> Any:
    """`target` with its slices replaced by `block`, in ascending order."""
    if shape_of(block) == r.shape:
        return whole(target, block)
    if math.prod(shape_of(block)) == 0:
        return target
    starts, _, steps = slices(r)
    return movement.update(target, block, starts, steps)


def whole(target: Any, new: Any) -> Any:
    """`new` in the place of all of `target`: a value of the target's level, or of one inside it."""
    return new if isinstance(new, Value) and new.level.depth >= target.level.depth else target.level.lift(new)


def masked(target: Any, mask: Any, v: Any) -> Any:
    """`target` with `target[mask] = v` for a mask that is not known: a choice, where v has one size."""
    shape = shape_of(target)
    rest = shape[len(shape_of(mask)) :]
    wide = movement.reshape(mask, shape_of(mask) + (1,) * len(rest))
    if isinstance(v, Selection):
        v.belongs(mask)
        return e.select(wide, cast(v.whole, dtype_of(target)), target)
    v = operand(v)
    lead = shape_of(v)[: max(len(shape_of(v)) - len(rest), 0)]
    if lead not in ((), (1,)):
        raise TracedValueError(
            f"boolean index: the value is traced by {mask.level.name}; how many places it chooses is not known: "
            f"write np.where(mask, v, x) with v of the array's shape"
        )
    v = assigned(movement.reshape(v, shape_of(v)[len(lead) :]), dtype_of(target), rest)
    return e.select(wide, v, target)


def scatter_flat(target: Any, positions: np.ndarray, index: Any, v: Any) -> Any:
    """`target` with what a view of it shows at `index` replaced; `positions` are the view's places."""
    flat = movement.reshape(target, (math.prod(shape_of(target)),))
    chosen = [index] if not isinstance(index, tuple) else list(index)
    if any(isinstance(i, Value) and is_mask(i) for i in chosen):
        new = setitem(gather(flat, [positions], checked=True), index, v)
        places = positions
    elif any(holds_value(i) for i in chosen):
        places = getitem(positions, index)
        new = assigned(v, dtype_of(target), shape_of(places))
    else:
        places = np.asarray(positions[index])
        new = assigned(v, dtype_of(target), places.shape)
    if math.prod(shape_of(places)) == 0:
        return target
    grid = None if isinstance(places, Value) else region(places, shape_of(target))
    if grid is not None:
        starts, steps, order, shape, reversed_ = grid
        new = movement.flip(movement.reshape(movement.permute(new, order), shape), reversed_)
        if shape == shape_of(target):
            return whole(target, new)
        return movement.update(target, new, starts, steps)
    flat = scatter("set", flat, [places], new, checked=True)
    return movement.reshape(flat, shape_of(target))


def region(places: np.ndarray, shape: tuple[int, ...]) -> tuple | None:
    """The slices of an array of that shape that hold flat `places`, where slices do.

    Gives starts, steps, the order of the axes of `places` by the axes they run along, the slices' shape,
    and the axes they run along backwards.
    """
    coordinates = np.unravel_index(places, shape)
    starts, steps, region_shape, order, backwards = [], [], [], [], []
    for axis, c in enumerate(coordinates):
        first = c[(0,) * c.ndim]
        along = [
            k
            for k, n in enumerate(c.shape)
            if n > 1 and c[(0,) * k + (1,) + (0,) * (c.ndim - k - 1)] != first
        ]
        if len(along) > 1 or any(k in order for k in along):
            return None
        n, step = 1, 1
        expected = first
        if along:
            (k,) = along
            n = c.shape[k]
            step = int(c[(0,) * k + (1,) + (0,) * (c.ndim - k - 1)] - first)
            expected = first + step * np.arange(n).reshape([-1 if j == k else 1 for j in range(c.ndim)])
            order.append(k)
        if not np.array_equal(c, np.broadcast_to(expected, c.shape)):
            return None
        if step < 0:
            backwards.append(axis)
        starts.append(int(first + min(step, 0) * (n - 1)))
        steps.append(abs(step))
        region_shape.append(n)
    if math.prod(region_shape) != places.size:
        return None  # a place stands twice
    rest = [k for k in range(places.ndim) if k not in order]
    return tuple(starts), tuple(steps), (*rest, *order), tuple(region_shape), tuple(backwards)


tables.getitem = getitem
tables.basic = basic
tables.setitem = setitem
tables.scatter_flat = scatter_flat
