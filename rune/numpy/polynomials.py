"""Polynomials and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.numpy.arguments import asarray, dtype_of, inexact, integer, promote, shape_of
from rune.numpy.elementwise import conjugate
from rune.numpy.linalg import eigvals, inv, lstsq
from rune.numpy.products import matmul, vector
from rune.numpy.reductions import reduced
from rune.numpy.register import function
from rune.numpy.shapes import entries, swap_last
from rune.numpy.triangles import vander
from rune.primitives import correlate as correlation
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.scalar import e

__all__ = ["convolve", "polyval"]


def one_axis(x: Any, deep: bool = False) -> Any:
    if len(shape_of(x)) > 1 and not deep:
        raise ValueError("object too deep for desired array")
    return x if shape_of(x) else movement.reshape(x, (1,))


@function("convolve")
def convolve(a, v, mode="full"):
    a, v = map(one_axis, promote(asarray(a), asarray(v)))
    if shape_of(a)[0] < shape_of(v)[0]:
        a, v = v, a
    return slid(a, movement.flip(v, (0,)), mode)


@function("correlate")
def correlate(a, v, mode="valid"):
    a, v = map(one_axis, promote(asarray(a), asarray(v)))
    v = conjugate(v)
    if shape_of(a)[0] < shape_of(v)[0]:
        return movement.flip(slid(v, a, mode), (0,))
    return slid(a, v, mode)


def slid(a: Any, v: Any, mode: Any) -> Any:
    """sum_j a[k + j] v[j], a at least as long as v."""
    n, m = shape_of(a)[0], shape_of(v)[0]
    if not m or not n:
        raise ValueError("v cannot be empty" if not m else "a cannot be empty")
    beyond = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[named(mode)]
    if dtype_of(a).kind == "b":  # of booleans, the sum is `or`
        return cast(correlation.correlate(cast(a, np.int64), cast(v, np.int64), *beyond), bool)
    return correlation.correlate(a, v, *beyond)


MODES = ("valid", "same", "full")


def named(mode: Any) -> str:
    """A mode by its name; NumPy numbers them too."""
    if isinstance(mode, (int, np.integer)) and type(mode) is not bool:
        if mode not in range(len(MODES)):
            raise ValueError(f"integer convolve/correlate mode must be 0, 1, or 2 (got {mode})")
        return MODES[mode]
    if not isinstance(mode, str):
        raise TypeError(f"mode must be one of {MODES} (got {mode!r})")
    if mode not in MODES:
        raise ValueError(f"mode must be one of {MODES} (got {mode!r})")
    return mode


@function("polyval")
def polyval(p, x):
    p, x = asarray(p), asarray(x)
    y = np.zeros(shape_of(x), dtype_of(x))
    for c in entries(p):
        y = e.add(e.mul(y, x), c)
    return y


@function("polyadd")
def polyadd(a1, a2):
    return e.add(*same_length(a1, a2))


@function("polysub")
def polysub(a1, a2):
    return e.sub(*same_length(a1, a2))


def coefficients(p: Any) -> Any:
    p = asarray(p)
    if len(shape_of(p)) > 1:
        raise ValueError("Polynomial must be 1d only.")
    return vector(p)


def same_length(*polynomials: Any) -> list:
    ps = [one_axis(asarray(p), deep=True) for p in polynomials]
    n = max(shape_of(p)[0] for p in ps)
    if all(shape_of(p)[0] == n for p in ps):
        return ps
    ps = [coefficients(p) for p in ps]
    return [movement.pad(p, (n - shape_of(p)[0],), (0,)) for p in ps]


@function("polymul")
def polymul(a1, a2):
    return convolve(coefficients(a1), coefficients(a2))


@function("polyder")
def polyder(p, m=1):
    p = asarray(p)
    for _ in range(integer(m)):
        n = shape_of(p)[0] - 1
        p = e.mul(movement.part(p, 0, 0, n), np.arange(n, 0, -1))
    return p


@function("polyint")
def polyint(p, m=1, k=None):
    p = asarray(p)
    constants = [0.0] * m if k is None else ([k] * m if np.ndim(k) == 0 else list(k))
    for c in constants:
        n = shape_of(p)[0]
        p = movement.concatenate(
            promote(e.div(p, np.arange(n, 0, -1)), np.reshape(np.asarray(c, float), (1,))), 0
        )
    return p


@function("poly")
def poly(seq_of_zeros):
    zeros = asarray(seq_of_zeros)
    if len(shape_of(zeros)) > 2:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if len(shape_of(zeros)) == 2:
        raise TypeError("numpy.poly: of a matrix is not supported for traced values: pass its eigenvalues")
    zeros = cast(zeros, np.dtype(np.mintypecode(dtype_of(zeros).char)))
    a = np.ones(1, dtype_of(zeros))
    for k in range(shape_of(zeros)[0]):
        z = movement.part(zeros, 0, k, k + 1)
        a = e.sub(movement.pad(a, (0,), (1,)), e.mul(movement.pad(a, (1,), (0,)), z))
    return a


@function("polydiv")
def polydiv(u, v):
    u, v = promote(*(inexact(coefficients(p)) for p in (u, v)))
    m, n = shape_of(u)[0], shape_of(v)[0]
    if m < n:
        return np.zeros(1, dtype_of(u)), u
    lead = movement.part(v, 0, 0, 1)
    quotient = []
    for k in range(m - n + 1):
        d = e.div(movement.part(u, 0, k, k + 1), lead)
        quotient.append(d)
        u = e.sub(u, movement.pad(e.mul(d, v), (k,), (m - n - k,)))
    # NumPy drops leading zeros of the remainder, whose number would depend on values.
    rest = movement.part(u, 0, m - n + 1, m) if n > 1 else np.zeros(1, dtype_of(u))
    return movement.concatenate(quotient, 0), rest


@function("polyfit")
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    x, y = inexact(asarray(x)), inexact(asarray(y))
    if np.ndim(deg):
        raise TypeError("deg must be an int")
    n = integer(deg) + 1
    if shape_of(x)[0] != shape_of(y)[0]:
        raise TypeError("expected x and y to have same length")
    columns, right = vander(x, n), y
    if w is not None:
        w = asarray(w)
        columns = e.mul(columns, movement.reshape(w, (*shape_of(w), 1)))
        right = e.mul(right, w if len(shape_of(y)) == 1 else movement.reshape(w, (*shape_of(w), 1)))
    scale = e.sqrt(reduced("sum", e.mul(columns, columns), 0))
    scaled = e.div(columns, scale)
    c, residuals, rank, s = lstsq(scaled, right)
    c = e.div(c, scale if len(shape_of(y)) == 1 else movement.reshape(scale, (n, 1)))
    if full:
        return c, residuals, rank, s, np.finfo(dtype_of(x)).eps * shape_of(x)[0]
    if not cov:
        return c
    base = inv(matmul(swap_last(scaled), scaled))
    base = e.div(base, e.mul(movement.reshape(scale, (n, 1)), scale))
    if cov == "unscaled":
        return c, base
    fac = e.div(residuals, float(shape_of(x)[0] - n))
    return c, e.mul(base, fac) if len(shape_of(y)) == 1 else e.mul(movement.reshape(base, (n, n, 1)), fac)


@function("roots")
def roots(p):
    """All roots as complex numbers; the leading coefficient must not be zero."""
    if len(shape_of(asarray(p))) > 1:
        raise ValueError("Input must be a rank-1 array.")
    p = inexact(vector(p))
    n = shape_of(p)[0] - 1
    if n < 1:
        return np.zeros(0, np.complex128)
    top = e.neg(e.div(movement.part(p, 0, 1, n + 1), movement.part(p, 0, 0, 1)))
    return eigvals(
        movement.concatenate([movement.reshape(top, (1, n)), np.eye(n, dtype=dtype_of(p))[:-1]], 0)
    )
