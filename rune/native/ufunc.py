"""The inner loops of NumPy's and SciPy's ufuncs, called by pointer.

The object of a ufunc has a table of its loops, one for each combination of dtypes, and NumPy's C API
fixes where it stands.  A loop is

    void loop(char **args, intptr_t *dimensions, intptr_t *steps, void *data)

with pointers to the first elements; the number of times that the function is applied, and the sizes
of its core dimensions; the distances in bytes from one application to the next, per operand, and
those along the core dimensions of each operand.
"""

from __future__ import annotations

import ctypes
import re
from typing import NamedTuple

import numpy as np

from . import math, nest
from .blas import merged
from .function import SIZE, loop_over
from .index import Value
from .plan import size
from .source import Buffer, Source


class Header(ctypes.Structure):
    """The fields of a ufunc (PyUFuncObject) up to the table of its loops."""

    _fields_ = [
        ("object", ctypes.c_byte * object.__basicsize__),
        ("counts", ctypes.c_int * 4),
        ("loops", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
    ]


def loop_of(ufunc: np.ufunc, dtypes: list[np.dtype]) -> tuple[int, int]:
    """The addresses of the loop for these dtypes of operands and of its data."""
    for k, types in enumerate(ufunc.types):
        if [np.dtype(c) for c in types.replace("->", "")] == dtypes:
            header = Header.from_address(id(ufunc))
            return header.loops[k], (header.data[k] if header.data else None) or 0
    raise NotImplementedError(f"{ufunc.__name__} has no loop of {dtypes}")


def cores_of(ufunc: np.ufunc) -> list[list[str]]:
    """The names of the core dimensions of every operand."""
    if ufunc.signature is None:
        return [[]] * ufunc.nargs
    return [re.findall(r"\w+", operand) for operand in re.findall(r"\((.*?)\)", ufunc.signature)]


class Operand(NamedTuple):
    """An operand with its outer axes those of the results: steps in elements, 0 along what is broadcast."""

    memory: Buffer
    outer: list[int]
    inner: list[int]
    core: list[int]  # sizes


def operand(e, s: Source, lead: tuple, core: int, axis: int) -> Operand:
    b = e.buffer_of(s)
    if b.byte_strides is not None:
        b = e.passing(s.kind, s.shape)
        e.fill(b, s)
    shape, strides = list(b.shape), list(b.strides)
    if core:
        shape.append(shape.pop(axis))
        strides.append(strides.pop(axis))
    n = len(shape) - core
    outer = [0 if size == 1 else step for size, step in zip(shape[:n], strides[:n], strict=True)]
    return Operand(b, [0] * (len(lead) - n) + outer, strides[n:], shape[n:])


def call(e, ufunc: np.ufunc, form: nest.Library, outs: list[Buffer]) -> None:
    """A ufunc over whole arrays, a core dimension at `axis`: as few calls of its loop as the strides allow."""
    if not all(b.size for b in outs):
        return
    unit, fn = e.unit, e.unit.fn
    axis = form.params.get("axis", -1)
    cores = [len(core) for core in cores_of(ufunc)]
    lead = list(outs[0].shape)
    if cores[-1]:
        lead.pop(axis)
    sources = [*map(e.source, form.inputs), *outs]
    operands = [operand(e, s, lead, core, axis) for s, core in zip(sources, cores, strict=True)]
    apart = next(
        k for k in range(len(lead) + 1) if all(merged(lead[k:], x.outer[k:]) is not None for x in operands)
    )
    dimensions = {"": size(lead[apart:])}
    for x, names in zip(operands, cores_of(ufunc), strict=True):
        dimensions |= zip(names, x.core, strict=True)
    steps = [SIZE[x.memory.kind] * merged(lead[apart:], x.outer[apart:]) for x in operands]
    steps += [SIZE[x.memory.kind] * step for x in operands for step in x.inner]
    code, data = loop_of(ufunc, [v.type.dtype for v in (*form.inputs, *form.outs)])
    f, last = (unit.load_extern(fn, unit.extern(("ufunc", x), x)) for x in (code, data))
    first = fn.alloca("p", len(operands))
    arguments = first, integers(e, list(dimensions.values())), integers(e, steps), last
    with loop_over(fn, lead[:apart]) as index:
        for k, x in enumerate(operands):
            at = x.memory.offset
            for i, step in zip(index, x.outer, strict=False):
                at = at + i * step
            p = fn.put(f"getelementptr ptr, ptr {first.name}, i64 {k}", "p", first)
            fn.line(f"store ptr {fn.name_of(x.memory.flat(unit, at)[0])}, ptr {p.name}")
        fn.line(f"call void {fn.name_of(f)}({', '.join(f'ptr {fn.name_of(p)}' for p in arguments)})")


def integers(e, values: list[int]) -> Value:
    table = Buffer(e.unit.fn.alloca("i8", len(values)), "i8", (len(values),))
    for k, n in enumerate(values):
        table.store_flat(e.unit, k, math.constant(n, "i8"))
    return table.base
