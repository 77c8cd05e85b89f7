"""Forward mode: values that carry a tangent.

A `Dual` holds a primal and a tangent, each plain or a value of a lower level; `None` is a zero
tangent.  Integers and booleans have no derivative, so results of those dtypes leave the level and
can be read: an `if` on a comparison differentiates the path taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rune.level import Level, Value, bind, opened
from rune.program import Type, type_of
from rune.snapshot import Snapshots

__all__ = ["Dual", "Forward", "apart"]


class Dual(Value):
    __slots__ = ("primal", "tangent")

    def __init__(self, level: Forward, primal: Any, tangent: Any):
        self.level = level
        self.primal = primal
        self.tangent = tangent

    @property
    def type(self) -> Type:
        return type_of(self.primal)


class Forward(Level):
    def __init__(self, name: str, snapshots: Snapshots | None = None):
        super().__init__(name)
        self.snapshots = snapshots  # of plain operands, where what the operations read is kept for later

    def process(self, primitive, args, params):
        primals, tangents = [], []
        for a in args:
            primal, tangent = self.open(a)
            if self.snapshots is not None and primal is a:
                primal = self.snapshots.keep(a)
            primals.append(primal)
            tangents.append(tangent)
        if all(t is None for t in tangents):
            return [self.dual(p, None) for p in bind(primitive, primals, params)]
        outs, changes = primitive.jvp(primals, tangents, params)
        return [self.dual(p, t) for p, t in zip(outs, changes, strict=True)]

    def open(self, x: Any) -> tuple[Any, Any]:
        """The primal and tangent of a value; a constant of this level has no tangent."""
        if isinstance(x, Dual) and x.level is self:
            return x.primal, x.tangent
        return x, None

    def dual(self, primal: Any, tangent: Any) -> Any:
        return Dual(self, primal, tangent) if type_of(primal).inexact else primal

    def lift(self, x: Any) -> Any:
        return self.dual(*self.open(x))

    def concrete(self, value):
        primal = value.primal
        return primal.level.concrete(primal) if isinstance(primal, Value) else primal


def apart(name: str, f: Callable[[], list]) -> tuple[list, dict]:
    """What a function of the user's gives, and adds to totals, run inside of no differentiation.

    A plain array that it writes to belongs to a level of its own then, and not to the innermost of those
    around, whose values it may not be meant to see.
    """
    level = Forward(name)
    with opened(level):
        outs = f()
    only = lambda x: level.open(x)[0]
    return [only(x) for x in outs], {total: only(x) for total, x in level.additions.items()}
