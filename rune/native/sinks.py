"""Sinks, and the loops that feed them: what a nest writes, and what it reduces.

A `Store` writes each element.  A `Fold` reduces: in registers over the innermost loops that are all
reduced, in memory over the others.  `Walk` emits the loops of one nest and gives every sink its
element, so that what the sinks share is computed once.
"""

from __future__ import annotations

import itertools

from . import math, nest
from .compute import Cell, combine, identity, wide
from .index import Value
from .plan import UNROLL, size
from .source import Buffer, Computed, Scalar, Source, broadcast_index, row_major
from .split import cuts

SEGMENTS = 27  # copies of a nest's body that splitting its axes may make
BLOCKED = 4096  # terms that a float sum adds in one run before it starts a partial sum


def collapsible(s: Source, space) -> bool:
    """Whether an element at a flat position can be read by that position alone."""
    stack, seen = [s], set()
    while stack:
        s = stack.pop()
        if s.size == 1 or s in seen:
            continue
        seen.add(s)
        if s.shape != space:
            return False
        if isinstance(s, Computed) and isinstance(s.form, nest.Elementwise):
            stack += s.inputs
        elif not (isinstance(s, Buffer) and s.contiguous):
            return False
    return True


def short_axes_outside(shape, short: int) -> tuple[int, ...]:
    """Strides of an array whose last `short` axes come first in memory."""
    long = shape[: len(shape) - short]
    inner = row_major(long)
    return (*inner, *(s * size(long) for s in row_major(shape[len(long) :])))


class Store:
    """A sink that writes each element."""

    flat = False

    def __init__(self, target, source):
        self.target, self.source = target, source
        self.space = target.shape

    def collapses(self, space) -> bool:
        return self.target.contiguous and collapsible(self.source, space)

    def value(self, unit, index) -> Value:
        s = self.source
        v = unit.element(s, index if s.shape == self.target.shape else broadcast_index(s, index))
        return math.cast(unit.fn, v, self.target.kind)

    def take(self, unit, index, v: Value) -> None:
        self.target.store(unit, index, v)


class Fold:
    """A sink that reduces: in a register over the innermost axes, in memory over others."""

    flat = False

    def __init__(self, target, source, form):
        self.target, self.source, self.form = target, source, form
        self.op = form.op
        self.kind = "b1" if form.op in ("any", "all") else wide(target.kind)
        self.axes = set(form.axes)
        self.space = source.shape
        self.cells: list = []
        self.memory = target
        self.prepared = False  # its memory is made and copied outside of the nest's function

    def collapses(self, space) -> bool:
        return len(self.axes) == len(space) and collapsible(self.source, space)

    def arrange(self, unrolled: int) -> None:
        """Decides where the sum is held, for a nest that loops over its first `unrolled` axes only.

        Registers hold it over the innermost loops that are all reduced, one for each kept index of
        the unrolled axes after them.
        """
        n = 1 if self.flat else len(self.space)
        self.unrolled = u = len(self.space) if self.flat else min(unrolled, n)
        d = u
        while d > 0 and (self.flat or d - 1 in self.axes):
            d -= 1
        self.start = d
        rest = () if self.flat else range(u, n)
        self.registers = d < u or any(e in self.axes for e in rest)
        self.in_memory = not self.flat and any(e < d for e in self.axes)
        if not self.registers:
            self.in_memory = True
        self.kept = [e for e in rest if e not in self.axes]
        # partial sums of single precision are added up in double, in effect for nothing
        partial = (u > 0 and self.space[u - 1] > BLOCKED) or any(self.space[e] >= 64 for e in range(d + 1, u))
        partial = partial or (self.flat and size(self.space) > BLOCKED)
        self.outer = (
            {"f4": "f8", "c8": "c16"}.get(self.kind, self.kind) if partial and self.op == "sum" else self.kind
        )
        shape, short = self.target.shape, len(self.kept)
        self.apart = None  # strides that put short axes outside, so that the loops run over the others
        if self.in_memory and short and size(shape[: len(shape) - short]) > 16:
            self.apart = short_axes_outside(shape, short)
        self.combinations = list(itertools.product(*(range(self.space[e]) for e in self.kept)))

    def prepare(self, emission) -> None:
        """Memory that is added to must start from the identity."""
        if not self.in_memory:
            return
        if self.kind != self.target.kind or self.apart:
            self.memory = emission.passing(self.kind, self.target.shape)
            if self.apart:
                self.memory.strides = self.apart
        emission.loops(self.target.shape, [Store(self.memory, Scalar(identity(self.op, self.kind)))])

    def clear(self, emission) -> None:
        x = math.cast(emission.unit.fn, identity(self.op, self.kind), self.target.kind)
        emission.loops(self.target.shape, [Store(self.target, Scalar(x))])

    def value(self, unit, index) -> Value:
        return math.cast(unit.fn, unit.element(self.source, index), self.kind)

    def take(self, unit, index, v: Value) -> None:
        if self.cells:
            self.cells[-1][tuple(index[e] for e in self.kept)].add(v)
        else:
            self.add_to_memory(unit, tuple(i for d, i in enumerate(index) if d not in self.axes), v)

    def add_to_memory(self, unit, at, v) -> None:
        p, _ = self.memory.address(unit, at)
        old = self.memory.load(unit, p, None)
        self.memory.store_at(unit, p, combine(unit.fn, self.op, old, v))

    def open(self, unit) -> None:
        kind = self.kind if self.cells else self.outer
        self.cells.append({key: Cell(unit, self.op, kind) for key in self.combinations})

    def close(self, unit, index) -> None:
        for key, cell in self.cells.pop().items():
            total = cell.total()
            at = (*(i for d, i in enumerate(index[: self.start]) if d not in self.axes), *key)
            if self.cells:
                self.cells[-1][key].add(total, free=False)
            elif self.in_memory:
                self.add_to_memory(unit, at, math.cast(unit.fn, total, self.kind))
            else:
                at = (0,) * len(self.target.shape) if self.flat else at
                self.target.store(unit, at, math.cast(unit.fn, total, self.target.kind))

    def finish(self, emission) -> None:
        if self.memory is not self.target:
            emission.loops(self.target.shape, [Store(self.target, self.memory)])


class Walk:
    """The recursion over the axes of one nest.

    A sink may have fewer axes than the nest: the nest's own ones after them are short and unrolled.
    """

    def __init__(self, emission, space, sinks, chunk=None):
        self.chunk = chunk  # (start, stop) on the outermost axis, or None for all of it
        self.emission, self.unit, self.space, self.sinks = emission, emission.unit, space, sinks
        self.folds = [s for s in sinks if isinstance(s, Fold)]
        self.unrolled = len(space)
        self.flat = any(s.flat for s in sinks)
        work = 1
        while self.unrolled > 0 and not self.flat and space[self.unrolled - 1] <= UNROLL:
            work *= space[self.unrolled - 1]
            if work > 16:
                break
            self.unrolled -= 1
        self.inner = max((d for d in range(self.unrolled) if space[d] > 1), default=-1)
        self.segments = [[(0, n)] for n in space]
        if not self.flat:
            self.split()

    def split(self) -> None:
        """Cuts axes where an update or a concatenation changes, so that no test is left in a loop."""
        found = cuts([s.source for s in self.sinks], self.space[: self.unrolled])
        copies = 1
        for d in reversed(range(self.unrolled)):
            edges = sorted({0, self.space[d], *(c for c in found[d] if 0 < c < self.space[d])})
            if copies * (len(edges) - 1) <= SEGMENTS:
                copies *= len(edges) - 1
                self.segments[d] = list(itertools.pairwise(edges))

    def ndim(self, sink) -> int:
        return len(self.space) if self.flat else len(sink.space)

    def run(self, outer=()) -> None:
        """Emits the nest, inside loops that give the first components of its index."""
        self.unrolled = max(self.unrolled, len(outer))
        for f in self.folds:
            if not f.prepared:
                f.arrange(self.unrolled)
                f.prepare(self.emission)
        self.axis(len(outer), outer)
        for f in self.folds:
            if not f.prepared:
                f.finish(self.emission)

    def axis(self, d, index) -> None:
        opened = []
        for f in self.folds:
            if (d == f.start and f.registers and not f.cells) or (
                f.start < d < f.unrolled and f.cells and f.op == "sum" and self.space[d] >= 64
            ):
                f.open(self.unit)
                opened.append(f)
        if d < self.unrolled:
            self.leaf([s for s in self.sinks if self.ndim(s) == d], index)
            self.loop(d, index)
        else:
            self.leaf([s for s in self.sinks if self.ndim(s) >= d], index)
        for f in opened:
            f.close(self.unit, index)

    def loop(self, d, index) -> None:
        n = self.space[d]
        if self.chunk is not None and d == (len(self.space) - 1 if self.flat else 0):
            self.chunked(d, index)
            return
        summing = [f for f in self.folds if f.cells and f.op in ("sum", "prod") and f.kind[0] in "fc"]
        fn = self.unit.fn
        if d != self.inner or n <= BLOCKED or not summing or len(self.segments[d]) > 1:
            for lo, hi in self.segments[d]:
                with fn.loop(hi - lo) as i:
                    self.axis(d + 1, (*index, i + lo))
            return
        chunk = next((c for c in range(BLOCKED, 1023, -8) if n % c == 0), 2048)
        with fn.loop(n // chunk) as c:
            for f in summing:
                f.open(self.unit)
            with fn.loop(chunk) as i:
                self.axis(d + 1, (*index, c * chunk + i))
            for f in summing:
                f.close(self.unit, index)
        if n % chunk:
            for f in summing:
                f.open(self.unit)
            with fn.loop(n % chunk) as i:
                self.axis(d + 1, (*index, i + n // chunk * chunk))
            for f in summing:
                f.close(self.unit, index)

    def chunked(self, d, index) -> None:
        """The axis that is cut into chunks for threads."""
        fn = self.unit.fn
        low, high = self.chunk
        for lo, hi in self.segments[d]:
            start, stop = low, high
            if len(self.segments[d]) > 1:
                start = math.C(fn, "smax", low, math.constant(lo, "i8"))
                stop = math.C(fn, "smin", high, math.constant(hi, "i8"))
            with fn.loop_range(start, stop, lo, hi) as i:
                self.axis(d + 1, (*index, i))

    def leaf(self, sinks, index) -> None:
        """Every sink's elements at an index of the loops: one, or those along its own short axes."""
        taken = []
        for s in sinks:
            rest = () if self.flat else s.space[len(index) :]
            for short in itertools.product(*map(range, rest)):
                at = (*index, *short)
                taken.append((s, at, s.value(self.unit, at)))
        for s, at, v in taken:
            s.take(self.unit, at, v)
