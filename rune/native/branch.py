"""Branches: one switch over an index, and behind each case the code of one block.

Only the chosen block runs: what it reads from outside is computed before the switch or where it is
read, and nothing of its own moves out.  Every block writes its results to the same storage; that of a
small result is stack cells that LLVM turns into registers.
"""

from __future__ import annotations

import itertools

from rune.program import Literal

from . import math, nest
from .inplace import overwritten, same_place, taken_over
from .source import Small


def branch(e, form: nest.Branch, stage) -> None:
    unit, fn = e.unit, e.unit.fn
    used = [e.plan.used(v) for v in form.outs]
    outs = [v for v, u in zip(form.outs, used, strict=True) if u]
    taken = [None if e.plan.is_small(v) else taken_over(e, form, v, stage) for v in outs]
    targets = [e.storage(v) if b is None else None for v, b in zip(outs, taken, strict=True)]
    places = [
        None if b is None else position(form.inputs[1:], overwritten(form, v))
        for v, b in zip(outs, taken, strict=True)
    ]
    index, *operands = form.inputs
    sources = [e.source(x) for x in operands]

    def run(block) -> None:
        from .emit import Emission

        results = [v for v, u in zip(block.outputs, used, strict=True) if u]
        needed = nest.Block(block.inputs, block.forms, results, block.name)
        inner = Emission(unit, needed, dict(zip(block.inputs, sources, strict=True)), targets, e.in_loop)
        inner.mutable.update(block.inputs[p] for p in places if p is not None)
        for s, b in zip(inner.run(), taken, strict=True):
            if b is not None and not same_place(s, b):
                inner.fill(b, s)

    if isinstance(index, Literal):
        run(form.blocks[int(index.value)])
    else:
        i = math.cast(fn, unit.element(e.source(index), ()), "i8")
        fn.switch(i, [lambda block=block: run(block) for block in form.blocks])
    for v, t, b in zip(outs, targets, taken, strict=True):
        t = e.sources[v] = t if b is None else b
        if e.plan.is_small(v) and v not in e.home:
            values = [unit.element(t, at) for at in itertools.product(*map(range, t.shape))]
            e.sources[v] = Small(t.shape, t.kind, values, e.depth)
    unit.report.branch(len(form.blocks))


def position(inputs, x) -> int:
    return next(k for k, y in enumerate(inputs) if y is x)
