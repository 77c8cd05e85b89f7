"""Eager reverse mode: forward mode over plain arrays, with a short way for most operations.

Outside compiled code most operations are scalar functions of operands that *agree*: real arrays of one
dtype and one shape, with numbers beside them.  Nothing is cast or broadcast then and no level below is
asked, so the result and the slopes are NumPy's, and a tangent has the type of the tangent it comes
from.  `Eager` and its recorder, the `Tape`, take this way by the same rows of the table of scalar
functions.

Most others are linear in what moves (moves, sums, products, reads): such an operation is its own
derivative, so it is evaluated on the arrays and recorded on the tangents as it is, and a tangent has the
type of its primal.  What neither way takes goes through `process` as everywhere.

A scalar function costs about a microsecond beside NumPy's own time, another operation about three, so
this module counts calls: a tangent made a short way is its own record.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rune.jvp import Dual, Forward
from rune.level import Value
from rune.linear import Recorder, Tangent, whole
from rune.linearity import summands
from rune.primitives.map import map_, resolve
from rune.primitives.primitive import Primitive, Unknown, zeros
from rune.primitives.scalar import TABLE, Row, e
from rune.program import Type, type_of
from rune.snapshot import Snapshots

__all__ = ["Eager", "Tape"]

ARRAYS = frozenset({np.ndarray, np.float64, np.float32, np.float16})
NUMBERS = frozenset({float, int})
NO_PARAMS: dict = {}
ADD, MUL = TABLE["add"], TABLE["mul"]
mul, multiply = e.mul, np.multiply


class Image(Tangent):
    """A scalar function (not `mul`) of operands that agree, linear in the tangents among them."""

    __slots__ = ("args", "row")
    primitive = map_

    def __init__(self, row: Row, args: tuple, like: Tangent):
        self.level = like.level
        self.type = like.type
        self.row = row
        self.args = args

    params = property(lambda self: {"op": self.row.name})
    outs = property(lambda self: [self])

    def pull(self, total, owns):
        ct = total.take(self)
        if ct is not None:
            for k, a in enumerate(self.args):
                if isinstance(a, Tangent):
                    total.add(a, self.row.back(k, ct, self.args, NO_PARAMS))


class Moved(Tangent):
    """A linear operation with one result, as it is, of tangents and plain arrays."""

    __slots__ = ("args", "params", "primitive")

    def __init__(self, primitive: Primitive, args: list, params: dict, level: Recorder, type: Type):
        self.level = level
        self.type = type
        self.primitive = primitive
        self.args = args
        self.params = params

    outs = property(lambda self: [self])

    def pull(self, total, owns):
        ct = total.take(self)
        if ct is None:
            return
        args = [Unknown(a.type) if owns(a) else a for a in self.args]
        for a, part in zip(self.args, self.primitive.transpose([ct], args, self.params), strict=True):
            if owns(a):
                total.add(a, part)


class Product(Tangent):
    """A tangent times a plain slope that agrees with it: what most tangents are."""

    __slots__ = ("slope", "tangent")
    primitive = map_
    params = {"op": "mul"}

    def __init__(self, tangent: Tangent, slope: Any):
        self.level = tangent.level
        self.type = tangent.type
        self.tangent = tangent
        self.slope = slope

    args = property(lambda self: (self.tangent, self.slope))
    outs = property(lambda self: [self])

    def pull(self, total, owns):
        ct = total.pop(self, None)
        if ct is None:
            return
        if type(ct) is np.ndarray:
            ct = multiply(ct, self.slope)
        else:
            ct = mul(whole(ct), self.slope)
        tangent = self.tangent
        if tangent in total:
            total.add(tangent, ct)
        else:
            total[tangent] = ct


class Tape(Recorder):
    """A recorder with the short way."""

    def process(self, primitive, args, params):
        own = tuple(map(self.owns, args))
        if primitive.itself and linear_groups(primitive, params.get("op"), own) == [(own, ())]:
            (type_,) = primitive.type([type_of(a) for a in args], params)
            if type_.inexact:
                return [self.record(Moved(primitive, args, params, self, type_))]
        return super().process(primitive, args, params)

    def record(self, tangent: Tangent) -> Tangent:
        self.records.append(tangent)
        return tangent

    def times(self, tangent: Tangent, slope: Any) -> Tangent:
        """The product of a tangent and a slope that agrees with it."""
        return self.record(Product(tangent, slope))

    def plus(self, a: Tangent, b: Tangent) -> Tangent:
        """The sum of two tangents of one type."""
        return self.record(Image(ADD, (a, b), a))

    def scalar(self, row, x, y=None):
        if not self.alive:
            return None
        own, other = (x, y) if isinstance(x, Tangent) and x.level is self else (y, x)
        if own.type.weak or own.type.dtype.kind != "f" or not (other is None or fits(other, own)):
            return None
        args = (x,) if y is None else (x, y)
        if row.linear == "all":
            if y is not None and not (isinstance(x, Tangent) and isinstance(y, Tangent)):
                return None
        elif not row.linear_in([isinstance(a, Tangent) for a in args]):
            return None
        if row is MUL:
            return self.times(own, other)
        image = Image(row, args, own)
        self.records.append(image)
        return image


def fits(x: Any, own: Tangent) -> bool:
    """Whether an operand beside the tangent `own` agrees with it."""
    kind, type_ = type(x), own.type
    if isinstance(x, Tangent):
        return x.level is own.level and (x.type is type_ or x.type == type_)
    return kind in NUMBERS or (
        kind in ARRAYS and x.dtype is type_.dtype and (not x.shape or x.shape == type_.shape)
    )


@functools.lru_cache(maxsize=1 << 12)
def linear_groups(primitive: Primitive, op: str | None, moving: tuple[bool, ...]) -> list | None:
    """The moving operands in groups, such that the derivative is the sum of the operation in each; or None.

    That is all of them, where it is linear in them together, or one by one, where it is a product.  With each
    group stand the operands that would be added to it, zeros in the derivative; a sum of two has none, since
    its tangent is the one that moves.
    """
    params = {"op": op}
    alone = [tuple(k == at for k in range(len(moving))) for at, moves in enumerate(moving) if moves]
    groups = [moving] if primitive.linear_in(moving, params) else alone
    if not all(primitive.linear_in(g, params) for g in groups):
        return None
    beside = [tuple(summands(primitive, g, params)) for g in groups]
    return None if op in ("add", "sub") and any(beside) else list(zip(groups, beside, strict=True))


class Tracked(Dual):
    """A dual with a plain real array, whose tangent is the tape's (or None)."""

    __slots__ = ()

    @property
    def type(self):
        return type_of(self.primal) if self.tangent is None else self.tangent.type


class Eager(Forward):
    """Forward mode with a tape's tangents."""

    def __init__(self, name: str, snapshots: Snapshots, tape: Tape):
        super().__init__(name, snapshots)
        self.tape = tape

    def dual(self, primal, tangent):
        tracked = (
            type(primal) in ARRAYS
            and primal.dtype.kind == "f"
            and primal.dtype.isnative
            and (tangent is None or self.tape.owns(tangent))
        )
        return Tracked(self, primal, tangent) if tracked else super().dual(primal, tangent)

    def process(self, primitive, args, params):
        """Where an operation is linear in groups of what moves, it is its own derivative in each."""
        if not primitive.itself:
            return super().process(primitive, args, params)
        primals, tangents, moving = [], [], []
        for a in args:
            own = type(a) is Tracked and a.level is self
            if not own and isinstance(a, Value):
                return super().process(primitive, args, params)
            primal = a.primal if own else self.snapshots.keep(a)
            tangent = a.tangent if own else None
            primals.append(primal)
            tangents.append(tangent)
            moving.append(tangent is not None)
        if not any(moving):
            return [self.dual(p, None) for p in primitive.evaluate(primals, params)]
        groups = linear_groups(primitive, params.get("op"), tuple(moving))
        if groups is None:
            return super().process(primitive, args, params)
        (out,) = primitive.evaluate(primals, params)
        type_ = type_of(out)
        if not type_.inexact:
            return [out]
        change = None
        for group, beside in groups:
            operands = [t if m else p for p, t, m in zip(primals, tangents, group, strict=True)]
            for k in beside:
                operands[k] = zeros(type_of(primals[k]))
            part = self.tape.record(Moved(primitive, operands, params, self.tape, type_))
            change = part if change is None else self.tape.plus(change, part)
        return [self.dual(out, change)]

    def scalar(self, row, x, y=None):
        if not self.alive:
            return None
        if y is None:
            if type(x) is not Tracked:
                return None
            p, dx = x.primal, x.tangent
            out = row.ufunc(p)
            if out.dtype is not p.dtype:
                return out if row.zero else None
            if dx is None or row.zero:
                return Tracked(self, out, None)
            if row.tangent is None:
                change = Product(dx, row.partials[0](p, out))
                self.tape.records.append(change)
                return Tracked(self, out, change)
            return Tracked(self, out, row.tangent((dx,), (p,), out, NO_PARAMS))
        if type(x) is Tracked:
            p, dx = x.primal, x.tangent
            if type(y) is Tracked:
                q, dy = y.primal, y.tangent
                if x.level is not y.level or p.dtype is not q.dtype:
                    return None
            else:
                q, dy = p.dtype.type(y) if type(y) in NUMBERS else self.agreeing(y, p), None
        elif type(y) is Tracked:
            q, dy = y.primal, y.tangent
            p, dx = q.dtype.type(x) if type(x) in NUMBERS else self.agreeing(x, q), None
        else:
            return None
        if p is None or q is None:
            return None
        if p.shape != q.shape and ((dx is not None and q.shape) or (dy is not None and p.shape)):
            dtypes = (p.dtype, q.dtype)
            uncast = resolve(row.name, dtypes) == dtypes
            return self.process(map_, [x, y], {"op": row.name})[0] if uncast else None
        out = row.ufunc(p, q)
        if out.dtype is not p.dtype:
            return out if row.zero else None
        if row.zero:
            return Tracked(self, out, None)
        if row.tangent is not None:
            return Tracked(self, out, row.tangent((dx, dy), (p, q), out, NO_PARAMS))
        by_x, by_y = row.partials
        dx = None if dx is None or by_x is None else self.tape.times(dx, by_x(p, q, out))
        dy = None if dy is None or by_y is None else self.tape.times(dy, by_y(p, q, out))
        return Tracked(self, out, dx if dy is None else dy if dx is None else self.tape.plus(dx, dy))

    def agreeing(self, x: Any, like: Any) -> Any:
        """A plain array of the dtype of `like`, as it is now; else None."""
        return self.snapshots.keep(x) if type(x) in ARRAYS and x.dtype is like.dtype else None
