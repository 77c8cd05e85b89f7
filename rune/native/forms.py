"""The forms that are stages of their own: constants, concatenations, running sums, argmax."""

from __future__ import annotations

import numpy as np

from . import math
from .compute import Cell, combine, first_extreme, start, wide
from .function import loop_over
from .index import Value
from .plan import size
from .sinks import Fold, Store
from .source import Buffer, row_major

TWO_PASSES = 16  # elements from which argmax looks for the value first and for its place after


def constant(e, form, stage) -> None:
    unit, fn = e.unit, e.unit.fn
    v = form.outs[0]
    array = np.asarray(form.value)
    slot = unit.extern(("constant", id(form.value)), ("array", np.require(array, v.type.dtype, ["C", "A"])))
    e.sources[v] = Buffer(
        unit.load_extern(fn, slot), math.kind_of(v.type.dtype), v.type.shape, maybe_product=False
    )


def concatenate(e, form, stage) -> None:
    v = form.outs[0]
    target = e.storage(v)
    start = 0
    with e.kernel(target.size, "nest_concatenate"):
        for x in form.inputs:
            shape = x.type.shape
            offset = target.offset + start * target.strides[form.axis]
            piece = Buffer(target.base, target.kind, shape, target.strides, offset, target.depth)
            e.loops(shape, [Store(piece, e.source(x))])
            start += shape[form.axis]
    e.sources[v] = target


def accumulate(e, form, stage) -> None:
    """Running sums and the like; sequential along the axis, vectorised across the others."""
    unit = e.unit
    v = form.outs[0]
    target = e.storage(v)
    s = e.source(form.inputs[0])
    shape, axis, n = target.shape, form.axis, target.shape[form.axis]
    kind = wide(target.kind)
    with e.kernel(target.size, "nest_accumulate"):
        fn = unit.fn
        if target.size:
            outer, inner = shape[:axis], shape[axis + 1 :]
            with loop_over(fn, outer) as at:
                if size(inner) == 1:
                    cell = Buffer(fn.alloca(kind, 1), kind, (), maybe_product=False)
                    cell.store_flat(unit, 0, start(form.op, kind))
                    with fn.loop(n) as k:
                        i = (n - 1) - k if form.reverse else k
                        index = (*at, i, *(0 for _ in inner))
                        x = math.cast(fn, unit.element(s, index), kind)
                        new = combine(fn, form.op, cell.load(unit, cell.base, None), x)
                        cell.store_flat(unit, 0, new)
                        target.store(unit, index, math.cast(fn, new, target.kind))
                else:
                    first = n - 1 if form.reverse else 0
                    with loop_over(fn, inner) as rest:
                        index = (*at, first, *rest)
                        target.store(unit, index, math.cast(fn, unit.element(s, index), target.kind))
                    if n > 1:
                        with fn.loop(n - 1) as k:
                            i = (n - 2) - k if form.reverse else k + 1
                            before = i + 1 if form.reverse else i - 1
                            with loop_over(fn, inner) as rest:
                                x = math.cast(fn, unit.element(s, (*at, i, *rest)), kind)
                                p, _ = target.address(unit, (*at, before, *rest))
                                old = math.cast(fn, target.load(unit, p, None), kind)
                                new = combine(fn, form.op, old, x)
                                target.store(unit, (*at, i, *rest), math.cast(fn, new, target.kind))
    e.sources[v] = target


def first_extreme_of_row(unit, op, s, extents, index_at) -> Value:
    """The place of the extreme in two passes that both vectorise: its value, then its first place."""
    fn = unit.fn
    word = "max" if op == "argmax" else "min"
    best = Cell(unit, word, s.kind)
    place = Buffer(fn.alloca("i8", 1), "i8", ())
    place.store_flat(unit, 0, math.constant(size(extents), "i8"))
    with loop_over(fn, extents) as ks:
        best.add(unit.element(s, index_at(ks)))
    extreme = best.total()
    with loop_over(fn, extents) as ks:
        x = unit.element(s, index_at(ks))
        here = math.apply(fn, "eq", [x, extreme], "b1")
        if s.kind[0] == "f":
            here = math.or_(
                fn, here, math.ROWS["isnan", "f"](fn, x if s.kind != "f2" else math.cast(fn, x, "f4"))
            )
        i = fn.index(sum(k * w for k, w in zip(ks, row_major(extents), strict=True)))
        i = math.select(fn, here, Value(i.name, "i8", i.depth, i.fn), math.constant(size(extents), "i8"))
        place.store_flat(unit, 0, math.C(fn, "umin", place.load(unit, place.base, None), i))
    return place.load(unit, place.base, None)


def arg_across(e, form, s, target, axis) -> None:
    """argmax along an axis with others after it: whole rows are compared with the best so far."""
    unit = e.unit
    lead, rest = s.shape[:axis], s.shape[axis + 1 :]
    best, place = e.passing(s.kind, rest), e.passing("i8", rest)
    with e.kernel(s.size, "nest_arg"):
        fn = unit.fn
        with loop_over(fn, lead) as p:
            with loop_over(fn, rest) as r:
                best.store(unit, r, unit.element(s, (*p, 0, *r)))
                place.store(unit, r, math.constant(0, "i8"))
            if s.shape[axis] > 1:
                with fn.loop(s.shape[axis] - 1) as k, loop_over(fn, rest) as r:
                    x = unit.element(s, (*p, k + 1, *r))
                    (b, _), (q, _) = best.address(unit, r), place.address(unit, r)
                    old = best.load(unit, b, None)
                    better = first_extreme(fn, form.op, old, x)
                    i = fn.index(k + 1)
                    i = Value(i.name, "i8", i.depth, i.fn)
                    best.store_at(unit, b, math.select(fn, better, x, old))
                    place.store_at(unit, q, math.select(fn, better, i, place.load(unit, q, None)))
            with loop_over(fn, rest) as r:
                q, _ = place.address(unit, r)
                target.store(unit, (*p, *r), math.cast(fn, place.load(unit, q, None), target.kind))


def arg_reduce(e, form, stage) -> None:
    """argmax and argmin, and reductions of nothing."""
    unit = e.unit
    v = form.outs[0]
    target = e.storage(v)
    s = e.source(form.inputs[0])
    e.sources[v] = target
    if s.size == 0:
        if target.size:
            Fold(target, s, form).clear(e)
        return
    axes = sorted(form.axes)
    if len(axes) == 1 and size(s.shape[axes[0] + 1 :]) >= TWO_PASSES:
        arg_across(e, form, s, target, axes[0])
        return
    with e.kernel(s.size, "nest_arg"):
        fn = unit.fn
        with loop_over(fn, target.shape) as at:
            best = Buffer(fn.alloca(s.kind, 1), s.kind, (), maybe_product=False)
            place = Buffer(fn.alloca("i8", 1), "i8", ())

            def index_at(ks, at=at):
                ks, rest = iter(ks), iter(at)
                return tuple(next(ks) if d in axes else next(rest) for d in range(len(s.shape)))

            extents = [s.shape[d] for d in axes]
            if s.kind[0] != "c" and isinstance(s, Buffer) and size(extents) >= TWO_PASSES:
                found = first_extreme_of_row(unit, form.op, s, extents, index_at)
                target.store(unit, at, math.cast(fn, found, target.kind))
                return
            best.store_flat(unit, 0, unit.element(s, index_at([0] * len(axes))))
            place.store_flat(unit, 0, math.constant(0, "i8"))
            with loop_over(fn, [s.shape[d] for d in axes]) as ks:
                x = unit.element(s, index_at(ks))
                flat = sum(k * w for k, w in zip(ks, row_major([s.shape[d] for d in axes]), strict=True))
                old = best.load(unit, best.base, None)
                better = first_extreme(fn, form.op, old, x)
                best.store_flat(unit, 0, math.select(fn, better, x, old))
                i = fn.index(flat)
                i = Value(i.name, "i8", i.depth, i.fn)
                place.store_flat(unit, 0, math.select(fn, better, i, place.load(unit, place.base, None)))
            target.store(unit, at, math.cast(fn, place.load(unit, place.base, None), target.kind))
