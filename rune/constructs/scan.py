"""The loop: a step applied from row to row, carrying values along.

The primitive holds its step's program, from (carry..., one row..., captures...) to (carry..., outputs...).
Its arguments are (init..., rows stacked..., captures...), its results (final carry..., stacked
outputs...).  The derivative of a loop is a loop of its step's derivative:

- forward mode carries tangents beside the carry;
- under reverse mode the primal loop also stacks what the step's backward half reads and is not at
  hand there; the linear loop reads those stacks as rows.  Which values these are, `rune.cut` decides;
- the transpose of a linear loop runs the transposed step from the last row to the first.  Its carry
  holds the cotangents of the carry and one accumulator per capture, added to in place;
- mapped, the carry has lanes only where some step gives it lanes.

A *counted* loop takes only the first rows, as many as its last argument says: the backward half of a
loop that stopped on its own (`iterate`).

What is carried (a tangent, lanes) is found as a fixpoint over the step before a derivation is fixed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune import derive
from rune.level import bind
from rune.linear import Tangent
from rune.linearity import Kind, looped, throughout
from rune.lower import lower
from rune.native import nest
from rune.primitives import effects, movement, reduce
from rune.primitives.primitive import Primitive, Unknown, instantiated, zeros
from rune.primitives.scalar import e
from rune.program import Program, Type, type_of
from rune.trace import record, run

__all__ = ["kept_as", "read_by_steps", "scan", "settled", "started"]


class Scan(Primitive):
    name = "scan"
    recompute = False
    staged = True

    def effect(self, params):
        return params["step"].effect

    def split(self, values, params):
        """(init, rows, captures) of a list as long as the arguments without the count."""
        c, r = params["carries"], params["rows"]
        return list(values[:c]), list(values[c : c + r]), list(values[c + r :])

    def counted(self, args, params):
        """The arguments without the count, and a list of the count where the loop has one."""
        n = len(params["step"].inputs)
        return list(args[:n]), list(args[n:])

    def type(self, types, params):
        step: Program = params["step"]
        c, n = params["carries"], params["length"]
        outs = [t.strong() for t in step.output_types]
        return outs[:c] + [Type(t.dtype, (n, *t.shape)) for t in outs[c:]]

    def evaluate(self, args, params):
        """By NumPy, step by step: what a loop means."""
        step, n = params["step"], params["length"]
        args, count = self.counted(args, params)
        carry, rows, captures = self.split(args, params)
        taken = int(count[0]) if count else n
        order = range(taken - 1, -1, -1) if params["reverse"] else range(taken)
        outputs: list = [[np.zeros(t.shape, t.dtype) for t in step.output_types[len(carry) :]]] * n
        for k in order:
            results = run(step, [*carry, *(r[k] for r in rows), *captures])
            carry, outputs[k] = results[: len(carry)], results[len(carry) :]
        types = self.type([type_of(a) for a in args], params)[len(carry) :]
        stacked = [
            np.stack([o[j] for o in outputs]) if n else np.zeros(t.shape, t.dtype)
            for j, t in enumerate(types)
        ]
        return [*carry, *stacked]

    def jvp(self, primals, tangents, params):
        if all(t is None for t in tangents):
            outs = bind(self, primals, params)
            return outs, [None] * len(outs)
        primals, count = self.counted(primals, params)
        tangents = tangents[: len(primals)]
        half = derive.linearize if any(isinstance(t, Tangent) for t in tangents) else derive.jvp
        mask = tuple(t is not None for t in tangents)
        mask = settled(mask, params["carries"], lambda m: self.derived(half, m, params)[1])
        if half is derive.linearize:
            return self.linearized(primals, tangents, mask, params, count)
        return self.forward(primals, tangents, mask, params, count)

    def derived(self, half, mask, params):
        """The derivation of the step, and which of its results have a tangent."""
        c = params["carries"]
        if half is derive.jvp:
            return derive.jvp(params["step"], mask, mask[:c])
        halves = derive.linearize(params["step"], mask, mask[:c], c)
        return halves, halves.present

    def forward(self, primals, tangents, mask, params, count):
        step, c = params["step"], params["carries"]
        both, present = self.derived(derive.jvp, mask, params)
        n_in, n_out = len(step.inputs), len(step.outputs)
        moving = iter(both.inputs[n_in:])
        changes = [next(moving) if m else None for m in mask]
        only = lambda vs: [v for v in vs if v is not None]
        carry_in, row_in, capture_in = self.split(both.inputs[:n_in], params)
        carry_dt, row_dt, capture_dt = map(only, self.split(changes, params))
        results, dts = both.outputs[:n_out], both.outputs[n_out:]
        n_carry = sum(present[:c])
        derived = both.rearranged(
            [*carry_in, *carry_dt, *row_in, *row_dt, *capture_in, *capture_dt],
            [*results[:c], *dts[:n_carry], *results[c:], *dts[n_carry:]],
        )
        derived = kept_as(step, ("forward", mask, c, params["rows"]), derived)
        p_args = self.split(primals, params)
        t_args = [only(part) for part in self.split(started(tangents, mask, primals), params)]
        args = [x for p, t in zip(p_args, t_args, strict=True) for x in (*p, *t)]
        more = {"step": derived, "carries": c + n_carry, "rows": len(row_in) + len(row_dt)}
        outs = bind(self, [*args, *count], {**params, **more})
        carry, dcarry = outs[:c], outs[c : c + n_carry]
        n_outputs = n_out - c
        stacked, dstacked = outs[c + n_carry : c + n_carry + n_outputs], outs[c + n_carry + n_outputs :]
        changes = iter([*dcarry, *dstacked])
        return [*carry, *stacked], [next(changes) if p else None for p in present]

    def linearized(self, primals, tangents, mask, params, count):
        step, c, r = params["step"], params["carries"], params["rows"]
        halves, _ = self.derived(derive.linearize, mask, params)
        outs = bind(
            self,
            [*primals, *count],
            {**params, "step": halves.primal, "kept": params["kept"] + halves.stored},
        )
        results, stacks = outs[: len(outs) - halves.stored], outs[len(outs) - halves.stored :]
        (row_vars, rows), (capture_vars, captures) = read_by_steps(
            halves, primals, results, stacks, c + r, params["reverse"]
        )
        moving = iter(halves.linear.inputs[len(halves.reads) :])
        carry_dt, row_dt, capture_dt = self.split([next(moving) if m else None for m in mask], params)
        only = lambda vs: [v for v in vs if v is not None]
        linear = halves.linear.rearranged(
            [*only(carry_dt), *row_vars, *only(row_dt), *capture_vars, *only(capture_dt)],
            halves.linear.outputs,
        )
        linear = kept_as(step, ("linear loop", mask, c, r), linear)
        t_carry, t_rows, t_captures = map(only, self.split(started(tangents, mask, primals), params))
        args = [*t_carry, *rows, *t_rows, *captures, *t_captures]
        more = {"step": linear, "carries": len(t_carry), "rows": len(rows) + len(t_rows), "kept": 0}
        changes = iter(bind(self, [*args, *count], {**params, **more}))
        return results, [next(changes) if p else None for p in halves.present]

    def linear_in(self, flags, params):
        if params["step"].linear:
            return True
        kinds = [Kind.LINEAR if flag else Kind.KNOWN for flag in flags]
        return throughout(lambda: self.linearity(kinds, params))

    def linearity(self, kinds, params):
        return looped(self.name, params["step"], self.counted(kinds, params)[0], params["carries"])

    def transpose(self, cts, args, params):
        step, c = params["step"], params["carries"]
        args, count = self.counted(args, params)
        carry, rows, captures = self.split(args, params)
        linear = tuple(isinstance(a, Unknown) for a in args)
        unknown = lambda xs: [x for x in xs if isinstance(x, Unknown)]
        known = lambda xs: [x for x in xs if not isinstance(x, Unknown)]
        # A carry tangent that starts from a constant zero is linear inside the loop all the same.
        inside = (True,) * c + linear[c:]
        ct_carry = instantiated(cts[:c], map(type_of, carry))
        ct_rows = [ct for ct in cts[c:] if ct is not None]
        given = (True,) * c + tuple(ct is not None for ct in cts[c:])
        into = (False,) * (c + len(unknown(rows))) + (True,) * len(unknown(captures))
        turned, _ = derive.transpose(step, inside, given, into, force=True)
        # turned: (known rows, known captures, ct carry, ct outputs, accumulators) -> (ct carry, ct rows, accumulators)
        n_rows, n_caps = len(known(rows)), len(known(captures))
        at = turned.inputs
        known_rows, known_caps, rest = at[:n_rows], at[n_rows : n_rows + n_caps], at[n_rows + n_caps :]
        in_carry, in_outputs, in_sums = rest[:c], rest[c : c + len(ct_rows)], rest[c + len(ct_rows) :]
        n_ct = c + len(unknown(rows))
        out_carry, out_rows, out_sums = turned.outputs[:c], turned.outputs[c:n_ct], turned.outputs[n_ct:]
        backward = turned.rearranged(
            [*in_carry, *in_sums, *known_rows, *in_outputs, *known_caps], [*out_carry, *out_sums, *out_rows]
        )
        key = ("backward loop", inside, given, into, n_rows)
        backward = kept_as(step, key, backward)
        sums = [zeros(x.type) for x in unknown(captures)]
        more = {
            "step": backward,
            "carries": c + len(sums),
            "rows": n_rows + len(ct_rows),
            "reverse": not params["reverse"],
            "kept": 0,
        }
        args = [*ct_carry, *sums, *known(rows), *ct_rows, *known(captures), *count]
        outs = bind(self, args, {**params, **more})
        to_carry, to_captures, to_rows = outs[:c], iter(outs[c : c + len(sums)]), iter(outs[c + len(sums) :])
        found: list = [ct if m else None for ct, m in zip(to_carry, linear[:c], strict=True)]
        found += [next(to_rows) if isinstance(x, Unknown) else None for x in rows]
        found += [next(to_captures) if isinstance(x, Unknown) else None for x in captures]
        found += [None for _ in count]
        return found

    def batch(self, size, args, mapped, params):
        c, r = params["carries"], params["rows"]
        args, count = self.counted(args, params)
        if count and mapped[-1]:
            return self.stopped(size, args, count[0], mapped, params)
        step = params["step"]
        force = lambda m: (*m[:c], *(False,) * (len(step.outputs) - c))
        mask = settled(tuple(mapped[: len(args)]), c, lambda m: derive.batch(step, m, size, force(m))[1])
        over, present = derive.batch(step, mask, size, force(mask))
        ready = []
        for k, (a, was, m) in enumerate(zip(args, mapped, mask, strict=False)):
            if m and not was:
                a = movement.in_lanes(a, size)
            elif m and c <= k < c + r:
                a = movement.swap_front(a)  # rows come first, lanes second
            ready.append(a)
        outs = bind(self, [*ready, *count], {**params, "step": over})
        outs = [
            movement.swap_front(x) if p and k >= c else x
            for k, (x, p) in enumerate(zip(outs, present, strict=True))
        ]
        return outs, list(present)

    def stopped(self, size, args, count, mapped, params):
        """Lanes that take different numbers of steps: all take the most, one that is done is held."""
        step, c, n = params["step"], params["carries"], params["length"]

        def held(inputs):
            *values, at, stop = inputs
            going = e.lt(at, stop)
            outs = run(step, [*(effects.gate(going, x) for x in values)])
            carry = [e.select(going, new, old) for new, old in zip(outs[:c], values, strict=False)]
            return [*carry, *(e.select(going, x, zeros(type_of(x))) for x in outs[c:])]

        counter = Type(np.dtype(np.int64), ())
        gated = derive.kept(
            step, ("stopped", c), lambda: record("rune.scan", [*step.input_types, counter, counter], held)[0]
        )
        gated.linear = step.linear
        rows = params["rows"]
        most = reduce.reduce("max", count, (0,))
        ready = [*args[: c + rows], np.arange(n), *args[c + rows :], count, most]
        flags = [*mapped[: c + rows], False, *mapped[c + rows : -1], True, False]
        values = gated.inputs[: len(step.inputs)]
        ordered = gated.rearranged(
            [*values[: c + rows], gated.inputs[-2], *values[c + rows :], gated.inputs[-1]], gated.outputs
        )
        more = {"step": kept_as(step, ("stopped loop", c, rows), ordered), "rows": rows + 1}
        return self.batch(size, ready, flags, {**params, **more})

    def again(self, params):
        return {**params, "step": derive.repeated(params["step"])}

    def guarded(self, args, params, taken):
        args, count = self.counted(args, params)
        return [*args, taken, *count], {**params, "step": derive.guarded(params["step"])}

    def lower(self, eq):
        p = eq.params
        counted = len(eq.inputs) > len(p["step"].inputs)
        places = p["carries"], p["rows"], p["length"], p["reverse"], p["kept"], counted
        number = {"first": p.get("first", 0), "segment": p.get("segment")}
        return [nest.Loop(eq.outputs, eq.inputs, lower(p["step"], "step"), *places, **number)]

    def show(self, e, name):
        inputs, count = self.counted(e.inputs, e.params)
        carry, rows, captures = self.split(inputs, e.params)
        listed = lambda vs: "(" + ", ".join(map(name, vs)) + ")"
        turned = " reversed" if e.params["reverse"] else ""
        turned += f" up to {name(count[0])}" if count else ""
        kept = f", keeping the last {e.params['kept']}" if e.params["kept"] else ""
        head = f"scan {e.params['length']} rows{turned}, init {listed(carry)}, xs {listed(rows)}, captures {listed(captures)}{kept}"
        return head, []


scan = Scan()


def settled(mask: tuple, carries: int, present: Any) -> tuple:
    """The least mask that holds what every step adds to the carry: a fixpoint, from `mask` up."""
    while True:
        found = present(mask)
        grown = tuple(m or (k < carries and found[k]) for k, m in enumerate(mask))
        if grown == mask:
            return mask
        mask = grown


def started(tangents: list, mask: tuple, primals: list) -> list:
    """Tangents of the masked arguments; one that only later steps have starts at zero."""
    return [
        zeros(type_of(p)) if m and t is None else t for t, m, p in zip(tangents, mask, primals, strict=True)
    ]


def read_by_steps(
    halves: derive.Linearized, primals: list, results: list, stacks: list, first_capture: int, reverse: bool
) -> tuple[tuple[list, list], tuple[list, list]]:
    """What the steps of the linear loop read, as (variables, values) of its rows and of its captures.

    What is stacked is rows of it, and captures are its captures.
    """
    rows: tuple[list, list] = ([], [])
    captures: tuple[list, list] = ([], [])
    stacked = {"input": primals, "output": results, "stored": stacks}
    for (kind, k), v in zip(halves.reads, halves.linear.inputs, strict=False):
        if kind == "previous":
            carry, (place, at) = k
            x = delayed(stacked[place][at], primals[carry], reverse)
        else:
            x = stacked[kind][k]
        variables, values = captures if kind == "input" and k >= first_capture else rows
        variables.append(v)
        values.append(x)
    return rows, captures


def kept_as(step: Program, key: tuple, derived: Program) -> Program:
    """A rearranged derivation, kept with the step so that equal derivations are one program."""
    return step.derived.setdefault(key, derived)


def delayed(after: Any, init: Any, reverse: bool) -> Any:
    """The carry each step received, from what each step gave out and the first one."""
    t = type_of(after)
    first = movement.reshape(init, (1, *t.shape[1:]))
    if reverse:
        return movement.concatenate([movement.part(after, 0, 1, t.shape[0]), first], 0)
    return movement.concatenate([first, movement.part(after, 0, 0, t.shape[0] - 1)], 0)
