"""The compiled call: a program applied as one operation.

On plain arguments it compiles and runs.  A transformation derives the program instead of repeating
it: forward mode calls its jvp; under reverse mode the part that reads no tangent is called now and
the linear rest is recorded as one call.
"""

from __future__ import annotations

from rune import derive
from rune.level import bind
from rune.linear import Tangent
from rune.linearity import Kind, of_program, throughout
from rune.lower import execute
from rune.primitives.primitive import Primitive, Unknown
from rune.program import Program

__all__ = ["call"]


class Call(Primitive):
    name = "call"
    recompute = False

    def effect(self, params):
        return params["program"].effect

    def inlined(self, params) -> Program:
        return params["program"]

    def type(self, types, params):
        return params["program"].output_types

    def evaluate(self, args, params):
        return execute(params["program"], args, params.get("consumed", ()))

    def jvp(self, primals, tangents, params):
        program: Program = params["program"]
        mask = tuple(t is not None for t in tangents)
        moving = [t for t in tangents if t is not None]
        if any(isinstance(t, Tangent) for t in moving):
            halves = derive.linearize(program, mask, store=not params.get("remat", False))
            outs = bind(call, primals, as_before(params, halves.primal))
            linear = as_before(params, halves.linear)
            changes = iter(bind(call, [*halves.values(primals, outs), *moving], linear))
            outs, present = outs[: len(outs) - halves.stored], halves.present
        else:
            both, present = derive.jvp(program, mask)
            results = bind(call, [*primals, *moving], as_before(params, both))
            outs, changes = results[: len(program.outputs)], iter(results[len(program.outputs) :])
        return outs, [next(changes) if p else None for p in present]

    def linear_in(self, flags, params):
        if params["program"].linear:  # a linear half: its tangents come last, and are linear together
            return True
        kinds = [Kind.LINEAR if flag else Kind.KNOWN for flag in flags]
        return throughout(lambda: self.linearity(kinds, params))

    def linearity(self, kinds, params):
        return of_program(params["program"], kinds)

    def transpose(self, cts, args, params):
        linear = tuple(isinstance(a, Unknown) for a in args)
        given = tuple(ct is not None for ct in cts)
        turned, present = derive.transpose(params["program"], linear, given)
        values = [a for a in args if not isinstance(a, Unknown)]
        turned = as_before(params, turned)
        found = iter(bind(call, [*values, *(ct for ct in cts if ct is not None)], turned))
        there = iter(present)
        return [(next(found) if next(there) else None) if m else None for m in linear]

    def batch(self, size, args, mapped, params):
        over, present = derive.batch(params["program"], tuple(mapped), size)
        return bind(call, args, as_before(params, over)), list(present)

    def again(self, params):
        return {**params, "program": derive.repeated(params["program"])}

    def guarded(self, args, params, taken):
        return [*args, taken], {**params, "program": derive.guarded(params["program"])}

    def show(self, e, name):
        program = e.params["program"]
        return f"call {program.name} ({', '.join(name(v) for v in e.inputs)})", []


call = Call()


def as_before(params: dict, program: Program) -> dict:
    """A derived call: its intermediates are computed again where those of the call it came from were to be."""
    return {"program": program, "remat": params.get("remat", False)}
