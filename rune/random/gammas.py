"""Gamma draws and what is made of them: beta and Dirichlet.

Draws are made by rejection (G. Marsaglia, W. W. Tsang, "A simple method for generating gamma
variables", 2000), in logarithms, so that a small shape parameter does not underflow.  Rejection has no
derivative; that of a draw x by the shape parameter a is the one that keeps its probability F(x; a)
(M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization gradients", 2018):

    dx/da = -(dF/da) / (dF/dx)

With l = log x and psi the digamma function, dF/da is the integral up to l of (w - psi(a)) times the
density of w, and over all w that integral is 0.  So `slope` takes it from the side where l is, divided
by the density at l: its integrand is one smooth hump that 24 Gauss-Legendre points integrate to 1e-9.
For small x, where the hump has a tail of length 1/a, the power series serves.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import effects, movement
from rune.primitives.primitive import Primitive
from rune.primitives.scalar import e
from rune.program import type_of
from rune.random.arguments import at_least, drawable, floating, in_order, parameters, real, result, shaped
from rune.random.exact import exp, log, times
from rune.random.gaussian import normal_of
from rune.random.keys import children, drawn, drawn_by, half
from rune.random.rejection import first_accepted
from rune.value import Traced, box, raw

__all__ = ["beta", "dirichlet", "gamma"]

SERIES = 3.0  # the x below which the power series is taken
TERMS = 24
DEPTH = 30.0  # the integrand is followed down to exp(-DEPTH) of its value at l
BOOST = 0x40000000  # the stream of the factor that takes a draw for a + 1 to one for a < 1


class Implicit(Primitive):
    """(l, a) -> l, the logarithm of a gamma draw, with its implicit derivative by a."""

    name = "gamma"

    def type(self, types, params):
        return types[:1]

    def evaluate(self, args, params):
        return args[:1]

    def jvp(self, primals, tangents, params):
        (out,) = bind(self, primals, params)
        (dl, da) = tangents
        if da is None:
            return [out], [dl]
        # `out` depends on a, so a derivative of this tangent is right in turn.
        change = e.mul(da, raw(slope(box(primals[1]), box(out))))
        return [out], [change if dl is None else e.add(dl, change)]

    def batch(self, size, args, mapped, params):
        shape = (size, *(type_of(args[0]).shape[mapped[0] :]))
        args = [x if m else movement.broadcast(x, shape) for x, m in zip(args, mapped, strict=True)]
        return bind(self, args, params), [True]

    def lower(self, e):
        return [nest.Index(e.outputs, e.inputs[:1], lambda read, i: read(0, i))]


implicit = Implicit()


def log_gamma(key: Any, a: Any) -> Any:
    """The logarithm of a gamma draw for every element of `a`."""
    if not isinstance(a, Traced):
        return log_gamma_draw(key, a)
    drawn = log_gamma_draw(key, box(effects.detach(raw(a))))
    return box(bind(implicit, [raw(drawn), raw(a)], {})[0])


@np.errstate(all="ignore")  # parameters of 0, infinity and NaN are no accidents
def log_gamma_draw(key: Any, a: Any) -> Any:
    dtype = a.dtype
    small = a < 1.0
    d = np.where(small, a + 1.0, a) - 1.0 / 3.0
    proper = (a >= 0.0) & (a < np.inf)
    d = np.where(proper, d, 1.0)

    def propose(words, d):
        z = normal_of(*half(dtype)(*words[0]))
        u = 2.0 * half(dtype)(*words[1])[1]
        t = 1.0 + z / np.sqrt(9.0 * d)
        positive = t > 0.0
        log_v = 3.0 * log(np.where(positive, t, 1.0))
        v = exp(log_v)
        accepted = positive & (log(u) < times(0.5 * z, z) + times(d, 1.0 - v + log_v))
        return log(d) + log_v, accepted

    start = np.where(proper, 0.0, a + np.inf).astype(dtype)
    start = np.where(a < 0.0, np.nan, start).astype(dtype)
    out = first_accepted(propose, key, (d,), start, ~proper)
    u = log(2.0 * draw_half(key, a.shape, dtype))
    boost = np.where(small, u, 0.0) / np.where(small, a, 1.0)
    return out + boost


def draw_half(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return drawn(key, shape, lambda x, y: half(dtype)(x, y)[1], BOOST)


@functools.cache
def rule() -> list[tuple[float, float]]:
    """Gauss-Legendre points between 0 and 1, and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    return list(zip(((nodes + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


def slope(a: Any, l: Any) -> Any:
    """dl/da of l = log x for a gamma variable x with shape parameter a, at constant probability."""
    from scipy.special import digamma  # SciPy takes longer to import than rune

    x = np.exp(l)
    low = x < SERIES
    offset = l - digamma(a)
    return np.where(
        low,
        slope_near_zero(a, np.where(low, x, 1.0), offset),
        slope_by_integral(np.where(low, SERIES, a), np.where(low, SERIES, x), np.where(low, 0.0, offset)),
    )


def slope_near_zero(a: Any, x: Any, offset: Any) -> Any:
    """By F = x**a / gamma(a) * sum of (-x)**n / (n! (a + n))."""
    total = by_a = 0.0
    power = 1.0
    for n in range(TERMS):
        inverse = 1.0 / (a + n)
        term = power * inverse
        total = total + term
        by_a = by_a + term * inverse
        power = power * x * (-1.0 / (n + 1))
    return -np.exp(x) * (offset * total - by_a)


def slope_by_integral(a: Any, x: Any, offset: Any) -> Any:
    """By the integral over t = w - l, up to 0 where x is below a, else from 0 on."""
    up = x > a
    sign = np.where(up, 1.0, -1.0)
    # exp(t) - 1 - t = c has its positive root below log(1 + c + sqrt(2c)), the negative one above -1 - c
    # and above -sqrt(2c) - c; and at l itself the integrand falls with the slope a - x.
    c = DEPTH / x
    root = np.sqrt(2.0 * c)
    length = np.where(up, np.log1p(c + root), c + np.minimum(root, 1.0))
    length = np.minimum(length, DEPTH / np.maximum(np.abs(a - x), 1e-30))
    total = 0.0
    for node, weight in rule():
        t = sign * (length * node)
        total = total + weight * (sign * (offset + t)) * np.exp(a * t - x * np.expm1(t))
    return length * total


def gamma(key, shape, a, scale=1.0, dtype=np.float64):
    key = drawn_by("gamma", key)
    dtype, inner = floating("gamma", dtype)
    shape, (a, scale) = parameters("gamma", shape, inner, a=a, scale=scale)
    at_least("gamma", "a", a)
    at_least("gamma", "scale", scale)
    return result(scale * exp(log_gamma(key, spread(a, shape))), dtype)


def beta(key, shape, a, b, dtype=np.float64):
    key = drawn_by("beta", key)
    dtype, inner = floating("beta", dtype)
    shape, (a, b) = parameters("beta", shape, inner, a=a, b=b)
    at_least("beta", "a", a)
    at_least("beta", "b", b)
    first, second = children(key, 2)
    with np.errstate(over="ignore", invalid="ignore"):
        log_ratio = log_gamma(second, spread(b, shape)) - log_gamma(first, spread(a, shape))
        return result(1.0 / (1.0 + exp(log_ratio)), dtype)


def dirichlet(key, shape, alpha, dtype=np.float64):
    key = drawn_by("dirichlet", key)
    dtype, inner = floating("dirichlet", dtype)
    in_order("dirichlet", shape)
    alpha = real("dirichlet", "alpha", alpha, inner)
    if not np.ndim(alpha):
        raise ValueError("rune.random.dirichlet: alpha: a vector is needed, got one number")
    at_least("dirichlet", "alpha", alpha)
    shape = shaped("dirichlet", shape, {"alpha": alpha.shape[:-1]})
    drawable("dirichlet", (*shape, alpha.shape[-1]))
    logs = log_gamma(key, spread(alpha, (*shape, alpha.shape[-1])))
    with np.errstate(invalid="ignore"):
        terms = exp(logs - np.max(logs, axis=-1, keepdims=True, initial=-np.inf))
        return result(terms / total(terms), dtype)


def total(terms: Any) -> Any:
    """Sums along the last axis, from first to last: `np.sum` is free to add in another order."""
    return np.cumsum(terms, axis=-1)[..., -1:]


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """A parameter as an array of the draw's shape."""
    return np.broadcast_to(x, shape)
