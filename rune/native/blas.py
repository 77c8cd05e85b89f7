"""Calls of BLAS and LAPACK by pointer, from SciPy's `__pyx_capi__` tables."""

from __future__ import annotations

import ctypes
import functools
import itertools

from . import math
from .function import LLVM, loop_over
from .index import Value
from .plan import size
from .source import Buffer

LETTER = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}


@functools.lru_cache(None)
def pointer(name: str) -> int:
    from scipy.linalg import cython_blas, cython_lapack

    for module in (cython_blas, cython_lapack):
        capsule = module.__pyx_capi__.get(name)
        if capsule is not None:
            api = ctypes.pythonapi
            api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = (
                ctypes.c_char_p,
                [ctypes.py_object],
            )
            api.PyCapsule_GetPointer.restype = ctypes.c_void_p
            api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
            return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    raise NotImplementedError(f"scipy has no {name}")


def call(unit, name: str, *args) -> None:
    """Calls a routine; integers, letters and numbers are passed by reference, as Fortran wants."""
    fn = unit.fn
    p = unit.load_extern(fn, unit.extern(("library", name), ("pointer", name)))
    texts = []
    for x in args:
        if isinstance(x, Value) and x.kind == "p":
            texts.append(f"ptr {fn.name_of(x)}")
            continue
        if isinstance(x, str):
            cell, text = fn.alloca("i1", 1), f"i8 {ord(x)}"
        elif isinstance(x, int):
            cell, text = fn.alloca("i4", 1), f"i32 {x}"
        elif x.kind[0] == "c":
            cell = fn.alloca(x.kind, 1)
            Buffer(cell, x.kind, ()).store_flat(unit, 0, x)
            texts.append(f"ptr {cell.name}")
            continue
        else:
            cell, text = fn.alloca(x.kind, 1), f"{LLVM[x.kind]} {fn.name_of(x)}"
        fn.line(f"store {text}, ptr {cell.name}")
        texts.append(f"ptr {cell.name}")
    fn.line(f"call void {fn.name_of(p)}({', '.join(texts)})")
    unit.report.library(name)


def merged(sizes, strides) -> int | None:
    """The stride of several axes seen as one, or None where they do not lie so."""
    pairs = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
    if not pairs:
        return 0
    for (_, s), (n, t) in itertools.pairwise(pairs):
        if s != n * t:
            return None
    return pairs[-1][1]


def matrix(s: Buffer, rows, columns):
    """(transposed, leading dimension) of an operand as BLAS's column-ordered matrix of its transpose."""
    r = merged([s.shape[d] for d in rows], [s.strides[d] for d in rows])
    c = merged([s.shape[d] for d in columns], [s.strides[d] for d in columns])
    nr, nc = size(s.shape[d] for d in rows), size(s.shape[d] for d in columns)
    if r is None or c is None:
        return None
    if (c == 1 or nc == 1) and (r >= nc or nr == 1):
        return "N", max(r, nc, 1)
    if (r == 1 or nr == 1) and (c >= nr or nc == 1):
        return "T", max(c, nr, 1)
    return None


def gemm(e, form, target: Buffer, a: Buffer, b: Buffer, batch, free, contracted) -> bool:
    """C = A B for every batch by BLAS; False where an operand does not lie as a matrix."""
    unit = e.unit
    if a.byte_strides or b.byte_strides or not target.contiguous:
        return False
    order = sorted(range(len(contracted[0])), key=lambda i: contracted[0][i])
    ca, cb = [contracted[0][i] for i in order], [contracted[1][i] for i in order]
    A, B = matrix(a, free[0], ca), matrix(b, cb, free[1])
    if A is None or B is None:
        order = sorted(range(len(contracted[0])), key=lambda i: contracted[1][i])
        ca, cb = [contracted[0][i] for i in order], [contracted[1][i] for i in order]
        A, B = matrix(a, free[0], ca), matrix(b, cb, free[1])
        if A is None or B is None:
            return False
    m, n = size(a.shape[d] for d in free[0]), size(b.shape[d] for d in free[1])
    k = size(a.shape[d] for d in ca)
    fn = unit.fn
    one, zero = math.constant(1, target.kind), math.constant(0, target.kind)
    with loop_over(fn, [a.shape[d] for d in batch[0]]) as p:

        def at(s, axes):
            i = s.offset
            for d, j in zip(axes, p, strict=True):
                i = i + j * s.strides[d]
            return s.flat(unit, i)[0]

        base = target.offset
        for d, j in enumerate(p):
            base = base + j * target.strides[d]
        c = target.flat(unit, base)[0]
        name = LETTER[target.kind] + "gemm"
        call(unit, name, B[0], A[0], n, m, k, one, at(b, batch[1]), B[1], at(a, batch[0]), A[1], zero, c, n)
    return True
