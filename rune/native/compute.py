"""Elements of forms computed where they are read: one rule for each form that can be.

A rule gets the source and an index, and gives the element's value; it reads its inputs at the
indices that it needs.  The reductions here are those that are short enough to be written out.
"""

from __future__ import annotations

import math as _math

from . import math, nest
from .function import LLVM, SIZE
from .index import Idx, Value, bounds
from .source import Buffer, Computed, broadcast_index


class Read:
    """What an index map reads through: `read(k, index)` and `read.bounded(value, size, axis, lane)`."""

    __slots__ = ("error", "inputs", "unit")

    def __init__(self, unit, inputs, error):
        self.unit, self.inputs, self.error = unit, inputs, error

    def __call__(self, k, index) -> Value:
        source = self.inputs[k]
        if not source.size:  # an index out of range, clamped: there is no element to read
            return math.constant(0, source.kind)
        return self.unit.element(source, tuple(index))

    def bounded(self, value, size, axis, lane=0):
        return self.unit.bounded(value, size, axis, self.error, lane)


def elementwise(unit, s: Computed, index):
    args = [unit.element(x, index if x.shape == s.shape else broadcast_index(x, index)) for x in s.inputs]
    return math.apply(unit.fn, s.form.op, args, s.kind)


def index_map(unit, s: Computed, index):
    return s.form.at(Read(unit, s.inputs, s.form.error), index)


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
                fn,
                math.I(fn, "fadd", ar, br, flags=" reassoc"),
                math.I(fn, "fadd", ai, bi, flags=" reassoc"),
                k,
            )
        return math.apply(fn, "add" if op == "sum" else "mul", [a, b], k)
    if k[0] == "f" and free:
        return math.C(fn, "maximum" if op == "max" else "minimum", a, b)
    return math.apply(fn, "maximum" if op == "max" else "minimum", [a, b], k)


class Cell:
    """A running reduction in a register.

    Extremes of floats have a second register that says whether a NaN was seen: comparisons that need
    not look for NaN become vector instructions, and the NaN is put in at the end.
    """

    def __init__(self, unit, op: str, kind: str):
        self.unit, self.op, self.kind = unit, op, kind
        self.value = self.register(kind, identity(op, kind))
        split = op in ("max", "min") and kind in ("f4", "f8")
        self.nan = self.register("u4", math.constant(0, "u4")) if split else None

    def register(self, kind: str, first: Value) -> Buffer:
        b = Buffer(self.unit.fn.alloca(kind, 1), kind, (), maybe_product=False)
        b.store_flat(self.unit, 0, first)
        return b

    def add(self, v: Value, free: bool = True) -> None:
        fn, unit = self.unit.fn, self.unit
        v = math.cast(fn, v, self.kind)
        old = self.value.load(unit, self.value.base, None)
        if self.nan is None:
            self.value.store_flat(unit, 0, combine(fn, self.op, old, v, free))
            return
        a, b, t = fn.name_of(v), fn.name_of(old), LLVM[self.kind]
        better = fn.put(f"fcmp nnan nsz {'ogt' if self.op == 'max' else 'olt'} {t} {a}, {b}", "b1", v, old)
        new = fn.put(f"select nnan nsz i1 {better.name}, {t} {a}, {t} {b}", self.kind, better, v, old)
        self.value.store_flat(unit, 0, new)
        seen = self.nan.load(unit, self.nan.base, None)
        is_nan = math.cast(fn, math.cmp(fn, "uno", v, v), "u4")
        self.nan.store_flat(unit, 0, math.or_(fn, seen, is_nan))

    def total(self) -> Value:
        fn, unit = self.unit.fn, self.unit
        v = self.value.load(unit, self.value.base, None)
        if self.nan is None:
            return v
        seen = math.truth(fn, self.nan.load(unit, self.nan.base, None))
        return math.select(fn, seen, math.constant(_math.nan, self.kind), v)


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
        return fn.branch(
            inside, lambda: math.apply(fn, "add", [old, unit.element(updates, at)], kind), lambda: old
        )
    return fn.branch(inside, yes, lambda: unit.element(target, index))


Computed.rules |= {
    nest.Elementwise: elementwise,
    nest.Index: index_map,
    nest.Reduce: reduce_on_the_spot,
    nest.Contract: contract_on_the_spot,
    nest.Concatenate: concatenate,
    nest.Update: update,
}
