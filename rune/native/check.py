"""Checks: one test, and where it fails the place of the first false element.

The plan reduces a large condition to one boolean beside whatever else reads the same values, so that
a check that holds costs one test.  Where it fails, the condition is read again, in order, for its
first false element; the call's status gets that position, the site of the check and the steps of the
loops around it, and the functions return one after another.
"""

from __future__ import annotations

import itertools

from . import math
from .index import Value
from .unit import CHECK


def check(e, form, stage) -> None:
    unit, fn = e.unit, e.unit.fn
    flag, ok = (e.source(x) for x in form.inputs)
    if not ok.size:
        return
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
    with fn.loop_upto(math.constant(ok.size, "i8"), ok.size) as (i, leave):
        index, rest = [], i
        for n in reversed(ok.shape[1:]):
            rest, k = divmod(rest, n)
            index.insert(0, k)
        index = (rest, *index) if ok.shape else ()
        leave(math.not_(fn, unit.element(ok, index)))
    return Value(i.terms[0][0].name, "i8", len(fn.scopes) - 1, fn)
