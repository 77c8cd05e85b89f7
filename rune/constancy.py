"""Whether a traced value is the same in every run of the program that is being recorded.

It is where no input that may differ reaches it.  The inputs of a step are what the loop was given: rows
of a constant array are constant, and so is a carry that starts from constants and that every step makes
of constants.  The last is known when the step has been traced; what asks before then is told at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rune.batch import Lanes, Same
from rune.level import Value, running
from rune.linear import Tangent
from rune.program import Literal
from rune.trace import Trace

__all__ = ["settle", "sources", "steps_from", "when_constant"]


def sources(x: Any) -> set[int] | None:
    """The loop carries that a value is made of besides constants; None where it is made of other inputs."""
    while isinstance(x, Value) and not x.level.traces:
        if isinstance(x, Tangent):
            return None  # it stands for any
        x = x.value if isinstance(x, (Lanes, Same)) else x.primal
    if not isinstance(x, Value):
        return set()
    level, found, seen, todo = x.level, set(), set(), [x.var]
    captured = {id(var): value for value, var in level.captured.values()}
    while todo:
        var = todo.pop()
        if isinstance(var, Literal) or id(var) in seen:
            continue
        seen.add(id(var))
        made = level.made.get(id(var))
        if made is not None:
            if made.effect == "host":  # who knows what it returns
                return None
            todo += made.inputs
        elif id(var) in captured:
            more = sources(captured[id(var)])
            if more is None:
                return None
            found |= more
        elif id(var) in level.carried:
            found.add(id(var))
        elif id(var) in level.constant_inputs:
            found |= level.constant_inputs[id(var)]
        else:
            return None
    return found


def when_constant(x: Any, report: Callable[[], None]) -> None:
    """Call `report` where `x` is found to be constant in a program that will run again."""
    if any(level.traces and not level.once for level in running()):
        found = sources(x)
        if found is not None:
            wait(found, report)


def wait(carries: set[int], report: Callable[[], None]) -> None:
    loops = [level for level in running() if level.traces and carries & level.carried]
    if loops:
        loops[-1].waiting.append((carries, report))
    else:
        report()


def steps_from(inputs: list[Value], carry: list, rows: list) -> None:
    """Say of the inputs of a step which are constant, and which carries start so."""
    if not inputs:
        return
    level: Trace = inputs[0].level
    for k, (x, given) in enumerate(zip(inputs, (*carry, *rows), strict=True)):
        made_of = sources(given)
        if k >= len(carry) and made_of is not None:
            level.constant_inputs[id(x.var)] = made_of
        elif made_of == set():
            level.carried.add(id(x.var))


def settle(inputs: list[Value], after: list) -> None:
    """Report what waited for carries that turned out constant; `after` is what the step made of them."""
    if not inputs or not inputs[0].level.waiting:
        return
    level: Trace = inputs[0].level
    made_of = {
        id(x.var): sources(y) for x, y in zip(inputs, after, strict=False) if id(x.var) in level.carried
    }
    constant = set(made_of)
    while changing := {v for v in constant if made_of[v] is None or not made_of[v] <= constant}:
        constant -= changing
    waiting, level.waiting = level.waiting, []
    differing, level.carried = level.carried - constant, set()
    for carries, report in waiting:
        if not carries & differing:
            wait(carries - constant, report)
