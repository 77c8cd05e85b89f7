"""Checks: one test, and where it fails the place of the first false element.

The plan reduces a large condition to one boolean beside whatever else reads the same values, so that
a check that holds costs one test.  Where it fails, the condition is read again, in order, for its
first false element; the call's status gets that position, the site of the check and the steps of the
loops around it, and the functions return one after another.
"""

from __future__ import annotations

import itertools

from . import math
from .function import loop_over
from .index import Value
from .source import Buffer, row_major
from .unit import CHECK


def check(e, form, stage) -> None:
    unit, fn = e.unit, e.unit.fn
    flag, ok = (e.source(x) for x in form.inputs)
    holds = math.constant(True, "b1")
    for at in itertools.product(*map(range, flag.shape)):
        holds = math.and_(fn, holds, unit.element(flag, at))
    site = unit.site(form.error)

    def failed() -> None:
        unit.record(CHECK, first_false(unit, ok), site=site)
        unit.leave()

    fn.branch(math.not_(fn, holds), failed, None)
    unit.report.checks += 1


def first_false(unit, ok) -> Value:
    """The flat position of the first false element."""
    fn = unit.fn
    place = Buffer(fn.alloca("i8", 1), "i8", ())
    none = math.constant(-1, "i8")
    place.store_flat(unit, 0, none)
    with loop_over(fn, ok.shape) as at:
        old = place.load(unit, place.base, None)
        i = fn.index(sum((k * w for k, w in zip(at, row_major(ok.shape), strict=True)), 0))
        first = math.and_(fn, math.not_(fn, unit.element(ok, at)), math.cmp(fn, "eq", old, none))
        place.store_flat(unit, 0, math.select(fn, first, Value(i.name, "i8", i.depth, i.fn), old))
    return place.load(unit, place.base, None)
