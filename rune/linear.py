"""Reverse mode's half: a recorder of linear operations, and the transposition of its record.

Under reverse mode the tangents of forward mode are values of a `Recorder`, which computes nothing:
it keeps each operation with its arguments.  `transpose` walks the record from last to first and
applies each operation's transpose.  A cotangent that was never touched is `None`, a zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import Level, TracedValueError, Value
from rune.linearity import Kind, NotLinear, kind_of, not_zero, of_operation, summands, to_integers
from rune.primitives.primitive import Into, Primitive, Unknown, zeros
from rune.primitives.scalar import e
from rune.program import Type, type_of

__all__ = ["Recorder", "Tangent", "transpose", "whole"]


class Tangent(Value):
    """A tangent that stands for any: known by its type and its place in the record."""

    __slots__ = ("type",)

    def __init__(self, level: Recorder, type: Type):
        self.level = level
        self.type = type


class Record:
    __slots__ = ("args", "outs", "params", "primitive")

    def __init__(self, primitive, args, params, outs):
        self.primitive = primitive
        self.args = args
        self.params = params
        self.outs = outs

    def pull(self, total: Cotangents, owns: Callable) -> None:
        """Add to the cotangents of the arguments what those of the results give."""
        outs = [total.take(t) for t in self.outs]
        if all(ct is None for ct in outs):
            return
        args = [Unknown(a.type) if owns(a) else a for a in self.args]
        for a, ct in zip(self.args, self.primitive.transpose(outs, args, self.params), strict=True):
            if owns(a):
                total.add(a, ct)


class Zero(Primitive):
    """() -> zeros: what a record holds in place of a known value that a tangent map writes to."""

    name = "zero"

    def type(self, types, params):
        return [params["type"]]

    def evaluate(self, args, params):
        return [zeros(params["type"])]

    def transpose(self, cts, args, params):
        return []


zero_ = Zero()


class Recorder(Level):
    def __init__(self, name: str):
        super().__init__(name)
        self.records: list[Record] = []

    def input(self, type: Type) -> Tangent:
        return Tangent(self, type)

    def owns(self, x: Any) -> bool:
        return isinstance(x, Tangent) and x.level is self

    def process(self, primitive, args, params):
        own = [self.owns(a) for a in args]
        if not primitive.linear_in(own, params):
            return self.split(primitive, args, params)
        for at in summands(primitive, own, params):
            if kind_of(args[at]) is not Kind.ZERO:
                raise self.refused(not_zero(params.get("op", primitive.name.lower())))
        types = primitive.type([type_of(a) for a in args], params)
        if types and not any(t.inexact for t in types):
            raise self.refused(to_integers(primitive, params, types))
        outs = [Tangent(self, t) for t in types]
        self.records.append(Record(primitive, args, params, outs))
        return outs

    def split(self, primitive, args, params):
        """An operation of which some results are linear and others known, by its derivative at zero.

        A linear function is its own derivative, so forward mode gives the known results and records the
        others, whatever the operation.
        """
        own = [self.owns(a) for a in args]
        kinds = [Kind.LINEAR if m else kind_of(a) for a, m in zip(args, own, strict=True)]
        try:
            found = of_operation(primitive, kinds, params, [])
        except NotLinear as what:
            raise self.refused(str(what)) from None
        primals = [zeros(a.type) if m else a for a, m in zip(args, own, strict=True)]
        tangents = [a if m else None for a, m in zip(args, own, strict=True)]
        outs, changes = primitive.jvp(primals, tangents, params)
        return [
            t if kind is Kind.LINEAR and t is not None else x
            for x, t, kind in zip(outs, changes, found, strict=True)
        ]

    def refused(self, what: str) -> TypeError:
        return TypeError(
            f"{self.name}: a custom_jvp tangent map applies {what} to a tangent, which is not linear"
        )

    def lift(self, x):
        """A zero is a tangent that depends on none; another known value stays what it is."""
        if isinstance(x, Value) or not type_of(x).inexact or np.any(x):
            return x
        zero = Tangent(self, type_of(x).strong())
        self.records.append(Record(zero_, [], {"type": zero.type}, [zero]))
        return zero

    def concrete(self, value):
        raise TracedValueError(f"the value is a tangent of {self.name}, which is not known")


class Written:
    """A total that was made by writing, which nothing else holds: it may be written to again."""

    __slots__ = ("total",)

    def __init__(self, total: Any):
        self.total = total


class Cotangents(dict):
    """Cotangents by tangent, added up as they come."""

    def add(self, tangent: Tangent, ct: Any) -> None:
        if ct is None:
            return
        before = self.get(tangent)
        if before is None:
            self[tangent] = ct
        elif type(ct) is Into:
            self[tangent] = Written(ct.add(whole(before), own=type(before) in (Into, Written)))
        elif type(before) is Into:
            self[tangent] = Written(before.add(ct))
        else:
            self[tangent] = e.add(whole(before), ct)

    def take(self, tangent: Tangent) -> Any:
        """The cotangent in full; it is complete, and forgotten."""
        ct = self.pop(tangent, None)
        return whole(ct) if type(ct) is Into or type(ct) is Written else ct


def whole(ct: Any) -> Any:
    """A cotangent as a value."""
    if type(ct) is Into:
        return ct.add(zeros(ct.type))
    return ct.total if type(ct) is Written else ct


def transpose(
    recorder: Recorder, inputs: list, outputs: list, cts: list, start: list | None = None, spend: bool = False
) -> list:
    """Cotangents of `inputs` (tangents of the recorder) from those of `outputs`.

    `start` gives accumulators that the cotangents of some inputs are added into.  With `spend` the record
    is used up: what it holds is freed on the way, and nothing is left for the garbage collector.
    """
    total = Cotangents()
    for tangent, ct in zip(inputs, start or [], strict=False):
        total.add(tangent, ct)
    for tangent, ct in zip(outputs, cts, strict=True):
        if recorder.owns(tangent):
            total.add(tangent, ct)
    records, owns = recorder.records, recorder.owns
    if not spend:
        records = list(records)
    while records:
        records.pop().pull(total, owns)
    return [total.take(t) for t in inputs]
