"""Python's operators on traced values: `x + y`, `-x`, `x @ y`, `y += x`.

An operator is a row of the table of scalar functions whose Python numbers are weak, or a composition.
Importing this gives each to `rune.value.Traced`, as the method that Python calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import operand
from rune.numpy.elementwise import COMPARISONS, SPECIAL, apply, divmod_, positive, round_
from rune.numpy.products import matmul
from rune.primitives.map import elementwise
from rune.primitives.scalar import TABLE, Row
from rune.program import type_of
from rune.value import Traced, box, raw, unbox

__all__: list[str] = []

ROWS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_div", "mod": "mod",
    "pow": "pow", "and": "and", "or": "or", "xor": "xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip


def is_operand(x: Any) -> bool:
    """Whether a binary operator takes `x`; other types may know an answer of their own."""
    return isinstance(x, (Value, np.ndarray, np.generic, float, int, complex, list, tuple)) or hasattr(
        x, "__array__"
    )


def of_row(name: str) -> Callable:
    def operation(x, y):
        if not (is_operand(x) and is_operand(y)):
            return NotImplemented
        return apply(name, operand(x), operand(y), operator=True)

    return operation


def method(f: Callable) -> Callable:
    """An operation on what is held, as a method of the box."""

    def apply_operator(self, *others):
        result = f(raw(self), *unbox(others))
        return result if result is NotImplemented else box(result)

    return apply_operator


def binary(f: Callable, row: Row | None, reflected: bool) -> Callable:
    """The method of an operator of two operands: the short way where the level has one."""
    long = method((lambda x, y: f(y, x)) if reflected else f)
    if row is None:
        return long

    def apply_operator(self, other):
        x = self._value if self._base is None else self._read()
        y = raw(other) if type(other) is Traced else other
        found = x.level.scalar(row, y, x) if reflected else x.level.scalar(row, x, y)
        if found is not None:
            return Traced(found) if isinstance(found, Value) else found
        return long(self, other)

    return apply_operator


def in_place(of: str, name: str) -> Callable:
    """`y += x`: a 0-d value is a scalar and is rebound; an array is written, seen by all its names."""

    def apply_operator(self, other):
        result = getattr(self, of)(other)
        if not self.shape or result is NotImplemented:
            return result
        shape = result.shape
        if shape != self.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {self.shape} doesn't match the broadcast shape {shape}"
            )
        self._assign(result, name)
        return self

    return apply_operator


def give(name: str, apply_operator: Callable) -> None:
    apply_operator.__name__ = name
    setattr(Traced, name, apply_operator)


for _symbol, _name in (ROWS | {"matmul": "matmul"}).items():
    _f = matmul if _name == "matmul" else of_row(_name)
    _row = None if _name in SPECIAL else TABLE.get(_name)
    give(f"__{_symbol}__", binary(_f, _row, False))
    give(f"__r{_symbol}__", binary(_f, _row, True))
    give(f"__i{_symbol}__", in_place(f"__{_symbol}__", _symbol if _row is None else _row.ufunc.__name__))

for _name in COMPARISONS:
    give(f"__{_name}__", binary(of_row(_name), TABLE[_name], False))

for _symbol, _f in {
    "neg": lambda x: elementwise("neg", x, operator=True),
    "pos": lambda x: x if type_of(x).weak else positive(x),
    "abs": lambda x: elementwise("abs", x, operator=True),
    "invert": lambda x: elementwise("not", x, operator=True),
    "divmod": lambda x, y: divmod_(x, operand(y)),
    "rdivmod": lambda x, y: divmod_(operand(y), x),
    "round": lambda x, decimals=0: round_(x, decimals or 0),
}.items():
    give(f"__{_symbol}__", method(_f))
