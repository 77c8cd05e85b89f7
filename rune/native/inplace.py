"""Results that take over the storage of an input: updates, products that are added, and what holds them.

A result may overwrite an input where nothing reads the input later.  A branch may where each of its
blocks does, or passes the input on; a loop where its step does, so that a step of a loop in a loop
that writes one element writes one element.
"""

from __future__ import annotations

import copy

from rune.program import Var

from . import nest
from .plan import fused_update
from .rewrite import simplified, written
from .source import Buffer


def overwritten(f, v) -> Var | None:
    """The input of a form whose storage its result `v` may take over."""
    k = written(f)
    if k is None and isinstance(f, nest.Branch):
        at = f.outs.index(v)
        starts = {start(simplified(b), at) for b in f.blocks}
        k = None if len(starts) > 1 or None in starts else 1 + starts.pop()
    elif k is None and isinstance(f, nest.Loop):
        at = f.outs.index(v)
        k = at if at < f.carries and start(simplified(f.step), at) == at else None
    elif isinstance(f, nest.Update) and fused_update(f):
        return None
    if k is None:
        return None
    x = f.inputs[k]
    return x if isinstance(x, Var) and sum(y is x for y in f.inputs) == 1 else None


def start(block, at: int) -> int | None:
    """The input of a block that its output `at` is made of by writing to it, in a chain that nothing reads late."""
    known = vars(block).setdefault("_starts", {})
    if at not in known:
        known[at] = _start(block, block.outputs[at])
    return known[at]


def _start(block, out) -> int | None:
    if sum(v is out for v in block.outputs) > 1:
        return None
    defined = {v: f for f in block.forms for v in f.outs}
    chain = []
    x = out
    while x in defined:
        f = defined[x]
        x = overwritten(f, x)
        if x is None:
            return None
        chain.append((f, x))
    if chain and any(v is x for v in block.outputs):
        return None
    position = {id(f): i for i, f in enumerate(block.forms)}
    for f, old in chain:
        if any(y is old for g in block.forms[position[id(f)] + 1 :] for y in g.inputs):
            return None
    return next((k for k, v in enumerate(block.inputs) if v is x), None)


def taken_over(e, form, v, stage) -> Buffer | None:
    """The storage of an input, which from now on is that of `v`; None where the input must be copied."""
    x = overwritten(form, v)
    if x is None or x not in stage.last or x not in e.mutable or v in e.home:
        return None
    s = e.source(x)
    if not (isinstance(s, Buffer) and s.contiguous):
        return None
    if any(e.plan.reaches(y, x) for y in form.inputs if y is not x):
        return None
    e.mutable.discard(x)
    e.mutable.add(v)
    if x in e.owned:
        e.owned[v] = e.owned.pop(x)
    return copy.copy(s)  # another source: elements that were read before the write are not its own


def same_place(s, b: Buffer) -> bool:
    """Whether a source is what stands in a buffer."""
    return isinstance(s, Buffer) and s.base is b.base and s.offset == b.offset and s.strides == b.strides
