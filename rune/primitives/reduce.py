"""Reductions over axes, and running (cumulative) ones along an axis.

A running product obeys y[i] = y[i-1] x[i], so its tangent is the linear recurrence
dy[i] = dy[i-1] x[i] + y[i-1] dx[i], solved by doubling (Hillis and Steele, 1986) in log n
elementwise passes; the derivative of a product is the product of the others, those before an element
times those behind it.  No division, so zeros are no case.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import movement
from rune.primitives.primitive import Linear, Primitive
from rune.primitives.scalar import e
from rune.program import Type, type_of

__all__ = ["cumulative", "kept", "reduce"]

INLINED = 64  # elements up to which a reduction is cheap enough to be computed again

EVALUATE = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip
ARG = {"argmax": np.argmax, "argmin": np.argmin}


def kept(x: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """A reduced `x` with the reduced axes back, of length 1."""
    return movement.reshape(x, with_ones(shape, axes))


@functools.lru_cache(maxsize=1 << 12)
def with_ones(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


class Reduce(Primitive):
    name = "Reduce"
    itself = True

    def recomputable(self, e):
        return e.inputs[0].type.size <= INLINED  # a larger one is stored: it is smaller than what it read

    def type(self, types, params):
        (t,) = types
        shape = tuple(n for k, n in enumerate(t.shape) if k not in params["axes"])
        dtype = np.dtype(np.int64) if params["op"] in ARG else t.dtype
        return [Type(dtype, shape)]

    def evaluate(self, args, params):
        (x,) = args
        if params["op"] in ARG:
            return [ARG[params["op"]](x, params["axes"][0])]
        dtype = type_of(x).dtype if params["op"] in ("sum", "prod") else None
        return [EVALUATE[params["op"]].reduce(x, params["axes"], dtype)]

    def jvp(self, primals, tangents, params):
        (x,), (dx,), op, axes = primals, tangents, params["op"], params["axes"]
        (out,) = bind(self, primals, params)
        if dx is None or op in ("any", "all", *ARG) or type_of(x).size == 0:
            return [out], [None]
        if op == "sum":
            return [out], bind(self, [dx], params)
        shape = type_of(x).shape
        if op == "prod":
            return [out], [reduce("sum", e.mul(dx, others(x, axes)), axes)]
        ties = e.select(e.eq(x, kept(out, shape, axes)), *ones_and_zeros(x))
        share = e.div(ties, kept(reduce("sum", ties, axes), shape, axes))
        return [out], [reduce("sum", e.mul(dx, share), axes)]

    def linear_in(self, flags, params):
        return params["op"] == "sum"

    def transpose(self, cts, args, params):
        shape = args[0].type.shape
        return [movement.spread(kept(cts[0], shape, params["axes"]), shape)]

    def batch(self, size, args, mapped, params):
        return bind(self, args, {**params, "axes": tuple(a + 1 for a in params["axes"])}), [True]

    def lower(self, e):
        return [nest.Reduce(e.outputs, e.inputs, e.params["op"], e.params["axes"])]

    def show(self, e, name):
        text, lines = super().show(e, name)
        return text.replace("Reduce [x0]", f"Reduce [{e.params['op'].capitalize()} x0]"), lines

    def details(self, params):
        return f"over {list(params['axes'])}"


class Cumulative(Linear):
    name = "Cumulative"
    recompute = False

    def type(self, types, params):
        return [types[0].strong()]

    def evaluate(self, args, params):
        (x,), axis = args, params["axis"]
        ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[params["op"]]
        x = np.flip(x, axis) if params["reverse"] else x
        more = {"dtype": type_of(x).dtype} if params["op"] in ("sum", "prod") else {}
        out = ufunc.accumulate(x, axis, **more)
        return [np.flip(out, axis) if params["reverse"] else out]

    def jvp(self, primals, tangents, params):
        (x,), (dx,), op, axis = primals, tangents, params["op"], params["axis"]
        if op == "sum" or dx is None:
            return super().jvp(primals, tangents, params)
        (out,) = bind(self, primals, params)
        if params["reverse"]:
            turned = lambda v: movement.flip(v, (axis,))
            dy = self.tangent(op, turned(x), turned(out), turned(dx), axis)
            return [out], [turned(dy)]
        return [out], [self.tangent(op, x, out, dx, axis)]

    def tangent(self, op, x, out, dx, axis):
        if op == "prod":
            return product_tangent(x, out, dx, axis)
        # A running extreme has the tangent of the element that holds it (the last one, where tied).
        from rune.primitives.indexing import take_along

        shape = type_of(x).shape
        counter = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        holder = cumulative("max", e.select(e.eq(x, out), np.broadcast_to(counter, shape), 0), axis)
        return take_along(dx, holder, axis)

    def linear_in(self, flags, params):
        return params["op"] == "sum"

    def transpose(self, cts, args, params):
        return bind(self, cts, {**params, "reverse": not params["reverse"]})

    def batch(self, size, args, mapped, params):
        return bind(self, args, {**params, "axis": params["axis"] + 1}), [True]

    def lower(self, e):
        p = e.params
        return [nest.Accumulate(e.outputs, e.inputs, p["op"], p["axis"], p["reverse"])]

    def details(self, params):
        return f"{params['op']} along {params['axis']}" + (" reversed" if params["reverse"] else "")


reduce_, cumulative_ = Reduce(), Cumulative()


def reduce(op: str, x: Any, axes: tuple[int, ...]) -> Any:
    """`x` reduced over non-negative `axes`; its dtype stays."""
    if not axes and op not in ARG:
        return x
    return bind(reduce_, [x], {"op": op, "axes": axes})[0]


def cumulative(op: str, x: Any, axis: int, reverse: bool = False) -> Any:
    return bind(cumulative_, [x], {"op": op, "axis": axis, "reverse": reverse})[0]


def others(x: Any, axes: tuple[int, ...]) -> Any:
    """For each element the product of all others along `axes`: those before it times those behind it."""
    shape = type_of(x).shape
    order = (*axes, *(k for k in range(len(shape)) if k not in axes))
    front = movement.permute(x, order)
    moved = type_of(front).shape
    rows = movement.reshape(front, (math.prod(moved[: len(axes)]), *moved[len(axes) :]))
    turned = lambda v: movement.flip(v, (0,))
    before = lambda v: shifted(cumulative("prod", v, 0), 0, 1, 1.0)
    product = e.mul(before(rows), turned(before(turned(rows))))
    return movement.permute(movement.reshape(product, moved), movement.inverse(order))


def shifted(x: Any, axis: int, by: int, fill: float) -> Any:
    """`x` moved `by` places up along `axis`, `fill` where nothing comes from."""
    t = type_of(x)
    head = movement.full(
        tuple(by if k == axis else n for k, n in enumerate(t.shape)), np.asarray(fill, t.dtype)
    )
    return movement.concatenate([head, movement.part(x, axis, 0, t.shape[axis] - by)], axis)


def product_tangent(x: Any, y: Any, dx: Any, axis: int) -> Any:
    """The tangent of the running product `y` of `x`."""
    n = type_of(x).shape[axis]
    if n == 0:
        return dx
    a, b, by = x, e.mul(dx, shifted(y, axis, 1, 1.0)), 1
    while by < n:
        b = e.add(b, e.mul(shifted(b, axis, by, 0.0), a))
        a = e.mul(a, shifted(a, axis, by, 1.0))
        by *= 2
    return b


def ones_and_zeros(x: Any) -> tuple:
    dtype = type_of(x).dtype.type
    return dtype(1), dtype(0)
