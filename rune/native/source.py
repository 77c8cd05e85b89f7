"""Where the elements of an array come from: memory, scalars at hand, or a form computed on the spot.

Every source answers `element(unit, index)`: the LLVM value of one element, asked for in the
function and the scope that are being built.
"""

from __future__ import annotations

import math as _math

from . import math, nest
from .function import LLVM, SIZE
from .index import Idx, Value
from .view import view_of


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

    def __init__(
        self, base, kind, shape, strides=None, offset=0, depth=0, byte_strides=None, maybe_product=True
    ):
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
            p = fn.put(
                f"getelementptr i8, ptr {fn.name_of(self.base)}, i64 {fn.name_of(total)}",
                "p",
                self.base,
                total,
            )
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
            im = fn.here(
                f"load {t}, ptr {q.name}", k, max(depth or 0, q.depth) if depth is not None else None
            )
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
        b = Buffer(
            self.base, self.kind, shape, self.strides[1:], self.offset + r * self.strides[0], self.depth
        )
        b.where, b.maybe_product, b.owner = self.where, self.maybe_product, self.owner
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

    rules: dict = {}  # form -> how one element of it is computed (`compute` fills it)

    def __init__(self, form, inputs, shape, kind):
        self.form, self.inputs, self.shape, self.kind = form, inputs, tuple(shape), kind

    def element(self, unit, index):
        fn = unit.fn
        if type(self.form) in (nest.Concatenate, nest.Update):  # branches: put where the index is known
            with fn.upto(max(fn.base, fn.depth_of_index(index))):
                return self.rules[type(self.form)](unit, self, index)
        return self.rules[type(self.form)](unit, self, index)


def broadcast_index(source, index) -> tuple:
    """The index into an operand that is broadcast to a result with that index."""
    shape = source.shape
    skip = len(index) - len(shape)
    if source.size == 1:
        return (0,) * len(shape)
    if skip == 0 and 1 not in shape:
        return index
    return tuple(0 if n == 1 else i for i, n in zip(index[skip:], shape, strict=True))


def strided(unit, s: Source) -> Buffer | None:
    """A source as a strided buffer, where it is a chain of affine views of one."""
    if isinstance(s, Buffer):
        return s if s.byte_strides is None else None
    if isinstance(s, Small):
        return s.buffer(unit)
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
        b.where, b.maybe_product, b.owner = inner.where, inner.maybe_product, inner.owner
        return b
    return None
