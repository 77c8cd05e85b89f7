"""Dispatch: levels, the values they own, and `bind`, the one door to every operation.

A *level* is one running transformation: an interpreter on this thread's stack.  It owns immutable
*values*; whatever is no `Value` is plain (an array, a NumPy scalar, a Python number).  `bind` hands
an operation to the highest level among its arguments, which treats lower levels' values as
constants; with no value among them the operation is NumPy's, but for a loop or branch in a trace, which
is recorded: Python would take its steps one by one.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from rune.program import Type

__all__ = [
    "Level",
    "TracedValueError",
    "Value",
    "apply",
    "beneath",
    "bind",
    "escaped",
    "executing",
    "innermost",
    "innermost_trace",
    "opened",
    "running",
    "stack",
    "staging",
    "tracing",
]


class TracedValueError(ValueError):
    """A traced value was read, or would have been lost, where it stands for no known value."""


class Value:
    """An immutable value of a level; what it holds is the level's business."""

    __slots__ = ("level",)
    level: Level
    type: Type


class Level:
    """One running transformation, named by the entry point the user called."""

    traces = False  # whether operations on plain values belong to this level too (a trace)
    maps = False  # whether its values stand for one lane of many

    def __init__(self, name: str):
        self.name = name
        self.depth = -1
        self.base = -1  # the height of the stack before it was opened, alone or with others
        self.alive = False
        self.additions: dict = {}  # what was added to totals directly inside this level

    def process(self, primitive: Any, args: list, params: dict) -> list:
        raise NotImplementedError

    def scalar(self, row: Any, x: Any, y: Any = None) -> Any:
        """A scalar function of one or two operands by a shorter way than `bind`; None where there is none."""
        return None

    def lift(self, x: Any) -> Value:
        """A plain value or one of a lower level, as a value of this level."""
        raise NotImplementedError

    def concrete(self, value: Value) -> Any:
        """What `value` holds, read through levels below; raises where it is not known."""
        raise TracedValueError(f"the value is traced by {self.name}")


class _Stack(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.hidden: list[list[Level]] = []  # what `beneath` took off; one that is opened meanwhile is above


stack = _Stack()


@contextlib.contextmanager
def opened(*levels: Level):
    """The levels on top of this thread's stack, lowest first; dead afterwards."""
    below = stack.levels
    height = len(below)
    for level in levels:
        level.depth = len(below) + sum(map(len, stack.hidden))
        level.base = height
        level.alive = True
        below.append(level)
    try:
        yield levels[-1]
    finally:
        del below[height:]
        for level in levels:
            level.alive = False


@contextlib.contextmanager
def beneath(level: Level):
    """The stack as it was before `level` was opened, for code that runs on the values around it."""
    stack.hidden.append(stack.levels[level.base :])
    del stack.levels[level.base :]
    try:
        yield
    finally:
        stack.levels[level.base :] = stack.hidden.pop()


def innermost() -> Level | None:
    """The innermost running transformation of this thread."""
    return stack.levels[-1] if stack.levels else None


def executing() -> Level | None:
    """The innermost running transformation, also where code runs beneath it: whose executions count."""
    hidden = stack.hidden[-1] if stack.hidden else []
    return hidden[-1] if hidden and len(stack.levels) == hidden[0].base else innermost()


def running() -> list[Level]:
    """The running transformations of this thread, outermost first."""
    return list(stack.levels)


def tracing() -> bool:
    """Whether a program is being recorded anywhere below on this thread."""
    return any(level.traces for level in stack.levels)


def staging() -> bool:
    """Whether control flow must be recorded: where values depend on arguments of a trace, or on lanes."""
    return any(level.traces or level.maps for level in stack.levels)


def innermost_trace() -> Level:
    """The innermost level that records a program: where an operation on plain values belongs."""
    return next(level for level in reversed(stack.levels) if level.traces)


def bind(primitive: Any, args: list, params: dict) -> list:
    """Apply a primitive: its results, in the highest level among its arguments."""
    top = None
    for a in args:
        if isinstance(a, Value) and (top is None or a.level.depth > top.depth):
            top = a.level
    if top is None:
        if primitive.staged and tracing():
            return innermost_trace().process(primitive, args, params)
        return primitive.evaluate(args, params)
    if not top.alive:
        raise escaped(top)
    if stack.levels and top is not stack.levels[-1] and tracing():
        trace = innermost_trace()
        if trace.depth > top.depth:
            # What has an effect happens where it stands: in a step or branch, also on values of those around.
            if primitive.effect(params):
                return trace.process(primitive, args, params)
            # Anything else happens around the traces above, which record none of what it takes.
            with beneath(next(above for above in stack.levels if above.traces and above.depth > top.depth)):
                return top.process(primitive, args, params)
    return top.process(primitive, args, params)


def apply(primitive: Any, args: list, params: dict) -> list:
    """`bind` for what must be recorded: inside a trace, also where all arguments are plain."""
    if tracing() and not any(isinstance(x, Value) for x in args):
        return innermost_trace().process(primitive, args, params)
    return bind(primitive, args, params)


def escaped(level: Level) -> TracedValueError:
    return TracedValueError(
        f"{level.name}: a value is used outside the call that made it: return it from the function "
        f"(has_aux=True gives values beside the result) instead of storing it"
    )
