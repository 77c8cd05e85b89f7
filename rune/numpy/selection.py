"""What a mask that is not known selects: `y[mask]` under jit and vmap.

Its shape would depend on values, so it has none.  It takes elementwise operations with scalars and
with selections by the same mask, and can be stored back under that mask: `y[mask] *= 2`,
`y[mask] = np.sqrt(y[mask])`.  Places that the mask leaves out hold a harmless number, so that
neither their value nor their derivative matters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import TracedValueError, Value
from rune.numpy.arguments import dtype_of, operand, shape_of
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.value import tables, unbox

__all__ = ["Selection"]

# Reductions that take the mask themselves, and what they need beside it.
REDUCTIONS = dict.fromkeys(("all", "any", "mean", "prod", "std", "sum", "var"), "") | {
    "max": ", initial=-np.inf",
    "min": ", initial=np.inf",
}


def same(a: Any, b: Any) -> bool:
    """Whether two masks are one: the same value, or what the same equation gave (traces share equations)."""
    if a is b:
        return True
    if isinstance(a, Value) and isinstance(b, Value):
        return a.level is b.level and any(
            hasattr(a, k) and same(getattr(a, k), getattr(b, k)) for k in ("var", "value")
        )
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)


class Selection(np.lib.mixins.NDArrayOperatorsMixin):
    __slots__ = ("mask", "whole")
    __hash__ = None

    def __init__(self, whole: Any, mask: Any):
        self.whole = whole
        self.mask = mask

    @classmethod
    def of(cls, x: Any, mask: Any) -> Selection:
        rest = (1,) * (len(shape_of(x)) - len(shape_of(mask)))
        wide = movement.reshape(mask, shape_of(mask) + rest)
        spare = dtype_of(x).type(0.5 if dtype_of(x).kind in "fc" else 1)
        return cls(e.select(wide, x, spare), mask)

    dtype = property(lambda self: dtype_of(self.whole))

    def refused(self, what: str, name: str = "") -> TracedValueError:
        initial = REDUCTIONS.get(name)
        by_mask = "np.where(mask, x, 0)" if initial is None else f"np.{name}(x, where=mask{initial})"
        return TracedValueError(
            f"boolean index: the value is traced by {self.mask.level.name}; what it selects has no known shape and cannot be {what}: "
            f"write {by_mask}"
        )

    def belongs(self, mask: Any) -> None:
        if not same(self.mask, mask):
            raise self.refused("combined with what another mask selects")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **keywords):
        if method != "__call__" or keywords or ufunc not in tables.ufuncs:
            raise self.refused(f"an operand of numpy.{ufunc.__name__}")
        operands = []
        for x in unbox(inputs):
            if isinstance(x, Selection):
                x.belongs(self.mask)
                x = x.whole
            elif shape_of(operand(x)):
                raise self.refused("combined with an array")
            operands.append(x)
        result = tables.ufuncs[ufunc](*operands)
        if isinstance(result, tuple):
            return tuple(Selection(r, self.mask) for r in result)
        if out is not None:
            if out[0] is not self or not np.can_cast(dtype_of(result), self.dtype, "same_kind"):
                raise self.refused("written to")
            self.whole = cast(result, self.dtype)
            return self
        return Selection(result, self.mask)

    def __array_function__(self, function, types, args, keywords):
        raise self.refused(f"an argument of numpy.{function.__name__}", function.__name__)

    def __array__(self, dtype=None, copy=None):
        raise self.refused("read")

    def __getattr__(self, name):
        raise self.refused(f"asked for {name}", name)
