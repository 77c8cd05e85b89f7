"""Map: a scalar function applied to arrays element by element, its operands broadcast as NumPy's.

`elementwise` is how everything else calls it: it resolves dtypes as NumPy does (NEP 50), casts the
operands, and binds.  Broadcasting is part of the operation, so a transpose sums a cotangent back to
its operand's shape, and batching aligns the operands' ranks, each in one place here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import Value, bind
from rune.native import nest
from rune.primitives import movement, reduce
from rune.primitives.primitive import Primitive, Unknown, show_operands
from rune.primitives.scalar import TABLE, Row
from rune.program import Literal, Type, type_of

__all__ = [
    "Map", "cast", "elementwise", "expression", "map_", "resolve", "short", "supported", "unbroadcast",
]  # fmt: skip

# What NumPy computes with as it is: arrays of the supported dtypes, their scalars, Python numbers.
PYTHON = frozenset({float, int, complex, bool})
PLAIN = PYTHON | {np.ndarray, *(np.dtype(c).type for c in "?bhilqBHILQefdFD")}


class Map(Primitive):
    name = "Map"
    itself = True

    def type(self, types, params):
        return [image(params["op"], params.get("dtype"), params.get("weak", False), *types)]

    def evaluate(self, args, params):
        row = TABLE[params["op"]]
        if row.name == "cast":
            out = cast_plain(args[0], params["dtype"])
        else:
            out = row.ufunc(*args)
        return [out.item() if params.get("weak") else out]

    def jvp(self, primals, tangents, params):
        row: Row = TABLE[params["op"]]
        (out,) = bind(self, primals, params)
        if row.zero or not type_of(out).inexact:
            return [out], [None]
        if row.tangent is not None:
            total = row.tangent(tangents, primals, out, params)
        else:
            total = None
            for k, t in enumerate(tangents):
                if t is None or row.partials[k] is None:
                    continue
                term = elementwise("mul", t, row.partials[k](*primals, out))
                total = term if total is None else elementwise("add", total, term)
        if total is None:
            return [out], [None]
        shape = type_of(out).shape
        if type_of(total).shape != shape:
            total = movement.broadcast(total, shape)
        return [out], [total]

    def linear_in(self, flags, params):
        return TABLE[params["op"]].linear_in(flags)

    def transpose(self, cts, args, params):
        row: Row = TABLE[params["op"]]
        (ct,) = cts
        found = []
        for k, a in enumerate(args):
            if not isinstance(a, Unknown):
                found.append(None)
                continue
            found.append(unbroadcast(row.transpose(k, ct, args, params), a.type))
        return found

    def batch(self, size, args, mapped, params):
        ndim = max(type_of(a).ndim - m for a, m in zip(args, mapped, strict=True))
        aligned = []
        for a, m in zip(args, mapped, strict=True):
            t = type_of(a)
            if m and t.ndim - 1 < ndim:
                a = movement.reshape(a, (size,) + (1,) * (ndim - t.ndim + 1) + t.shape[1:])
            aligned.append(a)
        params = {k: v for k, v in params.items() if k != "weak"}
        return bind(self, aligned, params), [True]

    def lower(self, e):
        row = TABLE[e.params["op"]]
        complex_ = any(v.type.dtype.kind == "c" for v in e.inputs)
        if row.native.startswith("loop:") or (row.native.startswith("special:") and complex_):
            return [nest.Library(e.outputs, e.inputs, row.name, {"ufunc": row.ufunc})]
        return [nest.Elementwise(e.outputs, e.inputs, row.native)]

    def show(self, e, name):
        operands = ", ".join(str(v) if isinstance(v, Literal) else f"x{k}" for k, v in enumerate(e.inputs))
        op = e.params["op"]
        if op == "cast":
            operands = f"{operands}, {e.params['dtype']}"
        return show_operands(f"Map [{op}({operands})]", e.inputs, name)


map_ = Map()


@functools.lru_cache(maxsize=1 << 12)
def image(op: str, dtype: np.dtype | None, weak: bool, *types: Type) -> Type:
    """The type of a scalar function of operands of these types."""
    dtype = dtype or TABLE[op].result_dtype([t.dtype for t in types])
    return Type(dtype, np.broadcast_shapes(*(t.shape for t in types)), weak)


def unbroadcast(ct: Any, to: Type) -> Any:
    """A cotangent summed back to the shape its operand had before it was broadcast."""
    shape = type_of(ct).shape
    if shape == to.shape:
        return ct
    return movement.reshape(reduce.reduce("sum", ct, broadcast_axes(shape, to.shape)), to.shape)


@functools.lru_cache(maxsize=1 << 12)
def broadcast_axes(shape: tuple[int, ...], of: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `shape` along which an operand of shape `of` is repeated."""
    lead = len(shape) - len(of)
    return (*range(lead), *(lead + k for k, n in enumerate(of) if n == 1 and shape[lead + k] != 1))


def cast_plain(x: Any, dtype: np.dtype) -> Any:
    """`x` as `dtype`, a complex value losing its imaginary part without a warning (it was asked for)."""
    if type(x) in (float, int, complex, bool):
        return dtype.type(x)
    if x.dtype.kind == "c" and dtype.kind in "fiu":
        x = x.real
    return x.astype(dtype)


def supported(dtype: np.dtype) -> np.dtype:
    """`dtype` where rune computes with it; refused by name otherwise."""
    if dtype.kind not in "biufc" or dtype.char in "gG":
        raise TypeError(
            f"dtype {dtype} is not supported: use booleans, integers, float16 to float64, complex64 or complex128"
        )
    return dtype


def cast(x: Any, dtype: Any, weak: bool = False) -> Any:
    """`x` as `dtype`; as it is where it already has that dtype."""
    t = type_of(x)
    if t.dtype == dtype and t.weak == weak and type(x) not in PYTHON:
        return x
    dtype = np.dtype(dtype)
    supported(dtype)
    if not isinstance(x, Value):
        return cast_plain(x, dtype)
    return bind(map_, [x], {"op": "cast", "dtype": dtype})[0]


@functools.lru_cache(maxsize=4096)
def resolve(op: str, kinds: tuple) -> tuple[np.dtype, ...]:
    """The dtypes an operation computes in, from dtypes and Python number types, as NumPy says."""
    return TABLE[op].operand_dtypes(kinds)


def expression(op: str) -> Callable:
    """`op` as a function of its operands; of plain ones it is NumPy's, whose promotion is the rule."""
    row = TABLE[op]
    ufunc = row.ufunc
    if not isinstance(ufunc, np.ufunc) and op != "select":
        return lambda *args: elementwise(op, *args)

    def unary(x):
        return ufunc(x) if type(x) in PLAIN else elementwise(op, x)

    def binary(x, y):
        if type(x) in PLAIN and type(y) in PLAIN:
            return ufunc(x, y)
        found = short(row, (x, y))
        return resolved(op, (x, y)) if found is None else found

    def several(*args):
        return ufunc(*args) if all(type(a) in PLAIN for a in args) else elementwise(op, *args)

    return {1: unary, 2: binary}.get(getattr(ufunc, "nin", 3), several)


def short(row: Row, args: tuple) -> Any:
    """The row of its operands the short way, where their level has one; else None."""
    if row.short:
        for a in args:
            if isinstance(a, Value):
                return a.level.scalar(row, *args)
    return None


def elementwise(op: str, *args: Any, operator: bool = False) -> Any:
    """The scalar function `op` of NumPy arrays, numbers and values, with NumPy's promotion.

    With `operator`, Python numbers and weak values give a weak value, as Python's operators do.
    """
    found = short(TABLE[op], args)
    return resolved(op, args, operator) if found is None else found


def resolved(op: str, args: tuple, operator: bool = False) -> Any:
    """`elementwise` by its rule: dtypes resolved, operands cast, and bound."""
    types = [type_of(a) for a in args]
    dtypes = resolve(op, tuple(t if t.weak else t.dtype for t in types))
    weak = operator and all(t.weak or type(a) is bool for t, a in zip(types, args, strict=True))
    ready = []
    for a, t, dtype in zip(args, types, dtypes, strict=True):
        if t.dtype != dtype or type(a) in PYTHON:
            a = cast(a, dtype)
        ready.append(a)
    params = {"op": op}
    if weak and TABLE[op].result_dtype(list(dtypes)).kind != "b":
        params["weak"] = True
    return bind(map_, ready, params)[0]
