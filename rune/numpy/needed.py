"""Values that a shape depends on: read where they are known, refused by name where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import TracedValueError, Value
from rune.numpy.arguments import asarray

__all__ = ["concrete", "dependent"]


def dependent(name: str, x: Any) -> TracedValueError:
    """The refusal of a function whose result has a shape that depends on values which are not known."""
    if name in ("array_repr", "array_str", "array2string", "tobytes"):
        rest = (
            "its numbers are not known here: write str(x), which shows what is, or print the result outside"
        )
    elif name.startswith("unique"):
        rest = "a shape would depend on values: write s = np.sort(x), and np.diff(s) != 0 for a mask of what is new"
    else:
        rest = "a shape would depend on values: write np.where(mask, x, 0), or a reduction with where=mask"
    return TracedValueError(f"{name}: the value is traced by {x.level.name}; {rest}")


def concrete(name: str, x: Any) -> np.ndarray:
    """The numbers of a value, where its level knows them."""
    x = asarray(x)
    if not isinstance(x, Value):
        return x
    try:
        return np.asarray(x.level.concrete(x))
    except TracedValueError:
        raise dependent(name, x) from None
