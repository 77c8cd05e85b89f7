"""Functions that call the user's function along an axis, compare whole arrays, or print one."""

from __future__ import annotations

import math

import numpy as np

from rune.numpy.arguments import asarray, axis_of, shape_of
from rune.numpy.elementwise import isclose
from rune.numpy.joining import stack
from rune.numpy.needed import concrete
from rune.numpy.reductions import reduced
from rune.numpy.register import attribute, function, method
from rune.numpy.shapes import moveaxis, take_axis
from rune.primitives import movement
from rune.primitives.scalar import e
from rune.program import type_of
from rune.value import box, unbox

__all__: list[str] = []


@function("apply_along_axis")
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    a = asarray(arr)
    axis = axis_of(axis, len(shape_of(a)))
    a = moveaxis(a, axis, -1)
    lead = shape_of(a)[:-1]
    if math.prod(lead) == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    rows = movement.reshape(a, (math.prod(lead), shape_of(a)[-1]))
    results = [
        asarray(unbox(func1d(box(take_axis(rows, 0, k)), *box(args), **kwargs)))
        for k in range(math.prod(lead))
    ]
    inner = shape_of(results[0])
    out = movement.reshape(stack(results), lead + inner)
    return (
        moveaxis(out, tuple(range(len(lead), len(lead) + len(inner))), tuple(range(axis, axis + len(inner))))
        if inner
        else out
    )


@function("apply_over_axes")
def apply_over_axes(func, a, axes):
    out = asarray(a)
    n = len(shape_of(out))
    for axis in axes if np.ndim(axes) else (axes,):
        axis = axis_of(axis, n)
        new = asarray(unbox(func(box(out), axis)))
        if len(shape_of(new)) != n:
            new = movement.reshape(new, (*shape_of(new)[:axis], 1, *shape_of(new)[axis:]))
        out = new
    return out


@function("allclose")
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return reduced("all", isclose(a, b, rtol, atol, equal_nan))


@function("array_equal")
def array_equal(a1, a2, equal_nan=False):
    a, b = asarray(a1), asarray(a2)
    if shape_of(a) != shape_of(b):
        return False
    same = e.eq(a, b)
    if equal_nan:
        same = e.logical_or(same, e.logical_and(e.isnan(a), e.isnan(b)))
    return reduced("all", same)


@function("array_equiv")
def array_equiv(a1, a2):
    a, b = asarray(a1), asarray(a2)
    try:
        np.broadcast_shapes(shape_of(a), shape_of(b))
    except ValueError:
        return False
    return reduced("all", e.eq(a, b))


@function("array_str")
def array_str(a, max_line_width=None, precision=None, suppress_small=None):
    return np.array_str(concrete("array_str", a), max_line_width, precision, suppress_small)


@function("array_repr")
def array_repr(arr, max_line_width=None, precision=None, suppress_small=None):
    return np.array_repr(concrete("array_repr", arr), max_line_width, precision, suppress_small)


@function("array2string")
def array2string(a, *args, **keywords):
    return np.array2string(concrete("array2string", a), *args, **keywords)


@method("tobytes")
def tobytes(a, order="C"):
    return concrete("tobytes", a).tobytes(order)


@attribute("flags")
def flags(a):
    t = type_of(a)
    return np.empty(t.shape, t.dtype).flags


@attribute("strides")
def strides(a):
    t = type_of(a)
    return tuple(s * t.dtype.itemsize for s in movement.strides_of(t.shape))


@attribute("base")
def base(a):
    return None


@method("view", boxed=True)
def view(a, dtype=None, type=None):
    if dtype is np.ndarray:
        dtype = None
    if type is not None or (dtype is not None and np.dtype(dtype) != a.dtype):
        raise TypeError("view: the bytes of a traced array have no other reading: use x.astype(dtype)")
    return a[...] if a.shape else a
