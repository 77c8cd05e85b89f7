"""The discrete Fourier transform over the last axis, unnormalised, complex to complex.

Its matrix is symmetric, so the transform is its own transpose.  Compiled code multiplies short
vectors by the matrix and calls NumPy for long ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives.primitive import Linear
from rune.program import Type, Var

__all__ = ["fft"]

SHORT = 16  # lengths up to which the product with the matrix costs less than a call of the host


class FFT(Linear):
    name = "FFT"
    recompute = False

    def type(self, types, params):
        return [types[0].strong()]

    def evaluate(self, args, params):
        x = np.asarray(args[0])
        transform = np.fft.ifft if params["inverse"] else np.fft.fft
        return [
            transform(x, axis=-1, norm="forward" if params["inverse"] else "backward").astype(
                x.dtype, copy=False
            )
        ]

    def transpose(self, cts, args, params):
        return bind(self, cts, params)

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True]

    def lower(self, e):
        t, params = e.inputs[0].type, e.params
        n = t.shape[-1]
        if n > SHORT:
            return [nest.Host(e.outputs, e.inputs, lambda x: self.evaluate([x], params), "fft")]
        k = np.arange(n)
        matrix = np.exp((2j if params["inverse"] else -2j) * np.pi * (k[:, None] * k % n) / n).astype(t.dtype)
        constant = Var(Type(t.dtype, (n, n)))
        return [
            nest.Constant((constant,), (), matrix),
            nest.Contract(e.outputs, (e.inputs[0], constant), ((t.ndim - 1,), (0,)), ((), ())),
        ]

    def details(self, params):
        return "inverse" if params["inverse"] else ""


fft_ = FFT()


def fft(x: Any, inverse: bool = False) -> Any:
    return bind(fft_, [x], {"inverse": inverse})[0]
