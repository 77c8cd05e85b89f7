"""Differences along an axis, and what sums or follows them: gradients, integrals, unwrapped phases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.numpy.arguments import (
    asarray,
    axes_of,
    axis_of,
    common,
    dtype_of,
    inexact,
    integer,
    operand,
    promote,
    shape_of,
)
from rune.numpy.joining import concatenate
from rune.numpy.reductions import MISSING, cumsum, reduced
from rune.numpy.register import function
from rune.numpy.shapes import axis_part
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.scalar import e

__all__ = ["diff"]


@function("diff")
def diff(a, n=1, axis=-1, prepend=MISSING, append=MISSING):
    n = integer(n)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    a = asarray(a)
    if n == 0:
        return a
    if not shape_of(a):
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_of(axis, len(shape_of(a)))
    row = tuple(1 if k == axis else m for k, m in enumerate(shape_of(a)))
    ends = []
    for end in (prepend, append):
        if end is MISSING or end is None:
            ends.append([])
        else:
            end = asarray(end)
            ends.append([end if shape_of(end) else movement.broadcast(end, row)])
    if ends[0] or ends[1]:
        a = movement.concatenate(promote(*ends[0], a, *ends[1]), axis)
    for _ in range(n):
        m = shape_of(a)[axis]
        after, before = movement.part(a, axis, min(1, m), m), movement.part(a, axis, 0, max(m - 1, 0))
        a = e.ne(after, before) if dtype_of(a).kind == "b" else e.sub(after, before)
    return a


@function("ediff1d")
def ediff1d(ary, to_end=None, to_begin=None):
    flat = asarray(ary)
    flat = movement.reshape(flat, (math.prod(shape_of(flat)),))
    ends: list[list] = []
    for name, end in (("to_begin", to_begin), ("to_end", to_end)):
        ends.append([])
        if end is not None:
            end = asarray(end)
            if not np.can_cast(dtype_of(end), dtype_of(flat), "same_kind"):
                raise TypeError(
                    f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule."
                )
            ends[-1].append(cast(movement.reshape(end, (math.prod(shape_of(end)),)), dtype_of(flat)))
    return movement.concatenate([*ends[0], diff(flat), *ends[1]], 0)


@function("trapezoid")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = asarray(y)
    axis = axis_of(axis, len(shape_of(y)))
    n = shape_of(y)[axis]
    if x is None:
        d = operand(dx)
        if shape_of(d):
            d = asarray(d)
    else:
        x = asarray(x)
        if len(shape_of(x)) == 1:
            d = diff(x)
            d = movement.reshape(
                d, tuple(shape_of(d)[0] if k == axis else 1 for k in range(len(shape_of(y))))
            )
        else:
            d = diff(x, axis=axis)
    pair = e.add(movement.part(y, axis, 1, n), movement.part(y, axis, 0, n - 1))
    return reduced("sum", e.div(e.mul(d, pair), 2.0), axis)


@function("gradient")
def gradient(f, *varargs, axis=None, edge_order=1):
    if dtype_of(asarray(f)).kind == "b":
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported")
    f = inexact(asarray(f))
    shape = shape_of(f)
    axes = axes_of(axis, len(shape))
    spacings = list(varargs) if varargs else [1.0] * len(axes)
    if len(spacings) == 1 and not shape_of(operand(spacings[0])):
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    out = [slope(f, operand(h), k, edge_order) for h, k in zip(spacings, axes, strict=True)]
    return out[0] if len(out) == 1 else tuple(out)


def slope(f: Any, h: Any, axis: int, edge_order: int) -> Any:
    """Second-order differences inside, one-sided ones of `edge_order` at both ends."""
    shape = shape_of(f)
    n = shape[axis]
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required."
        )
    at = lambda a, b: movement.part(f, axis, a % n if a < 0 else a, n + b if b <= 0 else b)
    if shape_of(h):
        if shape_of(h) != (n,):
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        d = diff(inexact(asarray(h)))
        d = movement.reshape(d, tuple(n - 1 if k == axis else 1 for k in range(len(shape))))
        step = lambda a, b: movement.part(d, axis, a, b)
    else:
        step = lambda a, b: h
    parts = []
    first, last = step(0, 1), step(n - 2, n - 1)
    if edge_order == 1:
        parts = [e.div(e.sub(at(1, 2), at(0, 1)), first)]
        end = [e.div(e.sub(at(n - 1, n), at(n - 2, n - 1)), last)]
    else:
        parts = [one_sided(at(0, 1), at(1, 2), at(2, 3), first, step(1, 2))]
        end = [e.neg(one_sided(at(n - 1, n), at(n - 2, n - 1), at(n - 3, n - 2), last, step(n - 3, n - 2)))]
    if n > 2:
        if shape_of(h):
            a, b = step(0, n - 2), step(1, n - 1)
            ends = e.sub(e.mul(e.mul(a, a), at(2, n)), e.mul(e.mul(b, b), at(0, n - 2)))
            middle = e.mul(e.sub(e.mul(b, b), e.mul(a, a)), at(1, n - 1))
            inside = e.div(e.add(ends, middle), e.mul(e.mul(a, b), e.add(a, b)))
        else:
            inside = e.div(e.sub(at(2, n), at(0, n - 2)), e.mul(2.0, h))
        parts.append(inside)
    return movement.concatenate([cast(part, dtype_of(f)) for part in (*parts, *end)], axis)


def one_sided(a: Any, b: Any, c: Any, h: Any, k: Any) -> Any:
    """The derivative at `a` from three points, h and k apart."""
    whole = e.add(h, k)
    by_a = e.neg(e.div(e.add(e.mul(2.0, h), k), e.mul(h, whole)))
    by_b = e.div(whole, e.mul(h, k))
    by_c = e.neg(e.div(h, e.mul(k, whole)))
    return e.add(e.add(e.mul(by_a, a), e.mul(by_b, b)), e.mul(by_c, c))


@function("unwrap")
def unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    p = asarray(p)
    axis = axis_of(axis, len(shape_of(p)))
    d = diff(p, axis=axis)
    dtype = common(d, period)
    half, odd = divmod(period, 2) if dtype.kind in "iu" else (period / 2, 0)
    wrapped = e.sub(e.mod(e.add(d, half), period), half)
    if odd == 0:  # both ends of the interval are one, and it is the one that d's sign has
        wrapped = e.select(e.logical_and(e.eq(wrapped, -half), e.gt(d, 0)), half, wrapped)
    small = e.lt(e.abs(d), period / 2 if discont is None else discont)
    correction = e.select(small, 0, e.sub(wrapped, d))
    rest = e.add(axis_part(p, axis, 1, None), cumsum(correction, axis=axis))
    return cast(concatenate([axis_part(p, axis, 0, 1), rest], axis=axis), dtype)
