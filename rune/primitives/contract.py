"""Contraction: the sum of products over pairs of axes, with batch axes (matmul, einsum, dot).

contract(a, b, contracting, batch): result axes are the batch axes, then the rest of a, the rest of b.
It is linear in each operand, and its transpose is another contraction.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import movement
from rune.primitives.primitive import Primitive, Unknown
from rune.primitives.scalar import e
from rune.program import Type, type_of

__all__ = ["Bilinear", "contract", "matmul", "swap"]

INLINED = 64  # multiplications up to which a product is cheap enough to be computed again


def rest(ndim: int, *taken: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(k for k in range(ndim) if not any(k in axes for axes in taken))


class Bilinear(Primitive):
    """An operation of two operands, linear in each."""

    itself = True

    def jvp(self, primals, tangents, params):
        (a, b), (da, db) = primals, tangents
        outs = bind(self, primals, params)
        terms = []
        if da is not None:
            terms += bind(self, [da, b], params)
        if db is not None:
            terms += bind(self, [a, db], params)
        if not terms:
            return outs, [None]
        return outs, [terms[0] if len(terms) == 1 else e.add(*terms)]

    def linear_in(self, flags, params):
        return sum(flags) == 1


class Contract(Bilinear):
    name = "Contract"

    def recomputable(self, e):
        a, b = (v.type for v in e.inputs)
        free = [b.shape[k] for k in rest(b.ndim, e.params["contracting"][1], e.params["batch"][1])]
        return a.size * int(np.prod(free)) <= INLINED

    def type(self, types, params):
        a, b = types
        (ca, cb), (ba, bb) = params["contracting"], params["batch"]
        shape = (
            *(a.shape[k] for k in ba),
            *(a.shape[k] for k in rest(a.ndim, ca, ba)),
            *(b.shape[k] for k in rest(b.ndim, cb, bb)),
        )
        return [Type(a.dtype, shape)]

    def evaluate(self, args, params):
        a, b = map(np.asarray, args)
        (ca, cb), (ba, _) = params["contracting"], params["batch"]
        if not ba and len(ca) == 1 and a.ndim <= 2 and b.ndim <= 2:
            return [np.matmul(a if ca[0] == a.ndim - 1 else a.T, b if cb[0] == 0 else b.T)]
        left, right, shape = as_matrices(a.shape, b.shape, params["contracting"], params["batch"])
        a, b = (x.transpose(order).reshape(to) for x, (order, to) in ((a, left), (b, right)))
        return [np.matmul(a, b).reshape(shape)]

    def transpose(self, cts, args, params):
        (ct,), (a, b) = cts, args
        (ca, cb), (ba, bb) = params["contracting"], params["batch"]
        if isinstance(a, Unknown):
            return [transpose_one(ct, a.type, b, ca, cb, ba, bb, first=True), None]
        return [None, transpose_one(ct, b.type, a, cb, ca, bb, ba, first=False)]

    def batch(self, size, args, mapped, params):
        up = lambda axes, m: tuple(k + m for k in axes)
        (ca, cb), (ba, bb) = params["contracting"], params["batch"]
        contracting = (up(ca, mapped[0]), up(cb, mapped[1]))
        batch = (up(ba, mapped[0]), up(bb, mapped[1]))
        if all(mapped):
            batch = ((0, *batch[0]), (0, *batch[1]))
            return bind(self, args, {"contracting": contracting, "batch": batch}), [True]
        (out,) = bind(self, args, {"contracting": contracting, "batch": batch})
        # The lanes are the first free axis of the mapped operand.
        at = len(ba) if mapped[0] else len(ba) + len(rest(type_of(args[0]).ndim, ca, ba))
        ndim = type_of(out).ndim
        return [movement.permute(out, (at, *(k for k in range(ndim) if k != at)))], [True]

    def lower(self, e):
        return [nest.Contract(e.outputs, e.inputs, e.params["contracting"], e.params["batch"])]

    def details(self, params):
        (ca, cb), (ba, bb) = params["contracting"], params["batch"]
        pairs = lambda a, b: ", ".join(f"{i}-{j}" for i, j in zip(a, b, strict=True))
        return f"over ({pairs(ca, cb)})" + (f" for each ({pairs(ba, bb)})" if ba else "")


contract_ = Contract()


@functools.lru_cache(maxsize=1 << 12)
def as_matrices(a: tuple, b: tuple, contracting: tuple, batch: tuple) -> tuple:
    """The order and shape that make a matrix product of each operand, and the result's shape."""
    (ca, cb), (ba, bb) = contracting, batch
    fa, fb = rest(len(a), ca, ba), rest(len(b), cb, bb)
    sizes = lambda shape, axes: tuple(shape[k] for k in axes)
    size = lambda shape, axes: math.prod(sizes(shape, axes))
    lead = sizes(a, ba)
    left = (*ba, *fa, *ca), (*lead, size(a, fa), size(a, ca))
    right = (*bb, *cb, *fb), (*lead, size(b, cb), size(b, fb))
    return left, right, (*lead, *sizes(a, fa), *sizes(b, fb))


def transpose_one(ct, a: Type, b, ca, cb, ba, bb, first: bool):
    """The cotangent of operand `a` of a contraction with `b`: ct contracted with b's free axes."""
    contracting, batch, order = turned(a.ndim, type_of(b).ndim, ca, cb, ba, bb, first)
    return movement.permute(contract(ct, b, contracting, batch), order)


@functools.lru_cache(maxsize=1 << 12)
def turned(na: int, nb: int, ca: tuple, cb: tuple, ba: tuple, bb: tuple, first: bool) -> tuple:
    n = len(ba)
    fa, fb = rest(na, ca, ba), rest(nb, cb, bb)
    of_b = tuple(range(n + len(fa), n + len(fa) + len(fb))) if first else tuple(range(n, n + len(fb)))
    # The product has the batch axes, a's free axes, then b's contracted axes in b's order.
    partner = dict(zip(cb, ca, strict=True))
    order = [*ba, *fa, *(partner[k] for k in sorted(cb))]
    return (of_b, fb), (tuple(range(n)), bb), movement.inverse(tuple(order))


def contract(a: Any, b: Any, contracting: tuple, batch: tuple = ((), ())) -> Any:
    """Both operands have one dtype; axes are non-negative."""
    return bind(contract_, [a, b], {"contracting": contracting, "batch": batch})[0]


def matmul(a: Any, b: Any) -> Any:
    """The last two axes of `a` and `b` multiplied, for equal leading axes."""
    n = type_of(a).ndim - 2
    lead = tuple(range(n))
    return contract(a, b, ((n + 1,), (n,)), (lead, lead))


def swap(a: Any) -> Any:
    """The transpose of the last two axes."""
    n = type_of(a).ndim
    return movement.permute(a, (*range(n - 2), n - 1, n - 2))
