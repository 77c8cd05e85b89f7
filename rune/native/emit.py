"""A block becomes code: scalars where values are small, nests of loops elsewhere.

`Emission` walks the stages of a block's plan.  Results are written once, straight to where they are
wanted (the call's outputs, a row of a loop's stacked output, a loop's carry).
"""

from __future__ import annotations

import contextlib
import itertools

from rune.program import Literal

from . import branch, check, contract, library, loops, math, nest, scatter, threads
from .function import SIZE
from .index import Idx, Value
from .plan import SMALL_IN_LOOP, UNROLL, Plan, Test, size
from .rewrite import Added
from .split import cuts
from .source import (
    Buffer, Computed, Read, Scalar, Small, Source, broadcast_index, combine, first_extreme, identity, row_major, start, wide,
)  # fmt: skip
from .view import view_of

OUTLINE = 128  # iterations from which a nest of the main function is a function of its own
OUTLINE_IN_LOOP = 1024
NESTS = 16  # small nests that one function holds; LLVM's cost grows faster than a function does
STACK = 2048  # bytes up to which a temporary of a loop's step lives on the stack
BLOCKED = 4096  # terms that a float sum adds in one run before it starts a partial sum
TWO_PASSES = 16  # elements from which argmax looks for the value first and for its place after
SEGMENTS = 27  # copies of a nest's body that splitting its axes may make


class Emission:
    def __init__(self, unit, block, sources: dict, targets: list, in_loop: bool):
        self.unit, self.in_loop = unit, in_loop
        self.sources: dict = dict(sources)
        self.literals: dict = {}
        self.targets = targets
        self.plan = Plan(block, in_loop)
        self.block = block = self.plan.block
        self.home: dict = {}  # output variable -> the target that it is computed into
        self.mutable: set = set()  # variables whose storage the block may overwrite
        self.scratch: list = []
        self.owned: dict = {}  # variable -> workspace offset, given back after its last use
        self.depth = len(unit.fn.scopes) - 1
        self.fn = unit.fn
        for v, target in zip(block.outputs, targets, strict=True):
            if target is not None and v in self.plan.form_of and v not in self.home:
                self.home[v] = target

    # sources and storage ------------------------------------------------------------------------

    def source(self, x) -> Source:
        if isinstance(x, Literal):
            s = self.literals.get(id(x))
            if s is None:
                s = self.literals[id(x)] = Scalar(math.constant(x.value, math.kind_of(x.type.dtype)))
            return s
        s = self.sources.get(x)
        if s is None:
            s = self.sources[x] = self.computed(x)
        return s

    def computed(self, x) -> Source:
        form = self.plan.form_of[x]
        return Lazy(self, form, x)

    def storage(self, v, shape=None, kind=None) -> Buffer:
        """Where a root is written: its target, the stack, or the workspace."""
        target = self.home.get(v)
        if target is not None:
            return target
        kind = kind or math.kind_of(v.type.dtype)
        shape = v.type.shape if shape is None else shape
        b = self.temporary(kind, shape)
        if b.place is not None:
            self.owned.setdefault(v, []).append(b.place)
        self.mutable.add(v)
        return b

    def loop_limit(self, v) -> bool:
        """Whether a loop carries a value in registers."""
        return size(v.type.shape) <= SMALL_IN_LOOP

    def temporary(self, kind, shape) -> Buffer:
        bytes = SIZE[kind] * size(shape)
        fn = self.unit.fn
        if bytes <= (STACK if self.in_loop else 512):
            base = fn.alloca(kind, max(size(shape), 1))
            if base is not None:
                b = Buffer(base, kind, shape, depth=self.depth if fn is self.fn else 0)
                b.where = "stack"
                return b
        return self.in_workspace(kind, shape)

    def in_workspace(self, kind, shape) -> Buffer:
        fn = self.unit.fn
        place = self.unit.workspace.take(SIZE[kind] * size(shape))
        ws = self.unit.workspace_pointer
        base = fn.put(f"getelementptr i8, ptr {fn.name_of(ws)}, i64 {place}", "p", ws)
        b = Buffer(base, kind, shape, depth=self.depth if fn is self.fn else 0)
        b.place = place
        return b

    def release(self, v) -> None:
        for place in self.owned.pop(v, ()):
            self.unit.workspace.give(place)

    def in_memory(self, x) -> Buffer:
        """A buffer that holds a value, made where there is none."""
        s = self.source(x) if not isinstance(x, Source) else x
        return self.buffer_of(s)

    def buffer_of(self, s: Source) -> Buffer:
        if isinstance(s, Buffer):
            return s
        if isinstance(s, Small):
            return s.buffer(self.unit)
        view = strided(self.unit, s)
        if view is not None:
            return view
        b = self.temporary(s.kind, s.shape)
        self.fill(b, s)
        if b.place is not None:
            self.owned.setdefault(id(b), []).append(b.place)
            self.scratch.append(id(b))
        return b

    # the block ----------------------------------------------------------------------------------

    def run(self) -> list[Source]:
        unit = self.unit
        base, unit.fn.base = unit.fn.base, self.depth
        for k, stage in enumerate(self.plan.stages):
            self.scratch: list = []
            if stage.kind == "small":
                self.small(stage.forms[0])
            elif stage.kind == "nest":
                self.nest(stage)
            elif stage.kind == "rows":
                self.rows(stage, k)
            else:
                FORMS[type(stage.forms[0])](self, stage.forms[0], stage)
            for key in self.scratch:
                self.release(key)
            for v in stage.last:
                self.release(v)
        results = [self.source(v) for v in self.block.outputs]
        for v, target, s in zip(self.block.outputs, self.targets, results, strict=True):
            if target is None or (self.home.get(v) is target and s is target):
                continue
            self.fill(target, s)
        for v in list(self.owned):
            if v not in self.block.outputs or all(t is not None for t in self.targets):
                self.release(v)
        unit.fn.base = base
        return results

    def small(self, form) -> None:
        """A few elements, computed here."""
        v = form.outs[0]
        s = Lazy(self, form, v)
        shape = v.type.shape
        values = [self.unit.element(s, at) for at in itertools.product(*map(range, shape))]
        self.sources[v] = Small(shape, math.kind_of(v.type.dtype), values, self.depth)

    # nests --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def kernel(self, work: int, name: str = "nest"):
        """A function of its own for a large nest; a small one stays where it is."""
        unit = self.unit
        enough = work >= (OUTLINE_IN_LOOP if self.in_loop else OUTLINE) or unit.fn.nests >= NESTS
        if not enough or unit.fn.name.startswith("nest"):
            unit.fn.nests += 1
            yield
            return
        with unit.function(unit.kernel_name(name)):
            yield

    def fill(self, target: Buffer, s: Source) -> None:
        """Writes all elements of a source to memory."""
        if size(target.shape) <= 16 and (isinstance(s, (Small, Scalar)) or target.size == 1):
            for at in itertools.product(*map(range, target.shape)):
                target.store(self.unit, at, math.cast(self.unit.fn, self.unit.element(s, broadcast_index(s, at)), target.kind))
            return
        with self.kernel(size(target.shape), "nest_fill"):
            self.loops(target.shape, [Store(target, s)])

    def nest(self, stage) -> None:
        unit = self.unit
        sinks, results = [], []
        for form in stage.forms:
            v = form.outs[0]
            target = self.storage(v)
            if isinstance(form, nest.Reduce):
                sinks.append(Fold(target, self.source(form.inputs[0]), form))
            else:
                s = Lazy(self, form, v)
                self.sources[v] = s
                sinks.append(Store(target, s))
            results.append((v, target))
        unit.report.kernel(stage, self.plan)
        apart = self.short_axes_apart(stage)
        if not self.in_threads(stage, sinks):
            with self.kernel(size(stage.space)):
                self.loops(stage.space, sinks)
        self.sources.update(apart)
        for v, target in results:
            self.sources[v] = target

    def rows(self, stage, position) -> None:
        """Several nests inside their common outer loops."""
        unit, plan = self.unit, self.plan
        later = set(self.block.outputs)
        for s in plan.stages[position + 1 :]:
            later |= s.reads
        outer = stage.space[: stage.outer]
        count = size(outer)
        cut = None
        if not (self.in_loop or unit.fn is not self.fn or len(unit.fn.scopes) > 1):
            work = sum(size(s.space) * plan.time(s) for s in stage.nests) / 1000
            cut = threads.chunks(count, work)
        for s in stage.nests:
            unit.report.kernel(s, plan)
        storage = {}
        for f in stage.forms:
            v = f.outs[0]
            row = v.type.shape[stage.outer :]
            if v in later:
                storage[v] = self.storage(v)
                continue
            kind = math.kind_of(v.type.dtype)
            b = self.in_workspace(kind, (cut[0] if cut else 1, *row))
            self.owned.setdefault(id(b), []).append(b.place)
            self.scratch.append(id(b))
            storage[v] = b

        def body(low, high, chunk):
            fn = unit.fn
            with fn.loop_range(low, high, 0, count) if low is not None else fn.loop(count) as i:
                index, rest = [], i
                for n in reversed(outer[1:]):
                    rest, r = divmod(rest, n)
                    index.insert(0, r)
                index.insert(0, rest)
                for s in stage.nests:
                    sinks, targets = [], []
                    for f in s.forms:
                        v = f.outs[0]
                        b = storage[v]
                        if v not in later:  # one row, whatever the outer index
                            b = b.row(chunk, b.shape[1:])
                            b = Buffer(b.base, b.kind, v.type.shape, (0,) * stage.outer + b.strides, b.offset)
                        if isinstance(f, nest.Reduce):
                            sinks.append(Fold(b, self.source(f.inputs[0]), f))
                        else:
                            lazy = self.sources[v] = Lazy(self, f, v)
                            sinks.append(Store(b, lazy))
                        b = Buffer(b.base, b.kind, b.shape, b.strides, b.offset, len(fn.scopes) - 1)
                        b.owner = fn
                        targets.append((v, b))
                    base, fn.base = fn.base, len(fn.scopes) - 1
                    Walk(self, s.space, sinks).run(tuple(index))
                    fn.base = base
                    self.sources.update(targets)

        if cut is None:
            with self.kernel(size(stage.space)):
                body(None, None, 0)
        else:
            with unit.task(unit.kernel_name(), cut[0]) as chunk:
                fn = unit.fn
                c = Idx(((fn.atom(chunk, 0, cut[0] - 1), 1),), 0)
                high = math.C(fn, "smin", fn.index(c * cut[1] + cut[1]), math.constant(count, "i8"))
                body(fn.index(c * cut[1]), high, c)
        for v, b in storage.items():
            self.sources[v] = b

    def in_threads(self, stage, sinks) -> bool:
        """Emits a large nest in chunks of its outermost axis, for the pool of threads."""
        unit, space = self.unit, stage.space
        if self.in_loop or unit.fn is not self.fn or len(unit.fn.scopes) > 1:
            return False
        flat = all(s.space == space and s.collapses(space) for s in sinks)
        work = size(space) * self.plan.time(stage) / 1000
        outer = size(space) if flat else space[0]
        cut = threads.chunks(outer, work)
        if cut is None:
            return False
        number, step = cut
        folds = [s for s in sinks if isinstance(s, Fold)]
        shared = [s for s in folds if flat or 0 in s.axes]
        if any(8 * number * s.target.size > size(space) or s.kind != s.target.kind for s in shared):
            return False
        if flat:
            for s in sinks:
                s.flat = True
            space = (1,) * (len(space) - 1) + (outer,)
        unrolled = Walk(self, space, sinks).unrolled
        totals = []
        for s in folds:
            s.arrange(unrolled)
            s.prepared = s not in shared
            if s.prepared:
                s.prepare(self)
                continue
            parts = self.in_workspace(s.target.kind, (number, *s.target.shape))
            if s.apart:
                parts.strides, s.apart = (s.target.size, *s.apart), None
            self.owned.setdefault(id(parts), []).append(parts.place)
            self.scratch.append(id(parts))
            totals.append((s, s.target, parts))
        with unit.task(unit.kernel_name(), number) as chunk:
            fn = unit.fn
            c = Idx(((fn.atom(chunk, 0, number - 1), 1),), 0)
            for s, _, parts in totals:
                s.target = s.memory = parts.row(c, s.target.shape)
                s.prepared = True
                if s.in_memory:
                    self.loops(s.target.shape, [Store(s.memory, Scalar(identity(s.op, s.kind)))])
            low = fn.index(c * step)
            high = math.C(fn, "smin", fn.index(c * step + step), math.constant(outer, "i8"))
            Walk(self, space, sinks, (low, high)).run()
        for s in folds:
            if s not in shared:
                s.finish(self)
        for s, target, parts in totals:
            self.loops(parts.shape, [Fold(target, parts, nest.Reduce((), (), s.op, (0,)))])
        return True

    def short_axes_apart(self, stage) -> dict:
        """Copies small operands so that their short last axis (x, y, z) lies outside, for vector loads.

        Gives the sources to put back after the nest.
        """
        old = {}
        for v in stage.reads:
            s = self.source(v)
            shape = s.shape
            if not (isinstance(s, Buffer) and s.contiguous and len(shape) > 1 and 1 < shape[-1] <= UNROLL):
                continue
            if 16 * s.size > size(stage.space) or size(shape[:-1]) <= 16:
                continue
            b = self.temporary(s.kind, shape)
            b.strides, b.maybe_product = short_axes_outside(shape, 1), s.maybe_product
            if b.place is not None:
                self.owned.setdefault(id(b), []).append(b.place)
                self.scratch.append(id(b))
            self.fill(b, s)
            old[v] = s
            self.sources[v] = b
        return old

    def loops(self, space, sinks) -> None:
        """One nest of loops over a space that computes all the sinks."""
        unit = self.unit
        if size(space) == 0:
            for s in sinks:
                if isinstance(s, Fold):
                    s.clear(self)
            return
        if len(space) > 1 and all(s.space == space and s.collapses(space) for s in sinks):
            # one loop: the last component of the index runs over all elements
            for s in sinks:
                s.flat = True
            Walk(self, (1,) * (len(space) - 1) + (size(space),), sinks).run()
            return
        Walk(self, space, sinks).run()
        del unit


class Lazy(Computed):
    """A form computed where it is read, with the block's sources as they are at that moment."""

    def __init__(self, emission, form, v):
        self.emission = emission
        self.form = form
        self.shape = v.type.shape
        self.kind = math.kind_of(v.type.dtype)

    @property
    def inputs(self):
        return [self.emission.source(x) for x in self.form.inputs]


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
        self.outer = {"f4": "f8", "c8": "c16"}.get(self.kind, self.kind) if partial and self.op == "sum" else self.kind
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
            self.memory = emission.temporary(self.kind, self.target.shape)
            if self.apart:
                self.memory.strides = self.apart
            if self.memory.place is not None:
                emission.owned.setdefault(id(self.memory), []).append(self.memory.place)
                emission.scratch.append(id(self.memory))
        emission.loops(self.target.shape, [Store(self.memory, Scalar(identity(self.op, self.kind)))])

    def clear(self, emission) -> None:
        x = math.cast(emission.unit.fn, identity(self.op, self.kind), self.target.kind)
        emission.loops(self.target.shape, [Store(self.target, Scalar(x))])

    def value(self, unit, index) -> Value:
        return math.cast(unit.fn, unit.element(self.source, index), self.kind)

    def take(self, unit, index, v: Value) -> None:
        if self.cells:
            self.add_to(unit, self.cells[-1][tuple(index[e] for e in self.kept)], v, free=True)
        else:
            self.add_to_memory(unit, tuple(i for d, i in enumerate(index) if d not in self.axes), v)

    def add_to(self, unit, cell, v, free=False) -> None:
        old = cell.load(unit, cell.base, None)
        cell.store_flat(unit, 0, combine(unit.fn, self.op, old, math.cast(unit.fn, v, cell.kind), free))

    def add_to_memory(self, unit, at, v) -> None:
        p, _ = self.memory.address(unit, at)
        old = self.memory.load(unit, p, None)
        self.memory.store_at(unit, p, combine(unit.fn, self.op, old, v))

    def open(self, unit) -> None:
        cells = {}
        kind = self.kind if self.cells else self.outer
        for key in self.combinations:
            cells[key] = cell = Buffer(unit.fn.alloca(kind, 1), kind, (), maybe_product=False)
            cell.store_flat(unit, 0, identity(self.op, kind))
        self.cells.append(cells)

    def close(self, unit, index) -> None:
        for key, cell in self.cells.pop().items():
            total = cell.load(unit, cell.base, None)
            at = (*(i for d, i in enumerate(index[: self.start]) if d not in self.axes), *key)
            if self.cells:
                self.add_to(unit, self.cells[-1][key], total)
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
                self.segments[d] = list(zip(edges, edges[1:], strict=False))

    def ndim(self, sink) -> int:
        return len(self.space) if self.flat else len(sink.space)

    def run(self, outer=()) -> None:
        """Emits the nest, inside loops that give the first components of its index."""
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
            if d == f.start and f.registers and not f.cells:
                f.open(self.unit)
                opened.append(f)
            elif f.start < d < f.unrolled and f.cells and f.op == "sum" and self.space[d] >= 64:
                f.open(self.unit)
                opened.append(f)
        self.leaf([s for s in self.sinks if self.ndim(s) == d], index)
        if d < self.unrolled:
            self.loop(d, index)
        elif d < len(self.space):
            for k in range(self.space[d]):
                self.axis(d + 1, (*index, k))
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
        values = [s.value(self.unit, index) for s in sinks]
        for s, v in zip(sinks, values, strict=True):
            s.take(self.unit, index, v)


# views ----------------------------------------------------------------------------------------


def strided(unit, s: Source) -> Buffer | None:
    """A source as a strided buffer, where it is a chain of affine views of one."""
    if isinstance(s, Buffer):
        return s if s.byte_strides is None else None
    if isinstance(s, Small):
        return s.buffer(unit)
    from .source import Row

    if isinstance(s, Row):
        inner = strided(unit, s.source)
        return inner.row(s.r, s.shape) if inner is not None else None
    if isinstance(s, Computed) and isinstance(s.form, nest.Index):
        view = view_of(s.form)
        if view is None:
            return None
        k, start, steps = view
        inner = strided(unit, s.inputs[k])
        if inner is None:
            return None
        offset = inner.offset
        for i, stride in zip(start, inner.strides, strict=True):
            offset = offset + i * stride
        strides = tuple(sum(c * x for c, x in zip(row, inner.strides, strict=True)) for row in steps)
        b = Buffer(inner.base, inner.kind, s.shape, strides, offset, inner.depth)
        b.where, b.maybe_product = inner.where, inner.maybe_product
        return b
    return None


# forms that are stages of their own -------------------------------------------------------------


def constant(e: Emission, form, stage) -> None:
    import numpy as np

    unit, fn = e.unit, e.unit.fn
    v = form.outs[0]
    array = np.asarray(form.value)
    slot = unit.extern(("constant", id(form.value)), ("array", np.require(array, v.type.dtype, ["C", "A"])))
    e.sources[v] = Buffer(unit.load_extern(fn, slot), math.kind_of(v.type.dtype), v.type.shape, maybe_product=False)


def concatenate(e: Emission, form, stage) -> None:
    v = form.outs[0]
    target = e.storage(v)
    start = 0
    with e.kernel(target.size, "nest_concatenate"):
        for x in form.inputs:
            shape = x.type.shape
            offset = target.offset + start * target.strides[form.axis]
            piece = Buffer(target.base, target.kind, shape, target.strides, offset, target.depth)
            e.loops(shape, [Store(piece, e.source(x))])
            start += shape[form.axis]
    e.sources[v] = target


def accumulate(e: Emission, form, stage) -> None:
    """Running sums and the like; sequential along the axis, vectorised across the others."""
    unit = e.unit
    v = form.outs[0]
    target = e.storage(v)
    s = e.source(form.inputs[0])
    shape, axis, n = target.shape, form.axis, target.shape[form.axis]
    kind = wide(target.kind)
    with e.kernel(target.size, "nest_accumulate"):
        fn = unit.fn
        if target.size:
            outer, inner = shape[:axis], shape[axis + 1 :]
            with loop_over(fn, outer) as at:
                if size(inner) == 1:
                    cell = Buffer(fn.alloca(kind, 1), kind, (), maybe_product=False)
                    cell.store_flat(unit, 0, start(form.op, kind))
                    with fn.loop(n) as k:
                        i = (n - 1) - k if form.reverse else k
                        index = (*at, i, *(0 for _ in inner))
                        x = math.cast(fn, unit.element(s, index), kind)
                        new = combine(fn, form.op, cell.load(unit, cell.base, None), x)
                        cell.store_flat(unit, 0, new)
                        target.store(unit, index, math.cast(fn, new, target.kind))
                else:
                    first = n - 1 if form.reverse else 0
                    with loop_over(fn, inner) as rest:
                        index = (*at, first, *rest)
                        target.store(unit, index, math.cast(fn, unit.element(s, index), target.kind))
                    if n > 1:
                        with fn.loop(n - 1) as k:
                            i = (n - 2) - k if form.reverse else k + 1
                            before = i + 1 if form.reverse else i - 1
                            with loop_over(fn, inner) as rest:
                                x = math.cast(fn, unit.element(s, (*at, i, *rest)), kind)
                                p, _ = target.address(unit, (*at, before, *rest))
                                old = math.cast(fn, target.load(unit, p, None), kind)
                                new = combine(fn, form.op, old, x)
                                target.store(unit, (*at, i, *rest), math.cast(fn, new, target.kind))
    e.sources[v] = target


def first_extreme_of_row(unit, op, s, extents, index_at) -> Value:
    """The place of the extreme in two passes that both vectorise: its value, then its first place."""
    fn = unit.fn
    word = "max" if op == "argmax" else "min"
    best = Buffer(fn.alloca(s.kind, 1), s.kind, (), maybe_product=False)
    place = Buffer(fn.alloca("i8", 1), "i8", ())
    best.store_flat(unit, 0, identity(word, s.kind))
    place.store_flat(unit, 0, math.constant(size(extents), "i8"))
    with loop_over(fn, extents) as ks:
        x = unit.element(s, index_at(ks))
        best.store_flat(unit, 0, combine(fn, word, best.load(unit, best.base, None), x, free=True))
    extreme = best.load(unit, best.base, None)
    with loop_over(fn, extents) as ks:
        x = unit.element(s, index_at(ks))
        here = math.apply(fn, "eq", [x, extreme], "b1")
        if s.kind[0] == "f":
            here = math.or_(fn, here, math.ROWS["isnan", "f"](fn, x if s.kind != "f2" else math.cast(fn, x, "f4")))
        i = fn.index(sum(k * w for k, w in zip(ks, row_major(extents), strict=True)))
        i = math.select(fn, here, Value(i.name, "i8", i.depth, i.fn), math.constant(size(extents), "i8"))
        place.store_flat(unit, 0, math.C(fn, "umin", place.load(unit, place.base, None), i))
    return place.load(unit, place.base, None)


@contextlib.contextmanager
def loop_over(fn, shape):
    with contextlib.ExitStack() as stack:
        yield tuple(stack.enter_context(fn.loop(n)) for n in shape)


def arg_reduce(e: Emission, form, stage) -> None:
    """argmax and argmin, and reductions of nothing."""
    unit = e.unit
    v = form.outs[0]
    target = e.storage(v)
    s = e.source(form.inputs[0])
    e.sources[v] = target
    if s.size == 0:
        if target.size:
            Fold(target, s, form).clear(e)
        return
    axes = sorted(form.axes)
    with e.kernel(s.size, "nest_arg"):
        fn = unit.fn
        with loop_over(fn, target.shape) as at:
            best = Buffer(fn.alloca(s.kind, 1), s.kind, (), maybe_product=False)
            place = Buffer(fn.alloca("i8", 1), "i8", ())

            def index_at(ks, at=at):
                ks, rest = iter(ks), iter(at)
                return tuple(next(ks) if d in axes else next(rest) for d in range(len(s.shape)))

            extents = [s.shape[d] for d in axes]
            if s.kind[0] != "c" and isinstance(s, Buffer) and size(extents) >= TWO_PASSES:
                found = first_extreme_of_row(unit, form.op, s, extents, index_at)
                target.store(unit, at, math.cast(fn, found, target.kind))
                return
            best.store_flat(unit, 0, unit.element(s, index_at([0] * len(axes))))
            place.store_flat(unit, 0, math.constant(0, "i8"))
            with loop_over(fn, [s.shape[d] for d in axes]) as ks:
                x = unit.element(s, index_at(ks))
                flat = sum(k * w for k, w in zip(ks, row_major([s.shape[d] for d in axes]), strict=True))
                old = best.load(unit, best.base, None)
                better = first_extreme(fn, form.op, old, x)
                best.store_flat(unit, 0, math.select(fn, better, x, old))
                i = fn.index(flat)
                i = Value(i.name, "i8", i.depth, i.fn)
                place.store_flat(unit, 0, math.select(fn, better, i, place.load(unit, place.base, None)))
            target.store(unit, at, math.cast(fn, place.load(unit, place.base, None), target.kind))


FORMS = {
    nest.Constant: constant,
    nest.Concatenate: concatenate,
    nest.Accumulate: accumulate,
    nest.Reduce: arg_reduce,
    nest.Contract: contract.contract,
    Added: contract.contract,
    nest.Update: scatter.update,
    nest.Scatter: scatter.scatter,
    nest.Loop: loops.loop,
    nest.Branch: branch.branch,
    Test: check.check,
    nest.Library: library.library,
    nest.Host: library.host,
}

__all__ = ["Emission", "Read", "Store", "loop_over"]
