"""numpy.fft: every transform by one primitive, the complex transform of the last axis.

A real transform is the first half of the complex one; its inverse completes the other half, which is
its mirror image conjugated.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from rune.numpy.arguments import asarray, axes_of, axis_of, dtype_of, integer, shape_of
from rune.numpy.elementwise import conjugate
from rune.numpy.register import function
from rune.numpy.shapes import roll
from rune.primitives import movement
from rune.primitives.fft import FFT
from rune.primitives.fft import fft as transform
from rune.primitives.fft import transform as composed
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.trace import record

__all__: list[str] = []


@functools.lru_cache(maxsize=256)
def program(type, inverse):
    """What compiled code runs for a transform."""
    return record("fft", [type], lambda args: [composed(*args, 1 if inverse else -1)])[0]


FFT.program = staticmethod(program)


def scale_of(n: int, inverse: bool, norm: str | None) -> float:
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") != inverse else 1.0


def fitted(a: Any, n: int | None, axis: int) -> Any:
    """`a` cut or padded with zeros to length n along an axis."""
    have = shape_of(a)[axis]
    if n is None or n == have:
        return a
    if n < have:
        return movement.part(a, axis, 0, n)
    after = tuple(n - have if k == axis else 0 for k in range(len(shape_of(a))))
    return movement.pad(a, (0,) * len(after), after)


def checked(n: Any) -> Any:
    if n is None:
        return None
    n = integer(n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return n


def as_complex(a: Any) -> Any:
    a = asarray(a)
    return cast(a, np.complex64 if dtype_of(a) in (np.float32, np.float16, np.complex64) else np.complex128)


def along(a: Any, axis: int, inverse: bool, norm: str | None) -> Any:
    n = len(shape_of(a))
    order = (*(k for k in range(n) if k != axis), axis)
    size = shape_of(a)[axis]
    if size < 1:
        raise ValueError(f"Invalid number of FFT data points ({size}) specified.")
    out = transform(movement.permute(a, order), inverse)
    out = movement.permute(out, tuple(int(k) for k in np.argsort(order)))
    scale = scale_of(size, inverse, norm)
    return out if scale == 1.0 else e.mul(out, scale)


def plain_transform(a, n, axis, inverse, norm):
    a = as_complex(a)
    axis = axis_of(axis, len(shape_of(a)))
    return along(fitted(a, checked(n), axis), axis, inverse, norm)


@function("fft.fft")
def fft(a, n=None, axis=-1, norm=None, out=None):
    return plain_transform(a, n, axis, False, norm)


@function("fft.ifft")
def ifft(a, n=None, axis=-1, norm=None, out=None):
    return plain_transform(a, n, axis, True, norm)


@function("fft.rfft")
def rfft(a, n=None, axis=-1, norm=None, out=None):
    a = asarray(a)
    if dtype_of(a).kind == "c":
        raise TypeError(
            "ufunc 'rfft_n_even' did not contain a loop with signature matching types: the input must be real"
        )
    axis = axis_of(axis, len(shape_of(a)))
    out = plain_transform(a, n, axis, False, norm)
    return movement.part(out, axis, 0, shape_of(out)[axis] // 2 + 1)


@function("fft.irfft")
def irfft(a, n=None, axis=-1, norm=None, out=None):
    a = as_complex(a)
    axis = axis_of(axis, len(shape_of(a)))
    n = 2 * (shape_of(a)[axis] - 1) if n is None else integer(n)
    checked(n)
    half = fitted(a, n // 2 + 1, axis)
    mirrored = movement.flip(movement.part(half, axis, 1, (n + 1) // 2), (axis,))
    # The first element, and the middle one of an even length, count by their real part.
    whole = movement.concatenate([half, conjugate(mirrored)], axis)
    return e.real(along(whole, axis, True, norm))


@function("fft.hfft")
def hfft(a, n=None, axis=-1, norm=None, out=None):
    a = as_complex(a)
    n = 2 * (shape_of(a)[axis] - 1) if n is None else integer(n)
    swapped = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
    return irfft(conjugate(a), n, axis, swapped)


@function("fft.ihfft")
def ihfft(a, n=None, axis=-1, norm=None, out=None):
    swapped = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
    return conjugate(rfft(a, n, axis, swapped))


def several(a: Any, s: Any, axes: Any, default: Any = None) -> tuple:
    ndim = len(shape_of(a))
    if axes is None:
        axes = default if default is not None else (range(-len(s), 0) if s is not None else range(ndim))
    axes = (
        axes_of(tuple(axes), ndim)
        if len(set(axes)) == len(tuple(axes))
        else tuple(axis_of(k, ndim) for k in axes)
    )
    sizes = [None] * len(axes) if s is None else [None if n is None or n == -1 else integer(n) for n in s]
    if len(sizes) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return axes, [shape_of(a)[k] if n is None else n for n, k in zip(sizes, axes, strict=True)]


def transform_axes(a: Any, s: Any, axes: Any, inverse: bool, norm: Any, default: Any = None) -> Any:
    a = as_complex(a)
    axes, sizes = several(a, s, axes, default)
    for axis, n in zip(axes[::-1], sizes[::-1], strict=True):
        a = along(fitted(a, checked(n), axis), axis, inverse, norm)
    return a


@function("fft.fftn")
def fftn(a, s=None, axes=None, norm=None, out=None):
    return transform_axes(a, s, axes, False, norm)


@function("fft.ifftn")
def ifftn(a, s=None, axes=None, norm=None, out=None):
    return transform_axes(a, s, axes, True, norm)


@function("fft.fft2")
def fft2(a, s=None, axes=(-2, -1), norm=None, out=None):
    return transform_axes(a, s, axes, False, norm)


@function("fft.ifft2")
def ifft2(a, s=None, axes=(-2, -1), norm=None, out=None):
    return transform_axes(a, s, axes, True, norm)


@function("fft.rfftn")
def rfftn(a, s=None, axes=None, norm=None, out=None):
    a = asarray(a)
    axes, sizes = several(a, s, axes)
    a = rfft(a, sizes[-1], axes[-1], norm)
    return transform_axes(a, sizes[:-1], axes[:-1], False, norm) if len(axes) > 1 else a


@function("fft.rfft2")
def rfft2(a, s=None, axes=(-2, -1), norm=None, out=None):
    return rfftn(a, s, axes, norm)


@function("fft.irfftn")
def irfftn(a, s=None, axes=None, norm=None, out=None):
    a = as_complex(a)
    given = s is not None
    axes, sizes = several(a, s, axes)
    last = sizes[-1] if given and s[-1] not in (None, -1) else 2 * (shape_of(a)[axes[-1]] - 1)
    if len(axes) > 1:
        a = transform_axes(a, sizes[:-1], axes[:-1], True, norm)
    return irfft(a, last, axes[-1], norm)


@function("fft.irfft2")
def irfft2(a, s=None, axes=(-2, -1), norm=None, out=None):
    return irfftn(a, s, axes, norm)


def shifts(x: Any, axes: Any, back: bool) -> tuple:
    axes = axes_of(axes, len(shape_of(x)))
    return tuple(-(shape_of(x)[k] // 2) if back else shape_of(x)[k] // 2 for k in axes), axes


@function("fft.fftshift")
def fftshift(x, axes=None):
    x = asarray(x)
    return roll(x, *shifts(x, axes, False))


@function("fft.ifftshift")
def ifftshift(x, axes=None):
    x = asarray(x)
    return roll(x, *shifts(x, axes, True))
