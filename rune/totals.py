"""Totals: sums that code anywhere inside a function adds to, across transformations.

An addition made inside a transformation belongs to that transformation's level.  When the level ends,
its additions move to the level around it in the form that counts every execution once: a map sums over
its lanes, a trace returns them as results of its program (a loop's stacked and summed), a
differentiation passes their values.  `collect` opens a scope at the present level and takes what
arrives there.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from rune.arguments import callable_, raws, type_or_none
from rune.level import Level, Value, executing
from rune.primitives import reduce
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.program import type_of
from rune.structure import describe
from rune.value import box

__all__ = ["Total", "arrive", "collecting", "open_totals", "summed"]


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.open: list[_Scope] = []


_scopes = _Scopes()


class _Scope:
    """One running `collect`: the level it was opened at, and the sum so far."""

    def __init__(self, total: Total, level: Level | None):
        self.total = total
        self.level = level
        self.sum: Any = None


class Total:
    """A sum by name."""

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"rune.Total: the name must be a str, got {describe(name)}")
        self.name = name

    def __repr__(self) -> str:
        return f"rune.Total({self.name!r})"

    def add(self, v):
        scope = next((s for s in reversed(_scopes.open) if s.total is self), None)
        if scope is None:
            return
        (x,) = raws([v])
        if type_or_none(x) is None:
            raise TypeError(f"rune.Total.add: {self.name}: {describe(v)} is no array and no number")
        if type_of(x).dtype == bool:
            x = cast(x, np.int64)  # booleans are counted
        level = executing()
        if level is scope.level:
            scope.sum = plus(scope.sum, x)
        else:
            level.additions[self] = plus(level.additions.get(self), x)

    def collect(self, zero, f):
        name = "rune.Total.collect"
        callable_(name, f)
        (start,) = raws([zero])
        t = type_or_none(start)
        if t is None:
            raise TypeError(f"{name}: {self.name}: {describe(zero)} is no array and no number")
        scope = _Scope(self, executing())
        _scopes.open.append(scope)
        try:
            result = f()
        finally:
            _scopes.open.remove(scope)
        total = start if isinstance(start, Value) else np.asarray(start, t.dtype)[()]
        if scope.sum is not None:
            own = type_of(scope.sum)
            if own.shape != t.shape:
                raise ValueError(
                    f"{name}: {self.name}: shape {list(own.shape)} in an addition, {list(t.shape)} in zero"
                )
            if not np.can_cast(own.dtype, t.dtype, "same_kind") and not own.fits(t.dtype):
                raise ValueError(f"{name}: {self.name}: dtype {own.dtype} in an addition, {t.dtype} in zero")
            total = e.add(total, cast(scope.sum, t.dtype))
        return result, box(total)


def plus(total: Any, x: Any) -> Any:
    return x if total is None else e.add(total, x)


def open_totals() -> tuple:
    """The totals that are being collected: part of a compiled function's key."""
    return tuple(s.total for s in _scopes.open)


def collecting() -> bool:
    return bool(_scopes.open)


def arrive(additions: list[tuple[Total, Any]]) -> None:
    """Additions of a level that has ended, as additions of the level around it."""
    for total, x in additions:
        total.add(box(x))


def summed(x: Any) -> Any:
    """The additions of all lanes, or of all steps, stacked along axis 0."""
    return reduce.reduce("sum", x, (0,))
