"""Eigenvalues, singular values and QR factors by LAPACK, the routines that NumPy calls, one matrix at a time.

LAPACK wants columns: every matrix is copied in transposed, and what comes back is copied out the same way.
"""

from __future__ import annotations

from . import blas, math
from .function import loop_over
from .index import Idx, Value
from .source import Buffer
from .unit import EIGENVALUES, NOT_FINITE, SINGULAR_VALUES

BLOCK = 64  # columns that LAPACK's blocked routines work on at most


def kinds(kind: str) -> tuple[str, str, bool]:
    """The letter of the routines, the dtype of real results, and whether the matrix is complex."""
    return blas.LETTER[kind], math.PART.get(kind, kind), kind[0] == "c"


class Work:
    """The scratch memory of one factorisation."""

    def __init__(self, e, kind: str):
        self.e = e
        self.kind = kind
        self.info = e.unit.fn.alloca("i4", 1)

    def __call__(self, *shape: int, kind: str | None = None) -> Buffer:
        return self.e.passing(kind or self.kind, shape)

    def failed(self, code: int) -> None:
        unit, fn = self.e.unit, self.e.unit.fn
        info = fn.here(f"load i32, ptr {self.info.name}", "i4")
        unit.fail(math.cmp(fn, "ne", info, math.num(0, info)), code)


def columns_of(e, target: Buffer, source, p, rows: int, columns: int) -> None:
    """The columns of one matrix of a stack, behind one another."""
    unit, fn = e.unit, e.unit.fn
    with loop_over(fn, (columns, rows)) as (j, i):
        target.store(unit, (j, i), math.cast(fn, unit.element(source, (*p, i, j)), target.kind))


def read(unit, b: Buffer, *index) -> Value:
    """An element as it is now."""
    return b.load(unit, b.address(unit, index)[0], None)


def rows_to(e, out: Buffer, p, source: Buffer, rows: int, columns: int) -> None:
    """A matrix of columns into one matrix of a stack."""
    unit = e.unit
    with loop_over(unit.fn, (rows, columns)) as (i, j):
        out.store(unit, (*p, i, j), read(unit, source, j, i))


def vector_to(e, out: Buffer, p, source: Buffer, n: int) -> None:
    unit = e.unit
    with loop_over(unit.fn, (n,)) as (i,):
        out.store(unit, (*p, i), read(unit, source, i))


def eigh(e, form, inputs, outs) -> None:
    (a,), (w, v) = inputs, outs
    n = v.shape[-1]
    if not v.size:
        return
    letter, real, complex_ = kinds(v.kind)
    work = Work(e, v.kind)
    t, values = work(n, n), work(n, kind=real)
    size = 2 * n + n * n if complex_ else 1 + 6 * n + 2 * n * n
    size = max(size, n * (BLOCK + 2))
    memory, integers = work(size), work(3 + 5 * n, kind="i4")
    more = [work(1 + 5 * n + 2 * n * n, kind=real).base, 1 + 5 * n + 2 * n * n] if complex_ else []
    with loop_over(e.unit.fn, v.shape[:-2]) as p:
        columns_of(e, t, a, p, n, n)
        name = letter + ("heevd" if complex_ else "syevd")
        arguments = ("V", form.params["uplo"], n, t.base, n, values.base, memory.base, size, *more)
        blas.call(e.unit, name, *arguments, integers.base, 3 + 5 * n, work.info)
        work.failed(EIGENVALUES)
        vector_to(e, w, p, values, n)
        rows_to(e, v, p, t, n, n)


def svd(e, form, inputs, outs) -> None:
    (a,) = inputs
    vectors, full = form.params["vectors"], form.params["full"]
    m, n = a.shape[-2:]
    k = min(m, n)
    s = outs[1] if vectors else outs[0]
    kind = outs[0].kind if vectors else a.kind
    letter, real, complex_ = kinds(kind)
    if not k and vectors:
        identities(e, outs[0])
        identities(e, outs[2])
    if not k or not s.size:
        return
    from scipy.linalg import lapack

    asked = getattr(lapack, letter + "gesdd_lwork")(m, n, compute_uv=vectors, full_matrices=full)[0]
    size = int(abs(asked) * 1.01) + BLOCK
    work = Work(e, kind)
    t, values, memory, integers = work(n, m), work(k, kind=real), work(size), work(8 * k, kind="i4")
    mu, nv = (m if full else k, n if full else k) if vectors else (1, 1)
    u, vt = work(mu, m if vectors else 1), work(n if vectors else 1, nv)
    reals = 7 * k if not vectors else max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k)
    more = [work(reals, kind=real).base] if complex_ else []
    job = "N" if not vectors else "A" if full else "S"
    with loop_over(e.unit.fn, s.shape[:-1]) as p:
        columns_of(e, t, a, p, m, n)
        pointers = (
            values.base,
            u.base,
            m if vectors else 1,
            vt.base,
            nv,
            memory.base,
            size,
            *more,
            integers.base,
        )
        blas.call(e.unit, letter + "gesdd", job, m, n, t.base, m, *pointers, work.info)
        work.failed(SINGULAR_VALUES)
        vector_to(e, s, p, values, k)
        if vectors:
            rows_to(e, outs[0], p, u, m, mu)
            rows_to(e, outs[2], p, vt, nv, n)


def identities(e, out: Buffer) -> None:
    """The vectors of an empty matrix: all there are."""
    fn = e.unit.fn
    with loop_over(fn, out.shape) as (*p, i, j):
        one = math.cmp(fn, "eq", fn.index(i), fn.index(j))
        out.store(e.unit, (*p, i, j), math.cast(fn, one, out.kind))


def qr(e, form, inputs, outs) -> None:
    (a,), (q, r) = inputs, outs
    m, n = a.shape[-2:]
    k, wide = min(m, n), q.shape[-1]
    if not q.size:
        return
    unit, fn = e.unit, e.unit.fn
    letter, _, complex_ = kinds(q.kind)
    work = Work(e, q.kind)
    most = max(n, wide, 1)
    t, tau, memory, size = work(most, m), work(max(k, 1)), work(BLOCK * most), BLOCK * most
    zero = math.constant(0, q.kind)
    with loop_over(fn, q.shape[:-2]) as p:
        columns_of(e, t, a, p, m, n)
        blas.call(unit, letter + "geqrf", m, n, t.base, m, tau.base, memory.base, size, work.info)
        with loop_over(fn, r.shape[-2:]) as (i, j):
            above = math.cmp(fn, "sle", fn.index(i), fn.index(j))
            r.store(unit, (*p, i, j), math.select(fn, above, read(unit, t, j, i), zero))
        generate = letter + ("ungqr" if complex_ else "orgqr")
        blas.call(unit, generate, m, wide, k, t.base, m, tau.base, memory.base, size, work.info)
        rows_to(e, q, p, t, m, wide)


def pivot_columns(e, form, inputs, outs) -> None:
    (a,), (order,) = inputs, outs
    m, n = a.shape[-2:]
    if not order.size:
        return
    unit, fn = e.unit, e.unit.fn
    letter, real, complex_ = kinds(a.kind)
    work = Work(e, a.kind)
    size = 2 * n + BLOCK * (n + 1)
    t, tau, memory, found = work(n, m), work(min(m, n)), work(size), work(n, kind="i4")
    more = [work(2 * n, kind=real).base] if complex_ else []
    with loop_over(fn, order.shape[:-1]) as p:
        columns_of(e, t, a, p, m, n)
        with loop_over(fn, (n,)) as (j,):
            found.store(unit, (j,), math.constant(0, "i4"))
        pointers = (found.base, tau.base, memory.base, size, *more)
        blas.call(unit, letter + "geqp3", m, n, t.base, m, *pointers, work.info)
        with loop_over(fn, (n,)) as (j,):
            k = math.cast(fn, read(unit, found, j), "i8")
            order.store(unit, (*p, j), math.apply(fn, "sub", [k, math.constant(1, "i8")], "i8"))


def eig(e, form, inputs, outs) -> None:
    (a,), (w, v) = inputs, outs
    n = v.shape[-1]
    if not v.size:
        return
    unit, fn = e.unit, e.unit.fn
    letter, real, complex_ = kinds(a.kind)
    work = Work(e, a.kind)
    size = BLOCK * n
    t, right, memory = work(n, n), work(n, n), work(size)
    spare = work(1)
    if complex_:
        values, reals = work(n), work(2 * n, kind=real)
        found, after = [values.base], [reals.base]
    else:
        re, im = work(n), work(n)
        found, after = [re.base, im.base], []
    with loop_over(fn, v.shape[:-2]) as p:
        columns_of(e, t, a, p, n, n)
        failing_where_not_finite(e, t)
        pointers = (*found, spare.base, 1, right.base, n, memory.base, size, *after)
        blas.call(unit, letter + "geev", "N", "V", n, t.base, n, *pointers, work.info)
        work.failed(EIGENVALUES)
        if complex_:
            vector_to(e, w, p, values, n)
            rows_to(e, v, p, right, n, n)
        else:
            pairs_to(e, w, v, p, re, im, right, n)


def failing_where_not_finite(e, t: Buffer) -> None:
    """Fails where an element is not finite, and puts 0 in its place: LAPACK may not return from it."""
    unit, fn = e.unit, e.unit.fn
    with loop_over(fn, t.shape) as at:
        x = read(unit, t, *at)
        for y in math.parts(fn, x) if x.kind[0] == "c" else [x]:
            # x - x is NaN for an infinity and for NaN
            unit.fail(math.cmp(fn, "une", math.I(fn, "fsub", y, y), math.num(0.0, y)), NOT_FINITE)
    with loop_over(fn, t.shape) as at:
        x = read(unit, t, *at)
        t.store(unit, at, math.select(fn, finite(fn, x), x, math.constant(0, t.kind)))


def finite(fn, x: Value) -> Value:
    parts = math.parts(fn, x) if x.kind[0] == "c" else [x]
    checks = [math.cmp(fn, "oeq", math.I(fn, "fsub", y, y), math.num(0.0, y)) for y in parts]
    return checks[0] if len(checks) == 1 else math.and_(fn, *checks)


def pairs_to(e, w, v, p, re: Buffer, im: Buffer, right: Buffer, n: int) -> None:
    """Real LAPACK's eigenvalues and vectors: a pair of conjugates stands in two columns, real and imaginary."""
    unit, fn = e.unit, e.unit.fn
    with loop_over(fn, (n,)) as (j,):
        x, y = read(unit, re, j), read(unit, im, j)
        w.store(unit, (*p, j), math.complex_of(fn, x, y, w.kind))
        zero = math.num(0.0, y)
        first, second = math.cmp(fn, "ogt", y, zero), math.cmp(fn, "olt", y, zero)
        step = lambda flag: Idx(((fn.atom(math.cast(fn, math.cast(fn, flag, "u1"), "i8"), 0, 1), 1),), 0)
        real_column, imaginary_column = j - step(second), j + step(first)
        with loop_over(fn, (n,)) as (i,):
            a, b = read(unit, right, real_column, i), read(unit, right, imaginary_column, i)
            sign = math.select(
                fn, first, math.num(1.0, b), math.select(fn, second, math.num(-1.0, b), math.num(0.0, b))
            )
            v.store(unit, (*p, i, j), math.complex_of(fn, a, math.I(fn, "fmul", sign, b), v.kind))


ROUTINES = {"eigh": eigh, "svd": svd, "qr": qr, "pivot_columns": pivot_columns, "eig": eig}
