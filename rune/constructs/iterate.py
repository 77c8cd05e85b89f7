"""The loop that stops on its own: steps until a test of the carry holds, or max_steps were taken.

Its arguments are (init..., captures...), its results (final carry..., stacks..., steps taken).  The
test comes before each step.  Forward mode carries tangents beside the carry; the test reads primals.
Under reverse mode the loop stacks what the backward half reads, in room for `max_steps` rows, and the
linear half is a counted loop over the steps that were taken.  Where that room would be large, the loop
becomes a loop over segments of about sqrt(max_steps) steps: it keeps the carry before each segment that
it enters, and the backward half computes a segment again.  A segment may itself be cut (Griewank, 1992).

Mapped with a test that differs from lane to lane, all lanes run until the last stops: a lane that has
stopped is held bit for bit, and derivatives enter a step only through lanes that take it.
"""

from __future__ import annotations

import math

import numpy as np

from rune import derive
from rune.constructs.call import call
from rune.constructs.scan import kept_as, read_by_steps, scan, settled, started
from rune.level import bind
from rune.linear import Tangent
from rune.linearity import Kind, looped, of_program
from rune.lower import lower
from rune.native import nest
from rune.primitives import effects, movement, reduce
from rune.primitives.primitive import Primitive, zeros
from rune.primitives.scalar import e
from rune.program import Program, Type, Var, type_of
from rune.trace import record, run

__all__ = ["While", "while_"]

COUNT = Type(np.dtype(np.int64), ())
ROOM = 1 << 20  # bytes for kept rows from which a loop of more than a few steps is cut into segments
FEW = 16


class While(Primitive):
    name = "iterate"
    recompute = False
    staged = True

    def effect(self, params):
        return params["step"].effect or params["until"].effect

    def type(self, types, params):
        c = params["carries"]
        outs = [t.strong() for t in params["step"].output_types]
        return [*outs[:c], *(Type(t.dtype, (params["max_steps"], *t.shape)) for t in outs[c:]), COUNT]

    def evaluate(self, args, params):
        c, n, step, until = params["carries"], params["max_steps"], params["step"], params["until"]
        carry, captures = list(args[:c]), list(args[c:])
        rows, taken = [], 0
        while taken < n and not run(until, [*carry, *captures])[0]:
            outs = run(step, [*carry, *captures])
            carry, taken = outs[:c], taken + 1
            rows.append(outs[c:])
        stacks = []
        for j, t in enumerate(step.output_types[c:]):
            stack = np.zeros((n, *t.shape), t.dtype)
            for k, row in enumerate(rows):
                stack[k] = row[j]
            stacks.append(stack)
        return [*carry, *stacks, np.int64(taken)]

    def jvp(self, primals, tangents, params):
        if all(t is None for t in tangents):
            outs = bind(self, primals, params)
            return outs, [None] * len(outs)
        step, c = params["step"], params["carries"]
        mask = tuple(t is not None for t in tangents)
        if any(isinstance(t, Tangent) for t in tangents):
            half = lambda m: derive.linearize(step, m, m[:c], c)
            mask = settled(mask, c, lambda m: half(m).present)
            halves, n = half(mask), params["max_steps"]
            room = n * sum(t.bytes for t in halves.primal.output_types[c:])
            if n > FEW and room > ROOM and not calls_host(step):
                return self.in_segments(primals, tangents, params)
            return self.linearized(halves, primals, tangents, mask, params)
        half = lambda m: derive.jvp(step, m, m[:c])
        mask = settled(mask, c, lambda m: half(m)[1])
        return self.forward(*half(mask), primals, tangents, mask, params)

    def forward(self, both, present, primals, tangents, mask, params):
        step, until, c = params["step"], params["until"], params["carries"]
        n_in, n_out = len(step.inputs), len(step.outputs)
        moving = iter(both.inputs[n_in:])
        changes = [next(moving) if m else None for m in mask]
        only = lambda vs: [v for v in vs if v is not None]
        n_carry = sum(present[:c])
        results, dts = both.outputs[:n_out], both.outputs[n_out:]
        ordered = [*both.inputs[:c], *only(changes[:c]), *both.inputs[c:n_in], *only(changes[c:])]
        body = both.rearranged(ordered, [*results[:c], *dts[:n_carry], *results[c:], *dts[n_carry:]])
        like = lambda ts: [Var(t.type) for t in ts]
        test = until.rearranged(
            [*until.inputs[:c], *like(only(changes[:c])), *until.inputs[c:], *like(only(changes[c:]))],
            until.outputs,
        )
        key = ("iterate forward", mask, c)
        begun = started(tangents, mask, primals)
        args = [*primals[:c], *only(begun[:c]), *primals[c:], *only(begun[c:])]
        more = {
            "step": kept_as(step, key, body),
            "until": kept_as(until, (*key, params["step"]), test),
            "carries": c + n_carry,
        }
        outs = bind(self, args, {**params, **more})
        carry, rest = outs[: c + n_carry], outs[c + n_carry : -1]
        n_rows = n_out - c
        changes = iter([*carry[c:], *rest[n_rows:]])
        return [*carry[:c], *rest[:n_rows], outs[-1]], [
            *(next(changes) if p else None for p in present),
            None,
        ]

    def linearized(self, halves, primals, tangents, mask, params):
        step, c, n = params["step"], params["carries"], params["max_steps"]
        outs = bind(self, primals, {**params, "step": halves.primal, "kept": params["kept"] + halves.stored})
        taken, outs = outs[-1], outs[:-1]
        results, stacks = outs[: len(outs) - halves.stored], outs[len(outs) - halves.stored :]
        (row_vars, rows), (capture_vars, captures) = read_by_steps(halves, primals, results, stacks, c, False)
        moving = iter(halves.linear.inputs[len(halves.reads) :])
        changes = [next(moving) if m else None for m in mask]
        only = lambda vs: [v for v in vs if v is not None]
        linear = halves.linear.rearranged(
            [*only(changes[:c]), *row_vars, *capture_vars, *only(changes[c:])], halves.linear.outputs
        )
        linear = kept_as(step, ("iterate linear", mask, c), linear)
        begun = started(tangents, mask, primals)
        t_carry = only(begun[:c])
        args = [*t_carry, *rows, *captures, *only(begun[c:]), taken]
        loop = {
            "step": linear,
            "length": n,
            "reverse": False,
            "carries": len(t_carry),
            "rows": len(rows),
            "kept": 0,
        }
        moved = iter(bind(scan, args, loop))
        return [*results, taken], [*(next(moved) if p else None for p in halves.present), None]

    def linearity(self, kinds, params):
        c = params["carries"]
        found = looped(self.name, params["step"], kinds, c)
        of_program(params["until"], [*found[:c], *kinds[c:]])  # the test reads no tangent
        return [*found, Kind.KNOWN]

    def in_segments(self, primals, tangents, params):
        """The derivative of a loop over segments, which counts its steps in its carry."""
        c, n = params["carries"], params["max_steps"]
        every = math.isqrt(n - 1) + 1
        segments = -(-n // every)
        step, until = derive.kept(
            params["step"], ("segments", params["until"], n, c), lambda: self.segmented(params, every)
        )
        more = {"step": step, "until": until, "max_steps": segments, "carries": c + 1, "segment": every}
        counting = lambda xs, start: [*xs[:c], start, *xs[c:]]
        outs, changes = self.jvp(counting(primals, np.int64(0)), counting(tangents, None), {**params, **more})

        def in_a_row(x):
            t = type_of(x)
            return movement.part(movement.reshape(x, (segments * every, *t.shape[2:])), 0, 0, n)

        stacks = [in_a_row(x) for x in outs[c + 1 : -1]]
        moved = [None if t is None else in_a_row(t) for t in changes[c + 1 : -1]]
        return [*outs[:c], *stacks, outs[c]], [*changes[:c], *moved, None]

    def segmented(self, params, every):
        """The step that takes a segment's steps, and the test of the carry and the count behind it."""
        step, until, c, n = (params[k] for k in ("step", "until", "carries", "max_steps"))
        types = [*step.input_types[:c], COUNT, *step.input_types[c:]]
        apart = lambda inputs: ([*inputs[:c], *inputs[c + 1 :]], inputs[c])

        def one(inputs):
            inputs, count = apart(inputs)
            outs = run(step, inputs)
            return [*outs[:c], e.add(count, 1), *outs[c:]]

        def stopped(inputs):
            inputs, count = apart(inputs)
            return [e.logical_or(run(until, inputs)[0], e.ge(count, n))]

        test = record("rune.iterate", types, stopped)[0]
        loop = {
            "step": record("rune.iterate", types, one)[0],
            "until": test,
            "max_steps": every,
            "carries": c + 1,
            "kept": 0,
        }
        segment = record("rune.iterate", types, lambda inputs: bind(self, inputs, loop)[:-1])[0]
        again = {"program": segment, "remat": True}
        return record("rune.iterate", types, lambda inputs: bind(call, inputs, again))[0], test

    def batch(self, size, args, mapped, params):
        step, until, c = params["step"], params["until"], params["carries"]
        force = lambda m: (*m[:c], *(False,) * (len(step.outputs) - c))
        mask = settled(tuple(mapped), c, lambda m: derive.batch(step, m, size, force(m))[1])
        _, (lanes_stop,) = derive.batch(until, mask, size)
        if lanes_stop:
            return self.held(size, args, mapped, params)
        over, present = derive.batch(step, mask, size, force(mask))
        test, _ = derive.batch(until, mask, size)
        ready = [
            movement.in_lanes(a, size) if m and not was else a
            for a, was, m in zip(args, mapped, mask, strict=True)
        ]
        outs = bind(self, ready, {**params, "step": over, "until": test})
        stacks = [movement.swap_front(x) if p else x for x, p in zip(outs[c:-1], present[c:], strict=True)]
        return [*outs[:c], *stacks, outs[-1]], [*present, False]

    def held(self, size, args, mapped, params):
        """Every lane stops on its own: (carry..., steps per lane) until all have stopped."""
        step, until, c = params["step"], params["until"], params["carries"]
        mask = tuple(k < c or m for k, m in enumerate(mapped))
        every = (True,) * len(step.outputs)
        over, _ = derive.batch(derive.guarded(step), (*mask, True), size, every)
        test, _ = derive.batch(until, mask, size, (True,))
        flags = Type(np.dtype(np.int64), (size,))
        types = [*over.input_types[:c], flags, *over.input_types[c:-1]]

        def body(inputs):
            carry, taken, captures = inputs[:c], inputs[c], inputs[c + 1 :]
            (stop,) = run(test, [*carry, *captures])
            going = e.logical_not(stop)
            lanes = [k < c or m for k, m in enumerate(mapped)]
            gated = [
                effects.gate(going, x) if m else x for x, m in zip([*carry, *captures], lanes, strict=True)
            ]
            outs = run(over, [*gated, going])
            wide = lambda x: movement.reshape(going, (size,) + (1,) * (type_of(x).ndim - 1))
            after = [e.select(wide(new), new, old) for new, old in zip(outs[:c], carry, strict=True)]
            rows = [e.select(wide(x), x, zeros(type_of(x))) for x in outs[c:]]
            return [*after, e.add(taken, e.select(going, 1, 0)), *rows]

        def stopped(inputs):
            return [reduce.reduce("all", run(test, [*inputs[:c], *inputs[c + 1 :]])[0], (0,))]

        key = ("held", mask, size, c)
        whole = derive.kept(step, key, lambda: record("rune.iterate", types, body)[0])
        all_stopped = derive.kept(until, (*key, step), lambda: record("rune.iterate", types, stopped)[0])
        ready = [
            movement.in_lanes(a, size) if k < c and not m else a
            for k, (a, m) in enumerate(zip(args, mapped, strict=True))
        ]
        args = [*ready[:c], np.zeros(size, np.int64), *ready[c:]]
        outs = bind(self, args, {**params, "step": whole, "until": all_stopped, "carries": c + 1})
        carry, taken, stacks = outs[:c], outs[c], outs[c + 1 : -1]
        stacks = [movement.swap_front(x) for x in stacks]
        return [*carry, *stacks, taken], [True] * (len(outs) - 1)

    def again(self, params):
        return {**params, "step": derive.repeated(params["step"])}

    def guarded(self, args, params, taken):
        both = {"step": derive.guarded(params["step"]), "until": derive.guarded(params["until"])}
        return [*args, taken], {**params, **both}

    def lower(self, eq):
        p = eq.params
        step, until = lower(p["step"], "step"), lower(p["until"], "until")
        places = p["carries"], 0, p["max_steps"], False, p["kept"], False, until
        return [nest.Loop(eq.outputs, eq.inputs, step, *places, segment=p.get("segment"))]

    def show(self, e, name):
        c = e.params["carries"]
        listed = lambda vs: "(" + ", ".join(map(name, vs)) + ")"
        kept = f", keeping the last {e.params['kept']}" if e.params["kept"] else ""
        head = f"iterate up to {e.params['max_steps']} steps, init {listed(e.inputs[:c])}, captures {listed(e.inputs[c:])}{kept}"
        return head, []


while_ = While()


def calls_host(program: Program) -> bool:
    """Whether a program calls Python, which is done once."""
    return any(e.effect == "host" or any(map(calls_host, e.programs)) for e in program.equations)
