"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import asarray, axes_of, dtype_of, integer, shape_of
from rune.numpy.reductions import reduced, running
from rune.numpy.register import function
from rune.numpy.shapes import array_box, size_of
from rune.primitives import movement
from rune.primitives.indexing import gather, scatter
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.value import box, unbox

__all__ = ["diagonal", "trace", "tril", "triu", "vander"]


def diagonal_positions(shape: tuple[int, int], offset: int) -> tuple:
    n = max(min(shape[0] + min(offset, 0), shape[1] - max(offset, 0)), 0)
    k = np.arange(n)
    return k - min(offset, 0), k + max(offset, 0)


@function("diagonal", method="diagonal", view=True, read_only=True)
def diagonal(a, offset=0, axis1=0, axis2=1):
    a = asarray(a)
    n = len(shape_of(a))
    if n < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    if not isinstance(a, Value):
        return np.diagonal(a, offset, axis1, axis2)
    i, j = axes_of((axis1, axis2), n)
    front = movement.permute(a, (i, j, *(k for k in range(n) if k not in (i, j))))
    out = gather(front, list(diagonal_positions(shape_of(front)[:2], integer(offset))))
    return movement.permute(out, (*range(1, n - 1), 0))


@function("linalg.diagonal", view=True, read_only=True)
def linalg_diagonal(x, /, *, offset=0):
    return diagonal(x, offset, -2, -1)


@function("trace", method="trace")
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    return reduced("sum", diagonal(a, offset, axis1, axis2), -1, dtype=dtype)


@function("linalg.trace")
def linalg_trace(x, /, *, offset=0, dtype=None):
    return trace(x, offset, -2, -1, dtype)


@function("diag", boxed=True)
def diag_function(v, k=0):
    v = array_box(v)
    return np.diagonal(v, k) if v.ndim == 2 else box(diag(unbox(v), k))


def diag(v: Any, k: int = 0) -> Any:
    v, k = asarray(v), integer(k)
    if len(shape_of(v)) == 2:
        return diagonal(v, k)
    if len(shape_of(v)) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = shape_of(v)[0] + abs(k)
    # Row i of the result is v[i], where it stands: one select, and its transpose reads the diagonal.
    rows, columns = diagonal_positions((n, n), k)

    return scatter("set", movement.full((n, n), dtype_of(v).type(0)), [rows, columns], v)


@function("diagflat")
def diagflat(v, k=0):
    v = asarray(v)
    return diag(movement.reshape(v, (size_of(v),)), k)


def triangle(m: Any, mask: np.ndarray) -> Any:
    return e.select(mask, m, dtype_of(m).type(0))


def rows_and_columns(m: Any) -> tuple[int, int]:
    shape = shape_of(m)
    if not shape:
        raise TypeError("a triangle needs an array of one axis or more, not a 0-d one")
    return shape[-2:] if len(shape) > 1 else (shape[0], shape[0])


@function("tril")
def tril(m, k=0):
    m = asarray(m)
    return triangle(m, np.tri(*rows_and_columns(m), integer(k), dtype=bool))


@function("triu")
def triu(m, k=0):
    m = asarray(m)
    return triangle(m, ~np.tri(*rows_and_columns(m), integer(k) - 1, dtype=bool))


@function("vander")
def vander(x, N=None, increasing=False):
    x = asarray(x)
    if len(shape_of(x)) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = shape_of(x)[0] if N is None else integer(N)
    x = cast(x, np.result_type(dtype_of(x), int))
    columns = [
        movement.full((shape_of(x)[0], 1), dtype_of(x).type(1)),
        *[movement.reshape(x, (shape_of(x)[0], 1))] * (n - 1),
    ]
    if n <= 0:
        return np.zeros((shape_of(x)[0], 0), dtype_of(x))
    out = running("prod", movement.concatenate(columns, 1), 1, None)
    return out if increasing else movement.flip(out, (1,))
