"""Batching: values that stand for one element of a mapped axis.

`Lanes` holds every lane's value, stacked along axis 0.  An operation with a mapped argument applies
its batching rule, which gives the operation over all lanes at once.  `Same` holds a value that all
lanes share and that is still one of the map's: lanes may index it, as they may in a compiled map.
"""

from __future__ import annotations

from typing import Any

from rune.level import Level, Value, bind
from rune.primitives import movement
from rune.program import Type, type_of

__all__ = ["Axis", "Batch", "Lanes", "Same"]


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


class Same(Value):
    __slots__ = ("value",)

    def __init__(self, level: Batch, value: Any):
        self.level = level
        self.value = value

    @property
    def type(self) -> Type:
        return type_of(self.value)


class Batch(Level):
    maps = True

    def __init__(self, name: str, size: int):
        super().__init__(name)
        self.size = Axis(size)

    def owns(self, x: Any) -> bool:
        return isinstance(x, Lanes) and x.level is self

    def process(self, primitive, args, params):
        mapped, shared = [self.owns(a) for a in args], [self.shares(a) for a in args]
        values = [a.value if m or s else a for a, m, s in zip(args, mapped, shared, strict=True)]
        if any(mapped):
            outs, lanes = primitive.batch(self.size, values, mapped, params)
        else:
            outs = bind(primitive, values, params)
            lanes = [False] * len(outs)
        common = (lambda x: Same(self, x)) if any(shared) else (lambda x: x)
        return [Lanes(self, x) if m else common(x) for x, m in zip(outs, lanes, strict=True)]

    def shares(self, x: Any) -> bool:
        return isinstance(x, Same) and x.level is self

    def spread(self, x: Any) -> Any:
        """Every lane's `x`, stacked; one that depends on no lane is broadcast."""
        if self.owns(x):
            return x.value
        x = self.common(x)
        return movement.in_lanes(x, self.size)

    def common(self, x: Any) -> Any:
        """What no lane tells apart, as a value of the level around the map."""
        return x.value if self.shares(x) else x

    def lift(self, x):
        return x if self.owns(x) else Lanes(self, self.spread(x))

    def concrete(self, value):
        if not self.shares(value):
            return super().concrete(value)
        value = value.value
        return value.level.concrete(value) if isinstance(value, Value) else value
