"""Matrix products as register tiles: a block of C stays in vector registers while k runs.

For each k a tile loads a few vectors of a row of B and multiplies them by single elements of A.
Sizes are known, so tiles are cut to fit and no edge is masked.  B's columns must lie side by side;
where they do not it is copied first, before the loops around where it does not change in them.
"""

from __future__ import annotations

import itertools

from . import jit, math, threads
from .blas import merged
from .function import LLVM, SIZE, loop_over
from .index import Idx
from .plan import size
from .source import Buffer

WORK = 256  # multiplications from which tiles pay
RATE = 20_000  # multiplications of a microsecond, about
DEPTH = 1024  # k steps that a tile runs before it goes back to memory, so that B's part stays in cache


def shape_of_tiles() -> tuple[int, int, int]:
    """(bytes of a vector, rows, vectors in a row) of a tile, as the machine's registers allow."""
    features = jit.target().features
    if features.get("avx512f"):
        return 64, 6, 4
    if features.get("avx2"):
        return 32, 4, 3
    return 16, 4, 4


def parts(n: int, most: int) -> list[tuple[int, int]]:
    """0 .. n cut into parts of nearly equal size: (start, size)."""
    count = -(-n // most)
    edges = [k * n // count for k in range(count + 1)]
    return [(a, b - a) for a, b in itertools.pairwise(edges)]


def columns(n: int, width: int, most: int) -> list[tuple[int, list[int]]]:
    """Columns cut into blocks: (start, the widths of the block's vectors)."""
    widths = [width] * (n // width)
    rest = n % width
    while rest:
        w = 1 << (rest.bit_length() - 1)
        widths.append(w)
        rest -= w
    blocks, start = [], 0
    for first, count in parts(len(widths), most):
        block = widths[first : first + count]
        blocks.append((start, block))
        start += sum(block)
    return blocks


def strides_of(s: Buffer, rows, cols):
    if s.byte_strides:
        return None
    r = merged([s.shape[d] for d in rows], [s.strides[d] for d in rows])
    c = merged([s.shape[d] for d in cols], [s.strides[d] for d in cols])
    return None if r is None or c is None else (r, c)


def prepared(e, target: Buffer, a: Buffer, b: Buffer, batch, free, contracted):
    """What `tiles` needs, B's columns side by side; None where an operand does not lie as a matrix."""
    fa, fb = free
    for order in (0, 1):
        by = sorted(range(len(contracted[0])), key=lambda i: contracted[order][i])
        ca, cb = [contracted[0][i] for i in by], [contracted[1][i] for i in by]
        A, B = strides_of(a, fa, ca), strides_of(b, cb, fb)
        if A is not None and B is not None:
            break
    else:
        return None
    m, n, k = size(a.shape[d] for d in fa), size(b.shape[d] for d in fb), size(a.shape[d] for d in ca)
    if B[1] != 1:
        b = packed(e, b, [*batch[1]], k, n, B)
        B = (n, 1)
        batch = (batch[0], tuple(range(len(batch[0]))))
    return a, A, b, B[0], batch, m, n, k


def tiles(e, target: Buffer, operands, fresh: bool) -> None:
    """C = A B (C += A B unless `fresh`) for every batch."""
    unit = e.unit
    a, _, _, _, batch, m, n, k = operands
    sizes = [a.shape[d] for d in batch[0]]
    unit.report.library("product")
    count = size(sizes)
    work = count * m * n * k / RATE
    rows = shape_of_tiles()[1]
    threaded = not e.in_loop and unit.fn is e.fn and len(unit.fn.scopes) == 1
    cut = threads.chunks(count if count >= 8 else m, work) if threaded else None
    if cut is None:
        with e.kernel(count * m * n * k, "nest_product"), loop_over(unit.fn, sizes) as p:
            product(unit, target, operands, p, 0, m, fresh)
        return
    number, step = cut
    if count < 8:  # rows are cut where tiles end
        step = -(-step // rows) * rows
        number = -(-m // step)
    with unit.task(unit.kernel_name(), number) as chunk:
        fn = unit.fn
        c = Idx(((fn.atom(chunk, 0, number - 1), 1),), 0)
        if count >= 8:
            high = math.C(fn, "smin", fn.index(c * step + step), math.constant(count, "i8"))
            with fn.loop_range(fn.index(c * step), high, 0, count) as flat:
                p: list = []
                for extent in reversed(sizes[1:]):
                    flat, r = divmod(flat, extent)
                    p.insert(0, r)
                product(unit, target, operands, (flat, *p), 0, m, fresh)
            return
        with loop_over(fn, sizes) as p:
            last = m - (number - 1) * step
            whole = lambda: product(unit, target, operands, p, c * step, step, fresh)
            if last == step:
                whole()
            else:
                end = math.cmp(fn, "eq", fn.index(c), math.constant(number - 1, "i8"))
                fn.branch(end, lambda: product(unit, target, operands, p, m - last, last, fresh), whole)


def product(unit, target, operands, p, row0, m, fresh) -> None:
    """The tiles of `m` rows from `row0` of one product of the batch."""
    a, A, b, b_row, batch, _, n, k = operands
    fn = unit.fn
    bytes, most_rows, most_vectors = shape_of_tiles()
    row_parts, blocks = parts(m, most_rows), columns(n, bytes // SIZE[target.kind], most_vectors)

    def start(s, axes):
        i = s.offset
        for d, j in zip(axes, p, strict=True):
            i = i + j * s.strides[d]
        return i

    a0, b0, c0 = start(a, batch[0]), start(b, batch[1]), start(target, range(len(batch[0])))
    a0, c0 = a0 + row0 * A[0], c0 + row0 * n
    for k0 in range(0, k, DEPTH):
        deep = min(DEPTH, k - k0)
        for group in grouped(blocks, lambda x: tuple(x[1])):
            with stepped(fn, group, sum(group[0][1])) as j:
                for rows in grouped(row_parts, lambda x: x[1]):
                    with stepped(fn, rows, rows[0][1]) as i:
                        tile(
                            unit, target, c0 + i * n + j, n, a, a0 + i * A[0] + k0 * A[1], A, b,
                            b0 + j + k0 * b_row, b_row, rows[0][1], group[0][1], deep, fresh and k0 == 0,
                        )  # fmt: skip


def grouped(items, key) -> list[list]:
    """Neighbours of one kind, which one loop runs over."""
    groups: list[list] = []
    for x in items:
        if groups and key(groups[-1][0]) == key(x):
            groups[-1].append(x)
        else:
            groups.append([x])
    return groups


class stepped:
    """A loop over the starts of equal parts."""

    def __init__(self, fn, group, step):
        self.loop, self.first, self.step = fn.loop(len(group)), group[0][0], step

    def __enter__(self):
        return self.loop.__enter__() * self.step + self.first

    def __exit__(self, *failure):
        return self.loop.__exit__(*failure)


def tile(unit, c, c0, c_row, a, a0, A, b, b0, b_row, rows, widths, deep, fresh) -> None:
    """One tile: rows x sum(widths) sums over `deep` products, added to C unless `fresh`."""
    fn = unit.fn
    name = tile_function(unit, c.kind, rows, tuple(widths), fresh)
    pc, pa, pb = (fn.name_of(s.flat(unit, at)[0]) for s, at in ((c, c0), (a, a0), (b, b0)))
    fn.line(
        f"call void @{name}(ptr {pc}, i64 {c_row}, ptr {pa}, i64 {A[0]}, i64 {A[1]}, ptr {pb}, i64 {b_row}, i64 {deep})"
    )


def tile_function(unit, kind: str, rows: int, widths: tuple, fresh: bool) -> str:
    """The function that computes a tile of one size, for any strides; all products share it."""
    t, bits = LLVM[kind], 8 * SIZE[kind]
    name = f"tile_{t}_{rows}_{'_'.join(map(str, widths))}_{'set' if fresh else 'add'}"
    if name in unit.definitions:
        return name
    starts = [sum(widths[:q]) for q in range(len(widths))]
    every = [(r, q, f"<{w} x {t}>") for r in range(rows) for q, w in enumerate(widths)]
    out = [
        f"define internal void @{name}(ptr noalias %c, i64 %cr, ptr %a, i64 %ar, i64 %ak, ptr %b, i64 %br, i64 %deep) #2 {{",
        "entry:",
    ]
    for r in range(rows):
        out.append(f"  %co{r} = mul i64 %cr, {r}\n  %ao{r} = mul i64 %ar, {r}")
        out.append(f"  %a{r} = getelementptr {t}, ptr %a, i64 %ao{r}")
        for q, at in enumerate(starts):
            out.append(
                f"  %ci{r}.{q} = add i64 %co{r}, {at}\n  %c{r}.{q} = getelementptr {t}, ptr %c, i64 %ci{r}.{q}"
            )
            if not fresh:
                out.append(f"  %old{r}.{q} = load <{widths[q]} x {t}>, ptr %c{r}.{q}, align {bits // 8}")
    out.append("  br label %step\nstep:\n  %k = phi i64 [ 0, %entry ], [ %k.next, %step ]")
    out.append(
        "  %ai = phi i64 [ 0, %entry ], [ %ai.next, %step ]\n  %bi = phi i64 [ 0, %entry ], [ %bi.next, %step ]"
    )
    for r, q, v in every:
        first = "zeroinitializer" if fresh else f"%old{r}.{q}"
        out.append(f"  %s{r}.{q} = phi {v} [ {first}, %entry ], [ %n{r}.{q}, %step ]")
    for q, at in enumerate(starts):
        out.append(f"  %bo{q} = add i64 %bi, {at}\n  %bp{q} = getelementptr {t}, ptr %b, i64 %bo{q}")
        out.append(f"  %b{q} = load <{widths[q]} x {t}>, ptr %bp{q}, align {bits // 8}")
    for r in range(rows):
        out.append(f"  %ap{r} = getelementptr {t}, ptr %a{r}, i64 %ai\n  %x{r} = load {t}, ptr %ap{r}")
        for w in dict.fromkeys(widths):
            v = f"<{w} x {t}>"
            out.append(f"  %i{r}.{w} = insertelement {v} poison, {t} %x{r}, i32 0")
            out.append(f"  %y{r}.{w} = shufflevector {v} %i{r}.{w}, {v} poison, <{w} x i32> zeroinitializer")
        for q, w in enumerate(widths):
            v, f = f"<{w} x {t}>", f"llvm.fmuladd.v{w}f{bits}"
            unit.declare(f"declare {v} @{f}({v}, {v}, {v})")
            out.append(f"  %n{r}.{q} = call {v} @{f}({v} %b{q}, {v} %y{r}.{w}, {v} %s{r}.{q})")
    out.append(
        "  %k.next = add nuw nsw i64 %k, 1\n  %ai.next = add i64 %ai, %ak\n  %bi.next = add i64 %bi, %br"
    )
    out.append(
        f"  %more = icmp ult i64 %k.next, %deep\n  br i1 %more, label %step, label %done, !llvm.loop {unit.plain_loop()}"
    )
    out.append("done:")
    out += [f"  store {v} %n{r}.{q}, ptr %c{r}.{q}, align {bits // 8}" for r, q, v in every]
    unit.define(name, "\n".join([*out, "  ret void\n}\n"]))
    return name


def packed(e, b: Buffer, batch, k: int, n: int, strides) -> Buffer:
    """B with its columns side by side: [batch, k, n]; made once where it does not change."""
    unit, fn = e.unit, e.unit.fn
    sizes = [b.shape[d] for d in batch]
    shape = (*sizes, k, n)

    def copy_to(copy: Buffer) -> None:
        name = pack_function(unit, b.kind)
        with loop_over(unit.fn, sizes) as p:
            at = b.offset
            for d, j in zip(batch, p, strict=True):
                at = at + j * b.strides[d]
            target, source = copy.address(unit, (*p, 0, 0))[0], b.flat(unit, at)[0]
            names = unit.fn.name_of(target), unit.fn.name_of(source)
            unit.fn.line(
                f"call void @{name}(ptr {names[0]}, ptr {names[1]}, i64 {k}, i64 {n}, i64 {strides[0]}, i64 {strides[1]})"
            )

    constant = fn.depth_of_index((b.offset,)) == 0 and (
        b.base.fn is not fn or (b.depth == 0 and b.base.depth == 0)
    )
    key = ("packed", b.base, shape, strides, b.offset)
    if constant and len(fn.scopes) > 1 and fn.base > 0:
        copy = fn.scopes[0].memo.get(key)
        if copy is None:
            with fn.upto(0, safe=True):
                copy = unit.workspace_buffer(b.kind, shape)
                copy_to(copy)
            fn.scopes[0].memo[key] = copy
        return copy
    copy = e.passing(b.kind, shape)
    copy_to(copy)
    return copy


PACK = """define internal void @{name}(ptr noalias %to, ptr %from, i64 %rows, i64 %columns, i64 %r, i64 %c) #2 {{
entry:
  br label %block
block:
  %j0 = phi i64 [ 0, %entry ], [ %j1, %block.next ]
  %end = add i64 %j0, 16
  %j1 = call i64 @llvm.smin.i64(i64 %end, i64 %columns)
  br label %row
row:
  %i = phi i64 [ 0, %block ], [ %i.next, %row.next ]
  %from.row = mul i64 %i, %r
  %to.row = mul i64 %i, %columns
  br label %one
one:
  %j = phi i64 [ %j0, %row ], [ %j.next, %one ]
  %from.column = mul i64 %j, %c
  %from.at = add i64 %from.row, %from.column
  %to.at = add i64 %to.row, %j
  %p = getelementptr {t}, ptr %from, i64 %from.at
  %q = getelementptr {t}, ptr %to, i64 %to.at
  %x = load {t}, ptr %p
  store {t} %x, ptr %q
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp slt i64 %j.next, %j1
  br i1 %j.more, label %one, label %row.next, !llvm.loop {plain}
row.next:
  %i.next = add nuw nsw i64 %i, 1
  %i.more = icmp slt i64 %i.next, %rows
  br i1 %i.more, label %row, label %block.next, !llvm.loop {plain}
block.next:
  %more = icmp slt i64 %j1, %columns
  br i1 %more, label %block, label %done, !llvm.loop {plain}
done:
  ret void
}}
"""


def pack_function(unit, kind: str) -> str:
    """The function that copies a matrix of any strides to C order, 16 columns at a time."""
    name = f"pack_{LLVM[kind]}"
    unit.declare("declare i64 @llvm.smin.i64(i64, i64)")
    unit.define(name, PACK.format(name=name, t=LLVM[kind], plain=unit.plain_loop()))
    return name
