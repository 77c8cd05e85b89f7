"""Where the elements of an array come from: memory, scalars at hand, or a form computed on the spot.

Every source answers `element(unit, index)`: the LLVM value of one element, asked for in the
function and the scope that are being built.
"""

from __future__ import annotations

import dataclasses
import math as _math

from . import math, nest
from .function import LLVM, SIZE
from .index import Idx, Value, bounds


class Source:
    direct = False  # whether `known` may answer without code
    shape: tuple
    kind: str

    def element(self, unit, index):
        raise NotImplementedError

    @property
    def size(self) -> int:
        return _math.prod(self.shape)


class Scalar(Source):
    """A literal, whatever the index."""

    direct = True

    def __init__(self, value: Value):
        self.value, self.shape, self.kind = value, (), value.kind

    def known(self, index):
        return self.value


def row_major(shape) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


class Small(Source):
    """A few elements, each a value of the function; an index that is not constant spills them."""

    direct = True

    def __init__(self, shape, kind, values, depth=0):
        self.shape, self.kind, self.values = tuple(shape), kind, values
        self.strides = row_major(self.shape)
        self.depth = depth
        self.spilled: dict = {}

    def known(self, index):
        at = 0
        for i, s in zip(index, self.strides, strict=True):
            if isinstance(i, Idx):
                return None
            at += i * s
        return self.values[at]

    def element(self, unit, index):
        return self.buffer(unit).element(unit, index)

    def buffer(self, unit) -> Buffer:
        """The elements in memory, on the stack of the function being built."""
        fn = unit.fn
        found = self.spilled.get(fn)
        if found is None:
            depth = max(fn.depth_of(*self.values), self.depth if self.owner is fn else 0)
            base = fn.alloca(self.kind, self.size)
            if base is None:
                base = unit.workspace_buffer(self.kind, self.shape).base
            found = Buffer(base, self.kind, self.shape, depth=depth)
            with fn.upto(depth, safe=True):
                for i, v in enumerate(self.values):
                    found.store_flat(unit, i, v)
            self.spilled[fn] = found
        return found

    @property
    def owner(self):
        return next((v.fn for v in self.values if v.fn), None)


class Buffer(Source):
    """Elements in memory: a pointer, strides in elements, and an offset in elements.

    `byte_strides`, values read at run time, stand for `strides` where the array is a strided
    argument.  `depth` is the scope in which the buffer is written, in the function that owns it.
    """

    def __init__(self, base, kind, shape, strides=None, offset=0, depth=0, byte_strides=None, maybe_product=True):
        self.base, self.kind, self.shape = base, kind, tuple(shape)
        self.strides = row_major(self.shape) if strides is None else strides
        self.offset, self.depth, self.byte_strides = offset, depth, byte_strides
        self.where = "workspace"
        self.owner = base.fn  # the function whose scopes `depth` counts
        self.maybe_product = maybe_product
        self.place: int | None = None  # offset in the workspace
        self.kept = 0

    @property
    def contiguous(self) -> bool:
        return self.byte_strides is None and self.strides == row_major(self.shape)

    def address(self, unit, index) -> tuple[Value, int]:
        """A pointer to an element, and the scope from which it may be read."""
        fn = unit.fn
        depth = self.depth if self.owner is fn else 0
        if self.byte_strides is not None:
            total = None
            for i, s in zip(index, self.byte_strides, strict=True):
                if not isinstance(i, Idx) and i == 0:
                    continue
                v = fn.index(i)
                term = math.I(fn, "mul", Value(v.name, "i8", v.depth, v.fn), s)
                total = term if total is None else math.I(fn, "add", total, term)
            if total is None:
                return self.base, depth
            p = fn.put(f"getelementptr i8, ptr {fn.name_of(self.base)}, i64 {fn.name_of(total)}", "p", self.base, total)
            return p, max(p.depth, depth)
        at = self.offset
        for i, s in zip(index, self.strides, strict=True):
            at = at + i * s
        return self.flat(unit, at, depth)

    def flat(self, unit, at, depth=None) -> tuple[Value, int]:
        fn = unit.fn
        if depth is None:
            depth = self.depth if self.owner is fn else 0
        if self.kind[0] == "c":
            at = at * 2
        if not isinstance(at, Idx) and at == 0:
            return self.base, max(depth, self.base.depth if self.base.fn is fn else 0)
        t = "i8" if self.kind == "b1" else LLVM[self.kind]
        v = fn.index(at)
        p = fn.put(f"getelementptr {t}, ptr {fn.name_of(self.base)}, i64 {fn.name_of(v)}", "p", self.base, v)
        return p, max(p.depth, depth)

    def element(self, unit, index):
        return self.load(unit, *self.address(unit, index))

    def load(self, unit, p: Value, depth: int | None) -> Value:
        fn = unit.fn
        name = fn.name_of(p)
        if self.kind == "b1":
            byte = fn.here(f"load i8, ptr {name}", "u1", depth)
            return fn.put(f"icmp ne i8 {byte.name}, 0", "b1", byte)
        t = LLVM[self.kind]
        if self.kind[0] == "c":
            k = math.PART[self.kind]
            re = fn.here(f"load {t}, ptr {name}", k, depth)
            q = fn.put(f"getelementptr {t}, ptr {name}, i64 1", "p", p)
            im = fn.here(f"load {t}, ptr {q.name}", k, max(depth or 0, q.depth) if depth is not None else None)
            return Value(re.name, self.kind, re.depth, fn, im.name)
        v = fn.here(f"load {t}, ptr {name}", self.kind, depth)
        if self.maybe_product and self.base.fn is fn:
            unit.products.add((fn.name, v.name))
        return v

    def store(self, unit, index, v: Value) -> None:
        self.store_at(unit, self.address(unit, index)[0], v)

    def store_flat(self, unit, at, v: Value) -> None:
        self.store_at(unit, self.flat(unit, self.offset + at)[0], v)

    def store_at(self, unit, p: Value, v: Value) -> None:
        fn = unit.fn
        if self.kind == "b1":
            byte = math.cast(fn, v, "u1")
            fn.line(f"store i8 {fn.name_of(byte)}, ptr {fn.name_of(p)}")
            return
        t = LLVM[self.kind]
        fn.line(f"store {t} {fn.name_of(v)}, ptr {fn.name_of(p)}")
        if self.kind[0] == "c":
            q = fn.put(f"getelementptr {t}, ptr {fn.name_of(p)}, i64 1", "p", p)
            fn.line(f"store {t} {fn.imag_of(v)}, ptr {q.name}")

    def row(self, r, shape) -> Buffer:
        """One row: the leading axis at an index."""
        if self.byte_strides is not None:
            raise TypeError("a row of a strided argument is read, not addressed")
        b = Buffer(self.base, self.kind, shape, self.strides[1:], self.offset + r * self.strides[0], self.depth)
        b.where, b.maybe_product = self.where, self.maybe_product
        return b

    @property
    def bytes(self) -> int:
        return self.size * SIZE[self.kind]


class Row(Source):
    """One row of an array, read in place."""

    def __init__(self, source, r, shape):
        self.source, self.r, self.shape, self.kind = source, r, tuple(shape), source.kind

    def element(self, unit, index):
        return unit.element(self.source, (self.r, *index))


class Computed(Source):
    """An array that a form defines, computed where it is read."""

    def __init__(self, form, inputs, shape, kind):
        self.form, self.inputs, self.shape, self.kind = form, inputs, tuple(shape), kind

    def element(self, unit, index):
        fn = unit.fn
        if type(self.form) in (nest.Concatenate, nest.Update):  # branches: put where the index is known
            with fn.upto(max(fn.base, fn.depth_of_index(index))):
                return COMPUTE[type(self.form)](unit, self, index)
        return COMPUTE[type(self.form)](unit, self, index)


def broadcast_index(source, index) -> tuple:
    """The index into an operand that is broadcast to a result with that index."""
    shape = source.shape
    skip = len(index) - len(shape)
    if source.size == 1:
        return (0,) * len(shape)
    if skip == 0 and 1 not in shape:
        return index
    return tuple(0 if n == 1 else i for i, n in zip(index[skip:], shape, strict=True))


class Read:
    """What an index map reads through: `read(k, index)` and `read.bounded(value, size, axis)`."""

    __slots__ = ("inputs", "unit")

    def __init__(self, unit, inputs):
        self.unit, self.inputs = unit, inputs

    def __call__(self, k, index) -> Value:
        return self.unit.element(self.inputs[k], tuple(index))

    def bounded(self, value, size, axis):
        return self.unit.bounded(value, size, axis)


def elementwise(unit, s: Computed, index):
    args = [unit.element(x, index if x.shape == s.shape else broadcast_index(x, index)) for x in s.inputs]
    return math.apply(unit.fn, s.form.op, args, s.kind)


def index_map(unit, s: Computed, index):
    return s.form.at(Read(unit, s.inputs), index)


def reduced_indices(shape, axes, index):
    """The indices of the operand that reduce to one index of the result, in C order."""
    def walk(d, rest, at):
        if d == len(shape):
            yield at
        elif d in axes:
            for k in range(shape[d]):
                yield from walk(d + 1, rest, (*at, k))
        else:
            yield from walk(d + 1, rest[1:], (*at, rest[0]))

    return walk(0, tuple(index), ())


IDENTITY = {"sum": 0, "prod": 1, "any": False, "all": True}


def identity(op: str, kind: str) -> Value:
    if op in IDENTITY:
        return math.constant(IDENTITY[op], kind)
    if kind == "b1":
        return math.constant(op == "min", kind)
    if kind[0] == "f":
        return math.constant(-_math.inf if op == "max" else _math.inf, kind)
    if kind[0] == "c":
        x = -_math.inf if op == "max" else _math.inf
        return math.constant(complex(x, x), kind)
    bits = 8 * SIZE[kind]
    if kind[0] == "i":
        return math.constant(-(2 ** (bits - 1)) if op == "max" else 2 ** (bits - 1) - 1, kind)
    return math.constant(0 if op == "max" else 2**bits - 1, kind)


def start(op: str, kind: str) -> Value:
    """What a running result starts from: -0.0 + x is x for every x, and 0.0 + x is not."""
    if op == "sum" and kind[0] in "fc":
        return math.constant(-0.0 if kind[0] == "f" else complex(-0.0, -0.0), kind)
    return identity(op, kind)


def combine(fn, op: str, a: Value, b: Value, free: bool = False) -> Value:
    """One step of a reduction; `free` lets sums and products associate."""
    k = a.kind
    if op in ("any", "all"):
        return (math.or_ if op == "any" else math.and_)(fn, a, b)
    if op in ("sum", "prod"):
        if k[0] == "f":
            flags = " reassoc contract" if free else " contract"
            if op == "prod":
                return math.I(fn, "fmul", a, b, flags=" reassoc" if free else "")
            return math.I(fn, "fadd", a, b, flags=flags)
        if k[0] == "c" and op == "sum" and free:
            (ar, ai), (br, bi) = math.parts(fn, a), math.parts(fn, b)
            return math.complex_of(
                fn, math.I(fn, "fadd", ar, br, flags=" reassoc"), math.I(fn, "fadd", ai, bi, flags=" reassoc"), k
            )
        return math.apply(fn, "add" if op == "sum" else "mul", [a, b], k)
    if k[0] == "f" and free:
        return math.C(fn, "maximum" if op == "max" else "minimum", a, b)
    return math.apply(fn, "maximum" if op == "max" else "minimum", [a, b], k)


def wide(kind: str) -> str:
    """The dtype that a reduction accumulates in."""
    return "f4" if kind == "f2" else kind


def reduce_on_the_spot(unit, s: Computed, index):
    """A reduction over a few elements, unrolled."""
    fn, form, x = unit.fn, s.form, s.inputs[0]
    total = position = None
    k = "b1" if form.op in ("any", "all") else wide(x.kind if form.op.startswith("arg") else s.kind)
    if form.op == "sum" and k[0] in "fc":
        total = identity("sum", k)  # a sum is never -0.0
    for n, at in enumerate(reduced_indices(x.shape, form.axes, index)):
        v = math.cast(fn, unit.element(x, at), k)
        if form.op.startswith("arg"):
            if total is None:
                total, position = v, math.constant(0, "i8")
            else:
                better = first_extreme(fn, form.op, total, v)
                total = math.select(fn, better, v, total)
                position = math.select(fn, better, math.constant(n, "i8"), position)
        else:
            total = v if total is None else combine(fn, form.op, total, v)
    if form.op.startswith("arg"):
        return math.cast(fn, position, s.kind)
    if total is None:
        total = identity(form.op, k)
    return math.cast(fn, total, s.kind)


def first_extreme(fn, op, best: Value, v: Value) -> Value:
    """Whether `v` replaces the best so far: strictly beyond it, or the first NaN."""
    beyond = math.apply(fn, "gt" if op == "argmax" else "lt", [v, best], "b1")
    if v.kind[0] not in "fc":
        return beyond
    nan, old = math.ROWS["isnan", v.kind[0]](fn, v), math.ROWS["isnan", v.kind[0]](fn, best)
    return math.and_(fn, math.or_(fn, beyond, nan), math.not_(fn, old))


@dataclasses.dataclass
class Axes:
    """Which axes of a contraction's operands are batch, contracted and free."""

    batch: int
    a_free: list
    b_free: list


def contract_index(form, a, b, index, k):
    """The operands' indices for one result index and one index of the contracted axes."""
    (ca, cb), (ba, bb) = form.contracting, form.batch
    nb = len(ba)
    fa = [d for d in range(len(a.shape)) if d not in ca and d not in ba]
    fb = [d for d in range(len(b.shape)) if d not in cb and d not in bb]
    ia, ib = [0] * len(a.shape), [0] * len(b.shape)
    for p, (x, y) in enumerate(zip(ba, bb, strict=True)):
        ia[x] = ib[y] = index[p]
    for p, d in enumerate(fa):
        ia[d] = index[nb + p]
    for p, d in enumerate(fb):
        ib[d] = index[nb + len(fa) + p]
    for p, (x, y) in enumerate(zip(ca, cb, strict=True)):
        ia[x] = ib[y] = k[p]
    return tuple(ia), tuple(ib)


def product_of(fn, a: Value, b: Value, kind: str) -> Value:
    a, b = math.cast(fn, a, kind), math.cast(fn, b, kind)
    if kind == "b1":
        return math.and_(fn, a, b)
    return math.apply(fn, "mul", [a, b], kind)


def contract_on_the_spot(unit, s: Computed, index):
    fn, form = unit.fn, s.form
    a, b = s.inputs
    k = wide(s.kind)
    total = identity("sum", k) if k[0] in "fc" else None  # a sum is never -0.0
    sizes = [a.shape[d] for d in form.contracting[0]]
    for at in reduced_indices(sizes, range(len(sizes)), ()):
        ia, ib = contract_index(form, a, b, index, at)
        p = product_of(fn, unit.element(a, ia), unit.element(b, ib), k)
        if total is None:
            total = p
        elif k == "b1":
            total = math.or_(fn, total, p)
        else:
            total = math.apply(fn, "add", [total, p], k) if k[0] != "f" else dot_step(fn, total, p)
    if total is None:
        total = identity("sum", k)
    return math.cast(fn, total, s.kind)


def dot_step(fn, total, p):
    """`total + p` of a dot product: the order is free, so that fusing the first product is allowed."""
    return math.I(fn, "fadd", total, p, flags=" contract")


def concatenate(unit, s: Computed, index):
    axis = s.form.axis
    i = index[axis]
    lo, hi = bounds(i)

    def pick(k, start):
        """The element, known to lie in input k or a later one."""
        x = s.inputs[k]
        stop = start + x.shape[axis]
        at = (*index[:axis], i - start, *index[axis + 1 :])
        if hi < stop or k == len(s.inputs) - 1:
            return unit.element(x, at)
        if lo >= stop:
            return pick(k + 1, stop)
        fn = unit.fn
        v = fn.index(i)
        inside = fn.put(f"icmp slt i64 {fn.name_of(v)}, {stop}", "b1", v)
        return fn.branch(inside, lambda: unit.element(x, at), lambda: pick(k + 1, stop))

    return pick(0, 0)


def update(unit, s: Computed, index):
    """A static update read where it is needed: the updates inside the slice, else the target."""
    fn, form = unit.fn, s.form
    target, updates = s.inputs
    inside, at = None, []
    for i, start, step, n in zip(index, form.starts, form.steps, updates.shape, strict=True):
        lo, hi = bounds(i)
        last = start + step * (n - 1)
        tests = []
        if lo < start:
            tests.append(("sge", start))
        if hi > last:
            tests.append(("sle", last))
        if hi < start or lo > last:
            return unit.element(target, index)
        for op, bound in tests:
            v = fn.index(i)
            c = fn.put(f"icmp {op} i64 {fn.name_of(v)}, {bound}", "b1", v)
            inside = c if inside is None else math.and_(fn, inside, c)
        q = i - start
        if step != 1:
            if isinstance(q, Idx):
                # inside the guard only: a negative distance has no meaning outside of it
                clamped = q + step * (-(-max(0, -bounds(q)[0]) // step))
                q, r = divmod(clamped, step)
                q = q - (-(-max(0, -bounds(i - start)[0]) // step))
                if isinstance(r, Idx):
                    v = fn.index(r)
                    c = fn.put(f"icmp eq i64 {fn.name_of(v)}, 0", "b1", v)
                    inside = c if inside is None else math.and_(fn, inside, c)
                elif r != 0:
                    return unit.element(target, index)
            else:
                if q % step:
                    return unit.element(target, index)
                q //= step
        at.append(q)
    at = tuple(at)
    kind = s.kind

    def yes():
        u = unit.element(updates, at)
        if form.op == "set":
            return u
        return math.apply(fn, "add", [unit.element(target, index), u], kind)

    if inside is None:
        return yes()
    if form.op == "add":
        old = unit.element(target, index)
        return fn.branch(inside, lambda: math.apply(fn, "add", [old, unit.element(updates, at)], kind), lambda: old)
    return fn.branch(inside, yes, lambda: unit.element(target, index))


COMPUTE = {
    nest.Elementwise: elementwise,
    nest.Index: index_map,
    nest.Reduce: reduce_on_the_spot,
    nest.Contract: contract_on_the_spot,
    nest.Concatenate: concatenate,
    nest.Update: update,
}
