"""Fusion: which values of a block are computed where they are read, and which get storage.

Every variable gets a role.  *small*: its few elements are scalars of the function.  *inline*: it is
computed where it is read.  *root*: it has a buffer.  Roots that are computed element by element or
reduced are *sinks* of nests; a nest holds all sinks of one iteration space that do not wait for one
another, so that what they share is computed once.

A value is inline when that costs little: it is read once, or is cheap, or all its readers stand in
one nest and read it at the same index.  `demand` counts the distinct ways (nest, index map) in
which a value would be computed, and a costly value that is demanded in several gets a buffer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from rune.program import Literal, Type, Var

from . import nest
from .rewrite import Added, simplified
from .rows import in_rows, keeps_row, row_local, size
from .view import view_of

SMALL_IN_LOOP = 16  # elements
SMALL = 8
TINY_REDUCTION = 8  # terms that are summed on the spot
STRAIGHT_LINE = 6000  # scalar operations from which a step's arrays of more than a few elements are loops
WRITTEN_OUT = 100  # terms in all that a small result of a loop's step may have
COST = {
    "div": 4, "sqrt": 4, "pow": 20, "select": 1, "cast": 1, "neg": 1, "mod": 20, "floor_div": 20, "fmod": 20,
    "reciprocal": 4, "real": 0, "imag": 0, "conj": 1, "complex": 0,
}  # fmt: skip
for _op in (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh "
    "arctanh cbrt hypot logaddexp logaddexp2 gcd lcm nextafter"
).split():
    COST[_op] = 16
DEEP = 200  # values that are computed one inside the other, each a few calls of the emitter deep
CHEAP = 4  # operations that may be repeated
WRITTEN_LANE = 16  # elements of a lane
SINKS = 24  # sinks of one nest
UNROLL = 4  # trailing axes up to this length are unrolled
POINTWISE = (nest.Elementwise, nest.Index, nest.Concatenate)


@dataclasses.dataclass
class Stage:
    """One thing that a block does."""

    kind: str  # small, nest, rows (nests that share their outer loops), or form
    forms: list
    space: tuple[int, ...] = ()
    reads: set = dataclasses.field(default_factory=set)  # roots and smalls that it reads
    last: set = dataclasses.field(default_factory=set)  # roots that nothing reads after it
    nests: list = dataclasses.field(default_factory=list)  # of rows
    outer: int = 0  # of rows: the axes that the nests share


@dataclasses.dataclass(eq=False)
class Test(nest.Form):
    """A check as it is planned: inputs (what holds where all of it does, the array that it was made of)."""

    error: Any


def straight_line(block) -> int:
    """About how many scalar operations a step has if its small arrays are written out."""
    total = 0
    for f in block.forms:
        for v in f.outs:
            n = size(v.type.shape)
            if n <= SMALL_IN_LOOP and not isinstance(f, nest.Index):
                terms = 1
                if isinstance(f, nest.Contract):
                    terms = size(f.inputs[0].type.shape[d] for d in f.contracting[0])
                elif isinstance(f, nest.Reduce):
                    terms = size(f.inputs[0].type.shape) // max(n, 1)
                total += n * terms
    return total


class Plan:
    def __init__(self, block: nest.Block, in_loop: bool):
        self.block = block = simplified(block)
        self.limit = SMALL_IN_LOOP if in_loop else SMALL
        if in_loop and straight_line(block) > STRAIGHT_LINE:
            self.limit = SMALL
        self.form_of: dict[Var, Any] = {}
        self.forms = self.tested(self.live(block))
        self.stops = any(stops(f) or (isinstance(f, nest.Library) and has_effect(f)) for f in self.forms)
        for f in self.forms:
            for v in f.outs:
                self.form_of[v] = f
        self.role: dict[Var, str] = {}
        self.roles()
        self.stages: list[Stage] = []
        self.order()

    def live(self, block) -> list:
        wanted = set(block.outputs)
        kept = []
        for f in reversed(block.forms):
            if any(v in wanted for v in f.outs) or has_effect(f):
                kept.append(f)
                wanted.update(v for v in f.inputs if isinstance(v, Var))
        return kept[::-1]

    def tested(self, forms) -> list:
        """The forms, each check of a large array split into a reduction, which fuses, and a test of it."""
        found = []
        for f in forms:
            if isinstance(f, nest.Check):
                ok = flag = f.inputs[0]
                shape = ok.type.shape
                if size(shape) > self.limit:
                    flag = Var(Type(ok.type.dtype, ()))
                    found.append(nest.Reduce((flag,), (ok,), "all", tuple(range(len(shape)))))
                f = Test((), (flag, ok), f.error)
            found.append(f)
        return found

    # roles --------------------------------------------------------------------------------------

    def fusible(self, f) -> bool:
        """Whether an element of the result can be computed on the spot."""
        if isinstance(f, nest.Update):
            return fused_update(f)
        if isinstance(f, POINTWISE):
            return len(f.inputs) <= 8 or size(f.outs[0].type.shape) <= self.limit
        if isinstance(f, nest.Reduce):
            shape = f.inputs[0].type.shape
            return self.tiny(f, size(shape[d] for d in f.axes))
        if isinstance(f, Added):
            return False
        if isinstance(f, nest.Contract):
            a = f.inputs[0].type.shape
            return self.tiny(f, size(a[d] for d in f.contracting[0]))
        return False

    def tiny(self, f, terms: int) -> bool:
        """Whether sums of that many terms are written out."""
        results = size(f.outs[0].type.shape)
        if results <= self.limit and self.limit == SMALL_IN_LOOP:
            return results * terms <= WRITTEN_OUT
        return terms <= TINY_REDUCTION

    def is_small(self, v) -> bool:
        return size(v.type.shape) <= self.limit

    def roles(self) -> None:
        needs_buffer = set(self.block.outputs)
        for f in self.forms:
            if isinstance(f, (nest.Library, nest.Host)):
                needs_buffer.update(f.inputs)
            elif isinstance(f, nest.Contract) and not self.fusible(f):
                needs_buffer.update(f.inputs[:2])
        needs_buffer |= self.failing_early()
        for f in self.forms:
            for v in f.outs:
                if isinstance(f, nest.Update) and self.is_small(v):
                    self.role[v] = "small"
                elif not self.fusible(f):
                    self.role[v] = "root"
                elif self.is_small(v):
                    self.role[v] = "small"
                else:
                    self.role[v] = "root" if v in needs_buffer else "inline"
        self.costs()
        self.demands()

    def failing_early(self) -> set:
        """What must be computed where it stands, because it may fail and its reader comes too late, or never.

        A failure that stops the call comes after those before it.  A branch and a loop may not read what they
        are given, and a slice or an update reads a part.
        """
        found: set = set()
        fragile: set = set()  # what fails where it is computed on the spot
        indices: list = []
        for f in self.forms:
            reads = [x for x in f.inputs if x in fragile]
            if stops(f) or isinstance(f, nest.Library):
                found.update(indices)
                indices = []
            if isinstance(f, (nest.Loop, nest.Branch)) or reads_part(f):
                found.update(reads)
            if isinstance(f, nest.Index) and f.error:
                indices.append(f.outs[0])
                fragile.add(f.outs[0])
                if not self.used(f.outs[0]):
                    found.add(f.outs[0])
            elif reads and self.fusible(f):
                fragile.update(f.outs)
        self.fragile = fragile
        return found

    def cost_of(self, f) -> float:
        """Scalar operations for one element, without those of its inputs."""
        if isinstance(f, nest.Elementwise):
            return 30 if f.op.startswith("special:") else COST.get(f.op, 1)
        if isinstance(f, nest.Index):
            return 0
        return 2 if isinstance(f, (nest.Concatenate, nest.Update)) else 0

    def costs(self) -> None:
        self.cost: dict = {}
        depth: dict = {}  # of values that are computed where they are read
        for f in self.forms:
            for v in f.outs:
                if self.role[v] != "inline":
                    continue
                depth[v] = 1 + max((depth.get(x, 0) for x in f.inputs), default=0)
                if depth[v] > DEEP:
                    self.role[v], depth[v] = "root", 0
                    continue
                inputs = sum(self.cost.get(x, 0 if isinstance(x, Literal) else 0.5) for x in set(f.inputs))
                times = 1
                if isinstance(f, (nest.Reduce, nest.Contract)):
                    times = max(1, size(f.inputs[0].type.shape) // max(1, size(v.type.shape)))
                    if isinstance(f, nest.Contract):
                        times = size(f.inputs[0].type.shape[d] for d in f.contracting[0])
                    inputs += 1
                self.cost[v] = self.cost_of(f) + times * inputs

    def level_of(self) -> dict:
        """How many buffers stand in a row before each value: nests of one space and level can be one."""
        level: dict = {}
        for f in self.forms:
            for v in f.outs:
                deps = [
                    level.get(x, 0) + (self.role.get(x) == "root") for x in f.inputs if isinstance(x, Var)
                ]
                level[v] = max(deps, default=0)
        return level

    def demands(self) -> None:
        """Gives a buffer to what would be computed several times at a cost."""
        level = self.level_of()
        demand: dict[Var, set] = {}
        for f in reversed(self.forms):
            if isinstance(f, (nest.Loop, nest.Branch)):
                # what a loop reads again in each step is computed once, unless that costs nothing
                for k, x in enumerate(f.inputs):
                    limit = CHEAP if isinstance(f, nest.Branch) or k < f.carries + f.rows else 0.5
                    if self.role.get(x) == "inline" and self.cost[x] > limit:
                        self.role[x] = "root"
            for v in f.outs:
                role = self.role[v]
                ways = demand.get(v, set())
                if role == "inline":
                    spaces = max((size(w[0][0]) for w in ways), default=0)
                    repeated = len(ways) > 1 and self.cost[v] * (len(ways) - 1) > CHEAP
                    spread = spaces > 2 * size(v.type.shape) and self.cost[v] > 2 * CHEAP
                    if repeated or spread:
                        self.role[v] = role = "root"
                if role == "small":
                    ways = {((v.type.shape, "small", id(f)), ())}
                elif role == "root" and self.folds(f):
                    ways = {((kernel_space(f.inputs[0].type.shape), level[v]), ())}
                elif role == "root" and self.fusible(f):
                    ways = {((kernel_space(v.type.shape), level[v]), ())}
                elif role == "root":
                    ways = {((v.type.shape, id(f)), ())}
                for k, x in enumerate(f.inputs):
                    if self.role.get(x) != "inline":
                        continue
                    lane = same_lane(f, k)
                    if isinstance(f, nest.Contract) and not lane and self.cost[x] > CHEAP:
                        terms = size(f.inputs[0].type.shape[d] for d in f.contracting[0])
                        if size(f.outs[0].type.shape) * terms >= 2 * size(x.type.shape):
                            self.role[x] = "root"  # a product reads each element many times
                            continue
                    how = None if lane else reading(f, k)
                    demand.setdefault(x, set()).update(
                        ways if how is None else ((w[0], (*w[1], how)) for w in ways)
                    )

    def time(self, stage) -> float:
        """About how many nanoseconds one iteration of a nest takes, on one thread."""
        seen: set = set()
        stack = list(stage.forms)
        cost, bytes = 0.0, 0
        while stack:
            f = stack.pop()
            if id(f) in seen:
                continue
            seen.add(id(f))
            cost += self.cost_of(f) * size(f.outs[0].type.shape) / max(1, size(stage.space))
            for x in f.inputs:
                if self.role.get(x) == "inline":
                    stack.append(self.form_of[x])
                elif isinstance(x, Var) and 2 * size(x.type.shape) >= size(stage.space):
                    bytes += x.type.dtype.itemsize
        bytes += sum(f.outs[0].type.dtype.itemsize for f in stage.forms if not self.folds(f))
        return 0.05 * cost + 0.01 * bytes

    def used(self, v) -> bool:
        """Whether anything reads a variable."""
        if not hasattr(self, "_used"):
            self._used = set(self.block.outputs)
            for f in self.forms:
                self._used.update(x for x in f.inputs if isinstance(x, Var))
        return v in self._used

    def reaches(self, x, v) -> bool:
        """Whether computing `x` where it is read reads `v`."""
        stack, seen = [x], set()
        while stack:
            x = stack.pop()
            if x is v:
                return True
            if isinstance(x, Var) and x not in seen and self.role.get(x) == "inline":
                stack += self.form_of[x].inputs
            if isinstance(x, Var):
                seen.add(x)
        return False

    # stages -------------------------------------------------------------------------------------

    def reached(self, f) -> set:
        """The variables with storage (or inputs of the block) that a form reads, through inline ones."""
        found: set = set()
        stack = [x for x in f.inputs if isinstance(x, Var)]
        seen = set()
        while stack:
            x = stack.pop()
            if x in seen:
                continue
            seen.add(x)
            if self.role.get(x) == "inline":
                stack.extend(y for y in self.form_of[x].inputs if isinstance(y, Var))
            else:
                found.add(x)
        return found

    def order(self) -> None:
        position: dict = {}  # variable -> the stage that defines it
        failing = 0  # the last stage that may fail
        for f in self.forms:
            v = f.outs[0] if f.outs else None
            role = self.role.get(v)
            if role == "inline":
                continue
            reads = self.reached(f)
            fails = has_effect(f) or not self.fragile.isdisjoint((*f.outs, *f.inputs))
            if role == "small":
                stage = Stage("small", [f], reads=reads)
            elif self.is_sink(f):
                space = f.inputs[0].type.shape if self.folds(f) else v.type.shape
                stage = self.joined(f, space, reads, position, failing if fails else 0)
                if stage is None:
                    stage = Stage("nest", [f], space, reads)
                else:
                    stage.forms.append(f)
                    stage.space = max(stage.space, space, key=len)
                    stage.reads |= reads
                    position[v] = self.stages.index(stage)
                    failing = max(failing, position[v]) if fails else failing
                    continue
            else:
                stage = Stage("form", [f], reads=reads)
            for v in f.outs:
                position[v] = len(self.stages)
            failing = len(self.stages) if fails else failing
            self.stages.append(stage)
        self.stages = in_rows(self, self.stages, Stage)
        last: dict = {}
        for k, stage in enumerate(self.stages):
            for f in stage.forms:
                for v in f.outs:
                    last[v] = k
            for v in stage.reads:
                last[v] = k
        keep = set(self.block.outputs)
        for v, k in last.items():
            if v not in keep:
                self.stages[k].last.add(v)

    def is_sink(self, f) -> bool:
        return self.fusible(f) or self.folds(f)

    def folds(self, f) -> bool:
        """Whether a form is a sink that reduces what the loops run over."""
        if not isinstance(f, nest.Reduce) or self.fusible(f):
            return False
        return not f.op.startswith("arg") and size(f.inputs[0].type.shape) > 0

    def joined(self, f, space, reads, position, earliest) -> Stage | None:
        """The stage that a sink can join: of its space, after everything it waits for."""
        first = max((position.get(x, -1) for x in reads), default=-1)
        for k in range(len(self.stages) - 1, max(first, earliest) - 1, -1):
            stage = self.stages[k]
            if stage.kind != "nest" or len(stage.forms) >= SINKS:
                continue
            if kernel_space(stage.space) != kernel_space(space):
                continue
            if k > first:
                return stage
            if k == first:
                inside = {x for x in reads if position.get(x) == k}
                stored = {g.outs[0] for g in stage.forms if not self.folds(g)}
                lanes = len(kernel_space(space))
                if inside <= stored and row_local(self, f, lanes, inside):
                    return stage
        return None


def kernel_space(space: tuple) -> tuple:
    """A space without its short trailing axes, which a nest unrolls: nests that agree on it can be one."""
    n, short = len(space), 1
    while n > 1 and space[n - 1] <= UNROLL and short * space[n - 1] <= WRITTEN_LANE:
        n -= 1
        short *= space[n]
    return space[:n] if size(space[:n]) > 16 else space


def same_lane(f, k: int) -> bool:
    """Whether a form reads its input k in the lane of its own result: there each element is computed once.

    A lane is what one iteration of a nest holds: the elements along the short trailing axes.
    """
    if not f.outs or isinstance(f, nest.Loop):
        return False
    x, out = f.inputs[k].type.shape, f.outs[0].type.shape
    q = len(kernel_space(out))
    if size(out[:q]) <= 16 or len(x) < q or size(x[q:]) > WRITTEN_LANE:
        return False
    return keeps_row(f, k, q)


def reading(f, k: int):
    """How a form reads its input k: None at its own index (its leading part), else a description."""
    if not f.outs:
        return None
    x, out = f.inputs[k].type.shape, f.outs[0].type.shape
    if isinstance(f, nest.Elementwise):
        return None if x == out else ("broadcast", x, out)
    if isinstance(f, nest.Reduce):
        return None
    if isinstance(f, nest.Update):
        return None if k == 0 else ("update", f.starts, f.steps, x)
    if isinstance(f, nest.Index):
        view = view_of(f)
        if view is None:
            return ("index", id(f))
        _, start, steps = view
        unit = [tuple(int(d == e) for e in range(len(start))) for d in range(len(steps))]
        # an axis of length 1 has no counter, so its step may be anything
        same = all(s == u or n == 1 for s, u, n in zip(steps, unit, out, strict=True))
        if not any(start) and same and out[: len(x)] == x:
            return None
        return ("view", view[0], start, tuple(steps), out)
    return ("form", id(f))


def fused_update(f: nest.Update) -> bool:
    """Whether an update is computed with the nest that reads it (its region is a large part)."""
    return all(s == 1 for s in f.steps) and 4 * size(f.inputs[1].type.shape) >= size(f.outs[0].type.shape) > 0


def inner_blocks(f) -> list:
    """The blocks inside a form."""
    if isinstance(f, nest.Loop):
        return [f.step] if f.until is None else [f.step, f.until]
    return list(f.blocks) if isinstance(f, nest.Branch) else []


def reads_part(f) -> bool:
    """Whether a form may leave elements of an input unread."""
    if isinstance(f, nest.Index):
        return any(size(x.type.shape) > size(f.outs[0].type.shape) for x in f.inputs)
    return isinstance(f, nest.Update)


def stops(f) -> bool:
    """Whether the call may end inside a form."""
    return isinstance(f, (nest.Host, nest.Check, Test)) or any(
        stops(g) for b in inner_blocks(f) for g in b.forms
    )


def has_effect(f) -> bool:
    if isinstance(f, (nest.Host, nest.Check, Test)):
        return True
    if isinstance(f, nest.Library):
        return f.name == "cholesky" or bool(f.params.get("check"))
    if isinstance(f, (nest.Loop, nest.Branch)):
        return any(has_effect(g) for block in inner_blocks(f) for g in block.forms)
    return isinstance(f, (nest.Index, nest.Scatter)) and f.error is not None


__all__ = ["SMALL_IN_LOOP", "UNROLL", "Plan", "Test", "fused_update", "kernel_space", "size"]
