"""argsort: a stable merge sort along the last axis, NaN last, of keys and their indices."""

from __future__ import annotations

from . import math
from .function import loop_over
from .index import Idx
from .source import Buffer


def before(fn, a, b):
    """Whether `a` must stand before `b`: NaN is greater than everything and equals itself.

    Complex numbers go by real part, then imaginary, but one with a NaN part behind all without: NumPy's
    order is R + Rj, R + nanj, nan + Rj, nan + nanj.
    """
    k = a.kind[0]
    if k == "c":
        (ar, ai), (br, bi) = math.parts(fn, a), math.parts(fn, b)
        same = math.or_(fn, math.cmp(fn, "oeq", ar, br), math.and_(fn, _nan(fn, ar), _nan(fn, br)))
        whole, broken = math.not_(fn, _nan(fn, ai)), _nan(fn, bi)
        less = math.and_(fn, math.cmp(fn, "olt", ar, br), math.or_(fn, whole, broken))
        more = math.and_(fn, math.cmp(fn, "ogt", ar, br), math.and_(fn, whole, broken))
        last = math.and_(fn, math.not_(fn, _nan(fn, ar)), _nan(fn, br))
        apart = math.or_(fn, math.or_(fn, less, more), last)
        return math.select(fn, same, before(fn, ai, bi), apart)
    if k == "f":
        less = math.cmp(fn, "olt", a, b)
        return math.or_(fn, less, math.and_(fn, math.not_(fn, _nan(fn, a)), _nan(fn, b)))
    return math.apply(fn, "lt", [a, b], "b1")


def _nan(fn, a):
    return math.cmp(fn, "uno", a, a)


def argsort(e, x, out) -> None:
    unit = e.unit
    n = out.shape[-1]
    if not out.size:
        return
    # keys move with their indices, so that merging reads memory in order
    keys = [e.passing(x.kind, (n,)) for _ in range(2)]
    places = [e.passing("i8", (n,)) for _ in range(2)]
    with e.kernel(out.size * 16, "nest_sort"):
        fn = unit.fn
        with loop_over(fn, out.shape[:-1]) as p:
            with fn.loop(n) as i:
                keys[0].store(unit, (i,), unit.element(x, (*p, i)))
                places[0].store(unit, (i,), fn.index(i))
            width = 1
            while width < n:
                merge_all(unit, fn, keys, places, n, width)
                keys, places = keys[::-1], places[::-1]
                width *= 2
            with fn.loop(n) as i:
                address, _ = places[0].address(unit, (i,))
                out.store(unit, (*p, i), places[0].load(unit, address, None))


def merge_all(unit, fn, keys, places, n, width) -> None:
    """Merges neighbouring runs of `width`; each position of the target takes the next of two runs."""
    left = Buffer(fn.alloca("i8", 1), "i8", ())
    right = Buffer(fn.alloca("i8", 1), "i8", ())
    zero, one = math.constant(0, "i8"), math.constant(1, "i8")

    def get(b: Buffer, v):
        address, _ = b.address(unit, (Idx(((fn.atom(v, 0, max(n - 1, 0)), 1),), 0),))
        return b.load(unit, address, None)

    with fn.loop(-(-n // (2 * width))) as block:
        start = block * (2 * width)
        middle, stop = (
            math.C(fn, "smin", fn.index(start + d), math.constant(n, "i8")) for d in (width, 2 * width)
        )
        left.store_flat(unit, 0, fn.index(start))
        right.store_flat(unit, 0, middle)
        with fn.loop_while(fn.index(start), stop) as k:
            i, j = left.load(unit, left.base, None), right.load(unit, right.base, None)
            have_left = math.cmp(fn, "slt", i, middle)
            have_right = math.cmp(fn, "slt", j, stop)
            i_safe, j_safe = math.select(fn, have_left, i, zero), math.select(fn, have_right, j, zero)
            a, b = get(keys[0], i_safe), get(keys[0], j_safe)
            later = before(fn, b, a)  # only a strictly smaller right element goes first: stable
            right_first = math.and_(fn, have_right, math.or_(fn, math.not_(fn, have_left), later))
            chosen = math.select(fn, right_first, j_safe, i_safe)
            keys[1].store(unit, (k,), math.select(fn, right_first, b, a))
            places[1].store(unit, (k,), get(places[0], chosen))
            took = math.cast(fn, right_first, "i8")
            left.store_flat(unit, 0, math.I(fn, "add", i, math.I(fn, "sub", one, took)))
            right.store_flat(unit, 0, math.I(fn, "add", j, took))
