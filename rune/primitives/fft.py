"""The discrete Fourier transforms of one axis, complex and real, each times a factor.

The matrix of the complex transform is symmetric, so the transform is its own transpose.  The real
transform keeps the first half of the spectrum, and its inverse completes the other half, the mirror
image conjugated: each is the other's transpose up to the weight of the elements that have an image.

Compiled code calls the routines of NumPy's own transforms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives.primitive import Linear
from rune.primitives.scalar import e
from rune.program import Literal, Type, real_dtype, type_of

__all__ = ["fft", "irfft", "rfft"]


class Transform(Linear):
    """params: axis, n (the length of what is transformed, or of what an inverse gives), factor"""

    recompute = False

    def routine(self, params: dict) -> str:
        """NumPy's generalised ufunc: (x, factor) -> the transform of x times the factor."""
        raise NotImplementedError

    def ufunc(self, params: dict) -> np.ufunc:
        from numpy.fft import _pocketfft_umath

        return getattr(_pocketfft_umath, self.routine(params))

    def evaluate(self, args, params):
        x = np.asarray(args[0])
        (t,) = self.type([type_of(x)], params)
        axis, factor = (params["axis"],), np.array(params["factor"], real_dtype(x.dtype))
        return [self.ufunc(params)(x, factor, axes=[axis, (), axis], out=np.empty(t.shape, t.dtype))]

    def batch(self, size, args, mapped, params):
        return bind(self, args, {**params, "axis": params["axis"] + 1}), [True]

    def lower(self, e):
        (x,), name = e.inputs, self.routine(e.params)
        factor = Literal(real_dtype(x.type.dtype).type(e.params["factor"]))
        params = {"ufunc": self.ufunc(e.params), "axis": e.params["axis"]}
        return [nest.Library(e.outputs, (x, factor), name, params)]

    def details(self, params):
        return f"over [{params['axis']}]"


class FFT(Transform):
    """Complex to complex."""

    name = "FFT"

    def type(self, types, params):
        return [types[0].strong()]

    def routine(self, params):
        return "ifft" if params["inverse"] else "fft"

    def transpose(self, cts, args, params):
        return bind(self, cts, params)

    def details(self, params):
        return "inverse " * params["inverse"] + super().details(params)


class RFFT(Transform):
    """The first half of the spectrum of n real numbers."""

    name = "RFFT"

    def type(self, types, params):
        (x,) = types
        return [Type(np.result_type(x.dtype, np.complex64), resized(x.shape, params, params["n"] // 2 + 1))]

    def routine(self, params):
        return "rfft_n_odd" if params["n"] % 2 else "rfft_n_even"

    def transpose(self, cts, args, params):
        return bind(irfft_, [e.mul(e.conj(cts[0]), images(cts[0], params, 0.5))], params)


class IRFFT(Transform):
    """n real numbers from the first half of their spectrum; imaginary parts that must be 0 are not read."""

    name = "IRFFT"

    def type(self, types, params):
        (x,) = types
        return [Type(real_dtype(x.dtype), resized(x.shape, params, params["n"]))]

    def routine(self, params):
        return "irfft"

    def transpose(self, cts, args, params):
        (half,) = bind(rfft_, cts, params)
        return [e.mul(e.conj(half), images(half, params, 2.0))]


def resized(shape: tuple, params: dict, size: int) -> tuple:
    return (*shape[: params["axis"]], size, *shape[params["axis"] + 1 :])


def images(half: Any, params: dict, weight: float) -> np.ndarray:
    """`weight` for the elements of half a spectrum that have an image in the other half, 1 for those without."""
    t, n = type_of(half), params["n"]
    k = np.arange(n // 2 + 1)
    weights = np.where((k == 0) | (2 * k == n), 1.0, weight).astype(real_dtype(t.dtype))
    return weights.reshape(resized((1,) * t.ndim, params, len(k)))


fft_, rfft_, irfft_ = FFT(), RFFT(), IRFFT()


def fft(x: Any, axis: int, inverse: bool, factor: float) -> Any:
    return bind(fft_, [x], {"axis": axis, "inverse": inverse, "factor": factor})[0]


def rfft(x: Any, axis: int, factor: float) -> Any:
    return bind(rfft_, [x], {"axis": axis, "n": type_of(x).shape[axis], "factor": factor})[0]


def irfft(x: Any, axis: int, n: int, factor: float) -> Any:
    return bind(irfft_, [x], {"axis": axis, "n": n, "factor": factor})[0]
