"""What a primitive is: one object that answers every question the system asks of an operation.

    type        the result types from the argument types
    evaluate    the results by NumPy
    jvp         results and tangents, from primals and tangents (None is a zero)
    linear_in   whether it is linear in the flagged arguments together
    transpose   cotangents of the linear arguments from cotangents of the results
    batch       the operation over lanes along axis 0 of the mapped arguments
    lower       the forms of the loop language
    show        its text in a program

Reverse mode has no rule of its own: it records linear operations and transposes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from rune.level import Value, bind
from rune.program import Literal, Type, type_of

Tangents = list  # of values, None for a zero


class Unknown:
    """The place of a linear argument in `transpose`: a type without a value."""

    __slots__ = ("type",)

    def __init__(self, type: Type):
        self.type = type


class Into:
    """A cotangent that is best added in place: `write(total, *args)` is total plus the contribution.

    The transpose of reading one row of an array writes one row: adding it to what has been
    accumulated costs a row, materialising it costs the array.
    """

    __slots__ = ("args", "params", "type", "write")

    def __init__(self, type: Type, write: Primitive, args: list, params: dict):
        self.type = type
        self.write = write
        self.args = args
        self.params = params

    def add(self, total: Any, own: bool = False) -> Any:
        """`total` plus the contribution: in place where it is `own`, a plain array that nothing else holds."""
        if own and not isinstance(total, Value) and not any(isinstance(a, Value) for a in self.args):
            return self.write.written(total, self.args, self.params)
        return bind(self.write, [total, *self.args], self.params)[0]


class Primitive:
    name = "?"
    recompute = True  # whether a backward pass may compute it again (a factorisation may not)
    staged = False  # whether a trace records it also where all arguments are plain
    itself = False  # whether its derivative is the operation itself wherever it is linear

    def effect(self, params: dict) -> str | None:
        return None

    def type(self, types: list[Type], params: dict) -> list[Type]:
        raise NotImplementedError(f"{self.name}: type")

    def evaluate(self, args: list, params: dict) -> list:
        raise NotImplementedError(f"{self.name}: evaluate")

    def jvp(self, primals: list, tangents: Tangents, params: dict) -> tuple[list, Tangents]:
        raise NotImplementedError(f"{self.name}: jvp")

    def linear_in(self, flags: list[bool], params: dict) -> bool:
        return False

    def transpose(self, cts: Tangents, args: list, params: dict) -> Tangents:
        raise NotImplementedError(f"{self.name}: transpose")

    def batch(self, size: int, args: list, mapped: list[bool], params: dict) -> tuple[list, list[bool]]:
        raise NotImplementedError(f"{self.name}: batch")

    def lower(self, e: Any) -> list:
        raise NotImplementedError(f"{self.name}: lower")

    def recomputable(self, e: Any) -> bool:
        """Whether a backward pass may compute this equation again instead of keeping its results."""
        return self.recompute and not e.effect

    def harmless(self, args: list, taken: Any) -> list:
        """The arguments, with such values where the scalar `taken` is false that the operation cannot fail."""
        return args

    def guarded(self, args: list, params: dict, taken: Any) -> tuple[list, dict]:
        """`harmless`, for an operation with an effect; one that carries programs guards those."""
        return self.harmless(args, taken), params

    def details(self, params: dict) -> str:
        """What stands between the operation and its operands in a program's text."""
        return ""

    def show(self, e: Any, name: Callable) -> tuple[str, list[str]]:
        operands = ", ".join(f"x{k}" for k in range(len(e.inputs)))
        details = self.details(e.params)
        return show_operands(f"{self.name} [{operands}]{details and ' ' + details}", e.inputs, name)


def show_operands(head: str, inputs: tuple, name: Callable) -> tuple[str, list[str]]:
    """`head (x0: type) ...` and the line `with x0 = %1, ...`; literals stand in the head."""
    variables = [(k, v) for k, v in enumerate(inputs) if not isinstance(v, Literal)]
    if not variables:
        return f"{head} at CPU", []
    operands = " ".join(f"(x{k}: {v.type} at CPU)" for k, v in variables)
    return f"{head} {operands}", ["with " + ", ".join(f"x{k} = {name(v)}" for k, v in variables)]


@functools.lru_cache(maxsize=1 << 12)
def zeros(type: Type) -> Any:
    """A plain zero array of one element's storage, which nothing can write to."""
    return np.broadcast_to(np.zeros((), type.dtype), type.shape)


def instantiated(xs: Tangents, types: Iterable[Type]) -> list:
    """Tangents or cotangents of these types as arrays: a zero is one too."""
    return [zeros(t) if x is None else x for x, t in zip(xs, types, strict=True)]


def to_unknown(found: list, args: list) -> Tangents:
    """The cotangents `found` of the first arguments, for those that are unknown; the others take none."""
    known = [None] * (len(args) - len(found))
    return [ct if isinstance(a, Unknown) else None for ct, a in zip(found, args, strict=False)] + known


def where_taken(taken: Any, x: Any, otherwise: Any) -> Any:
    """`x` where the scalar `taken` is true, else `otherwise`."""
    from rune.primitives.scalar import e

    return e.select(taken, x, otherwise)


class Linear(Primitive):
    """A primitive linear in the arguments at `linear` together (a movement: in its first)."""

    linear: tuple[int, ...] = (0,)
    itself = True

    def linear_positions(self, count: int) -> Sequence[int]:
        return self.linear

    def linear_in(self, flags, params):
        positions = self.linear_positions(len(flags))
        return all(k in positions for k, flag in enumerate(flags) if flag)

    def jvp(self, primals, tangents, params):
        outs = bind(self, primals, params)
        positions = self.linear_positions(len(primals))
        if all(tangents[k] is None for k in positions):
            return outs, [None] * len(outs)
        moved = [
            (zeros(type_of(p)) if t is None else t) if k in positions else p
            for k, (p, t) in enumerate(zip(primals, tangents, strict=True))
        ]
        return outs, bind(self, moved, params)
