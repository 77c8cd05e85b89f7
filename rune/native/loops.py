"""Loops: the step's code inside one native loop, its carry in registers where it is small.

A small carry lives in stack cells that LLVM turns into registers.  A large one has two buffers that
change places each step, or one where the step updates it in place.  Rows are read where they are,
outputs are written to their row of the stacked result, and temporaries are allocated once.
"""

from __future__ import annotations

import itertools

from . import math, nest
from .function import LLVM
from .index import Idx, Value
from .plan import fused_update, inner_blocks
from .rewrite import simplified, written
from .source import Buffer, Row, Small, row_major
from .unit import CHECK


def loop(e, form: nest.Loop, stage) -> None:
    unit = e.unit
    step, length = form.step, form.length
    outs = list(form.outs)
    carried, stacked = outs[: form.carries], outs[form.carries : len(step.outputs)]
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
    """Whether a host call may raise inside."""
    return any(isinstance(f, nest.Host) or any(map(has_host, inner_blocks(f))) for f in block.forms)


def emit(e, form, inputs, targets) -> None:
    from .emit import Emission

    unit, fn = e.unit, e.unit.fn
    step, n, length = simplified(form.step), form.carries, form.length
    carries = [Carry(e, step, k) for k in range(n)]
    for c, x in zip(carries, inputs, strict=False):
        c.start(e, e.source(x))
    limit = math.constant(length, "i8")
    if form.counted:
        limit = unit.element(e.source(inputs[-1]), ())
        inputs = inputs[:-1]
    taken = math.constant(length, "i8")
    stacks = targets[n : len(step.outputs)]
    if length:
        carried: dict = {}

        def read_carries():
            at = len(fn.scopes) - 1
            carried.update((v, c.read(unit, at)) for c, v in zip(carries, step.inputs, strict=False))

        def test():
            read_carries()
            if form.until is None:
                return None
            known = [carried[v] for v in step.inputs[:n]]
            known += [e.source(x) for x in inputs[n + form.rows :]]
            sources = dict(zip(form.until.inputs, known, strict=True))
            (found,) = Emission(unit, form.until, sources, [None], True).run()
            return unit.element(found, ())

        dynamic = form.counted or form.until is not None
        with fn.loop_until(limit, test) if dynamic else fn.loop(length) as t:
            if not dynamic:
                read_carries()
            r = t
            if form.reverse:
                r = value_index(fn, limit, length) - 1 - t if form.counted else (length - 1) - t
            unit.steps.append((r, fn, fn.top))
            sources = dict(carried)
            for k, (v, x) in enumerate(zip(step.inputs[n:], inputs[n:], strict=True)):
                s = e.source(x)
                if k < form.rows:
                    plain = isinstance(s, Buffer) and s.byte_strides is None
                    s = s.row(r, v.type.shape) if plain else Row(s, r, v.type.shape)
                sources[v] = s
            rows = [
                y.row(r, v.type.shape) if y is not None else None
                for y, v in zip(stacks, step.outputs[n:], strict=True)
            ]
            inner = Emission(unit, step, sources, [c.target for c in carries] + rows, True)
            inner.mutable.update(v for c, v in zip(carries, step.inputs, strict=False) if c.in_place)
            results = inner.run()
            values = [c.value(unit, s) for c, s in zip(carries, results, strict=False)]
            for c, v, s in zip(carries, values, results, strict=False):
                c.write(inner, v, s)
            unit.steps.pop()
        if dynamic:
            counter = t.terms[0][0]
            taken = Value(counter.name, "i8", len(fn.scopes) - 1, fn)
            for y in stacks:
                if y is not None:
                    clear_rows(unit, y, taken, length)
    for c, target in zip(carries, targets, strict=False):
        if target is not None:
            e.fill(target, c.final(unit))
        c.done(e)
    if form.until is not None and targets[-1] is not None:
        targets[-1].store(unit, (), taken if length else math.constant(0, "i8"))


def value_index(fn, v: Value, most: int):
    """A value as an index."""
    return int(v.name) if v.fn is None else Idx(((fn.atom(v, 0, most), 1),), 0)


def clear_rows(unit, stack: Buffer, start: Value, length: int) -> None:
    """Zeros in the rows of steps that were not taken."""
    from .emit import loop_over

    fn = unit.fn
    with fn.loop_while(start, math.constant(length, "i8")) as r, loop_over(fn, stack.shape[1:]) as at:
        if 0 not in stack.shape[1:]:
            stack.store(unit, (r, *at), math.constant(0, stack.kind))


def branch(e, form: nest.Branch, stage) -> None:
    """One block or another, all writing their results to the same places."""
    from .emit import Emission

    unit, fn = e.unit, e.unit.fn
    targets = [e.storage(v) for v in form.outs]
    chosen = unit.element(e.source(form.inputs[0]), ())
    operands = [e.source(x) for x in form.inputs[1:]]

    def run(k):
        if k == len(form.blocks) - 1:
            block = form.blocks[k]
            Emission(unit, block, dict(zip(block.inputs, operands, strict=True)), targets, e.in_loop).run()
            return
        here = math.cmp(fn, "eq", chosen, math.num(k, chosen))

        def first():
            block = form.blocks[k]
            Emission(unit, block, dict(zip(block.inputs, operands, strict=True)), targets, e.in_loop).run()

        fn.branch(here, first, lambda: run(k + 1))

    run(0)
    for v, b in zip(form.outs, targets, strict=True):
        e.sources[v] = b


def check(e, form: nest.Check, stage) -> None:
    """The call fails at the first false element."""
    from .emit import loop_over

    unit, fn = e.unit, e.unit.fn
    unit.checks.append(form.error)
    s = e.source(form.inputs[0])
    site = len(unit.checks) - 1
    if s.size == 0:
        return
    with loop_over(fn, s.shape) as at:
        ok = unit.element(s, at)
        flat = sum(i * w for i, w in zip(at, row_major(s.shape), strict=True))
        position = fn.index(flat)
        with fn.upto(max(fn.base, fn.depth_of(ok))):
            unit.fail(math.not_(fn, ok), CHECK, position, site=site)


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
        if f is None or written(f) is None or (isinstance(f, nest.Update) and fused_update(f)):
            return False
        chain.append((x, f))
        x = f.inputs[written(f)]
    position = {id(f): i for i, f in enumerate(step.forms)}
    for _, f in chain:
        old = f.inputs[written(f)]
        for g in step.forms:
            if g is not f and any(y is old for y in g.inputs) and position[id(g)] > position[id(f)]:
                return False
    return bool(chain)
