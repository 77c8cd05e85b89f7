"""Programs derived from programs: jvp, the two halves of reverse mode, transpose, batch.

A derivation runs the program under a transformation's level while a trace records the result, so no
rule is written twice: an equation that holds a program (a loop, a compiled call) derives it in turn.
What was derived is kept with the program, by the kind of derivation and its details.

The split of reverse mode, `linearize`, gives two programs.  The *primal* half reads no tangent; it
returns the program's results and the values worth keeping (`rune.cut`).  The *linear* half takes
those values, whatever is at hand, and the tangents; it computes again what was not kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.batch import Batch, Lanes
from rune.cut import Plan, plan
from rune.jvp import Forward
from rune.level import apply, bind, opened
from rune.linear import Recorder
from rune.linear import transpose as transpose_record
from rune.primitives.primitive import instantiated, zeros
from rune.program import Equation, Literal, Program, Type, Var
from rune.trace import Staged, Trace, record, run

__all__ = ["Linearized", "batch", "guarded", "jvp", "kept", "linearize", "live", "repeated", "transpose"]

Mask = tuple[bool, ...]


def kept(program: Program, key: tuple, build: Callable) -> Any:
    """`build()`, once per program and key."""
    found = program.derived.get(key)
    if found is None:
        found = build()
        if program.owner is not None:
            program.owner.stats.derivations += 1
        found = program.derived.setdefault(key, found)
    return found


def jvp(program: Program, mask: Mask, force: Mask = ()) -> tuple[Program, Mask]:
    """(primals..., tangents of the masked inputs...) -> (results..., their tangents where not zero).

    `force` names results whose tangent is wanted even where it is zero; the mask tells which are there.
    """

    def build():
        level = Trace("rune.jvp")
        forward = Forward("rune.jvp")
        with opened(level):
            primals = [level.input(t) for t in program.input_types]
            tangents = [
                level.input(t.strong()) if m else None for t, m in zip(program.input_types, mask, strict=True)
            ]
            with opened(forward):
                duals = [forward.dual(p, t) for p, t in zip(primals, tangents, strict=True)]
                outs = [forward.open(x) for x in run(program, duals)]
            changes = [t for _, t in outs]
            for k, wanted in enumerate(force):
                if wanted and changes[k] is None:
                    changes[k] = zeros(program.outputs[k].type)
            present = tuple(t is not None for t in changes)
            derived = level.close(
                [*(p for p, _ in outs), *(t for t in changes if t is not None)],
                f"{program.name}.jvp",
                program.owner,
            )
        return derived, present

    return kept(program, ("jvp", mask, force), build)


@dataclasses.dataclass(frozen=True)
class Linearized:
    """The halves of a program's derivative.

    `primal` returns the program's results, then the stored values.  `linear` takes the values named by
    `reads`, in order: ("input", k), ("output", k), ("stored", k), or in a loop ("previous", (k, place)),
    carry k as the step before left it at that place; then the masked tangents.
    """

    primal: Program
    linear: Program
    reads: tuple[tuple, ...]
    present: Mask  # which results have a tangent
    stored: int

    def values(self, args: list, outs: list) -> list:
        """What `linear` reads, from the arguments and all results of `primal`."""
        count = len(outs) - self.stored
        source = {"input": args, "output": outs[:count], "stored": outs[count:]}
        return [source[kind][k] for kind, k in self.reads]


def linearize(
    program: Program, mask: Mask, force: Mask = (), carries: int = 0, store: bool = True
) -> Linearized:
    """Split the derivative by the masked inputs; with `store` off, all is repeated from the inputs.

    In a loop's step the first `carries` inputs and outputs are the carry: they change from step to
    step, so they are at hand only if stored.
    """
    key = ("linearize", mask, force, carries, store)
    return kept(program, key, lambda: build_linearized(program, mask, force, carries, store))


def build_linearized(program: Program, mask: Mask, force: Mask, carries: int, store: bool) -> Linearized:
    level = Trace("rune.vjp")
    recorder, forward = Recorder("rune.vjp"), Forward("rune.vjp")
    with opened(level):
        primals = [level.input(t) for t in program.input_types]
        with opened(recorder, forward):
            tangents = [
                recorder.input(t.strong()) if m else None
                for t, m in zip(program.input_types, mask, strict=True)
            ]
            duals = [forward.dual(p, t) for p, t in zip(primals, tangents, strict=True)]
            outs = [forward.open(x) for x in run(program, duals)]
        changes = [t for _, t in outs]
        records = live(recorder, [t for t in changes if t is not None])
        needed = unique(
            level.variable(a) for r in records for a in r.args if isinstance(a, Staged) and a.level is level
        )
        needed += [
            v for v in unique(level.variable(t) for t in changes if isinstance(t, Staged)) if v not in needed
        ]
        whole = level.close([p for p, _ in outs], program.name, program.owner)
        equations = Program(whole.inputs, level.equations, whole.outputs)
        keep, hand = choose(equations, needed, carries, store)
        primal = Program(
            whole.inputs,
            level.equations,
            [*whole.outputs, *keep.stored],
            f"{program.name}.primal",
            program.owner,
        ).pruned()
    linear, reads = linear_half(program, keep, hand, needed, records, recorder, tangents, changes, force)
    present = tuple(t is not None or (k < len(force) and force[k]) for k, t in enumerate(changes))
    return Linearized(primal, linear, reads, present, len(keep.stored))


def choose(program: Program, needed: list[Var], carries: int, store: bool) -> tuple[Plan, dict[int, tuple]]:
    """The cheapest plan, and what is at hand: id of a variable -> how its value is named in `reads`.

    A loop's carry is what the step before gave out as carry: where that is stacked anyway, as an output
    or because it is stored, the carry itself is that stack moved by one step.
    """
    hand: dict[int, tuple] = {id(v): ("input", k) for k, v in enumerate(program.inputs) if k >= carries}
    for k, v in enumerate(program.outputs):
        if k >= carries:
            hand.setdefault(id(v), ("output", k))
    loop = list(zip(program.inputs[:carries], program.outputs[:carries], strict=True))
    for k, (before, after) in enumerate(loop):
        if hand.get(id(after), ("",))[0] == "output":
            hand[id(before)] = ("previous", (k, hand[id(after)]))
    found = plan(program, needed, set(hand), store)
    for k, (before, after) in enumerate(loop):
        stored = [id(v) for v in found.stored]
        if id(before) in stored and id(after) in stored and before is not after:
            found.stored = [v for v in found.stored if v is not before]
            hand[id(before)] = ("previous", (k, ("after", id(after))))
    for key, (kind, place) in list(hand.items()):
        if kind == "previous" and place[1][0] == "after":
            at = next(j for j, v in enumerate(found.stored) if id(v) == place[1][1])
            hand[key] = ("previous", (place[0], ("stored", at)))
    return found, hand


def linear_half(program, keep, hand, needed, records, recorder, tangents, changes, force):
    """The program that repeats what was not kept and then applies the recorded linear operations."""
    sources = {id(v): ("stored", k) for k, v in enumerate(keep.stored)}
    sources |= {k: place for k, place in hand.items() if k not in sources}
    read = unique(
        v
        for v in [*needed, *(u for e in keep.repeated for u in e.inputs if not isinstance(u, Literal))]
        if id(v) in sources
    )
    level = Trace("rune.vjp")
    with opened(level):
        env = {id(v): level.input(v.type) for v in read}
        moving = {id(t): level.input(t.type) for t in tangents if t is not None}
        for e in keep.repeated:
            again = getattr(e.primitive, "again", None)
            args = [v.value if isinstance(v, Literal) else env[id(v)] for v in e.inputs]
            outs = bind(e.primitive, args, again(e.params) if again else e.params)
            env.update(zip(map(id, e.outputs), outs, strict=True))

        def here(a):
            if recorder.owns(a):
                return moving[id(a)]
            return env[id(a.var)] if isinstance(a, Staged) and id(a.var) in env else a

        for r in records:
            outs = bind(r.primitive, [here(a) for a in r.args], r.params)
            moving.update(zip(map(id, r.outs), outs, strict=True))
        results = []
        for k, t in enumerate(changes):
            if t is not None:
                results.append(here(t))
            elif k < len(force) and force[k]:
                results.append(zeros(program.outputs[k].type))
        linear = level.close(results, f"{program.name}.linear", program.owner)
        linear.linear = True
    return linear, tuple(sources[id(v)] for v in read)


def live(recorder: Recorder, wanted: list) -> list:
    """The records that some wanted tangent depends on."""
    needed = {id(t) for t in wanted}
    found = []
    for r in reversed(recorder.records):
        if any(id(t) in needed for t in r.outs):
            found.append(r)
            needed.update(id(a) for a in r.args if recorder.owns(a))
    return found[::-1]


def unique(variables) -> list[Var]:
    return list({id(v): v for v in variables}.values())


def transpose(
    program: Program, linear: Mask, given: Mask, into: Mask = (), force: bool = False
) -> tuple[Program, Mask]:
    """The transpose of a program linear in the masked inputs.

    (the other inputs..., cotangents of the `given` results..., accumulators of the linear inputs flagged
    by `into`...) -> cotangents of the linear inputs, those that are not zero (all of them with `force`).
    """

    def build():
        level, recorder = Trace("rune.vjp"), Recorder("rune.vjp")
        with opened(level):
            constants = [
                None if m else level.input(t) for t, m in zip(program.input_types, linear, strict=True)
            ]
            cts = [
                level.input(t.strong()) if g else None
                for t, g in zip(program.output_types, given, strict=True)
            ]
            flagged = iter(into or (False,) * sum(linear))
            types = [t for t, m in zip(program.input_types, linear, strict=True) if m]
            start = [level.input(t) if f else None for t, f in zip(types, flagged, strict=True)]
            with opened(recorder):
                moving = [
                    recorder.input(t) if m else None for t, m in zip(program.input_types, linear, strict=True)
                ]
                args = [c if t is None else t for c, t in zip(constants, moving, strict=True)]
                outs = run(program, args)
            found = transpose_record(recorder, [t for t in moving if t is not None], outs, cts, start)
            if force:
                found = instantiated(found, types)
            present = tuple(ct is not None for ct in found)
            derived = level.close(
                [ct for ct in found if ct is not None], f"{program.name}.transpose", program.owner
            )
        return derived, present

    return kept(program, ("transpose", linear, given, into, force), build)


def batch(program: Program, mask: Mask, size: int, force: Mask = ()) -> tuple[Program, Mask]:
    """The program over lanes: masked inputs and the flagged results have them along axis 0."""

    def build():
        level, lanes = Trace("rune.vmap"), Batch("rune.vmap", size)
        with opened(level):
            args = []
            for t, m in zip(program.input_types, mask, strict=True):
                args.append(level.input(Type(t.dtype, (size, *t.shape)) if m else t))
            with opened(lanes):
                inside = [Lanes(lanes, a) if m else a for a, m in zip(args, mask, strict=True)]
                outs = run(program, inside)
            forced = force or (False,) * len(outs)
            present = tuple(lanes.owns(x) or f for x, f in zip(outs, forced, strict=True))
            results = [lanes.spread(x) if p else x for x, p in zip(outs, present, strict=True)]
            derived = level.close(results, f"{program.name}.batched", program.owner)
        return derived, present

    return kept(program, ("batch", mask, int(size), getattr(size, "name", None), force), build)


def repeated(program: Program) -> Program:
    """The program for a backward pass that computes it again: what may fail has not failed, and what
    only had an effect is left out."""

    def build():
        equations, live = [], {id(v) for v in program.outputs}
        for eq in reversed(program.equations):
            if any(id(v) in live for v in eq.outputs):
                again = getattr(eq.primitive, "again", None)
                params = again(eq.params) if again else eq.params
                equations.append(Equation(eq.primitive, eq.inputs, params, eq.outputs))
                live.update(id(v) for v in eq.inputs)
        name, owner = program.name, program.owner
        return Program(program.inputs, equations[::-1], program.outputs, name, owner, program.linear)

    return kept(program, ("repeated",), build)


def guarded(program: Program) -> Program:
    """The program with a further last input, one boolean: where it is false, nothing in it fails.

    Its results mean something where it is true.  It is what becomes of a branch or a step before it is
    batched for lanes of which some do not take it.
    """

    def f(inputs):
        args, taken = inputs[:-1], inputs[-1]
        env = dict(zip(map(id, program.inputs), args, strict=True))
        read = lambda v: v.value if isinstance(v, Literal) else env[id(v)]
        for eq in program.equations:
            args, params = [read(v) for v in eq.inputs], eq.params
            if eq.effect is not None:
                args, params = eq.primitive.guarded(args, params, taken)
            env.update(zip(map(id, eq.outputs), apply(eq.primitive, args, params), strict=True))
        return [read(v) for v in program.outputs]

    types = [*program.input_types, Type(np.dtype(np.bool_), ())]
    return kept(program, ("guarded",), lambda: record(program.name, types, f)[0])
