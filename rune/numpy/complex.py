"""Complex numbers: their parts, which are views, their angle, and what is asked of them."""

from __future__ import annotations

import math

import numpy as np

from rune.level import TracedValueError
from rune.numpy.arguments import asarray, dtype_of, lifted, real_dtype, shape_of
from rune.numpy.register import attribute, function, method
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.value import Traced, box, tables, unbox

__all__ = ["imag", "real"]


@attribute("real", view=True)
@function("real", view=True)
def real(val):
    x = asarray(val)
    return e.real(x) if dtype_of(x).kind == "c" else x


@attribute("imag", view=True)
@function("imag", view=True)
def imag(val):
    x = asarray(val)
    if dtype_of(x).kind == "c":
        return e.imag(x)
    return lifted(x, movement.full(shape_of(x), dtype_of(x).type(0)))


tables.parts |= {real: lambda z, x: e.complex(x, e.imag(z)), imag: lambda z, x: e.complex(e.real(z), x)}


@function("angle")
def angle(z, deg=False):
    z = asarray(z)
    out = e.arctan2(e.imag(z), e.real(z)) if dtype_of(z).kind == "c" else e.arctan2(0, z)
    return e.mul(out, 180 / math.pi) if deg else out


@method("conj", boxed=True)
@method("conjugate", boxed=True)
def conjugate_method(x):
    return np.conj(x) if x.dtype.kind == "c" else x


@function("real_if_close", boxed=True)
def real_if_close(a, tol=100):
    if not isinstance(a, Traced):
        return np.real_if_close(box(asarray(unbox(a))), tol)
    if a.dtype.kind != "c":
        return a
    try:
        known = a._concrete("real_if_close")
    except TracedValueError as error:
        raise TracedValueError(f"{error}; the dtype would depend on values: use np.real(x)") from None
    return a.real if np.isrealobj(np.real_if_close(known, tol)) else a


@function("iscomplex")
def iscomplex(x):
    x = asarray(x)
    return e.ne(imag(x), cast(0, real_dtype(dtype_of(x))))


@function("isreal")
def isreal(x):
    return e.logical_not(iscomplex(x))


@function("iscomplexobj")
def iscomplexobj(x):
    return dtype_of(asarray(x)).kind == "c"


@function("isrealobj")
def isrealobj(x):
    return not iscomplexobj(x)
