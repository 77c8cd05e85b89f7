"""Branches: one of several programs applied to the same operands, chosen by an index.

One branch runs.  A derivation derives every branch and chooses among the results with the same
index; what the linear halves read is returned by all, zeros from the branches that have none.  Where
the index has lanes all branches run for all lanes and each lane takes its own: derivatives then enter
a branch only through lanes that took it (`gate`), so a branch not taken never gives a NaN.
"""

from __future__ import annotations

import numpy as np

from rune import derive
from rune.level import bind
from rune.linear import Tangent
from rune.linearity import Kind, joined, of_program, throughout
from rune.lower import lower
from rune.native import nest
from rune.primitives import effects, movement
from rune.primitives.primitive import Primitive, Unknown, zeros
from rune.primitives.scalar import e
from rune.program import Program, Type, Var, type_of
from rune.trace import record, run

__all__ = ["cond_"]


class Cond(Primitive):
    name = "cond"
    recompute = False
    staged = True

    def effect(self, params):
        return next((b.effect for b in params["branch"] if b.effect), None)

    def type(self, types, params):
        return [t.strong() for t in params["branch"][0].output_types]

    def evaluate(self, args, params):
        return run(params["branch"][int(args[0])], args[1:])

    def jvp(self, primals, tangents, params):
        branches, (index, *operands) = params["branch"], primals
        mask = tuple(t is not None for t in tangents[1:])
        moving = [t for t in tangents[1:] if t is not None]
        if not moving:
            outs = bind(self, primals, params)
            return outs, [None] * len(outs)
        if any(isinstance(t, Tangent) for t in moving):
            return self.linearized(index, operands, moving, mask, branches)
        present = union([derive.jvp(b, mask)[1] for b in branches])
        both = tuple(derive.jvp(b, mask, present)[0] for b in branches)
        results = bind(self, [index, *operands, *moving], {"branch": both})
        n = len(present)
        changes = iter(results[n:])
        return results[:n], [next(changes) if p else None for p in present]

    def linearized(self, index, operands, moving, mask, branches):
        present = union([derive.linearize(b, mask).present for b in branches])
        halves = [derive.linearize(b, mask, present) for b in branches]
        n = len(present)
        stored = [h.primal.output_types[n:] for h in halves]
        primal = tuple(padded(h.primal, n, stored, k) for k, h in enumerate(halves))
        outs = bind(self, [index, *operands], {"branch": primal})
        results, stacks = outs[:n], outs[n:]
        reads, at = [], 0
        for h, own in zip(halves, stored, strict=True):
            reads.append(h.values(operands, [*results, *stacks[at : at + len(own)]]))
            at += len(own)
        linear = tuple(widened(h.linear, reads, k) for k, h in enumerate(halves))
        args = [index, *(x for values in reads for x in values), *moving]
        changes = iter(bind(self, args, {"branch": linear}))
        return results, [next(changes) if p else None for p in present]

    def linear_in(self, flags, params):
        if all(b.linear for b in params["branch"]):
            return not flags[0]
        kinds = [Kind.LINEAR if flag else Kind.KNOWN for flag in flags]
        return throughout(lambda: self.linearity(kinds, params))

    def linearity(self, kinds, params):
        found = [of_program(b, kinds[1:]) for b in params["branch"]]
        return [joined(self.name, *column) for column in zip(*found, strict=True)]

    def transpose(self, cts, args, params):
        index, *operands = args
        linear = tuple(isinstance(a, Unknown) for a in operands)
        given = tuple(ct is not None for ct in cts)
        turned = tuple(derive.transpose(b, linear, given, force=True)[0] for b in params["branch"])
        known = [a for a in operands if not isinstance(a, Unknown)]
        found = iter(bind(self, [index, *known, *(ct for ct in cts if ct is not None)], {"branch": turned}))
        return [None, *(next(found) if m else None for m in linear)]

    def batch(self, size, args, mapped, params):
        branches, (index, *operands) = params["branch"], args
        mask = tuple(mapped[1:])
        if not mapped[0]:
            present = union([derive.batch(b, mask, size)[1] for b in branches])
            over = tuple(derive.batch(b, mask, size, present)[0] for b in branches)
            return bind(self, args, {"branch": over}), list(present)
        operands = movement.all_in_lanes(operands, mask, size)
        n = len(branches[0].outputs)
        chosen: list = []
        for k, b in enumerate(branches):
            taken = e.eq(index, k)
            over, _ = derive.batch(derive.guarded(b), (True,) * (len(operands) + 1), size, (True,) * n)
            with np.errstate(all="ignore"):  # also runs for lanes that take another branch
                outs = run(over, [*(effects.gate(taken, x) for x in operands), taken])
            if not chosen:
                chosen = outs
            else:
                wide = lambda x, taken=taken: movement.reshape(taken, (size,) + (1,) * (type_of(x).ndim - 1))
                chosen = [e.select(wide(x), x, before) for x, before in zip(outs, chosen, strict=True)]
        return chosen, [True] * n

    def again(self, params):
        return {**params, "branch": tuple(map(derive.repeated, params["branch"]))}

    def guarded(self, args, params, taken):
        return [*args, taken], {**params, "branch": tuple(map(derive.guarded, params["branch"]))}

    def lower(self, e):
        blocks = tuple(lower(b, f"branch{k}") for k, b in enumerate(e.params["branch"]))
        return [nest.Branch(e.outputs, e.inputs, blocks)]

    def show(self, e, name):
        index, *operands = e.inputs
        shown = lambda v: name(v) if isinstance(v, Var) else str(v)
        return (
            f"cond {shown(index)} of {len(e.params['branch'])}, operands ({', '.join(map(shown, operands))})",
            [],
        )


cond_ = Cond()


def union(masks: list) -> tuple[bool, ...]:
    return tuple(any(column) for column in zip(*masks, strict=True))


def padded(primal: Program, n: int, stored: list[list[Type]], k: int) -> Program:
    """A branch's primal half that returns every branch's stored values, zeros for the others'."""

    def build():
        def f(inputs):
            outs = run(primal, inputs)
            slots = [outs[n:] if j == k else [zeros(t) for t in types] for j, types in enumerate(stored)]
            return [*outs[:n], *(x for slot in slots for x in slot)]

        return record("rune.cond", primal.input_types, f)[0]

    return derive.kept(primal, ("padded", n, tuple(map(tuple, stored)), k), build)


def widened(linear: Program, reads: list[list], k: int) -> Program:
    """A branch's linear half over what all of them read; the others' values are not used."""

    def build():
        own, moving = linear.inputs[: len(reads[k])], linear.inputs[len(reads[k]) :]
        slots = [
            own if j == k else [Var(type_of(x).strong()) for x in values] for j, values in enumerate(reads)
        ]
        return linear.rearranged([*(v for slot in slots for v in slot), *moving], linear.outputs)

    key = ("widened", tuple(tuple(type_of(x).strong() for x in values) for values in reads), k)
    return derive.kept(linear, key, build)
