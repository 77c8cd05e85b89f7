"""Band matrices by LAPACK: factors and solves, one matrix at a time.

Factors are [n, 2 lower + upper + 1], the columns of LAPACK's band storage: a row exchange adds as many
diagonals above as there are below.
"""

from __future__ import annotations

from . import blas, math
from .function import loop_over
from .spectral import Work, columns_of, read, rows_to, vector_to
from .unit import NOT_POSITIVE, SINGULAR


def band_lu(e, form, inputs, outs) -> None:
    (ab,), (factors, exchanges) = inputs, outs
    if not factors.size:
        return
    unit, fn = e.unit, e.unit.fn
    lower, upper = form.params["lower"], form.params["upper"]
    n, width = factors.shape[-2:]
    work = Work(e, factors.kind)
    t, rows = work(n, width), work(n, kind="i4")
    with loop_over(fn, factors.shape[:-2]) as p:
        with loop_over(fn, (n, lower)) as (j, i):
            t.store(unit, (j, i), math.constant(0, t.kind))
        with loop_over(fn, (n, width - lower)) as (j, i):
            t.store(unit, (j, i + lower), math.cast(fn, unit.element(ab, (*p, i, j)), t.kind))
        name = blas.LETTER[t.kind] + "gbtrf"
        blas.call(unit, name, n, n, lower, upper, t.base, width, rows.base, work.info)
        work.failed(SINGULAR)
        with loop_over(fn, (n, width)) as (j, i):
            factors.store(unit, (*p, j, i), read(unit, t, j, i))
        vector_to(e, exchanges, p, rows, n)


def band_solve(e, form, inputs, outs) -> None:
    (factors, exchanges, b), (x,) = inputs, outs
    if not x.size:
        return
    unit, fn = e.unit, e.unit.fn
    lower, upper = form.params["lower"], form.params["upper"]
    (n, k), width = x.shape[-2:], factors.shape[-1]
    work = Work(e, x.kind)
    t, own, rows = work(k, n), work(n, width), work(n, kind="i4")
    with loop_over(fn, x.shape[:-2]) as p:
        columns_of(e, t, b, p, n, k)
        with loop_over(fn, (n, width)) as (j, i):
            own.store(unit, (j, i), unit.element(factors, (*p, j, i)))
        with loop_over(fn, (n,)) as (i,):
            rows.store(unit, (i,), unit.element(exchanges, (*p, i)))
        turned = "T" if form.params["transpose"] else "N"
        arguments = (turned, n, lower, upper, k, own.base, width, rows.base, t.base, n, work.info)
        blas.call(unit, blas.LETTER[x.kind] + "gbtrs", *arguments)
        rows_to(e, x, p, t, n, k)


def band_cholesky(e, form, inputs, outs) -> None:
    (ab,), (factors,) = inputs, outs
    if not factors.size:
        return
    unit, fn = e.unit, e.unit.fn
    n, width = factors.shape[-2:]
    work = Work(e, factors.kind)
    t = work(n, width)
    with loop_over(fn, factors.shape[:-2]) as p:
        with loop_over(fn, (n, width)) as (j, i):
            t.store(unit, (j, i), math.cast(fn, unit.element(ab, (*p, i + (width - 1), j)), t.kind))
        blas.call(unit, blas.LETTER[t.kind] + "pbtrf", "L", n, width - 1, t.base, width, work.info)
        work.failed(NOT_POSITIVE)
        with loop_over(fn, (n, width)) as (j, i):
            factors.store(unit, (*p, j, i), read(unit, t, j, i))


def band_cholesky_solve(e, form, inputs, outs) -> None:
    (factors, b), (x,) = inputs, outs
    if not x.size:
        return
    unit, fn = e.unit, e.unit.fn
    (n, k), width = x.shape[-2:], factors.shape[-1]
    work = Work(e, x.kind)
    t, own = work(k, n), work(n, width)
    with loop_over(fn, x.shape[:-2]) as p:
        columns_of(e, t, b, p, n, k)
        with loop_over(fn, (n, width)) as (j, i):
            own.store(unit, (j, i), unit.element(factors, (*p, j, i)))
        arguments = ("L", n, width - 1, k, own.base, width, t.base, n, work.info)
        blas.call(unit, blas.LETTER[x.kind] + "pbtrs", *arguments)
        rows_to(e, x, p, t, n, k)


ROUTINES = {
    "band_lu": band_lu, "band_solve": band_solve,
    "band_cholesky": band_cholesky, "band_cholesky_solve": band_cholesky_solve,
}  # fmt: skip
