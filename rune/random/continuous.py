"""Uniform, normal, exponential and Laplace draws: a word each, through an inverse distribution function.

One word decides one number by arithmetic alone, so draws fuse with what reads them, and every
parameter has its derivative through the formula (draws are *reparametrised*).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.constructs.custom import custom_jvp
from rune.random.arguments import at_least, floating, in_order, ordered, parameters, real, result, shaped
from rune.random.keys import drawn, drawn_by, half, unit

__all__ = ["exponential", "laplace", "multivariate_normal", "normal", "truncated_normal", "uniform"]

ROOT_2PI = 2.5066282746310002


def uniform(key, shape=(), low=0.0, high=1.0, dtype=np.float64):
    key = drawn_by("uniform", key)
    dtype, _ = floating("uniform", dtype)
    standard = type(low) in (int, float) and type(high) in (int, float) and (low, high) == (0, 1)
    shape, (low, high) = parameters("uniform", shape, dtype, low=low, high=high)
    u = drawn(key, shape, unit(dtype))
    if standard:
        return result(u, dtype)
    ordered("uniform", low, high)
    width = high - low
    # A product is never above `width`.  Saying so keeps compiled code from fusing it with the addition,
    # which rounds once where NumPy rounds twice: the bits are the same everywhere.
    part = u * width
    x = low + np.where(part > width, width, part)
    # Rounding may reach `high`, which does not belong to the interval; `low` does.
    return result(np.where(x >= high, low, x), dtype)


# Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37
# (1988): rational approximations of relative error 1e-16, numerators and denominators by rising power.
CENTRE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
MIDDLE = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
FAR = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


def polynomial(coefficients: tuple, x: Any) -> Any:
    total = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def upper(p: Any) -> Any:
    """The z >= 0 that a normal variable exceeds with probability p, for p in (0, 1/2]."""
    q = 0.5 - p
    central = q <= 0.425
    r = np.sqrt(-np.log(p))
    parts = [
        [polynomial(c, x) for c in pair]
        for pair, x in ((CENTRE, 0.180625 - q * q), (MIDDLE, r - 1.6), (FAR, r - 5.0))
    ]
    choose = lambda a, b, c: np.where(central, a, np.where(r <= 5.0, b, c))
    numerator, denominator = (choose(*three) for three in zip(*parts, strict=True))
    return np.where(central, q, 1.0) * numerator / denominator


def normal(key, shape=(), dtype=np.float64):
    key = drawn_by("normal", key)
    dtype, inner = floating("normal", dtype)
    return result(standard_normal(key, shaped("normal", shape, {}), inner), dtype)


def standard_normal(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return drawn(key, shape, lambda x, y: normal_of(*half(dtype)(x, y)))


def normal_of(sign: Any, p: Any) -> Any:
    z = upper(p)
    return np.where(sign, z, -z)


@custom_jvp
def quantile(p):
    """The z that a normal variable stays below with probability p in (0, 1)."""
    low = p <= 0.5
    z = upper(np.where(low, p, 1.0 - p))
    z = np.where(low, -z, z)
    return z, lambda dp: dp * (ROOT_2PI * np.exp(0.5 * z * z))


def truncated_normal(key, shape=(), low=-2.0, high=2.0, dtype=np.float64):
    from scipy.special import ndtr  # SciPy takes longer to import than rune

    key = drawn_by("truncated_normal", key)
    dtype, inner = floating("truncated_normal", dtype)
    shape, (low, high) = parameters("truncated_normal", shape, inner, low=low, high=high)
    ordered("truncated_normal", low, high)
    # Probabilities are exact near 0 and not near 1, so an interval above 0 is reflected.
    above = low > 0
    least, most = np.where(above, -high, low), np.where(above, -low, high)
    u = drawn(key, shape, lambda x, y: 2.0 * half(inner)(x, y)[1])
    p = ndtr(least)
    p = p + u * (ndtr(most) - p)
    z = quantile(np.clip(p, np.finfo(inner).tiny, 1.0 - np.finfo(inner).epsneg))
    z = np.minimum(np.maximum(z, least), most)
    return result(np.where(above, -z, z), dtype)


def standard_exponential(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return drawn(key, shape, lambda x, y: -np.log(2.0 * half(dtype)(x, y)[1]))


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
        size = np.log(2.0 * p)
        return np.where(sign, -size, size)

    return result(loc + scale * drawn(key, shape, standard), dtype)


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
    z = standard_normal(key, (*shape, n), inner)
    factor = np.linalg.cholesky(cov)
    spread = z @ factor.T if cov.ndim == 2 else (factor @ z[..., None])[..., 0]
    return result(mean + spread, dtype)
