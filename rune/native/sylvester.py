"""Schur factors and Sylvester equations by LAPACK, one matrix at a time."""

from __future__ import annotations

from . import blas, math
from .function import loop_over
from .index import Value
from .spectral import BLOCK, Work, columns_of, failing_where_not_finite, kinds, read, rows_to
from .unit import EIGENVALUES

NULL = Value("null", "p")


def schur(e, form, inputs, outs) -> None:
    (a,), (t, z) = inputs, outs
    n = t.shape[-1]
    if not t.size:
        return
    letter, real, complex_ = kinds(t.kind)
    work = Work(e, t.kind)
    own, vectors, memory = work(n, n), work(n, n), work(BLOCK * n)
    found = work(1, kind="i4")
    if complex_:
        values, more = [work(n).base], [work(n, kind=real).base]
    else:
        values, more = [work(n).base, work(n).base], []
    with loop_over(e.unit.fn, t.shape[:-2]) as p:
        columns_of(e, own, a, p, n, n)
        failing_where_not_finite(e, own)
        pointers = (own.base, n, found.base, *values, vectors.base, n, memory.base, BLOCK * n, *more, NULL)
        blas.call(e.unit, letter + "gees", "V", "N", NULL, n, *pointers, work.info)
        work.failed(EIGENVALUES)
        rows_to(e, t, p, own, n, n)
        rows_to(e, z, p, vectors, n, n)


def sylvester(e, form, inputs, outs) -> None:
    """x = za y zb^H, where ta y + y tb = za^H q zb; transposed, the adjoint equation of conjugates."""
    (ta, za, tb, zb, q), (x,) = inputs, outs
    m, n = x.shape[-2:]
    if not x.size:
        return
    unit, fn = e.unit, e.unit.fn
    letter, real, complex_ = kinds(x.kind)
    work = Work(e, x.kind)
    left, right, y, z = work(m, m), work(n, n), work(n, m), work(n, m)
    scale = work(1, kind=real)
    conjugated = complex_ and form.params["transpose"]
    turned = ("C" if complex_ else "T") if form.params["transpose"] else "N"
    one, zero = math.constant(1, x.kind), math.constant(0, x.kind)

    def change(each) -> None:
        with loop_over(fn, (n, m)) as (j, i):
            y.store(unit, (j, i), each(read(unit, y, j, i)))

    def product(a, b, inner, how, out) -> None:
        blas.call(
            unit, letter + "gemm", *how, m, n, inner, one, a.base, a.shape[-1], b.base, b.shape[-1], zero, out.base, m
        )  # fmt: skip

    conj = lambda v: math.apply(fn, "conj", [v], v.kind)
    with loop_over(fn, x.shape[:-2]) as p:
        columns_of(e, y, q, p, m, n)
        if conjugated:
            change(conj)
        columns_of(e, left, za, p, m, m)
        columns_of(e, right, zb, p, n, n)
        product(left, y, m, "CN", z)
        product(z, right, n, "NN", y)
        columns_of(e, left, ta, p, m, m)
        columns_of(e, right, tb, p, n, n)
        arguments = (turned, turned, 1, m, n, left.base, m, right.base, n, y.base, m, scale.base, work.info)
        blas.call(unit, letter + "trsyl", *arguments)
        by = math.cast(fn, read(unit, scale, 0), x.kind)
        change(lambda v: math.apply(fn, "div", [v, by], v.kind))
        columns_of(e, left, za, p, m, m)
        columns_of(e, right, zb, p, n, n)
        product(left, y, m, "NN", z)
        product(z, right, n, "NC", y)
        if conjugated:
            change(conj)
        rows_to(e, x, p, y, m, n)


ROUTINES = {"schur": schur, "sylvester": sylvester}
