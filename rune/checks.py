"""Checks of values as a user writes them."""

from __future__ import annotations

from rune.arguments import raws, type_or_none
from rune.level import apply
from rune.primitives.effects import check_
from rune.structure import describe

__all__ = ["check"]


def check(ok, message):
    (x,) = raws([ok])
    t = type_or_none(x)
    if t is None or t.dtype != bool:
        raise TypeError(
            f"rune.check: the first argument must be boolean, got {describe(ok) if t is None else t}"
        )
    if not isinstance(message, str):
        raise TypeError(f"rune.check: the message must be a str, got {describe(message)}")
    apply(check_, [x], {"message": message, "lanes": 0})
