"""remat: a function whose intermediates are computed again in the backward pass instead of kept.

Inside a trace it is a call whose linear half starts from the arguments alone.  Under eager
differentiation the record holds one operation, which runs its program again when it is transposed.
Values that the function captures are arguments too, and what it adds to totals are results: the function
is traced, and its program is what runs again.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rune.arguments import array_leaves, callable_, parted, raws, type_or_none
from rune.batch import Batch, Lanes
from rune.constructs.call import call
from rune.constructs.custom import highest
from rune.jvp import Forward, apart
from rune.level import TracedValueError, apply, bind, opened, tracing
from rune.linear import Recorder, Tangent, transpose
from rune.primitives.primitive import Primitive, to_unknown, zeros
from rune.program import type_of
from rune.trace import record
from rune.trace import run as run_program
from rune.value import box

__all__ = ["remat"]

NAME = "rune.remat"


class Again(Primitive):
    """(tangents..., primals...) -> tangents of the results, by running the function again."""

    name = "remat"
    recompute = False

    def type(self, types, params):
        return list(params["types"])

    def linear_in(self, flags, params):
        return not any(flags[params["moving"] :])

    def evaluate(self, args, params):
        n, forward = params["moving"], Forward(NAME)
        with opened(forward):
            outs = [forward.open(x) for x in params["run"](self.duals(forward, args[:n], args[n:]))]
        return [zeros(type_of(p)) if t is None else t for p, t in outs if type_of(p).inexact]

    def duals(self, forward, tangents, primals):
        given = iter(tangents)
        return [forward.dual(p, next(given)) if type_of(p).inexact else p for p in primals]

    def transpose(self, cts, args, params):
        n = params["moving"]
        recorder, forward = Recorder(NAME), Forward(NAME)
        with opened(recorder, forward), np.errstate(all="ignore"):
            inputs = [recorder.input(type_of(a)) for a in args[:n]]
            outs = [forward.open(x) for x in params["run"](self.duals(forward, inputs, args[n:]))]
        tangents = [t for p, t in outs if type_of(p).inexact]
        found = transpose(recorder, inputs, tangents, cts)
        return to_unknown(found, args)

    def jvp(self, primals, tangents, params):
        forward = Forward(NAME)
        with opened(forward):
            pairs = [
                forward.open(x)
                for x in self.evaluate(
                    [forward.dual(p, t) for p, t in zip(primals, tangents, strict=True)], params
                )
            ]
        return [p for p, _ in pairs], [t for _, t in pairs]

    def batch(self, size, args, mapped, params):
        level = Batch(NAME, size)
        with opened(level):
            outs = self.evaluate(
                [Lanes(level, a) if m else a for a, m in zip(args, mapped, strict=True)], params
            )
            return [level.spread(x) for x in outs], [True] * len(outs)


again = Again()


def remat(f):
    callable_(NAME, f)

    @functools.wraps(f, updated=())
    def function(*args, **keywords):
        found, tree = array_leaves(NAME, (args, keywords))
        leaves = raws(found)
        dynamic = [type_or_none(x) is not None and type(x) not in (int, bool) for x in leaves]
        values = [x for x, d in zip(leaves, dynamic, strict=True) if d]
        shape: dict = {}
        totals: list = []  # that the function adds to; the additions stand behind its results

        def run(values):
            given = iter(values)
            inside = [box(next(given)) if d else x for x, d in zip(leaves, dynamic, strict=True)]
            args, keywords = tree.build(inside)
            result, shape["out"] = parted(NAME, f(*args, **keywords))
            return result

        level = highest(leaves)
        if tracing():
            program, captures = record(NAME, [type_of(x) for x in values], run, totals)
            params = {"program": program, "remat": True}
            outs = apply(call, [*values, *captures], params)
        elif isinstance(level, Forward):
            outs = differentiated(level, with_additions(run, totals), values, totals)
        else:
            outs = run(values)
        n = shape["out"].size
        for total, x in zip(totals, outs[n:], strict=True):
            total.add(box(x))
        return shape["out"].build([box(x) for x in outs[:n]])

    return function


def with_additions(run: Any, totals: list) -> Any:
    """`run` with its additions behind its results, to those totals that its first call added to.

    A trace of it also adds to those of branches that were not taken, which are zero.
    """
    called = False

    def both(values):
        nonlocal called
        outs, additions = apart(NAME, lambda: run(values))
        if not called:
            totals.extend(additions)
            called = True
        return [*outs, *(additions[total] for total in totals)]

    return both


def differentiated(level: Forward, run: Any, values: list, totals: list) -> list:
    pairs = [level.open(x) for x in values]
    primals = [p for p, _ in pairs]
    if any(t is not None and not isinstance(t, Tangent) for _, t in pairs):
        return run(values)  # forward mode has no backward pass to keep anything for
    # At this level, without tangents: a custom rule inside is applied here and not by a level around.
    outs = run([level.dual(p, None) for p in primals])
    return traced(level, run, values, outs)


def recorded(level: Forward, run: Any, pairs: list, outs: list) -> list:
    """What the function gave, with tangents that are found by running it again."""
    primals = [p for p, _ in pairs]
    results = [level.open(x)[0] for x in outs]
    if all(t is None for _, t in pairs):
        return [level.dual(p, None) for p in results]
    moving = [zeros(type_of(p)) if t is None else t for p, t in pairs if type_of(p).inexact]
    types = tuple(type_of(p).strong() for p in results if type_of(p).inexact)
    params = {"run": run, "types": types, "moving": len(moving)}
    changes = iter(bind(again, [*moving, *primals], params))
    return [level.dual(p, next(changes) if type_of(p).inexact else None) for p in results]


def traced(level: Forward, run: Any, values: list, outs: list) -> list:
    """The function's program over its arguments and captures; a function that reads values just runs.

    Running the function itself again would read the names and arrays that it captures as they are by then:
    a name that a loop rebinds, or an array written into, would give the derivative of another function.
    """
    try:
        program, captures = record(NAME, [type_of(x) for x in values], run, [])
    except TracedValueError:
        return run(values)
    every = [*values, *captures]
    above, repeated = highest(every), lambda xs: run_program(program, xs)[: len(outs)]
    if above is level:
        return recorded(level, repeated, [level.open(x) for x in every], outs)
    if not isinstance(above, Forward):
        return run(values)  # under a map inside of the differentiation
    return differentiated(above, repeated, every, [])
