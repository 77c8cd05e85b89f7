"""Matrix products as register tiles: a block of C stays in vector registers while k runs.

For each k a tile loads a few vectors of a row of B and multiplies them by single elements of A.
Sizes are known, so tiles are cut to fit and no edge is masked.  B's columns must lie side by side;
where they do not it is copied first, before the loops around where it does not change in them.
"""

from __future__ import annotations

from . import jit
from .blas import merged
from .function import LLVM, SIZE
from .plan import size
from .source import Buffer

WORK = 256  # multiplications from which tiles pay
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
    return [(a, b - a) for a, b in zip(edges, edges[1:], strict=False)]


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
        b = packed(e, b, [*batch[1]], cb, fb)
        B = (n, 1)
        batch = (batch[0], tuple(range(len(batch[0]))))
    return a, A, b, B[0], batch, m, n, k


def tiles(e, target: Buffer, operands, fresh: bool) -> None:
    """C = A B (C += A B unless `fresh`) for every batch."""
    from .emit import loop_over

    a, A, b, b_row, batch, m, n, k = operands
    unit, fn = e.unit, e.unit.fn
    bytes, most_rows, most_vectors = shape_of_tiles()
    row_parts, blocks = parts(m, most_rows), columns(n, bytes // SIZE[target.kind], most_vectors)
    with loop_over(fn, [a.shape[d] for d in batch[0]]) as p:

        def start(s, axes):
            i = s.offset
            for d, j in zip(axes, p, strict=True):
                i = i + j * s.strides[d]
            return i

        a0, b0, c0 = start(a, batch[0]), start(b, batch[1]), start(target, range(len(batch[0])))
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
    unit.report.library("product")


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
    t, align = LLVM[c.kind], SIZE[c.kind]
    cells = {}
    for r in range(rows):
        at = 0
        for q, w in enumerate(widths):
            cell = f"%a{fn.fresh()}"
            fn.allocas.append(f"  {cell} = alloca <{w} x {t}>, align 64")
            cells[r, q] = cell, f"<{w} x {t}>", at
            value = "zeroinitializer"
            if not fresh:
                p, _ = c.flat(unit, c0 + r * c_row + at)
                value = fn.here(f"load <{w} x {t}>, ptr {fn.name_of(p)}, align {align}", "p").name
            fn.line(f"store <{w} x {t}> {value}, ptr {cell}")
            at += w
    with fn.loop(deep) as k:
        vectors = []
        at = 0
        for w in widths:
            p, _ = b.flat(unit, b0 + k * b_row + at)
            vectors.append(fn.here(f"load <{w} x {t}>, ptr {fn.name_of(p)}, align {align}", "p"))
            at += w
        for r in range(rows):
            p, _ = a.flat(unit, a0 + r * A[0] + k * A[1])
            x = fn.here(f"load {t}, ptr {fn.name_of(p)}", c.kind)
            spread: dict = {}
            for q, w in enumerate(widths):
                v = f"<{w} x {t}>"
                if w not in spread:
                    one = fn.here(f"insertelement {v} poison, {t} {x.name}, i32 0", "p")
                    spread[w] = fn.here(f"shufflevector {v} {one.name}, {v} poison, <{w} x i32> zeroinitializer", "p")
                cell = cells[r, q][0]
                old = fn.here(f"load {v}, ptr {cell}", "p")
                fn.unit.declare(f"declare {v} @llvm.fma.v{w}f{8 * align}({v}, {v}, {v})")
                new = fn.here(
                    f"call {v} @llvm.fma.v{w}f{8 * align}({v} {vectors[q].name}, {v} {spread[w].name}, {v} {old.name})", "p"
                )
                fn.line(f"store {v} {new.name}, ptr {cell}")
    for (r, _), (cell, v, at) in cells.items():
        p, _ = c.flat(unit, c0 + r * c_row + at)
        total = fn.here(f"load {v}, ptr {cell}", "p")
        fn.line(f"store {v} {total.name}, ptr {fn.name_of(p)}, align {align}")


def packed(e, b: Buffer, batch, rows, cols) -> Buffer:
    """B with its columns side by side: [batch, k, n]; made once where it does not change."""
    unit, fn = e.unit, e.unit.fn
    axes = [*batch, *rows, *cols]
    view = Buffer(b.base, b.kind, [b.shape[d] for d in axes], tuple(b.strides[d] for d in axes), b.offset, b.depth)
    constant = fn.depth_of_index((b.offset,)) == 0 and (b.base.fn is not fn or (b.depth == 0 and b.base.depth == 0))
    key = ("packed", b.base, view.shape, view.strides, b.offset)
    if constant and len(fn.scopes) > 1 and fn.base > 0:
        copy = fn.scopes[0].memo.get(key)
        if copy is None:
            with fn.upto(0, safe=True):
                copy = unit.workspace_buffer(b.kind, view.shape)
                e.fill(copy, view)
            fn.scopes[0].memo[key] = copy
        return copy
    from .library import scratch

    copy = scratch(e, b.kind, view.shape)
    e.fill(copy, view)
    return copy
