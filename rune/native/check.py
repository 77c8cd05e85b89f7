"""Checks: one fused test over an array, and on failure the place of the first false element.

The plan reduces a large condition to one boolean beside whatever else reads the same values (`all`),
so that a check that holds costs one test.  Where it fails, the condition is read again, in order, for
its first false element; the call's status gets that position, the site of the check and the steps of
the loops around it, and the functions return one after another.
"""

from __future__ import annotations

import itertools

from . import math
from .source import Buffer, row_major
from .unit import CHECK


def check(e, form, stage) -> None:
    """`form` is the plan's `Test`: its inputs are what must hold, and the array it was reduced from."""
    unit, fn = e.unit, e.unit.fn
    flag, ok = (e.source(x) for x in form.inputs)
    holds = None
    for at in itertools.product(*map(range, flag.shape)):
        v = math.truth(fn, unit.element(flag, at))
        holds = v if holds is None else math.and_(fn, holds, v)
    if holds is None:
        return
    site = unit.site(form.error)
    bad = math.not_(fn, holds)
    fn.branch(bad, lambda: unit.record(CHECK, first_false(unit, ok).name, site=site), None)
    unit.stop_if(bad)


def first_false(unit, ok):
    """The flat position of the first false element."""
    from .emit import loop_over

    fn = unit.fn
    place = Buffer(fn.alloca("i8", 1), "i8", ())
    place.store_flat(unit, 0, math.constant(-1, "i8"))
    with loop_over(fn, ok.shape) as at:
        old = place.load(unit, place.base, None)
        flat = fn.index(sum((i * w for i, w in zip(at, row_major(ok.shape), strict=True)), 0))
        new = math.and_(
            fn, math.not_(fn, math.truth(fn, unit.element(ok, at))), math.cmp(fn, "slt", old, math.constant(0, "i8"))
        )
        flat = type(old)(flat.name, "i8", flat.depth, flat.fn)
        place.store_flat(unit, 0, math.select(fn, new, flat, old))
    return place.load(unit, place.base, None)
