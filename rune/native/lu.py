"""LU factors of matrices of any shape, with rows exchanged so that the largest pivots come first.

Inlined when small, LAPACK's when not, which it agrees with: of equal pivots the first is taken, a complex
number's size is |re| + |im|, and a pivot of zero leaves its column as it is.
"""

from __future__ import annotations

from . import blas, math
from .function import loop_over
from .index import Idx
from .source import Buffer
from .spectral import columns_of, read, rows_to
from .unit import SINGULAR

UNROLLED = 4  # rows up to which a factorisation is straight-line code
INLINE = 24  # rows up to which it is loops


class Algebra:
    """Arithmetic on values of one dtype, written as formulas."""

    def __init__(self, fn, kind):
        self.fn, self.kind = fn, kind

    def __call__(self, op, *a, out=None):
        return math.apply(self.fn, op, list(a), out or a[0].kind)

    def minus(self, a, x, y):
        """a - x y"""
        if self.kind[0] == "f":
            return math.fadd(self.fn, a, math.fmul(self.fn, x, y), "fsub")
        return self("sub", a, self("mul", x, y))

    def size(self, a):
        if self.kind[0] == "c":
            re, im = math.parts(self.fn, a)
            f = math.PART[self.kind]
            return math.apply(self.fn, "add", [math.C(self.fn, "fabs", re), math.C(self.fn, "fabs", im)], f)
        return math.C(self.fn, "fabs", a)


def lu(e, form, inputs, outs) -> None:
    """A[perm] = L U of matrices [m, n], and where asked which row each step exchanged with its own."""
    a, (out, perm, *exchanges) = inputs[0], outs
    m, n = a.shape[-2:]
    check = bool(form.params.get("check"))
    unit = e.unit
    if not out.size:
        with loop_over(unit.fn, perm.shape) as (*p, i):
            perm.store(unit, (*p, i), unit.fn.index(i))
        return
    if max(m, n) > INLINE:
        lu_lapack(e, a, out, perm, exchanges, check)
        return
    with e.kernel(out.size * min(m, n), "nest_lu"), loop_over(unit.fn, a.shape[:-2]) as p:
        if max(m, n) <= UNROLLED:
            lu_unrolled(unit, a, out, perm, exchanges, check, p)
        else:
            lu_loops(e, a, out, perm, exchanges, check, p)


def lu_unrolled(unit, a, out, perm, exchanges, check, p) -> None:
    fn = unit.fn
    f = Algebra(fn, out.kind)
    rows, n = a.shape[-2:]
    m = [[math.cast(fn, unit.element(a, (*p, i, j)), out.kind) for j in range(n)] for i in range(rows)]
    order = [math.constant(i, "i8") for i in range(rows)]
    for k in range(min(rows, n)):
        best, where = f.size(m[k][k]), math.constant(k, "i8")
        for i in range(k + 1, rows):
            s = f.size(m[i][k])
            c = math.cmp(fn, "ogt", s, best)
            best = math.select(fn, c, s, best)
            where = math.select(fn, c, math.constant(i, "i8"), where)
        for b in exchanges:
            b.store(unit, (*p, k), math.cast(fn, where, b.kind))
        for i in range(k + 1, rows):
            here = math.cmp(fn, "eq", where, math.constant(i, "i8"))
            for j in range(n):
                m[k][j], m[i][j] = (
                    math.select(fn, here, m[i][j], m[k][j]),
                    math.select(fn, here, m[k][j], m[i][j]),
                )
            order[k], order[i] = (
                math.select(fn, here, order[i], order[k]),
                math.select(fn, here, order[k], order[i]),
            )
        if check:
            unit.fail(math.cmp(fn, "oeq", best, math.num(0.0, best)), SINGULAR)
        zero = math.not_(fn, math.truth(fn, m[k][k]))
        pivot = math.select(fn, zero, math.constant(1, out.kind), m[k][k])
        for i in range(k + 1, rows):
            m[i][k] = f("div", m[i][k], pivot)
            for j in range(k + 1, n):
                m[i][j] = f.minus(m[i][j], m[i][k], m[k][j])
    for i in range(rows):
        for j in range(n):
            out.store(unit, (*p, i, j), m[i][j])
        perm.store(unit, (*p, i), order[i])


def lu_loops(e, a, out, perm, exchanges, check, p) -> None:
    unit, fn = e.unit, e.unit.fn
    f = Algebra(fn, out.kind)
    real = math.PART.get(out.kind, out.kind)
    m, n = a.shape[-2:]

    def get(b, *at):
        address, _ = b.address(unit, at)
        return b.load(unit, address, None)

    with loop_over(fn, (m, n)) as (i, j):
        out.store(unit, (*p, i, j), math.cast(fn, unit.element(a, (*p, i, j)), out.kind))
    with loop_over(fn, (m,)) as (i,):
        perm.store(unit, (*p, i), fn.index(i))
    best = Buffer(fn.alloca(real, 1), real, (), maybe_product=False)
    where = Buffer(fn.alloca("i8", 1), "i8", ())
    last_row, last_column = math.constant(m, "i8"), math.constant(n, "i8")
    with fn.loop(min(m, n)) as k:
        best.store_flat(unit, 0, f.size(get(out, *p, k, k)))
        where.store_flat(unit, 0, fn.index(k))
        with fn.loop_while(fn.index(k + 1), last_row) as i:
            s = f.size(get(out, *p, i, k))
            old = best.load(unit, best.base, None)
            c = math.cmp(fn, "ogt", s, old)
            best.store_flat(unit, 0, math.select(fn, c, s, old))
            where.store_flat(unit, 0, math.select(fn, c, fn.index(i), where.load(unit, where.base, None)))
        if check:
            last = best.load(unit, best.base, None)
            unit.fail(math.cmp(fn, "oeq", last, math.num(0.0, last)), SINGULAR)
        chosen = where.load(unit, where.base, None)
        for b in exchanges:
            b.store(unit, (*p, k), math.cast(fn, chosen, b.kind))
        w = Idx(((fn.atom(chosen, 0, m - 1), 1),), 0)
        with fn.loop(n) as j:
            x, y = get(out, *p, k, j), get(out, *p, w, j)
            out.store(unit, (*p, k, j), y)
            out.store(unit, (*p, w, j), x)
        exchange(unit, perm, p, k, w)
        d = get(out, *p, k, k)
        pivot = math.select(fn, math.truth(fn, d), d, math.constant(1, out.kind))
        with fn.loop_while(fn.index(k + 1), last_row) as i:
            ratio = f("div", get(out, *p, i, k), pivot)
            out.store(unit, (*p, i, k), ratio)
            with fn.loop_while(fn.index(k + 1), last_column) as j:
                out.store(unit, (*p, i, j), f.minus(get(out, *p, i, j), ratio, get(out, *p, k, j)))


def lu_lapack(e, a, out, perm, exchanges, check) -> None:
    """LAPACK factors the column-ordered copy; its row exchanges become a permutation."""
    unit, fn = e.unit, e.unit.fn
    m, n = a.shape[-2:]
    t = e.passing(out.kind, (n, m))
    pivots = e.passing("i4", (min(m, n),))
    info = fn.alloca("i4", 1)
    with loop_over(fn, a.shape[:-2]) as p:
        columns_of(e, t, a, p, m, n)
        blas.call(unit, blas.LETTER[out.kind] + "getrf", m, n, t.base, m, pivots.base, info)
        if check:
            code = fn.here(f"load i32, ptr {info.name}", "i4")
            unit.fail(math.cmp(fn, "sgt", code, math.num(0, code)), SINGULAR)
        rows_to(e, out, p, t, m, n)
        with loop_over(fn, (m,)) as (i,):
            perm.store(unit, (*p, i), fn.index(i))
        with fn.loop(min(m, n)) as i:
            chosen = math.cast(fn, read(unit, pivots, i), "i8")
            w = Idx(((fn.atom(chosen, 1, m), 1),), -1)
            for b in exchanges:
                b.store(unit, (*p, i), math.cast(fn, fn.index(w), b.kind))
            exchange(unit, perm, p, i, w)


def exchange(unit, b: Buffer, p, i, j) -> None:
    """Swaps two elements along the last axis."""
    x, y = read(unit, b, *p, i), read(unit, b, *p, j)
    b.store(unit, (*p, i), y)
    b.store(unit, (*p, j), x)


def row_order(e, form, inputs, outs) -> None:
    """The order of rows that a sequence of exchanges leads to; what names no row changes nothing."""
    (exchanges,), (perm,) = inputs, outs
    unit, fn = e.unit, e.unit.fn
    m, k = perm.shape[-1], exchanges.shape[-1]
    if not perm.size:
        return
    with loop_over(fn, perm.shape[:-1]) as p:
        with loop_over(fn, (m,)) as (i,):
            perm.store(unit, (*p, i), fn.index(i))
        with fn.loop(k) as i:
            chosen = math.cast(fn, unit.element(exchanges, (*p, i)), "i8")
            row = math.cmp(fn, "ult", chosen, math.constant(m, "i8"))
            w = math.select(fn, row, chosen, fn.index(i))
            exchange(unit, perm, p, i, Idx(((fn.atom(w, 0, m - 1), 1),), 0))


ROUTINES = {"lu": lu, "row_order": row_order}
