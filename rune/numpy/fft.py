"""numpy.fft: every transform by the primitives of one axis, one axis after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.numpy.arguments import asarray, axes_of, axis_of, dtype_of, integer, shape_of
from rune.numpy.elementwise import conjugate
from rune.numpy.register import function
from rune.numpy.shapes import roll
from rune.primitives import fft as transforms
from rune.primitives import movement
from rune.primitives.map import cast

__all__: list[str] = []


def factor_of(a: Any, n: int, inverse: bool, norm: str | None) -> float:
    """What a transform of n elements is multiplied by, rounded as NumPy does in the dtype of `a`."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    dtype = real_as_computed(a)
    if norm == "ortho":
        return float(np.reciprocal(np.sqrt(n, dtype=dtype)))
    return float(np.reciprocal(n, dtype=dtype)) if (norm == "forward") != inverse else 1.0


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


def real_as_computed(a: Any) -> type:
    """The real dtype that a transform of `a` is computed in."""
    single = dtype_of(a) in (np.float32, np.float16, np.complex64)
    return np.float32 if single else np.float64


def as_complex(a: Any) -> Any:
    a = asarray(a)
    return cast(a, np.result_type(real_as_computed(a), np.complex64))


def whole(a: Any, n: Any, axis: int) -> tuple:
    """`a` with n elements along an axis, or as many as it has, and how many these are."""
    a = fitted(a, checked(n), axis)
    return a, checked(shape_of(a)[axis])


def computed(transform: Callable, a: Any, factor: float, *arguments: Any) -> Any:
    """A transform times a factor: where there is none, NumPy computes in double precision and rounds."""
    if factor != 1.0 or real_as_computed(a) is np.float64:
        return transform(a, *arguments, factor)
    out = transform(cast(a, np.result_type(dtype_of(a), np.float64)), *arguments, factor)
    return cast(out, np.complex64 if dtype_of(out).kind == "c" else np.float32)


def plain_transform(a, n, axis, inverse, norm):
    a = as_complex(a)
    axis = axis_of(axis, len(shape_of(a)))
    a, size = whole(a, n, axis)
    return computed(transforms.fft, a, factor_of(a, size, inverse, norm), axis, inverse)


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
    a = cast(a, real_as_computed(a))
    axis = axis_of(axis, len(shape_of(a)))
    a, size = whole(a, n, axis)
    return computed(transforms.rfft, a, factor_of(a, size, False, norm), axis)


@function("fft.irfft")
def irfft(a, n=None, axis=-1, norm=None, out=None):
    a = as_complex(a)
    axis = axis_of(axis, len(shape_of(a)))
    n = checked(2 * (shape_of(a)[axis] - 1) if n is None else n)
    half = fitted(a, n // 2 + 1, axis)
    return computed(transforms.irfft, half, factor_of(half, n, True, norm), axis, n)


@function("fft.hfft")
def hfft(a, n=None, axis=-1, norm=None, out=None):
    a = as_complex(a)
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
        a = plain_transform(a, n, axis, inverse, norm)
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
