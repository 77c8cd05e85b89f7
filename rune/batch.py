"""Batching: values that stand for one element of a mapped axis.

`Lanes` holds every lane's value, stacked along axis 0.  An operation with a mapped argument applies
its batching rule, which gives the operation over all lanes at once.
"""

from __future__ import annotations

from typing import Any

from rune.level import Level, Value
from rune.primitives import movement
from rune.program import Type, type_of

__all__ = ["Axis", "Batch", "Lanes"]


class Axis(int):
    """The number of lanes of a map, with the map's name where it has one."""

    name: Any

    def __new__(cls, size: int, name: Any = None) -> Axis:
        self = super().__new__(cls, size)
        self.name = size.name if isinstance(size, Axis) else name
        return self


class Lanes(Value):
    __slots__ = ("value",)

    def __init__(self, level: Batch, value: Any):
        self.level = level
        self.value = value

    @property
    def type(self) -> Type:
        t = type_of(self.value)
        return Type(t.dtype, t.shape[1:])


class Batch(Level):
    maps = True

    def __init__(self, name: str, size: int):
        super().__init__(name)
        self.size = Axis(size)

    def owns(self, x: Any) -> bool:
        return isinstance(x, Lanes) and x.level is self

    def process(self, primitive, args, params):
        mapped = [self.owns(a) for a in args]
        values = [a.value if m else a for a, m in zip(args, mapped, strict=True)]
        outs, lanes = primitive.batch(self.size, values, mapped, params)
        return [Lanes(self, x) if m else x for x, m in zip(outs, lanes, strict=True)]

    def spread(self, x: Any) -> Any:
        """Every lane's `x`, stacked; one that depends on no lane is broadcast."""
        if self.owns(x):
            return x.value
        return movement.broadcast(x, (self.size, *type_of(x).shape))

    def lift(self, x):
        return x if self.owns(x) else Lanes(self, self.spread(x))
