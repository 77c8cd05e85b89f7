"""Updates and scatters: in place where nothing reads the target later, else on a copy."""

from __future__ import annotations

from rune.program import Literal

from . import math, nest
from .function import loop_over
from .inplace import taken_over
from .plan import size
from .rewrite import written
from .source import Buffer, Source, broadcast_index


def destination(e, form, stage) -> Buffer:
    """The array to write into: the target's own storage, or a copy of it."""
    v = form.outs[0]
    b = taken_over(e, form, v, stage)
    if b is None:
        s = e.source(form.inputs[written(form)])
        b = e.storage(v)
        e.fill(b, s)
    return b


def stable(e, form, k: int, stage) -> Source:
    """An operand that does not change while the target is written."""
    x = form.inputs[k]
    s = e.source(x)
    if isinstance(x, Literal) or not e.plan.reaches(x, form.inputs[0]) or isinstance(s, Buffer):
        return s
    b = e.passing(s.kind, s.shape)
    e.fill(b, s)
    return b


def write(e, target: Buffer, at, value, op) -> None:
    unit = e.unit
    p, _ = target.address(unit, at)
    if op == "add":
        old = target.load(unit, p, None)
        value = math.apply(unit.fn, "add", [old, value], target.kind)
    target.store_at(unit, p, value)


def update(e, form: nest.Update, stage) -> None:
    unit = e.unit
    updates = stable(e, form, 1, stage)
    b = destination(e, form, stage)
    shape = form.inputs[1].type.shape
    if size(shape):
        with e.kernel(size(shape), "nest_update"), loop_over(unit.fn, shape) as k:
            at = tuple(s + i * t for s, t, i in zip(form.starts, form.steps, k, strict=True))
            value = math.cast(unit.fn, unit.element(updates, broadcast_index(updates, k)), b.kind)
            write(e, b, at, value, form.op)
    e.sources[form.outs[0]] = b


def scatter(e, form: nest.Scatter, stage) -> None:
    unit = e.unit
    updates = stable(e, form, 1, stage)
    where = [stable(e, form, k, stage) for k in range(2, len(form.inputs))]
    b = destination(e, form, stage)
    shape = form.inputs[2].type.shape if where else ()
    n = len(where)
    rest = b.shape[n:]
    if size(shape) and (b.size or form.error):
        with e.kernel(size(shape) * max(size(rest), 1), "nest_scatter"), loop_over(unit.fn, shape) as k:
            at = tuple(
                unit.bounded(unit.element(w, broadcast_index(w, k)), b.shape[d], d, form.error, form.lane(k))
                for d, w in enumerate(where)
            )
            if b.size:  # an empty target has no element that a clamped index names
                with loop_over(unit.fn, rest) as r:
                    value = unit.element(updates, broadcast_index(updates, (*k, *r)))
                    write(e, b, (*at, *r), math.cast(unit.fn, value, b.kind), form.op)
    e.sources[form.outs[0]] = b
