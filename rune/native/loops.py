"""Loops: the step's code inside one native loop, its carry in registers where it is small.

A small carry lives in stack cells that LLVM turns into registers.  A large one has two buffers that
change places each step, or one where the step updates it in place.  Rows are read where they are,
outputs are written to their row of the stacked result, and temporaries are allocated once.
"""

from __future__ import annotations

import itertools

from . import math, nest
from .function import LLVM
from .plan import fused_update
from .source import Buffer, Row, Small


def loop(e, form: nest.Loop, stage) -> None:
    unit = e.unit
    step, length = form.step, form.length
    outs = list(form.outs)
    carried, stacked = outs[: form.carries], outs[form.carries :]
    inputs = list(form.inputs)
    targets = [e.storage(v) if e.plan.used(v) else None for v in outs]
    if unit.fn.name.startswith("loop") or e.in_loop:
        emit(e, form, inputs, targets)
    else:
        with unit.function(unit.kernel_name("loop"), may_fail=has_host(step)):
            emit(e, form, inputs, targets)
    for v, t in zip(outs, targets, strict=True):
        if t is not None:
            e.sources[v] = t
    kept = [v.type.bytes // max(length, 1) for v in stacked[len(stacked) - form.kept :]] if form.kept else []
    places = ["registers" if e.loop_limit(v) else "memory" for v in carried]
    unit.report.loop(length, sum(kept), places, form.reverse)


def has_host(block) -> bool:
    return any(
        isinstance(f, nest.Host) or (isinstance(f, nest.Loop) and has_host(f.step)) for f in block.forms
    )


def emit(e, form, inputs, targets) -> None:
    from .emit import Emission

    unit, fn = e.unit, e.unit.fn
    step, n, length = form.step, form.carries, form.length
    carries = [Carry(e, step, k) for k in range(n)]
    for c, x in zip(carries, inputs, strict=False):
        c.start(e, e.source(x))
    if length:
        with fn.loop(length) as t:
            r = (length - 1) - t if form.reverse else t
            depth = len(fn.scopes) - 1
            sources = {}
            for c, v in zip(carries, step.inputs, strict=False):
                sources[v] = c.read(unit, depth)
            for v, x in zip(step.inputs[n:], inputs[n:], strict=True):
                if len(sources) < n + form.rows:
                    s = e.source(x)
                    plain = isinstance(s, Buffer) and s.byte_strides is None
                    sources[v] = s.row(r, v.type.shape) if plain else Row(s, r, v.type.shape)
                else:
                    sources[v] = e.source(x)
            rows = [
                t.row(r, v.type.shape) if t is not None else None
                for t, v in zip(targets[n:], step.outputs[n:], strict=True)
            ]
            inner = Emission(unit, step, sources, [c.target for c in carries] + rows, True)
            inner.mutable.update(v for c, v in zip(carries, step.inputs, strict=False) if c.in_place)
            results = inner.run()
            values = [c.value(unit, s) for c, s in zip(carries, results, strict=False)]
            for c, v, s in zip(carries, values, results, strict=False):
                c.write(inner, v, s)
    for c, target in zip(carries, targets, strict=False):
        if target is not None:
            e.fill(target, c.final(unit))
        c.done(e)


class Carry:
    """Where one carried value lives between steps."""

    def __init__(self, e, step, k):
        v = step.inputs[k]
        self.kind, self.shape = math.kind_of(v.type.dtype), v.type.shape
        self.small = e.loop_limit(v)
        self.in_place = not self.small and updates_in_place(step, k)
        self.target = None
        self.places: list = []

    def start(self, e, init) -> None:
        unit, fn = e.unit, e.unit.fn
        if self.small:
            count = 1
            for n in self.shape:
                count *= n
            self.cells = [Buffer(fn.alloca(self.kind, 1), self.kind, (), maybe_product=False) for _ in range(count)]
            values = [unit.element(init, at) if init.shape else unit.element(init, ()) for at in indices(self.shape)]
            for cell, v in zip(self.cells, values, strict=True):
                cell.store_flat(unit, 0, math.cast(fn, v, self.kind))
            return
        buffers = [e.in_workspace(self.kind, self.shape) for _ in range(1 if self.in_place else 2)]
        self.places = [b.place for b in buffers]
        self.buffers = buffers
        e.fill(buffers[0], init)
        if not self.in_place:
            self.slots = [fn.alloca("p", 1), fn.alloca("p", 1)]
            for slot, b in zip(self.slots, buffers, strict=True):
                fn.line(f"store ptr {fn.name_of(b.base)}, ptr {slot.name}")

    def read(self, unit, depth):
        """The source of the carry in a step."""
        fn = unit.fn
        if self.small:
            values = [c.load(unit, c.base, None) for c in self.cells]
            return Small(self.shape, self.kind, values, depth)
        if self.in_place:
            b = self.buffers[0]
            return Buffer(b.base, self.kind, self.shape, depth=depth)
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
        elif not (isinstance(result, Buffer) and result.base is self.buffers[0].base):
            e.fill(Buffer(self.buffers[0].base, self.kind, self.shape, depth=len(fn.scopes) - 1), result)

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


def updates_in_place(step, k) -> bool:
    """Whether the carry-out is a chain of updates of the carry-in that nothing else reads late."""
    carry, out = step.inputs[k], step.outputs[k]
    if sum(v is out for v in step.outputs) > 1 or any(v is carry for v in step.outputs):
        return False
    defined = {v: f for f in step.forms for v in f.outs}
    chain = []
    x = out
    while x is not carry:
        f = defined.get(x)
        if not isinstance(f, (nest.Update, nest.Scatter)) or (isinstance(f, nest.Update) and fused_update(f)):
            return False
        chain.append((x, f))
        x = f.inputs[0]
    position = {id(f): i for i, f in enumerate(step.forms)}
    for _, f in chain:
        old = f.inputs[0]
        for g in step.forms:
            if g is not f and any(y is old for y in g.inputs) and position[id(g)] > position[id(f)]:
                return False
    return bool(chain)
