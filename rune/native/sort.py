"""argsort: a stable merge sort along the last axis, NaN last, on indices."""

from __future__ import annotations

from . import math
from .index import Idx
from .source import Buffer

RUN = 8  # elements sorted by insertion before merging starts


def before(fn, a, b):
    """Whether `a` must stand before `b`: NaN is greater than everything and equals itself."""
    k = a.kind[0]
    if k == "c":
        (ar, ai), (br, bi) = math.parts(fn, a), math.parts(fn, b)
        same = math.or_(fn, math.cmp(fn, "oeq", ar, br), math.and_(fn, _nan(fn, ar), _nan(fn, br)))
        return math.or_(fn, before(fn, ar, br), math.and_(fn, same, before(fn, ai, bi)))
    if k == "f":
        less = math.cmp(fn, "olt", a, b)
        return math.or_(fn, less, math.and_(fn, math.not_(fn, _nan(fn, a)), _nan(fn, b)))
    return math.apply(fn, "lt", [a, b], "b1")


def _nan(fn, a):
    return math.cmp(fn, "uno", a, a)


def argsort(e, x, out) -> None:
    from .emit import loop_over
    from .library import scratch

    unit = e.unit
    n = out.shape[-1]
    if not out.size:
        return
    with e.kernel(out.size * 16, "nest_sort"):
        fn = unit.fn
        other = scratch(e, "i8", (n,))
        own = scratch(e, "i8", (n,))
        with loop_over(fn, out.shape[:-1]) as p:
            with fn.loop(n) as i:
                own.store(unit, (i,), fn.index(i))

            def key(position):
                return unit.element(x, (*p, position))

            def at(b: Buffer, i):
                address, _ = b.address(unit, (i,))
                v = b.load(unit, address, None)
                return Idx(((fn.atom(v, 0, max(n - 1, 0)), 1),), 0)

            source, target = own, other
            width = 1
            while width < n:
                merge_all(unit, fn, source, target, at, key, n, width)
                source, target = target, source
                width *= 2
            with fn.loop(n) as i:
                out.store(unit, (*p, i), fn.index(at(source, i)))


def merge_all(unit, fn, source, target, at, key, n, width) -> None:
    """Merges neighbouring runs of `width`; each position of the target takes the next of two runs."""
    left = Buffer(fn.alloca("i8", 1), "i8", ())
    right = Buffer(fn.alloca("i8", 1), "i8", ())
    with fn.loop(-(-n // (2 * width))) as block:
        start = block * (2 * width)

        def clipped(i):
            v = fn.index(i)
            return math.C(fn, "smin", v, math.constant(n, "i8"))

        middle, stop = clipped(start + width), clipped(start + 2 * width)
        left.store_flat(unit, 0, fn.index(start))
        right.store_flat(unit, 0, middle)
        with fn.loop_while(fn.index(start), stop) as k:
            i, j = left.load(unit, left.base, None), right.load(unit, right.base, None)
            have_left = math.cmp(fn, "slt", i, middle)
            have_right = math.cmp(fn, "slt", j, stop)
            safe_i = math.select(fn, have_left, i, math.constant(0, "i8"))
            safe_j = math.select(fn, have_right, j, math.constant(0, "i8"))
            a = at(source, Idx(((fn.atom(safe_i, 0, n - 1), 1),), 0))
            b = at(source, Idx(((fn.atom(safe_j, 0, n - 1), 1),), 0))
            later = before(fn, key(b), key(a))  # only a strictly smaller right element goes first: stable
            take_right = math.and_(fn, have_right, math.or_(fn, math.not_(fn, have_left), later))
            chosen = math.select(fn, take_right, fn.index(b), fn.index(a))
            target.store(unit, (k,), chosen)
            one = math.cast(fn, take_right, "i8")
            left.store_flat(unit, 0, math.I(fn, "add", i, math.I(fn, "sub", math.constant(1, "i8"), one)))
            right.store_flat(unit, 0, math.I(fn, "add", j, one))
