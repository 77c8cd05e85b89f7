"""Loops: the step's code inside one native loop, its carry in registers where it is small.

A small carry lives in stack cells that LLVM turns into registers.  A large one has two buffers that
change places each step, or one where the step updates it in place.  Rows are read where they are,
outputs are written to their row of the stacked result, and temporaries are allocated once.

A loop that is counted, or that stops where its test holds, leaves the rows of the steps that it did
not take: they are set to zero after it.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools

from . import math, nest
from .function import LLVM, loop_over
from .index import Idx, Value
from .inplace import same_place, start, taken_over
from .rewrite import simplified
from .source import Buffer, Row, Small
from .view import view_of


def loop(e, form: nest.Loop, stage) -> None:
    unit = e.unit
    step, length = form.step, form.length
    outs = list(form.outs)
    carried, stacked = outs[: form.carries], outs[form.carries : len(step.outputs)]
    taken = [None if e.loop_limit(v) else taken_over(e, form, v, stage) for v in carried]
    targets = [
        e.storage(v) if b is None and e.plan.used(v) else b for v, b in itertools.zip_longest(outs, taken)
    ]
    if unit.fn.name.startswith("loop") or e.in_loop:
        emit(e, form, taken, targets)
    else:
        with unit.function(unit.kernel_name("loop")):
            emit(e, form, taken, targets)
    for v, t in zip(outs, targets, strict=True):
        if t is not None:
            e.sources[v] = t
    kept = [v.type.bytes // max(length, 1) for v in stacked[len(stacked) - form.kept :]] if form.kept else []
    places = ["registers" if e.loop_limit(v) else "memory" for v in carried]
    unit.report.loop(length, sum(kept), places, form.reverse, form.counted or form.until is not None)


def emit(e, form, taken_over, targets) -> None:
    unit, fn = e.unit, e.unit.fn
    form = dataclasses.replace(form, step=simplified(form.step))
    step, n, length = form.step, form.carries, form.length
    stacks = targets[n : len(step.outputs)]
    carries = [Carry(e, form, k) for k in range(n)]
    for c, x, own, target in zip(carries, form.inputs, taken_over, targets, strict=False):
        c.start(e, e.source(x), own, target)
    if form.counted or form.until is not None:
        taken = some_steps(e, form, carries, stacks)
    else:
        taken = math.constant(length, "i8")
        if length:
            with fn.loop(length) as t:
                r = (length - 1) - t if form.reverse else t
                one_step(e, form, carries, stacks, r, lambda stop: None)
    for c, target in zip(carries, targets, strict=False):
        if target is not None and not c.ends_in(target):
            e.fill(target, c.final(unit))
        c.done(e)
    if form.until is not None and targets[-1] is not None:
        targets[-1].store(unit, (), taken)


def some_steps(e, form, carries, stacks) -> Value:
    """As many steps as the loop takes, and zeros in the rows of the others; gives their number."""
    unit, fn = e.unit, e.unit.fn
    count = math.constant(form.length, "i8")
    if form.counted:
        count = bounded(fn, math.cast(fn, unit.element(e.source(form.inputs[-1]), ()), "i8"), form.length)
    if not form.length:
        return count
    with fn.loop_upto(count, form.length, form.reverse) as (r, leave):
        one_step(e, form, carries, stacks, r, leave)
    last = Value(r.terms[0][0].name, "i8", len(fn.scopes) - 1, fn)  # the row that was not taken
    taken = last
    if form.reverse:
        last = math.I(fn, "add", last, math.constant(1, "i8"))
        taken = math.I(fn, "sub", count, last)
    for stack, v in zip(stacks, form.outs[form.carries :], strict=False):
        if stack is None or (not form.reverse and rest_unread(e.plan, v, form)):
            continue
        clear(unit, stack, count if form.reverse else taken, math.constant(form.length, "i8"))
        if form.reverse and form.until is not None:
            clear(unit, stack, math.constant(0, "i8"), last)
    return taken


def bounded(fn, v: Value, most: int) -> Value:
    """A count that is between 0 and `most` whatever was given."""
    zero, most = math.constant(0, "i8"), math.constant(most, "i8")
    v = math.select(fn, math.cmp(fn, "slt", v, zero), zero, v)
    return math.select(fn, math.cmp(fn, "sgt", v, most), most, v)


def rest_unread(plan, v, form) -> bool:
    """Whether only loops that are counted by the steps which a loop took read a stack of it, row by row.

    What stands between may move rows up, as in the stack of the carries before each step.
    """
    if form.until is None or any(v is x for x in plan.block.outputs):
        return False
    for f in plan.forms:
        for k, x in enumerate(f.inputs):
            if x is not v:
                continue
            if isinstance(f, nest.Loop):
                if not (f.counted and f.inputs[-1] is form.outs[-1] and f.carries <= k < f.carries + f.rows):
                    return False
            elif not (moves_rows_up(f, k) and rest_unread(plan, f.outs[0], form)):
                return False
    return True


def moves_rows_up(f, k: int) -> bool:
    """Whether row r of a form's result depends on rows up to r of its input k only."""
    if isinstance(f, nest.Elementwise):
        x, out = f.inputs[k].type.shape, f.outs[0].type.shape
        return len(x) == len(out) and x[0] == out[0]
    if isinstance(f, nest.Concatenate):
        return f.axis == 0
    if not isinstance(f, nest.Index) or (view := view_of(f)) is None:
        return False
    _, first, steps = view
    return first[0] == 0 and bool(steps) and steps[0][0] in (0, 1) and not any(s[0] for s in steps[1:])


def clear(unit, stack: Buffer, start: Value, stop: Value) -> None:
    """Zeros in the rows from `start` to `stop`."""
    fn = unit.fn
    if not stack.size:
        return
    if not stack.contiguous:
        with fn.loop_while(start, stop) as r, loop_over(fn, stack.shape[1:]) as at:
            stack.store(unit, (r, *at), math.constant(0, stack.kind))
        return
    first = Idx(((fn.atom(start, 0, stack.shape[0]), 1),), 0) if start.fn is not None else int(start.name)
    at, _ = stack.address(unit, (first, *(0 for _ in stack.shape[1:])))
    rows = math.I(fn, "sub", stop, start)
    bytes = math.I(fn, "mul", rows, math.constant(stack.bytes // stack.shape[0], "i8"))
    unit.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    fn.line(f"call void @llvm.memset.p0.i64(ptr {fn.name_of(at)}, i8 0, i64 {fn.name_of(bytes)}, i1 false)")


def one_step(e, form, carries, stacks, r, leave) -> None:
    """The code of one step: the test, the step on row `r`, and what is carried on."""
    from .emit import Emission

    unit, fn = e.unit, e.unit.fn
    step, n = form.step, form.carries
    depth = len(fn.scopes) - 1
    unit.steps.append((r, form, fn, fn.top))
    known = [c.read(unit, depth) for c in carries]
    inputs = form.inputs[: len(step.inputs)]
    rows = [e.source(x) for x in inputs[n : n + form.rows]]
    captures = [e.source(x) for x in inputs[n + form.rows :]]
    if form.until is not None:
        sources = dict(zip(form.until.inputs, [*known, *captures], strict=True))
        (stop,) = Emission(unit, form.until, sources, [None], True).run()
        leave(math.truth(fn, unit.element(stop, ())))
    rows = [row(s, r, v.type.shape) for s, v in zip(rows, step.inputs[n:], strict=False)]
    targets = [s.row(r, s.shape[1:]) if s is not None else None for s in stacks]
    sources = dict(zip(step.inputs, [*known, *rows, *captures], strict=True))
    inner = Emission(unit, step, sources, [c.target for c in carries] + targets, True)
    inner.mutable.update(v for c, v in zip(carries, step.inputs, strict=False) if c.in_place)
    floor = fn.floor
    if inner.plan.stops:
        fn.floor = depth
    results = inner.run()
    fn.floor = floor
    values = [c.value(unit, s) for c, s in zip(carries, results, strict=False)]
    for c, v, s in zip(carries, values, results, strict=False):
        c.write(inner, v, s)
    unit.steps.pop()


def row(s, r, shape):
    """One row of a source, read in place."""
    plain = isinstance(s, Buffer) and s.byte_strides is None
    return s.row(r, shape) if plain else Row(s, r, shape)


class Carry:
    """Where one carried value lives between steps."""

    def __init__(self, e, form, k):
        v = form.step.inputs[k]
        self.kind, self.shape = math.kind_of(v.type.dtype), v.type.shape
        self.small = e.loop_limit(v)
        self.in_place = not self.small and start(form.step, k) == k
        self.steps = None if form.counted or form.until is not None else form.length
        self.target = None
        self.places: list = []

    def start(self, e, init, own: Buffer | None, target: Buffer | None) -> None:
        """Puts the first value where the loop will have it: in storage of its own, or the result's."""
        unit, fn = e.unit, e.unit.fn
        if self.small:
            count = 1
            for n in self.shape:
                count *= n
            self.cells = [
                Buffer(fn.alloca(self.kind, 1), self.kind, (), maybe_product=False) for _ in range(count)
            ]
            values = [
                unit.element(init, at) if init.shape else unit.element(init, ()) for at in indices(self.shape)
            ]
            for cell, v in zip(self.cells, values, strict=True):
                cell.store_flat(unit, 0, math.cast(fn, v, self.kind))
            return
        buffers: list = [own] if self.in_place else [None, None]
        if own is None and target is not None and target.contiguous:
            if self.in_place:
                buffers[0] = target
            elif self.steps is not None:
                buffers[self.steps % 2] = target
        for k, b in enumerate(buffers):
            if b is None:
                buffers[k] = e.in_workspace(self.kind, self.shape)
                self.places.append(buffers[k].place)
        self.buffers = buffers
        if own is None:
            e.fill(buffers[0], init)
        if not self.in_place:
            self.slots = [fn.alloca("p", 1), fn.alloca("p", 1)]
            for slot, b in zip(self.slots, buffers, strict=True):
                at, _ = b.address(unit, (0,) * len(self.shape))
                fn.line(f"store ptr {fn.name_of(at)}, ptr {slot.name}")

    def read(self, unit, depth):
        """The source of the carry in a step."""
        fn = unit.fn
        if self.small:
            values = [c.load(unit, c.base, None) for c in self.cells]
            return Small(self.shape, self.kind, values, depth)
        if self.in_place:
            return self.here(unit)
        self.now, self.next = (fn.here(f"load {LLVM['p']}, ptr {slot.name}", "p") for slot in self.slots)
        self.target = Buffer(self.next, self.kind, self.shape, depth=depth)
        return Buffer(self.now, self.kind, self.shape, depth=depth)

    def value(self, unit, result):
        """What the step computed, read before any carry is written."""
        if self.small:
            return [math.cast(unit.fn, unit.element(result, at), self.kind) for at in indices(self.shape)]
        return None

    def write(self, e, values, result) -> None:
        unit = e.unit
        fn = unit.fn
        if self.small:
            for c, v in zip(self.cells, values, strict=True):
                c.store_flat(unit, 0, v)
        elif not self.in_place:
            fn.line(f"store ptr {self.next.name}, ptr {self.slots[0].name}")
            fn.line(f"store ptr {self.now.name}, ptr {self.slots[1].name}")
        elif not same_place(result, self.buffers[0]):
            e.fill(self.here(unit), result)

    def here(self, unit) -> Buffer:
        """The one buffer of a carry that is updated in place, as a source of its own in this scope."""
        b = copy.copy(self.buffers[0])
        b.owner, b.depth = unit.fn, len(unit.fn.scopes) - 1
        return b

    def ends_in(self, target) -> bool:
        """Whether the last value stands in the result already."""
        at = None if self.small else 0 if self.in_place else self.steps and self.steps % 2
        return at is not None and self.buffers[at] is target

    def final(self, unit):
        fn = unit.fn
        depth = len(fn.scopes) - 1
        if self.small:
            return Small(self.shape, self.kind, [c.load(unit, c.base, None) for c in self.cells], depth)
        if self.in_place:
            return self.buffers[0]
        return Buffer(fn.here(f"load ptr, ptr {self.slots[0].name}", "p"), self.kind, self.shape, depth=depth)

    def done(self, e) -> None:
        for place in self.places:
            e.unit.workspace.give(place)


def indices(shape):
    return itertools.product(*map(range, shape))
