"""Movements: reshape, permute, broadcast, slice, flip, concatenate, and writing a region (update).

All are linear in what they move, so each states its transpose and nothing more about derivatives.
Each function returns its argument where nothing would move.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from rune.level import Value, bind
from rune.native import nest
from rune.primitives.primitive import Into, Linear, Unknown, zeros
from rune.program import Type, type_of

__all__ = [
    "all_in_lanes",
    "broadcast",
    "broadcast_",
    "concatenate",
    "flip",
    "full",
    "in_lanes",
    "inverse",
    "pad",
    "part",
    "permute",
    "reshape",
    "slice_",
    "spread",
    "strides_of",
    "swap_front",
    "update",
]


def strides_of(shape: tuple[int, ...]) -> list[int]:
    return list(itertools.accumulate(shape[:0:-1], operator.mul, initial=1))[::-1][: len(shape)]


def unravel(flat: Any, shape: tuple[int, ...]) -> tuple:
    """The index of element `flat` in C order, by arithmetic that works on ints and symbolic indices."""
    index = []
    for k, (n, stride) in enumerate(zip(shape, strides_of(shape), strict=True)):
        if n == 1:
            index.append(0)
            continue
        i = flat if stride == 1 else flat // stride
        index.append(i if k == 0 or all(m == 1 for m in shape[:k]) else i % n)
    return tuple(index)


def ravel(index: tuple, shape: tuple[int, ...]) -> Any:
    terms = [i * s for i, s in zip(index, strides_of(shape), strict=True)]
    return functools.reduce(operator.add, terms, 0)


class Movement(Linear):
    """One array in, the same elements out; `at` says where each comes from."""

    def batch(self, size, args, mapped, params):
        return bind(self, args, self.mapped(size, type_of(args[0]), params)), [True]

    def lower(self, e):
        source, out = e.inputs[0].type, e.outputs[0].type
        at = lambda read, i: read(0, self.at(i, source, out, e.params))
        return [nest.Index(e.outputs, e.inputs, at)]


class Reshape(Movement):
    name = "Reshape"

    def type(self, types, params):
        return [Type(types[0].dtype, params["shape"])]

    def evaluate(self, args, params):
        return [np.asarray(args[0]).reshape(params["shape"])]

    def transpose(self, cts, args, params):
        return [reshape(cts[0], args[0].type.shape)]

    def compose(self, inner, outer):
        return outer

    def idle(self, params, type):
        return True

    def mapped(self, size, type, params):
        return {"shape": (size, *params["shape"])}

    def at(self, i, source, out, params):
        # Axes common to both ends keep their index: only what lies between is divided and multiplied.
        a, b = source.shape, out.shape
        lead = 0
        while lead < min(len(a), len(b)) and a[lead] == b[lead]:
            lead += 1
        tail = 0
        while tail < min(len(a), len(b)) - lead and a[-1 - tail] == b[-1 - tail]:
            tail += 1
        middle = i[lead : len(b) - tail]
        flat = ravel(middle, b[lead : len(b) - tail])
        return (*i[:lead], *unravel(flat, a[lead : len(a) - tail]), *i[len(b) - tail :])

    def details(self, params):
        return f"to {list(params['shape'])}"


class Permute(Movement):
    name = "Permute"

    def type(self, types, params):
        return [Type(types[0].dtype, tuple(types[0].shape[a] for a in params["axes"]))]

    def evaluate(self, args, params):
        return [np.asarray(args[0]).transpose(params["axes"])]

    def transpose(self, cts, args, params):
        return [permute(cts[0], inverse(params["axes"]))]

    def compose(self, inner, outer):
        return {"axes": tuple(inner["axes"][a] for a in outer["axes"])}

    def idle(self, params, type):
        return params["axes"] == tuple(range(type.ndim))

    def mapped(self, size, type, params):
        return {"axes": (0, *(a + 1 for a in params["axes"]))}

    def at(self, i, source, out, params):
        index: list = [None] * len(i)
        for k, a in enumerate(params["axes"]):
            index[a] = i[k]
        return tuple(index)

    def details(self, params):
        return f"by {list(params['axes'])}"


class Broadcast(Movement):
    name = "Broadcast"

    def type(self, types, params):
        return [Type(types[0].dtype, params["shape"])]

    def evaluate(self, args, params):
        return [np.broadcast_to(args[0], params["shape"])]

    def transpose(self, cts, args, params):
        from rune.primitives.map import unbroadcast

        return [unbroadcast(cts[0], args[0].type)]

    def batch(self, size, args, mapped, params):
        t = type_of(args[0])
        missing = len(params["shape"]) - (t.ndim - 1)
        x = reshape(args[0], (size,) + (1,) * missing + t.shape[1:])
        return bind(self, [x], {"shape": (size, *params["shape"])}), [True]

    def at(self, i, source, out, params):
        lead = len(out.shape) - len(source.shape)
        return tuple(0 if n == 1 else i[lead + k] for k, n in enumerate(source.shape))

    def details(self, params):
        return f"to {list(params['shape'])}"


class Slice(Movement):
    name = "Slice"

    def type(self, types, params):
        spans = zip(params["starts"], params["stops"], params["steps"], strict=True)
        return [Type(types[0].dtype, tuple(len(range(*span)) for span in spans))]

    def evaluate(self, args, params):
        spans = zip(params["starts"], params["stops"], params["steps"], strict=True)
        return [np.asarray(args[0])[tuple(slice(*span) for span in spans)]]

    def transpose(self, cts, args, params):
        (ct,) = cts
        return [
            Into(
                args[0].type,
                update_,
                [ct],
                {"starts": params["starts"], "steps": params["steps"], "op": "add"},
            )
        ]

    def compose(self, inner, outer):
        by = inner["steps"]
        move = lambda at: tuple(s + k * t for s, k, t in zip(inner["starts"], at, by, strict=True))
        steps = tuple(t * u for t, u in zip(by, outer["steps"], strict=True))
        starts = move(outer["starts"])
        spans = zip(starts, outer["starts"], outer["stops"], outer["steps"], steps, strict=True)
        stops = tuple(
            a + (len(range(o, p, q)) - 1) * t + 1 if len(range(o, p, q)) else a for a, o, p, q, t in spans
        )
        return {"starts": starts, "stops": stops, "steps": steps}

    def idle(self, params, type):
        return True

    def mapped(self, size, type, params):
        return {
            "starts": (0, *params["starts"]),
            "stops": (size, *params["stops"]),
            "steps": (1, *params["steps"]),
        }

    def at(self, i, source, out, params):
        return tuple(k * t + s for k, s, t in zip(i, params["starts"], params["steps"], strict=True))

    def details(self, params):
        spans = zip(params["starts"], params["stops"], params["steps"], strict=True)
        return ", ".join(f"{a}:{b}" + (f":{t}" if t != 1 else "") for a, b, t in spans)


class Flip(Movement):
    name = "Flip"

    def type(self, types, params):
        return [types[0].strong()]

    def evaluate(self, args, params):
        return [np.flip(args[0], params["axes"])]

    def transpose(self, cts, args, params):
        return [flip(cts[0], params["axes"])]

    def mapped(self, size, type, params):
        return {"axes": tuple(a + 1 for a in params["axes"])}

    def at(self, i, source, out, params):
        return tuple(
            n - 1 - k if a in params["axes"] else k
            for a, (k, n) in enumerate(zip(i, source.shape, strict=True))
        )

    def details(self, params):
        return f"over {list(params['axes'])}"


class Concatenate(Linear):
    name = "Concatenate"

    def linear_positions(self, count):
        return range(count)

    def type(self, types, params):
        axis, shape = params["axis"], list(types[0].shape)
        shape[axis] = sum(t.shape[axis] for t in types)
        return [Type(types[0].dtype, tuple(shape))]

    def evaluate(self, args, params):
        return [np.concatenate(args, params["axis"])]

    def transpose(self, cts, args, params):
        (ct,), axis, start, found = cts, params["axis"], 0, []
        for a in args:
            n = type_of(a).shape[axis]
            found.append(part(ct, axis, start, start + n) if isinstance(a, Unknown) else None)
            start += n
        return found

    def batch(self, size, args, mapped, params):
        args = [
            a if m else broadcast(a, (size, *type_of(a).shape)) for a, m in zip(args, mapped, strict=True)
        ]
        return bind(self, args, {"axis": params["axis"] + 1}), [True]

    def lower(self, e):
        return [nest.Concatenate(e.outputs, e.inputs, e.params["axis"])]

    def details(self, params):
        return f"along {params['axis']}"


class Update(Linear):
    """target[starts + steps * k] op= updates[k], as a new value."""

    name = "Update"
    linear = (0, 1)

    def type(self, types, params):
        return [types[0].strong()]

    def evaluate(self, args, params):
        return [self.written(np.array(args[0], copy=True), args[1:], params)]

    def written(self, out, args, params):
        """`out` itself, written to."""
        (updates,) = args
        region = self.region(np.shape(updates), params)
        if params["op"] == "set":
            out[region] = updates
        else:
            out[region] += updates
        return out

    def region(self, shape, params):
        spans = zip(shape, params["starts"], params["steps"], strict=True)
        return tuple(slice(s, s + n * t, t) for n, s, t in spans)

    def transpose(self, cts, args, params):
        (ct,), (target, updates) = cts, args
        starts, steps, shape = params["starts"], params["steps"], type_of(updates).shape
        to_target = to_updates = None
        if isinstance(updates, Unknown):  # read before it is written: a loop's cotangent is updated in place
            stops = tuple(
                s + (n - 1) * t + 1 if n else s for n, s, t in zip(shape, starts, steps, strict=True)
            )
            to_updates = slice_(ct, starts, stops, steps)
        if isinstance(target, Unknown):
            to_target = ct
            if params["op"] == "set":
                to_target = update(ct, zeros(type_of(updates)), starts, steps)
        return [to_target, to_updates]

    def batch(self, size, args, mapped, params):
        args = [
            a if m else broadcast(a, (size, *type_of(a).shape)) for a, m in zip(args, mapped, strict=True)
        ]
        starts, steps = (0, *params["starts"]), (1, *params["steps"])
        return bind(self, args, {**params, "starts": starts, "steps": steps}), [True]

    def lower(self, e):
        p = e.params
        return [nest.Update(e.outputs, e.inputs, p["starts"], p["steps"], p["op"])]

    def details(self, params):
        steps = "" if all(t == 1 for t in params["steps"]) else f" by {list(params['steps'])}"
        return f"{params['op']} from {list(params['starts'])}{steps}"


reshape_, permute_, broadcast_, slice_p, flip_ = Reshape(), Permute(), Broadcast(), Slice(), Flip()
concatenate_, update_ = Concatenate(), Update()


def reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return x if type_of(x).shape == shape else bind(reshape_, [x], {"shape": shape})[0]


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes one."""
    return tuple(axes.index(k) for k in range(len(axes)))


def permute(x: Any, axes: tuple[int, ...]) -> Any:
    return x if axes == tuple(range(len(axes))) else bind(permute_, [x], {"axes": axes})[0]


def swap_front(x: Any) -> Any:
    """The first two axes exchanged: rows and lanes."""
    return permute(x, (1, 0, *range(2, type_of(x).ndim)))


def broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return x if type_of(x).shape == shape else bind(broadcast_, [x], {"shape": shape})[0]


def in_lanes(x: Any, size: int) -> Any:
    """`x` once for each lane, along a new axis 0."""
    return broadcast(x, (size, *type_of(x).shape))


def all_in_lanes(args: list, mapped: Sequence[bool], size: int) -> list:
    """The arguments of a mapped operation, those that have no lanes given them."""
    return [a if m else in_lanes(a, size) for a, m in zip(args, mapped, strict=True)]


def slice_(x: Any, starts: tuple, stops: tuple, steps: tuple) -> Any:
    """x[starts:stops:steps] with 0 <= start <= stop <= n and steps >= 1."""
    if stops == type_of(x).shape and not any(starts) and max(steps, default=1) == 1:
        return x
    return bind(slice_p, [x], {"starts": starts, "stops": stops, "steps": steps})[0]


def part(x: Any, axis: int, start: int, stop: int) -> Any:
    """x[start:stop] along one axis."""
    shape = type_of(x).shape
    starts = tuple(start if k == axis else 0 for k in range(len(shape)))
    stops = tuple(stop if k == axis else n for k, n in enumerate(shape))
    return slice_(x, starts, stops, (1,) * len(shape))


def flip(x: Any, axes: tuple[int, ...]) -> Any:
    return bind(flip_, [x], {"axes": axes})[0] if axes else x


def concatenate(xs: list, axis: int) -> Any:
    """Arrays of one dtype behind one another."""
    return xs[0] if len(xs) == 1 else bind(concatenate_, list(xs), {"axis": axis})[0]


def update(target: Any, updates: Any, starts: tuple, steps: tuple, op: str = "set") -> Any:
    """`target` with `target[starts + steps * k] op= updates[k]`; dtypes agree, updates have full rank."""
    return bind(update_, [target, updates], {"starts": starts, "steps": steps, "op": op})[0]


SMALL = 1 << 12  # elements up to which a copy takes less time than np.broadcast_to, about 4 us


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` broadcast to a shape, as a copy where that is faster."""
    if isinstance(x, Value) or math.prod(shape) > SMALL:
        return broadcast(x, shape)
    out = np.empty(shape, type_of(x).dtype)
    out[...] = x
    return out


def full(shape: tuple[int, ...], value: Any) -> np.ndarray:
    """A plain constant array with one element's storage (a trace records it as a broadcast literal)."""
    return np.broadcast_to(np.asarray(value), shape)


def pad(x: Any, before: tuple[int, ...], after: tuple[int, ...], value: Any = 0) -> Any:
    """`x` with a constant around it."""
    t = type_of(x)
    shape = tuple(n + a + b for n, a, b in zip(t.shape, before, after, strict=True))
    return update(full(shape, np.asarray(value, t.dtype)), x, before, (1,) * t.ndim)
