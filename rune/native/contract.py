"""Products: unrolled where they are tiny, loops where they are small or no BLAS type, else BLAS.

BLAS reads its operands in column order; a C-ordered matrix is its transpose there, so
C = A B is asked for as C' = B' A'.
"""

from __future__ import annotations

from . import blas, gemm, math, nest
from .compute import combine, contract_index, identity, product_of, wide
from .function import loop_over
from .plan import size
from .rewrite import Added
from .scatter import destination
from .sinks import Store
from .source import Buffer, Scalar

GEMM = 16**3  # multiplications from which BLAS pays for its call


def contract(e, form: nest.Contract, stage) -> None:
    v = form.outs[0]
    a, b = (e.in_memory(x) for x in form.inputs[:2])
    (ca, cb), (ba, bb) = form.contracting, form.batch
    fa = [d for d in range(len(a.shape)) if d not in ca and d not in ba]
    fb = [d for d in range(len(b.shape)) if d not in cb and d not in bb]
    batch, m = [a.shape[d] for d in ba], [a.shape[d] for d in fa]
    n, k = [b.shape[d] for d in fb], [a.shape[d] for d in ca]
    added = isinstance(form, Added)
    target = destination(e, form, stage) if added else e.storage(v)
    e.sources[v] = target
    if not target.size:
        return
    work = size(batch) * size(m) * size(n) * size(k)
    one_kind = a.kind == b.kind == target.kind
    if (
        one_kind
        and target.kind in ("f4", "f8")
        and size(m) > 1
        and size(n) >= 4
        and size(m) * size(n) * size(k) >= gemm.WORK
        and target.contiguous
    ):
        operands = gemm.prepared(e, target, a, b, (ba, bb), (fa, fb), (ca, cb))
        if operands is not None:
            gemm.tiles(e, target, operands, not added)
            return
    total = target
    if added:
        target = e.passing(total.kind, total.shape)
    if not (
        target.kind in blas.LETTER
        and one_kind
        and size(m) > 1
        and size(n) > 1
        and size(m) * size(n) * size(k) >= GEMM
        and blas.gemm(e, form, target, a, b, (ba, bb), (fa, fb), (ca, cb))
    ):
        with e.kernel(work, "nest_product"):
            products(e, form, target, a, b, batch, m, n, k, (fa, fb))
    if added:
        with e.kernel(total.size, "nest_add"):
            add_to(e, total, target)


def add_to(e, total: Buffer, more: Buffer) -> None:
    unit = e.unit
    with loop_over(unit.fn, total.shape) as at:
        p, _ = total.address(unit, at)
        total.store_at(
            unit,
            p,
            math.apply(unit.fn, "add", [total.load(unit, p, None), unit.element(more, at)], total.kind),
        )


def last_stride(s: Buffer, axes) -> int:
    return s.strides[axes[-1]] if axes else 0


def products(e, form, target, a, b, batch, m, n, k, free) -> None:
    unit, fn = e.unit, e.unit.fn
    kind = wide(target.kind)
    fa, fb = free
    ca, cb = form.contracting

    def term(i, j):
        ia, ib = contract_index(form, a, b, i, j)
        return product_of(fn, unit.element(a, ia), unit.element(b, ib), kind)

    across_n = size(n) > 1 and last_stride(b, fb) == 1
    across_m = not across_n and size(n) == 1 and size(m) > 1 and last_stride(a, fa) == 1
    along = a.byte_strides is None and last_stride(a, ca) in (0, 1) and last_stride(b, cb) in (0, 1)
    if size(k) == 0 or (along and size(k) >= 8) or not (across_n or across_m):
        with loop_over(fn, batch) as p, loop_over(fn, m) as q, loop_over(fn, n) as r:
            index = (*p, *q, *r)
            cell = Buffer(fn.alloca(kind, 1), kind, (), maybe_product=False)
            cell.store_flat(unit, 0, identity("any" if kind == "b1" else "sum", kind))
            if size(k):
                with loop_over(fn, k) as j:
                    old = cell.load(unit, cell.base, None)
                    cell.store_flat(
                        unit, 0, combine(fn, "any" if kind == "b1" else "sum", old, term(index, j), True)
                    )
            target.store(unit, index, math.cast(fn, cell.load(unit, cell.base, None), target.kind))
        return
    total = target
    if kind != target.kind:
        total = e.passing(kind, target.shape)
    op = "any" if kind == "b1" else "sum"
    e.loops(total.shape, [Store(total, Scalar(identity(op, kind)))])
    outer, inner = (m, n) if across_n else ((), m)
    with (
        loop_over(fn, batch) as p,
        loop_over(fn, outer) as q,
        loop_over(fn, k) as j,
        loop_over(fn, inner) as r,
    ):
        index = (*p, *q, *r) if across_n else (*p, *r, *(0 for _ in n))
        t = term(index, j)
        address, _ = total.address(unit, index)
        total.store_at(unit, address, combine(fn, op, total.load(unit, address, None), t))
    if total is not target:
        e.loops(target.shape, [Store(target, total)])
