"""Which values of a program are linear in its tangents, decided by its equations.

A value is `LINEAR` (a linear function of the tangents), `KNOWN` (it depends on none) or `ZERO` (known,
and zero whatever is given: a linear function too).  An operation is linear in the tangents among its
operands where its `linear_in` says so and every operand that would be a summand beside them is zero.
One that carries programs answers by `linearity(kinds, params)`, from those of its programs.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from rune.batch import Lanes, Same
from rune.jvp import Dual
from rune.level import Value
from rune.program import Literal, Program, Type
from rune.trace import Staged, constant

__all__ = [
    "Kind",
    "NotLinear",
    "joined",
    "kind_of",
    "looped",
    "not_zero",
    "of_operation",
    "of_program",
    "summands",
    "throughout",
    "to_integers",
]


class Kind(enum.Enum):
    ZERO = enum.auto()
    KNOWN = enum.auto()
    LINEAR = enum.auto()


ZERO, KNOWN, LINEAR = Kind


class NotLinear(Exception):
    """What a tangent was given to; `str` of it stands between "applies" and "to a tangent"."""


def not_zero(name: str) -> str:
    return f"{name} with a value not known to be zero"


def to_integers(primitive: Any, params: dict, types: list[Type]) -> str:
    rounded = next(t for t in types if not t.inexact)
    return f"{params.get('op', primitive.name.lower())} to {rounded.dtype}"


def kind_of(x: Any) -> Kind:
    """The kind of a value that depends on no tangent; a value that can be read is zero where it is so now."""
    while isinstance(x, Value):
        if isinstance(x, Dual):
            x = x.primal
        elif isinstance(x, (Lanes, Same)):
            x = x.value
        elif isinstance(x, Staged) and (found := x.constant()) is not None:
            x = found
        else:
            return KNOWN
    return KNOWN if np.any(x if np.ndim(x) == 0 or any(np.asarray(x).strides) else x.flat[:1]) else ZERO


def of_program(program: Program, kinds: list[Kind]) -> list[Kind]:
    """The kinds of a program's results from those of its inputs."""
    env = dict(zip(map(id, program.inputs), kinds, strict=True))
    read = lambda v: kind_of(v.value) if isinstance(v, Literal) else env[id(v)]
    for e in program.equations:
        found = of_operation(e.primitive, [read(v) for v in e.inputs], e.params, [v.type for v in e.outputs])
        env.update(zip(map(id, e.outputs), found, strict=True))
    return [read(v) for v in program.outputs]


def of_operation(primitive: Any, kinds: list[Kind], params: dict, types: list[Type]) -> list[Kind]:
    """The kinds of the results, which have these types, from those of the operands."""
    if LINEAR not in kinds:
        if primitive is constant:
            return [kind_of(params["value"])]
        zeros = [k is ZERO for k in kinds]
        return [ZERO if any(zeros) and primitive.linear_in(zeros, params) else KNOWN] * len(types)
    if hasattr(primitive, "linearity"):
        return primitive.linearity(kinds, params)
    name = params.get("op", primitive.name.lower())
    flags = [k is LINEAR for k in kinds]
    if not primitive.linear_in(flags, params):
        raise NotLinear(name)
    if any(kinds[at] is KNOWN for at in summands(primitive, flags, params)):
        raise NotLinear(not_zero(name))
    if types and not any(t.inexact for t in types):
        raise NotLinear(to_integers(primitive, params, types))
    return [LINEAR] * len(types)


def summands(primitive: Any, flags: list[bool], params: dict) -> list[int]:
    """The operands beside the flagged ones that are added to them: the operation is linear in all together."""
    if hasattr(primitive, "linearity"):
        return []
    others = [at for at, flag in enumerate(flags) if not flag]
    return [at for at in others if primitive.linear_in([f or j == at for j, f in enumerate(flags)], params)]


def joined(name: str, *kinds: Kind) -> Kind:
    """The kind of what is one of several values."""
    found = set(kinds) - {ZERO}
    if len(found) > 1:
        raise NotLinear(not_zero(name))
    return found.pop() if found else ZERO


def looped(name: str, step: Program, kinds: list[Kind], carries: int) -> list[Kind]:
    """The kinds of what a step gives, when it is repeated until they do not change."""
    kinds = list(kinds)
    while True:
        found = of_program(step, kinds)
        after = [joined(name, *pair) for pair in zip(kinds[:carries], found, strict=False)]
        if after == kinds[:carries]:
            return [*after, *found[carries:]]
        kinds[:carries] = after


def throughout(found: Any) -> bool:
    """Whether `found()` gives kinds of which all are linear."""
    try:
        return all(k is LINEAR for k in found())
    except NotLinear:
        return False
