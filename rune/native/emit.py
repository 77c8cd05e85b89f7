"""A block becomes code: scalars where values are small, nests of loops elsewhere.

`Emission` walks the stages of a block's plan.  Results are written once, straight to where they are
wanted (the call's outputs, a row of a loop's stacked output, a loop's carry).
"""

from __future__ import annotations

import contextlib
import copy
import itertools

from rune.program import Literal

from . import branch, check, contract, forms, library, loops, math, nest, scatter, threads
from . import complex as complex_rows  # noqa: F401  (these four fill the table of scalar operations)
from . import integers as integer_rows  # noqa: F401
from . import logic as logic_rows  # noqa: F401
from . import reals as real_rows  # noqa: F401
from .compute import identity
from .function import SIZE
from .index import Idx
from .inplace import same_place, start
from .plan import SMALL_IN_LOOP, UNROLL, Plan, Test, kernel_space, size
from .rewrite import Added
from .rows import row_local
from .sinks import Fold, Store, Walk, short_axes_outside
from .source import Buffer, Computed, Scalar, Small, Source, broadcast_index, strided

OUTLINE = 128  # iterations from which a nest of the main function is a function of its own
OUTLINE_IN_LOOP = 1024
NESTS = 16  # small nests that one function holds; LLVM's cost grows faster than a function does
STACK = 2048  # bytes up to which a temporary of a loop's step lives on the stack


class Emission:
    def __init__(self, unit, block, sources: dict, targets: list, in_loop: bool, consumed=()):
        self.unit, self.in_loop = unit, in_loop
        self.sources: dict = dict(sources)
        self.literals: dict = {}
        self.targets = targets
        self.plan = Plan(block, in_loop)
        self.block = block = self.plan.block
        self.home: dict = {}  # output variable -> the target that it is computed into
        self.consumed = dict.fromkeys(consumed)  # inputs whose storage a result may have -> that result
        self.mutable: set = set(consumed)  # variables whose storage the block may overwrite
        self.scratch: list = []
        self.alive: list = []
        self.owned: dict = {}  # variable -> workspace offset, given back after its last use
        self.depth = len(unit.fn.scopes) - 1
        self.fn = unit.fn
        for at, (v, target) in enumerate(zip(block.outputs, targets, strict=True)):
            if target is None or v not in self.plan.form_of or v in self.home:
                continue
            if not consumed or (k := start(block, at)) is None or block.inputs[k] not in self.consumed:
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

    def passing(self, kind, shape, shared: bool = False) -> Buffer:
        """Memory until the end of the stage; `shared` with other threads, which see no stack of this one."""
        b = self.in_workspace(kind, shape) if shared else self.temporary(kind, shape)
        if b.place is not None:
            self.owned.setdefault(id(b), []).append(b.place)
            self.scratch.append(id(b))
            self.alive.append(b)  # its identity is the key above
        return b

    def in_workspace(self, kind, shape) -> Buffer:
        unit = self.unit
        return unit.workspace_buffer(kind, shape, self.depth if unit.fn is self.fn else 0)

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
        b = self.passing(s.kind, s.shape)
        self.fill(b, s)
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
        for at, (v, target, s) in enumerate(zip(self.block.outputs, self.targets, results, strict=True)):
            if target is None or (self.home.get(v) is target and s is target) or self.takes(at, s):
                continue
            self.fill(target, s)
        for v in list(self.owned):
            if v not in self.block.outputs or all(t is not None for t in self.targets):
                self.release(v)
        unit.fn.base = base
        return results

    def takes(self, at: int, s) -> bool:
        """Whether output `at` stands in the storage of a consumed input that no other output has."""
        for x, output in self.consumed.items():
            if output is None and same_place(s, self.sources[x]) and s.shape == self.sources[x].shape:
                self.consumed[x] = at
                return True
        return False

    @property
    def spent(self) -> list:
        """The consumed inputs whose storage was written to, or is an output's."""
        return [x for x, output in self.consumed.items() if output is not None or x not in self.mutable]

    def replace_consumed(self, stage) -> None:
        """Computes outputs over consumed inputs that are read for the last time, lane by lane."""
        plan, lanes = self.plan, len(kernel_space(stage.space))
        here = {f.outs[0] for f in stage.forms if not plan.folds(f)}
        free = [v for v in dict.fromkeys(self.block.outputs) if v in here and v in self.home]
        for x in self.consumed:
            if x not in stage.last or x not in self.mutable:
                continue
            if not all(row_local(plan, f, lanes, {x}) for f in stage.forms):
                continue
            alike = [v for v in free if v.type.shape == x.type.shape and v.type.dtype == x.type.dtype]
            if alike:
                self.home[alike[0]] = copy.copy(self.sources[x])
                self.mutable.discard(x)
                free.remove(alike[0])

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
                target.store(
                    self.unit,
                    at,
                    math.cast(self.unit.fn, self.unit.element(s, broadcast_index(s, at)), target.kind),
                )
            return
        with self.kernel(size(target.shape), "nest_fill"):
            self.loops(target.shape, [Store(target, s)])

    def nest(self, stage) -> None:
        unit = self.unit
        self.replace_consumed(stage)
        sinks, results = [], []
        for form in stage.forms:
            v = form.outs[0]
            target = self.storage(v)
            if self.plan.folds(form):
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
            b = self.passing(kind, (cut[0] if cut else 1, *row), shared=True)
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
                        if plan.folds(f):
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
            parts = self.passing(s.target.kind, (number, *s.target.shape), shared=True)
            if s.apart:
                parts.strides, s.apart = (s.target.size, *s.apart), None
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
            b = self.passing(s.kind, shape)
            b.strides, b.maybe_product = short_axes_outside(shape, 1), s.maybe_product
            self.fill(b, s)
            old[v] = s
            self.sources[v] = b
        return old

    def loops(self, space, sinks) -> None:
        """One nest of loops over a space that computes all the sinks."""
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


FORMS = {
    nest.Constant: forms.constant,
    nest.Concatenate: forms.concatenate,
    nest.Accumulate: forms.accumulate,
    nest.Reduce: forms.arg_reduce,
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

__all__ = ["Emission"]
