"""Uniform, normal, exponential and Laplace draws: a word each, through an inverse distribution function.

One word decides one number by arithmetic alone, so draws fuse with what reads them, and every
parameter has its derivative through the formula (draws are *reparametrised*).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.random.arguments import (
    at_least,
    drawable,
    floating,
    in_order,
    ordered,
    parameters,
    real,
    result,
    shaped,
)  # fmt: skip
from rune.random.exact import log, times
from rune.random.gaussian import normal_of, probability, quantile
from rune.random.keys import drawn, drawn_by, half, unit
from rune.value import Traced

__all__ = [
    "exponential", "laplace", "multivariate_normal", "normal", "standard_exponential",
    "truncated_normal", "uniform",
]  # fmt: skip


def uniform(key, shape=(), low=0.0, high=1.0, dtype=np.float64):
    key = drawn_by("uniform", key)
    dtype, inner = floating("uniform", dtype)
    standard = type(low) in (int, float) and type(high) in (int, float) and (low, high) == (0, 1)
    shape, (low, high) = parameters("uniform", shape, inner, low=low, high=high)
    u = drawn(key, shape, unit(dtype))
    if standard:
        return result(u, dtype)
    ordered("uniform", low, high)
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
        if not isinstance(width, Traced) and np.any(np.isinf(width)):
            raise ValueError(f"rune.random.uniform: high: the width from low to high is beyond {inner}")
        low, high, x = (v.astype(dtype) for v in (low, high, low + times(u.astype(inner), width)))
        # Rounding may reach `high`, which does not belong to the interval; `low` does.
        return result(np.where(x >= high, np.where(width < np.inf, low, np.nan), x), dtype)


def normal(key, shape=(), dtype=np.float64):
    key = drawn_by("normal", key)
    dtype, inner = floating("normal", dtype)
    return result(standard_normal(key, shaped("normal", shape, {}), inner), dtype)


def standard_normal(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return drawn(key, shape, lambda x, y: normal_of(*half(dtype)(x, y)))


def truncated_normal(key, shape=(), low=-2.0, high=2.0, dtype=np.float64):
    key = drawn_by("truncated_normal", key)
    dtype, inner = floating("truncated_normal", dtype)
    shape, (low, high) = parameters("truncated_normal", shape, inner, low=low, high=high)
    ordered("truncated_normal", low, high)
    # Probabilities are exact near 0 and not near 1, so an interval above 0 is reflected.
    above = low > 0
    least, most = np.where(above, -high, low), np.where(above, -low, high)
    u = drawn(key, shape, lambda x, y: 2.0 * half(inner)(x, y)[1])
    p = probability(least)
    p = p + times(u, probability(most) - p)
    z = quantile(np.clip(p, np.finfo(inner).tiny, 1.0 - np.finfo(inner).epsneg))
    z = np.minimum(np.maximum(z, least), most)
    return result(np.where(above, -z, z), dtype)


def standard_exponential(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return drawn(key, shape, lambda x, y: -log(2.0 * half(dtype)(x, y)[1]))


def exponential(key, shape=(), scale=1.0, dtype=np.float64):
    key = drawn_by("exponential", key)
    dtype, inner = floating("exponential", dtype)
    shape, (scale,) = parameters("exponential", shape, inner, scale=scale)
    at_least("exponential", "scale", scale)
    return result(scale * standard_exponential(key, shape, inner), dtype)


def laplace(key, shape=(), loc=0.0, scale=1.0, dtype=np.float64):
    key = drawn_by("laplace", key)
    dtype, inner = floating("laplace", dtype)
    shape, (loc, scale) = parameters("laplace", shape, inner, loc=loc, scale=scale)
    at_least("laplace", "scale", scale)

    def standard(x: Any, y: Any) -> Any:
        sign, p = half(inner)(x, y)
        size = log(2.0 * p)
        return np.where(sign, -size, size)

    return result(loc + times(scale, drawn(key, shape, standard)), dtype)


def multivariate_normal(key, shape, mean, cov, dtype=np.float64):
    name = "multivariate_normal"
    key = drawn_by(name, key)
    dtype, inner = floating(name, dtype)
    in_order(name, shape)
    mean, cov = real(name, "mean", mean, inner), real(name, "cov", cov, inner)
    n = cov.shape[-1] if np.ndim(cov) > 1 else None
    if n is None or cov.shape[-2] != n:
        raise ValueError(
            f"rune.random.{name}: cov: shape {list(np.shape(cov))}, where square matrices are needed"
        )
    if mean.shape[-1:] != (n,):
        raise ValueError(f"rune.random.{name}: mean: shape {list(np.shape(mean))}, cov: {list(cov.shape)}")
    shape = shaped(name, shape, {"mean": mean.shape[:-1], "cov": cov.shape[:-2]})
    drawable(name, (*shape, n))
    z = standard_normal(key, (*shape, n), inner)
    factor = np.linalg.cholesky(cov)
    spread = z @ factor.T if cov.ndim == 2 else (factor @ z[..., None])[..., 0]
    return result(mean + spread, dtype)
