"""Factorisations, solves and sorts: inlined when small, LAPACK's when not; and calls of the host."""

from __future__ import annotations

from rune.program import Literal

from . import banded, blas, lu, math, nest, spectral, sylvester, ufunc
from .function import loop_over
from .index import Idx, Value
from .lu import INLINE, UNROLLED, Algebra
from .source import Buffer, Source
from .unit import HOST, NOT_POSITIVE


def library(e, form: nest.Library, stage) -> None:
    outs = [e.storage(v) for v in form.outs]
    if "ufunc" in form.params:
        ufunc.call(e, form.params["ufunc"], form, outs)
    else:
        ROUTINES[form.name](e, form, [e.source(x) for x in form.inputs], outs)
    for v, b in zip(form.outs, outs, strict=True):
        e.sources[v] = b
    e.unit.report.library(form.name)


def over_batch(e, shape):
    return loop_over(e.unit.fn, shape)


# solves ---------------------------------------------------------------------------------------


def lu_solve(e, form, inputs, outs) -> None:
    """A[perm] = L U: x = U^-1 L^-1 b[perm]; transposed, x[perm] = L^-T U^-T b."""
    factor, perm, b = inputs
    x = outs[0]
    n, k = x.shape[-2:]
    if not x.size:
        return
    unit = e.unit
    transpose = bool(form.params["transpose"])
    if n > INLINE:
        factor = packed(e, e.buffer_of(factor))
    with e.kernel(x.size * n, "nest_solve"):
        fn = unit.fn
        work = e.passing(x.kind, (n, k)) if transpose else x
        with over_batch(e, x.shape[:-2]) as p:
            if n <= UNROLLED and k <= UNROLLED and not transpose:
                small_solve(e, factor, perm, b, x, n, k, p)
                return
            wp = () if transpose else p
            with loop_over(fn, (n, k)) as (i, j):
                if transpose:
                    v = unit.element(b, (*p, i, j))
                else:
                    row = Idx(((fn.atom(unit.element(perm, (*p, i)), 0, n - 1), 1),), 0)
                    v = unit.element(b, (*p, row, j))
                work.store(unit, (*wp, i, j), math.cast(fn, v, x.kind))
            for lower, unit_diagonal in (
                ((False, False), (True, True)) if transpose else ((True, True), (False, False))
            ):
                substitute(e, factor, p, work, wp, n, k, lower, transpose, unit_diagonal)
            if transpose:
                with loop_over(fn, (n, k)) as (i, j):
                    row = Idx(((fn.atom(unit.element(perm, (*p, i)), 0, n - 1), 1),), 0)
                    address, _ = work.address(unit, (i, j))
                    x.store(unit, (*p, row, j), work.load(unit, address, None))


def pick(fn, values, i: Value) -> Value:
    """values[i] for an index at run time, by selection."""
    r = values[0]
    for k, v in enumerate(values[1:], 1):
        r = math.select(fn, math.cmp(fn, "eq", i, math.constant(k, "i8")), v, r)
    return r


def small_solve(e, factor, perm, b, x, n, k, p) -> None:
    unit, fn = e.unit, e.unit.fn
    f = Algebra(fn, x.kind)
    order = [unit.element(perm, (*p, i)) for i in range(n)]
    m = [[unit.element(factor, (*p, i, j)) for j in range(n)] for i in range(n)]
    for j in range(k):
        column = [math.cast(fn, unit.element(b, (*p, i, j)), x.kind) for i in range(n)]
        y = [pick(fn, column, i) for i in order]
        for i in range(n):
            for q in range(i):
                y[i] = f.minus(y[i], m[i][q], y[q])
        for i in reversed(range(n)):
            for q in range(i + 1, n):
                y[i] = f.minus(y[i], m[i][q], y[q])
            y[i] = f("div", y[i], m[i][i])
        for i in range(n):
            x.store(unit, (*p, i, j), y[i])


def substitute(e, factor: Source, p, x: Buffer, xp, n, k, lower, transpose, unit_diagonal) -> None:
    """Solves op(T) x = x in place, T the lower or upper triangle of a factor."""
    unit, fn = e.unit, e.unit.fn
    if n > INLINE:
        s = factor
        at = tuple(xp)
        address = x.address(unit, (*at, 0, 0))[0]
        triangle = s.address(unit, (*p, 0, 0))[0]
        # in column order the factor is its own transpose: its lower triangle is "U"
        one = math.constant(1, x.kind)
        blas.call(
            unit, blas.LETTER[x.kind] + "trsm", "R", "U" if lower else "L", "T" if transpose else "N",
            "U" if unit_diagonal else "N", k, n, one, triangle, n, address, k,
        )  # fmt: skip
        return
    f = Algebra(fn, x.kind)
    forward = lower != transpose

    def get(i, j):
        address, _ = x.address(unit, (*xp, i, j))
        return x.load(unit, address, None)

    def entry(i, j):
        at = (j, i) if transpose else (i, j)
        return math.cast(fn, unit.element(factor, (*p, *at)), x.kind)

    if n <= UNROLLED:
        for i in range(n) if forward else reversed(range(n)):
            with fn.loop(k) as j:
                v = get(i, j)
                for q in range(i) if forward else range(i + 1, n):
                    v = f.minus(v, entry(i, q), get(q, j))
                if not unit_diagonal:
                    v = f("div", v, entry(i, i))
                x.store(unit, (*xp, i, j), v)
        return
    with fn.loop(n) as step:
        i = step if forward else (n - 1) - step
        start, stop = (0, i) if forward else (i + 1, n)
        with fn.loop_while(fn.index(start), fn.index(stop)) as q:
            t = entry(i, q)
            with fn.loop(k) as j:
                x.store(unit, (*xp, i, j), f.minus(get(i, j), t, get(q, j)))
        if not unit_diagonal:
            d = entry(i, i)
            with fn.loop(k) as j:
                x.store(unit, (*xp, i, j), f("div", get(i, j), d))


def triangular_solve(e, form, inputs, outs) -> None:
    factor, b = inputs
    x = outs[0]
    n, k = x.shape[-2:]
    if not x.size:
        return
    unit, params = e.unit, form.params
    if n > INLINE:
        factor = packed(e, e.buffer_of(factor))
    with e.kernel(x.size * n, "nest_solve"):
        fn = unit.fn
        with over_batch(e, x.shape[:-2]) as p:
            with loop_over(fn, (n, k)) as (i, j):
                x.store(unit, (*p, i, j), math.cast(fn, unit.element(b, (*p, i, j)), x.kind))
            substitute(e, factor, p, x, p, n, k, params["lower"], params["transpose"], params["unit"])


# Cholesky -------------------------------------------------------------------------------------


def cholesky(e, form, inputs, outs) -> None:
    a, out = inputs[0], outs[0]
    n = a.shape[-1]
    if n == 0 or not out.size:
        return
    unit = e.unit
    with e.kernel(out.size * n if n <= INLINE else 0, "nest_cholesky"), over_batch(e, a.shape[:-2]) as p:
        if n <= UNROLLED:
            cholesky_unrolled(unit, a, out, n, p)
        elif n <= INLINE:
            cholesky_loops(e, a, out, n, p)
        else:
            cholesky_lapack(e, a, out, n, p)


def failed_pivot(unit, fn, d: Value) -> None:
    """A pivot that is not positive fails; NaN is a result like others, as to NumPy's LAPACK."""
    unit.fail(math.cmp(fn, "ole", d, math.num(0.0, d)), NOT_POSITIVE)


def real_part(fn, v: Value) -> Value:
    return math.parts(fn, v)[0] if v.kind[0] == "c" else v


def conj(fn, v: Value) -> Value:
    return math.apply(fn, "conj", [v], v.kind) if v.kind[0] == "c" else v


def cholesky_unrolled(unit, a, out, n, p) -> None:
    fn = unit.fn
    f = Algebra(fn, out.kind)
    m = [[None] * n for _ in range(n)]
    for j in range(n):
        d = unit.element(a, (*p, j, j))
        for q in range(j):
            d = f.minus(d, m[j][q], conj(fn, m[j][q]))
        d = real_part(fn, d)
        failed_pivot(unit, fn, d)
        root = math.cast(fn, math.C(fn, "sqrt", d), out.kind)
        m[j][j] = root
        for i in range(j + 1, n):
            v = unit.element(a, (*p, i, j))
            for q in range(j):
                v = f.minus(v, m[i][q], conj(fn, m[j][q]))
            m[i][j] = f("div", v, root)
    zero = math.constant(0, out.kind)
    for i in range(n):
        for j in range(n):
            out.store(unit, (*p, i, j), m[i][j] if j <= i else zero)


def cholesky_loops(e, a, out, n, p) -> None:
    unit, fn = e.unit, e.unit.fn
    f = Algebra(fn, out.kind)
    zero = math.constant(0, out.kind)

    def get(i, j):
        address, _ = out.address(unit, (*p, i, j))
        return out.load(unit, address, None)

    with loop_over(fn, (n, n)) as (i, j):
        out.store(unit, (*p, i, j), zero)
    cell = Buffer(fn.alloca(out.kind, 1), out.kind, (), maybe_product=False)
    stop = math.constant(n, "i8")
    with fn.loop(n) as j:
        cell.store_flat(unit, 0, unit.element(a, (*p, j, j)))
        with fn.loop_while(fn.index(0), fn.index(j)) as q:
            x = get(j, q)
            cell.store_flat(unit, 0, f.minus(cell.load(unit, cell.base, None), x, conj(fn, x)))
        d = real_part(fn, cell.load(unit, cell.base, None))
        failed_pivot(unit, fn, d)
        root = math.cast(fn, math.C(fn, "sqrt", d), out.kind)
        out.store(unit, (*p, j, j), root)
        with fn.loop_while(fn.index(j + 1), stop) as i:
            cell.store_flat(unit, 0, unit.element(a, (*p, i, j)))
            with fn.loop_while(fn.index(0), fn.index(j)) as q:
                v = f.minus(cell.load(unit, cell.base, None), get(i, q), conj(fn, get(j, q)))
                cell.store_flat(unit, 0, v)
            out.store(unit, (*p, i, j), f("div", cell.load(unit, cell.base, None), root))


def cholesky_lapack(e, a, out, n, p) -> None:
    unit, fn = e.unit, e.unit.fn
    with loop_over(fn, (n, n)) as (i, j):
        out.store(unit, (*p, i, j), unit.element(a, (*p, i, j)))
    info = fn.alloca("i4", 1)
    # the lower triangle in C order is the upper one in column order
    blas.call(unit, blas.LETTER[out.kind] + "potrf", "U", n, out.address(unit, (*p, 0, 0))[0], n, info)
    code = fn.here(f"load i32, ptr {info.name}", "i4")
    unit.fail(math.cmp(fn, "sgt", code, math.num(0, code)), NOT_POSITIVE)
    zero = math.constant(0, out.kind)
    with fn.loop(n) as i, fn.loop_while(fn.index(i + 1), math.constant(n, "i8")) as j:
        out.store(unit, (*p, i, j), zero)


# host -----------------------------------------------------------------------------------------


def host(e, form: nest.Host, stage) -> None:
    """Python through one callback: pointers to the arguments and to the results' storage.

    Nothing is called after a failure.
    """
    unit, fn = e.unit, e.unit.fn
    ins = [e.in_memory(x) if not isinstance(x, Literal) else in_cell(e, x) for x in form.inputs]
    ins = [packed(e, b) for b in ins]
    outs = [e.storage(v) for v in form.outs]
    unit.stop_if_failed(fn.here(f"load i64, ptr {fn.name_of(unit.status)}", "i8"))
    table = fn.alloca("p", max(1, len(ins) + len(outs)))
    for k, b in enumerate([*ins, *outs]):
        p = fn.put(f"getelementptr ptr, ptr {table.name}, i64 {k}", "p", table)
        at = b.address(unit, (0,) * len(b.shape))[0]
        fn.line(f"store ptr {fn.name_of(at)}, ptr {p.name}")
    types = (
        [(v.type.dtype, v.type.shape) for v in form.inputs],
        [(v.type.dtype, v.type.shape) for v in form.outs],
    )
    slot = unit.extern(("host", id(form)), ("host", form.call, form.name, *types))
    p = unit.load_extern(fn, slot)
    code = fn.here(f"call i32 {fn.name_of(p)}(ptr {table.name})", "i4")
    bad = math.cmp(fn, "ne", code, math.num(0, code))
    unit.fail(bad, HOST)
    unit.stop_if_failed(code)
    for v, b in zip(form.outs, outs, strict=True):
        e.sources[v] = b
    unit.report.host(form.name)


def in_cell(e, x: Literal) -> Buffer:
    s = e.source(x)
    b = Buffer(e.unit.fn.alloca(s.kind, 1), s.kind, ())
    b.store_flat(e.unit, 0, s.value)
    return b


def packed(e, b: Buffer) -> Buffer:
    if b.contiguous:
        return b
    c = e.passing(b.kind, b.shape)
    e.fill(c, b)
    return c


# sorting --------------------------------------------------------------------------------------


def argsort(e, form, inputs, outs) -> None:
    from .sort import argsort as sort

    sort(e, inputs[0], outs[0])


ROUTINES = spectral.ROUTINES | lu.ROUTINES | banded.ROUTINES | sylvester.ROUTINES | {
    "lu_solve": lu_solve, "triangular_solve": triangular_solve, "cholesky": cholesky, "argsort": argsort,
}  # fmt: skip
