"""The discrete Fourier transform over the last axis, unnormalised, complex to complex.

Its matrix is symmetric, so the transform is its own transpose.  Compiled code runs a program of
products with small matrices (Cooley and Tukey, 1965): a transform of length r s is one of length r
along the columns of an r by s matrix, a multiplication by twiddle factors, and one of length s along
its rows.  A length with a large prime factor is a convolution of a length without (Bluestein, 1970).
Long transforms call NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import movement
from rune.primitives.contract import contract
from rune.primitives.primitive import Linear
from rune.primitives.scalar import e
from rune.program import Type, type_of

__all__ = ["fft", "transform"]

MATRIX = 16  # lengths up to which a transform is a product with its matrix
LONG = 2048  # beyond it NumPy's transform, called on the host, is faster
PRIME = 64  # prime factors up to which it is so too


class FFT(Linear):
    name = "FFT"
    recompute = False
    program: Callable = None  # (type, inverse) -> the program that compiled code runs

    def type(self, types, params):
        return [types[0].strong()]

    def evaluate(self, args, params):
        x = np.asarray(args[0])
        f = np.fft.ifft if params["inverse"] else np.fft.fft
        return [
            f(x, axis=-1, norm="forward" if params["inverse"] else "backward").astype(x.dtype, copy=False)
        ]

    def transpose(self, cts, args, params):
        return bind(self, cts, params)

    def batch(self, size, args, mapped, params):
        return bind(self, args, {**params, "of": type_of(args[0]).strong()}), [True]

    def inlined(self, params):
        return FFT.program(params["of"], params["inverse"]) if params["of"].shape[-1] <= LONG else None

    def lower(self, e):
        params = e.params
        return [nest.Host(e.outputs, e.inputs, lambda x: self.evaluate([x], params), "fft")]

    def details(self, params):
        return "inverse" if params["inverse"] else ""


fft_ = FFT()


def fft(x: Any, inverse: bool = False) -> Any:
    return bind(fft_, [x], {"inverse": inverse, "of": type_of(x).strong()})[0]


def roots(products: Any, n: int, sign: int, dtype: np.dtype) -> np.ndarray:
    """exp(sign 2 pi i k / n) for integers k, reduced first so that no angle is large."""
    return np.exp(sign * 2j * np.pi * (np.asarray(products) % n) / n).astype(dtype)


def split(n: int) -> int:
    """A factor of n to transform by its matrix: the largest one that is short, or n's least prime factor."""
    short = [r for r in range(MATRIX, 1, -1) if n % r == 0]
    return short[0] if short else next((p for p in range(2, int(n**0.5) + 1) if n % p == 0), n)


def transform(x: Any, sign: int) -> Any:
    """The transform of the last axis, as other operations."""
    t: Type = type_of(x)
    *lead, n = t.shape
    lead = tuple(lead)
    r = n if n <= MATRIX else split(n)
    if r > PRIME:
        return convolved(x, sign) if r == n else stages(x, lead, n // r, r, sign)
    if r == n:
        k = np.arange(n)
        return contract(x, roots(np.outer(k, k), n, sign, t.dtype), ((len(lead),), (0,)))
    return stages(x, lead, r, n // r, sign)


def stages(x: Any, lead: tuple, r: int, s: int, sign: int) -> Any:
    """Length r along the columns, twiddles, length s along the rows; read out by columns."""
    m = len(lead)
    dtype = type_of(x).dtype
    columns = movement.reshape(x, (*lead, r, s))
    columns = transform(movement.permute(columns, (*range(m), m + 1, m)), sign)  # (..., s, r)
    columns = e.mul(columns, roots(np.outer(np.arange(s), np.arange(r)), r * s, sign, dtype))
    rows = transform(movement.permute(columns, (*range(m), m + 1, m)), sign)  # (..., r, s)
    return movement.reshape(movement.permute(rows, (*range(m), m + 1, m)), (*lead, r * s))


def convolved(x: Any, sign: int) -> Any:
    """A transform as a convolution with a chirp, whose length is a power of two."""
    t = type_of(x)
    *lead, n = t.shape
    k = np.arange(n)
    chirp = np.exp(sign * 1j * np.pi * (k * k % (2 * n)) / n)
    size = 1 << (2 * n - 2).bit_length()
    kernel = np.zeros(size, complex)
    kernel[:n] = chirp.conj()
    kernel[size - n + 1 :] = chirp[:0:-1].conj()
    spectrum = (np.fft.fft(kernel) / size).astype(t.dtype)
    padded = movement.pad(e.mul(x, chirp.astype(t.dtype)), (0,) * t.ndim, (*(0,) * len(lead), size - n))
    y = transform(e.mul(transform(padded, -1), spectrum), 1)
    return e.mul(movement.part(y, len(lead), 0, n), chirp.astype(t.dtype))
