"""The methods of ufuncs: reduce, accumulate, outer, at, reduceat.

A ufunc whose reduction is a primitive (add, multiply, maximum, minimum, and, or) uses it.  Others
are folded: associative ones in halves, so that n elements take log n operations on arrays, the rest
from first to last, as NumPy does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import TracedValueError, Value
from rune.numpy.arguments import asarray, axes_of, axis_of, common, dtype_of, lifted, operand, shape_of
from rune.numpy.indexing import assigned, getitem, is_mask, place, resolve, setitem
from rune.numpy.reductions import MISSING, keep, nan_extreme, reduced, running
from rune.numpy.shapes import moveaxis, take_axis
from rune.primitives import movement
from rune.primitives.indexing import scatter
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.value import tables

__all__ = ["accumulate", "at", "outer", "reduce", "reduceat"]

DIRECT = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min", np.logical_and: "all", np.logical_or: "any",
}  # fmt: skip
IDENTITY = {
    np.bitwise_or: 0, np.bitwise_xor: 0, np.bitwise_and: -1, np.logical_xor: False, np.gcd: 0, np.hypot: 0,
    np.logaddexp: -np.inf, np.logaddexp2: -np.inf,
}  # fmt: skip
ASSOCIATIVE = {*DIRECT, *IDENTITY, np.fmax, np.fmin, np.lcm}


def binary(ufunc: np.ufunc) -> Callable:
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ValueError("reduce, accumulate and outer are only supported for binary functions")
    return tables.ufuncs[ufunc]


def reduce(ufunc, array, axis=0, dtype=None, keepdims=False, initial=MISSING, where=True):
    f, a = binary(ufunc), asarray(array)
    axes = axes_of(axis, len(shape_of(a)), scalars=True)
    if ufunc in DIRECT:
        return reduced(DIRECT[ufunc], a, axes, keepdims, where, initial, dtype)
    a = cast(a, loop_dtype(ufunc, a, dtype))
    if ufunc in (np.fmax, np.fmin):
        return nan_extreme("max" if ufunc is np.fmax else "min", a, axes, keepdims, initial, where)
    if ufunc in (np.logaddexp, np.logaddexp2):
        return log_sum(ufunc, a, axes, keepdims, initial, where)
    start = None if initial is MISSING or initial is None else cast(operand(initial), dtype_of(a))
    if where is not True:
        if ufunc not in IDENTITY and start is None:
            raise ValueError(
                f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask one has to specify 'initial'"
            )
        if start is None:
            start = identity(ufunc, dtype_of(a))  # hypot and gcd of one number give its size
        where = cast(operand(where), bool)
        shape = np.broadcast_shapes(shape_of(a), shape_of(where))
        where = movement.broadcast(where, shape)
        a = movement.broadcast(a, shape)
    shape = shape_of(a)
    if ufunc not in ASSOCIATIVE:
        if len(axes) > 1:
            raise ValueError(
                f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified"
            )
        return keep(in_order(ufunc, f, a, axes, start, where), shape, axes, keepdims)
    if where is not True:
        a = e.select(where, a, identity(ufunc, dtype_of(a)) if ufunc in IDENTITY else start)
    for k in sorted(axes, reverse=True):
        a = folded(ufunc, f, a, k, start)
    if start is not None:
        a = f(start, a)
    return keep(a, shape, axes, keepdims)


def loop_dtype(ufunc: np.ufunc, a: Any, dtype: Any) -> np.dtype:
    """The dtype in which NumPy reduces `a`."""
    signature = (None if dtype is None else np.dtype(dtype), None, None)
    given = (None, dtype_of(a), None)
    return ufunc.resolve_dtypes(given, signature=signature, casting="unsafe", reduction=True)[0]


def identity(ufunc: np.ufunc, dtype: np.dtype) -> Any:
    return np.asarray(IDENTITY[ufunc]).astype(dtype)[()]


def in_order(ufunc: np.ufunc, f: Callable, a: Any, axes: tuple, start: Any, where: Any) -> Any:
    """`a` folded from first to last along its one axis (or none), after `start` where there is one."""
    if not axes:
        new = a if start is None else f(start, a)
        return new if where is True else e.select(where, new, start)
    (axis,) = axes
    rest = shape_of(a)[:axis] + shape_of(a)[axis + 1 :]
    total = None if start is None else movement.broadcast(start, rest)
    for k in range(shape_of(a)[axis]):
        x = take_axis(a, axis, k)
        new = x if total is None else cast(f(total, x), dtype_of(a))
        total = new if where is True else e.select(take_axis(where, axis, k), new, total)
    if total is None:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    return total


def folded(ufunc: np.ufunc, f: Callable, a: Any, axis: int, start: Any) -> Any:
    """`a` folded along one axis, which goes."""
    n = shape_of(a)[axis]
    if n == 0:
        if ufunc not in IDENTITY and start is None:
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        rest = shape_of(a)[:axis] + shape_of(a)[axis + 1 :]
        return movement.full(rest, identity(ufunc, dtype_of(a)) if ufunc in IDENTITY else start)
    while n > 1:
        half = n // 2
        joined = f(movement.part(a, axis, 0, half), movement.part(a, axis, half, 2 * half))
        a = movement.concatenate([joined, movement.part(a, axis, n - 1, n)], axis) if n % 2 else joined
        n = shape_of(a)[axis]
    return take_axis(a, axis, 0)


def log_sum(ufunc: np.ufunc, a: Any, axes: tuple, keepdims: Any, initial: Any, where: Any) -> Any:
    """log sum exp: the largest taken out first, so that nothing overflows."""
    exp, log = (e.exp, e.log) if ufunc is np.logaddexp else (e.exp2, e.log2)
    a = cast(a, np.result_type(dtype_of(a), np.float16))
    low = dtype_of(a).type(-np.inf)
    if where is not True:
        a = e.select(cast(operand(where), bool), a, low)
    shape = shape_of(a)
    axes = tuple(sorted(axes))
    top = reduced("max", a, axes, True, initial=low)
    top = e.select(e.isfinite(top), top, cast(0, dtype_of(a)))
    total = reduced("sum", exp(e.sub(a, top)), axes, True)
    out = e.add(log(total), top)
    if initial is not MISSING and initial is not None:
        out = tables.ufuncs[ufunc](out, operand(initial))
    kept = tuple(n for k, n in enumerate(shape) if k not in axes)
    return keep(movement.reshape(out, kept), shape, axes, keepdims)


def accumulate(ufunc, array, axis=0, dtype=None):
    f, a = binary(ufunc), asarray(array)
    if axis is None:
        raise ValueError("accumulate does not allow multiple axes")
    if not shape_of(a):
        axis_of(axis, 1)
        raise TypeError("cannot accumulate on a scalar")
    axis = axis_of(axis, len(shape_of(a)))
    if ufunc in (np.add, np.multiply):
        return running(DIRECT[ufunc], a, axis, dtype)
    if ufunc in (np.maximum, np.minimum):
        return running(DIRECT[ufunc], a, axis, dtype_of(a) if dtype is None else dtype)
    a = cast(a, loop_dtype(ufunc, a, dtype))
    n = shape_of(a)[axis]
    if ufunc in ASSOCIATIVE:
        # Doubling: after k rounds every element holds the fold of 2^k elements up to it.
        by = 1
        while by < n:
            tail = f(movement.part(a, axis, 0, n - by), movement.part(a, axis, by, n))
            a = movement.concatenate([cast(movement.part(a, axis, 0, by), dtype_of(tail)), tail], axis)
            by *= 2
        return a
    parts = [movement.part(a, axis, 0, 1)] if n else []
    for k in range(1, n):
        parts.append(f(parts[-1], movement.part(a, axis, k, k + 1)))
    return movement.concatenate([cast(p, dtype_of(parts[-1])) for p in parts], axis) if n else a


def outer(ufunc, a, b, **keywords):
    if ufunc.nin != 2:
        raise ValueError("outer product only supported for binary functions")
    f = tables.ufuncs[ufunc]
    a, b = (x[()] if isinstance(x, np.ndarray) else x for x in map(asarray, (a, b)))
    if shape_of(b):
        a = movement.reshape(a, shape_of(a) + (1,) * len(shape_of(b)))
    return f(a, b, **keywords)


def reduceat(ufunc, array, indices, axis=0, dtype=None):
    a = asarray(array)
    if isinstance(indices, Value):
        raise TracedValueError(
            f"reduceat: the value is traced by {indices.level.name}; its segments would depend on values: use np.add.at"
        )
    if not shape_of(a):
        raise TypeError("cannot reduceat on a scalar")
    axis = axis_of(axis, len(shape_of(a)))
    cuts = [*np.asarray(indices).tolist(), shape_of(a)[axis]]
    for start in cuts[:-1]:
        if not 0 <= start < cuts[-1]:
            raise IndexError(f"index {start} out-of-bounds in {ufunc.__name__}.reduceat [0, {cuts[-1]})")
    rows = []
    for start, stop in itertools.pairwise(cuts):
        part = movement.part(a, axis, start, max(stop, start + 1))
        rows.append(reduce(ufunc, part, axis, dtype, True))
    if not rows:
        kind = dtype_of(reduce(ufunc, np.ones(1, dtype_of(a)), 0, dtype))
        return lifted(a, np.zeros([n if k != axis else 0 for k, n in enumerate(shape_of(a))], kind))
    return movement.concatenate(rows, axis)


def at(ufunc, target, index, operand_=None):
    """What `target` holds after `ufunc.at(target, index, operand_)`."""
    r = resolve(shape_of(target), index) if not traced_mask(index) else None
    if ufunc in (np.add, np.subtract) and r is not None and r.arrays and dtype_of(target).kind != "b":
        return added(ufunc, target, index, operand_)
    if r is None:  # what a mask selects, each place once
        return setitem(target, index, ufunc(getitem(target, index), *(() if ufunc.nin == 1 else (operand_,))))
    f = tables.ufuncs[ufunc]
    if ufunc.nin == 1:
        return setitem(target, index, f(getitem(target, index)))
    positions = np.arange(math.prod(shape_of(target))).reshape(shape_of(target))
    if not r.arrays:
        return setitem(target, index, cast(f(getitem(target, index), operand(operand_)), dtype_of(target)))
    if any(isinstance(i, Value) for i in r.arrays.values()):
        raise TracedValueError(
            f"numpy.{ufunc.__name__}.at: a traced index may repeat, and only np.add.at and np.subtract.at add up repetitions here"
        )
    places = np.asarray(positions[index])
    v = movement.broadcast(asarray(operand_), places.shape)
    return in_rounds(f, target, places.ravel(), movement.reshape(v, (places.size,)))


def traced_mask(index: Any) -> bool:
    return any(isinstance(p, Value) and is_mask(p) for p in (index if isinstance(index, tuple) else (index,)))


def in_rounds(f: Callable, target: Any, places: np.ndarray, v: Any) -> Any:
    """Repeated places one after another: round k applies the k-th operand of every place."""
    flat = movement.reshape(target, (math.prod(shape_of(target)),))
    order = np.argsort(places, kind="stable")
    ranks = np.empty(places.size, int)
    starts = np.r_[0, np.flatnonzero(np.diff(places[order])) + 1] if places.size else np.zeros(0, int)
    ranks[order] = np.arange(places.size) - np.repeat(starts, np.diff(np.r_[starts, places.size]))
    for k in range(ranks.max(initial=-1) + 1):
        chosen = np.flatnonzero(ranks == k)
        here = places[chosen]
        new = f(getitem(flat, here), getitem(v, chosen))
        flat = scatter("set", flat, [here], cast(new, dtype_of(target)))
    return movement.reshape(flat, shape_of(target))


def added(ufunc: np.ufunc, target: Any, index: Any, v: Any) -> Any:
    """`target` with `v` added or subtracted at an index with integer arrays, repetitions and all."""
    given, dtype = shape_of(target), dtype_of(target)
    r = resolve(given, index)
    shape, target = r.shape, movement.reshape(target, r.shape)
    plain_index = not any(isinstance(i, Value) for i in r.arrays.values())
    whole = all(r.spans[k] == (0, shape[k], 1) for k in range(len(shape)) if k not in r.arrays)
    p = place(r)
    K = shape_of(p.indices[0])
    v = operand(v)
    loop = common(target, v)
    if not np.can_cast(loop, dtype, "same_kind"):
        raise TypeError(
            f"Cannot cast ufunc '{ufunc.__name__}' output from {loop!r} to {dtype!r} with casting rule 'same_kind'"
        )
    v = cast(v, dtype) if ufunc is np.add else e.neg(cast(v, dtype))
    v = assigned(v, dtype, p.rest[: p.at] + K + p.rest[p.at :])
    if math.prod(shape_of(v)) == 0:
        return movement.reshape(target, given)
    if not whole and not plain_index:
        raise TracedValueError(
            f"numpy.{ufunc.__name__}.at: a traced index beside a slice is not supported: write into the sliced array"
        )
    if not whole:
        positions = np.arange(math.prod(given)).reshape(given)[index]
        flat = movement.reshape(target, (math.prod(given),))
        return movement.reshape(scatter("add", flat, [positions], v), given)
    if p.at:
        v = moveaxis(v, tuple(range(p.at, p.at + len(K))), tuple(range(len(K))))
    front = movement.permute(target, p.order)
    front = scatter("add", front, p.indices, movement.reshape(v, K + shape_of(front)[len(p.indices) :]))
    return movement.reshape(movement.permute(front, tuple(int(k) for k in np.argsort(p.order))), given)


tables.ufunc_methods |= {
    "reduce": reduce,
    "accumulate": accumulate,
    "outer": outer,
    "at": at,
    "reduceat": reduceat,
}
