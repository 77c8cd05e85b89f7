"""Gather and scatter: reading and writing at integer arrays.

`gather(x, indices)` reads `x[i0, i1, ...]`: n integer arrays of one shape K index the first n axes,
and the result has shape K + x.shape[n:].  `scatter` writes there.  Both are linear in the arrays and
closed under batching (lanes are one more index).  The transpose of a gather adds into one
accumulator in place.

An index that depends on arguments may be out of range: such a gather may fail.  Its tangent and
transpose read the same indices, found right by then, so `checked` operations have no effect.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from rune.level import Value, bind
from rune.native import nest
from rune.primitives import movement
from rune.primitives.effects import located
from rune.primitives.primitive import Into, Linear, Primitive, Unknown, instantiated, where_taken, zeros
from rune.primitives.scalar import e
from rune.program import Type, type_of

__all__ = ["argsort", "gather", "scatter", "take_along"]


class Indexed(Linear):
    """What is read or written at index arrays.

    Maps add to both: `counters` of the index arrays, the first, count lanes, and the first axes of K are
    lanes, `lanes` of them.
    """

    def effect(self, params):
        return None if params["checked"] else "fail"

    def recomputable(self, e):
        return True  # `again` drops the effect: the primal pass has checked the indices

    def again(self, params):
        return {**params, "checked": True}

    def mapped(self, params, size, counters=0):
        return {**params, "counters": params["counters"] + counters, "lanes": (size, *params["lanes"])}

    def fails(self, e):
        """How a form says that it fails: the error of an index out of range, and the lane at a position of K."""
        shape, lanes = e.inputs[0].type.shape, e.params["lanes"]

        def error(axis, value, lane, steps):
            return out_of_range(value, axis - e.params["counters"], shape[axis], lane, lanes, steps)

        return {"error": error if e.effect else None}, lambda k: flat(k[: len(lanes)], lanes)


class Gather(Indexed):
    name = "Gather"

    def harmless(self, args, taken):
        return [args[0], *(where_taken(taken, i, np.int64(0)) for i in args[1:])]

    def type(self, types, params):
        x, *indices = types
        return [Type(x.dtype, indices[0].shape + x.shape[len(indices) :])]

    def evaluate(self, args, params):
        x, *indices = args
        x = np.asarray(x)
        return [at_indices(lambda indices: x[indices], x.shape, indices, params)]

    def jvp(self, primals, tangents, params):
        outs = bind(self, primals, params)
        if tangents[0] is None:
            return outs, [None]
        return outs, bind(self, [tangents[0], *primals[1:]], self.again(params))

    def transpose(self, cts, args, params):
        (ct,), (x, *indices) = cts, args
        add = {**UNMAPPED, "op": "add", "checked": True}
        return [Into(x.type, scatter_, [ct, *indices], add), *(None for _ in indices)]

    def batch(self, size, args, mapped, params):
        x, *indices = args
        if not mapped[0]:
            # The lanes of the indices are axes of K; unmapped indices broadcast to them.
            indices = movement.all_in_lanes(indices, mapped[1:], size)
            return bind(self, [x, *indices], self.mapped(params, size)), [True]
        if not any(mapped[1:]):
            t = type_of(indices[0])
            moved = movement.permute(x, lanes_behind(type_of(x).ndim, len(indices)))
            (out,) = bind(self, [moved, *indices], params)
            order = (t.ndim, *(k for k in range(type_of(out).ndim) if k != t.ndim))
            return [movement.permute(out, order)], [True]
        indices = movement.all_in_lanes(indices, mapped[1:], size)
        lanes = lane_counter(size, type_of(indices[0]).shape)
        return bind(self, [x, lanes, *indices], self.mapped(params, size, 1)), [True]

    def lower(self, e):
        shape = e.inputs[0].type.shape
        n = len(e.inputs) - 1
        rank = e.inputs[1].type.ndim
        error, lane = self.fails(e)

        def at(read, i):
            k = i[:rank]
            index = tuple(read.bounded(read(1 + a, k), shape[a], a, lane(k)) for a in range(n))
            return read(0, (*index, *i[rank:]))

        return [nest.Index(e.outputs, e.inputs, at, **error)]


def lanes_behind(ndim: int, n: int) -> tuple[int, ...]:
    """The permutation that moves axis 0 behind the n axes that follow it."""
    return (*range(1, n + 1), 0, *range(n + 1, ndim))


def lane_counter(size: int, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.arange(size).reshape((size,) + (1,) * (len(shape) - 1)), shape)


class Scatter(Indexed):
    """inputs: target, updates, index arrays."""

    name = "Scatter"
    linear = (0, 1)

    def harmless(self, args, taken):
        return [*args[:2], *(where_taken(taken, i, np.int64(0)) for i in args[2:])]

    def type(self, types, params):
        return [types[0].strong()]

    def evaluate(self, args, params):
        return [self.written(np.array(args[0], copy=True), args[1:], params)]

    def written(self, out, args, params):
        """`out` itself, written to."""
        updates, *indices = args
        write = out.__setitem__ if params["op"] == "set" else functools.partial(np.add.at, out)
        at_indices(lambda indices: write(indices, updates), out.shape, indices, params)
        return out

    def jvp(self, primals, tangents, params):
        outs = bind(self, primals, params)
        if tangents[0] is None and tangents[1] is None:
            return outs, [None]
        pair = instantiated(tangents[:2], map(type_of, primals[:2]))
        return outs, bind(self, [*pair, *primals[2:]], self.again(params))

    def transpose(self, cts, args, params):
        (ct,), (target, updates, *indices) = cts, args
        to_target = to_updates = None
        if isinstance(updates, Unknown):  # read before it is written: a loop's cotangent is updated in place
            to_updates = gather(ct, indices, checked=True)
            if params["op"] == "set":
                to_updates = self.winners(to_updates, type_of(target), indices, params["counters"])
        if isinstance(target, Unknown):
            to_target = ct
            if params["op"] == "set":
                to_target = scatter("set", ct, indices, zeros(type_of(updates)), checked=True)
        return [to_target, to_updates, *(None for _ in indices)]

    def winners(self, ct, target, indices, lanes):
        """Where an index repeats, only the update that stayed has a derivative.

        The first `lanes` axes of the indices count lanes of maps: one place in each repeats nothing.
        """
        K = type_of(indices[0]).shape
        if math.prod(K[lanes:]) < 2:
            return ct
        own = np.arange(int(np.prod(K))).reshape(K)
        n = len(indices)
        if all(not isinstance(i, Value) for i in indices):
            flat = np.ravel_multi_index(
                [np.where(i < 0, i + m, i) for i, m in zip(indices, target.shape, strict=False)],
                target.shape[:n],
            )
            if np.unique(flat).size == flat.size:
                return ct
        board = np.full(target.shape[:n], -1)
        stayed = e.eq(gather(scatter("set", board, indices, own, checked=True), indices, checked=True), own)
        stayed = movement.reshape(stayed, K + (1,) * (type_of(ct).ndim - len(K)))
        return e.select(stayed, ct, np.zeros((), type_of(ct).dtype)[()])

    def batch(self, size, args, mapped, params):
        target, updates, *indices = movement.all_in_lanes(args, mapped, size)
        lanes = lane_counter(size, type_of(indices[0]).shape)
        return bind(self, [target, updates, lanes, *indices], self.mapped(params, size, 1)), [True]

    def lower(self, e):
        error, lane = self.fails(e)
        return [nest.Scatter(e.outputs, e.inputs, e.params["op"], **error, lane=lane)]

    def details(self, params):
        return params["op"]


class Argsort(Primitive):
    """The permutation that sorts the last axis, stably, NaN last."""

    name = "Argsort"
    recompute = False

    def type(self, types, params):
        return [Type(np.dtype(np.int64), types[0].shape)]

    def evaluate(self, args, params):
        return [np.argsort(args[0], axis=-1, kind="stable")]

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), [None]

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "argsort", {})]


def at_indices(f: Any, shape: tuple[int, ...], indices: list, params: dict) -> Any:
    """`f` of the indices.  Those checked before are out of range only in lanes that nothing reads, whose
    branch is not taken: they are clamped, as in native code."""
    try:
        return f(tuple(indices))
    except IndexError:
        if params["checked"]:
            return f(tuple(np.clip(i, -n, n - 1) for i, n in zip(indices, shape, strict=False)))
    outside = np.stack([(i < -n) | (i >= n) for i, n in zip(indices, shape, strict=False)], -1)
    *at, axis = np.unravel_index(int(np.argmax(outside)), outside.shape)
    lanes = params["lanes"]
    lane = flat([int(k) for k in at[: len(lanes)]], lanes)
    value = int(np.asarray(indices[axis])[tuple(at)])
    raise out_of_range(value, int(axis) - params["counters"], shape[axis], lane, lanes, ())


gather_, scatter_, argsort_ = Gather(), Scatter(), Argsort()
UNMAPPED: dict = {"counters": 0, "lanes": ()}


def in_range(indices: list, shape: tuple[int, ...]) -> bool:
    """Whether plain indices are known to be in range (a value's are not)."""
    for axis, (i, n) in enumerate(zip(indices, shape, strict=False)):
        if isinstance(i, Value):
            return False
        bad = (i < -n) | (i >= n)
        if np.count_nonzero(bad):  # np.any takes ten times as long
            worst = int(np.asarray(i)[bad].flat[0]) if np.ndim(i) else int(i)
            raise out_of_range(worst, axis, n)
    return True


def out_of_range(
    value: int, axis: int, size: int, lane: int = 0, lanes: tuple = (), steps: tuple = ()
) -> IndexError:
    """The error of an index out of range, with NumPy's words, the step and the lane in which it was read."""
    return IndexError(
        f"index {value} is out of bounds for axis {axis} with size {size}{located(steps, lane, lanes)}"
    )


def flat(at: Any, shape: tuple[int, ...]) -> Any:
    """The position in C order of an index, by arithmetic that works on ints and symbolic indices."""
    position = 0
    for i, n in zip(at, shape, strict=True):
        position = position * n + i
    return position


def gather(x: Any, indices: list, checked: bool | None = None) -> Any:
    """x[i0, i1, ...] for integer arrays of one shape, plain ones or values."""
    if checked is None:
        checked = in_range(indices, type_of(x).shape)
    return bind(gather_, [x, *indices], {"checked": checked, **UNMAPPED})[0]


def scatter(op: str, target: Any, indices: list, updates: Any, checked: bool | None = None) -> Any:
    """`target` with `target[indices] op= updates`; dtypes agree, updates have their full shape."""
    if checked is None:
        checked = in_range(indices, type_of(target).shape)
    return bind(scatter_, [target, updates, *indices], {"op": op, "checked": checked, **UNMAPPED})[0]


def argsort(x: Any) -> Any:
    return bind(argsort_, [x], {})[0]


def take_along(x: Any, index: Any, axis: int) -> Any:
    """np.take_along_axis for an index of x's rank, in range already."""
    shape = type_of(index).shape
    indices = []
    for k, n in enumerate(shape):
        if k == axis:
            indices.append(index)
        else:
            counter = np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))])
            indices.append(np.broadcast_to(counter, shape))
    return gather(x, indices, checked=True)
