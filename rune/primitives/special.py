"""Rows of the table of scalar functions for scipy.special's ufuncs, added when one is first used.

SciPy takes longer to import than all the rest; whoever calls one of its functions has imported it.
Compiled code calls SciPy's own routines by pointer, and the host for the few that have none.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.primitives.scalar import TABLE, Row, e

__all__ = ["load", "trigamma"]

ROOT_PI = math.sqrt(math.pi)
ROOT_2PI = math.sqrt(2 * math.pi)
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def trigamma(x: Any) -> Any:
    """The derivative of digamma, by reflection, recurrence and its asymptotic series at x + 10."""
    left = e.lt(x, 0.5)
    y = e.select(left, e.sub(1.0, x), x)
    total = None
    for k in range(10):
        term = e.reciprocal(e.square(e.add(y, float(k))))
        total = term if total is None else e.add(total, term)
    z = e.reciprocal(e.add(y, 10.0))
    square = e.mul(z, z)
    series = BERNOULLI[-1]
    for b in BERNOULLI[-2::-1]:
        series = e.add(b, e.mul(square, series))
    tail = e.add(z, e.add(e.mul(0.5, square), e.mul(e.mul(square, z), series)))
    right = e.add(total, tail)
    # trigamma(x) + trigamma(1 - x) = (pi / sin(pi x))^2; the sine is read where it is needed only.
    sine = e.sin(e.mul(math.pi, e.select(left, x, 0.5)))
    return e.select(left, e.sub(e.square(e.div(math.pi, sine)), right), right)


def no_derivative(name: str, operand: str) -> Callable:
    def refuse(*args):
        raise TypeError(
            f"scipy.special.{name} has no derivative by {operand}: pass it through rune.detach, or give a rule with rune.custom_jvp"
        )

    return refuse


def over(x: Any, y: Any, at_zero: float) -> Any:
    """y / x, and its limit where x is 0."""
    zero = e.eq(x, 0.0)
    return e.select(zero, at_zero, e.div(y, e.select(zero, 1.0, x)))


def digamma_difference(o: Any, a: Any, b: Any) -> Any:
    return e.mul(o, e.sub(e.digamma(a), e.digamma(b)))


def ellipk_slope(m: Any, k: Any) -> Any:
    whole = e.sub(e.div(e.ellipe(m), e.sub(1.0, m)), k)
    return over(m, e.mul(0.5, whole), math.pi / 8)


def boxcox_slope(logarithm: Any, l: Any) -> Any:
    """The derivative of (exp(l log) - 1) / l by l."""
    zero = e.eq(l, 0.0)
    safe = e.select(zero, 1.0, l)
    z = e.mul(safe, logarithm)
    whole = e.div(e.add(e.mul(e.exp(z), e.sub(z, 1.0)), 1.0), e.mul(safe, safe))
    return e.select(zero, e.mul(0.5, e.square(logarithm)), whole)


def bessel(name: str, first: float, second: float, extra: Callable | None = None) -> Callable:
    """(first f(v-1, z) + second f(v+1, z)) / 2, and what a scaled function adds."""
    f = lambda *args: getattr(e, name)(*args)

    def by_z(v, z, o):
        slope = e.mul(0.5, e.add(e.mul(first, f(e.sub(v, 1.0), z)), e.mul(second, f(e.add(v, 1.0), z))))
        return slope if extra is None else e.add(slope, extra(z, o))

    return by_z


def gamma_density(a: Any, x: Any) -> Any:
    return e.exp(e.sub(e.xlogy(e.sub(a, 1.0), x), e.add(x, e.gammaln(a))))


def beta_density(a: Any, b: Any, x: Any) -> Any:
    return e.exp(e.sub(e.add(e.xlogy(e.sub(a, 1.0), x), e.xlog1py(e.sub(b, 1.0), e.neg(x))), e.betaln(a, b)))


def pseudo_root(d: Any, r: Any) -> Any:
    return e.sqrt(e.add(1.0, e.square(e.div(r, d))))


ONE = {  # of one argument: name -> derivative from (x, result)
    "expit": lambda x, o: e.mul(o, e.sub(1.0, o)),
    "logit": lambda x, o: e.reciprocal(e.mul(x, e.sub(1.0, x))),
    "log_expit": lambda x, o: e.expit(e.neg(x)),
    "erf": lambda x, o: e.mul(2 / ROOT_PI, e.exp(e.neg(e.square(x)))),
    "erfc": lambda x, o: e.mul(-2 / ROOT_PI, e.exp(e.neg(e.square(x)))),
    "erfcx": lambda x, o: e.sub(e.mul(2.0, e.mul(x, o)), 2 / ROOT_PI),
    "erfi": lambda x, o: e.mul(2 / ROOT_PI, e.exp(e.square(x))),
    "erfinv": lambda x, o: e.mul(ROOT_PI / 2, e.exp(e.square(o))),
    "erfcinv": lambda x, o: e.mul(-ROOT_PI / 2, e.exp(e.square(o))),
    "dawsn": lambda x, o: e.sub(1.0, e.mul(2.0, e.mul(x, o))),
    "ndtr": lambda x, o: e.mul(1 / ROOT_2PI, e.exp(e.mul(-0.5, e.square(x)))),
    "ndtri": lambda x, o: e.mul(ROOT_2PI, e.exp(e.mul(0.5, e.square(o)))),
    "log_ndtr": lambda x, o: e.mul(1 / ROOT_2PI, e.exp(e.sub(e.mul(-0.5, e.square(x)), o))),
    "ndtri_exp": lambda x, o: e.mul(ROOT_2PI, e.exp(e.add(x, e.mul(0.5, e.square(o))))),
    "gammaln": lambda x, o: e.digamma(x),
    "loggamma": lambda x, o: e.digamma(x),
    "gamma": lambda x, o: e.mul(o, e.digamma(x)),
    "rgamma": lambda x, o: e.neg(e.mul(o, e.digamma(x))),
    "digamma": lambda x, o: trigamma(x),
    "j0": lambda x, o: e.neg(e.j1(x)),
    "j1": lambda x, o: e.sub(e.j0(x), over(x, o, 0.5)),
    "y0": lambda x, o: e.neg(e.y1(x)),
    "y1": lambda x, o: e.sub(e.y0(x), e.div(o, x)),
    "i0": lambda x, o: e.i1(x),
    "i1": lambda x, o: e.sub(e.i0(x), over(x, o, 0.5)),
    "i0e": lambda x, o: e.sub(e.i1e(x), e.mul(e.sign(x), o)),
    "i1e": lambda x, o: e.sub(e.sub(e.i0e(x), over(x, o, 0.5)), e.mul(e.sign(x), o)),
    "k0": lambda x, o: e.neg(e.k1(x)),
    "k1": lambda x, o: e.neg(e.add(e.k0(x), e.div(o, x))),
    "k0e": lambda x, o: e.sub(o, e.k1e(x)),
    "k1e": lambda x, o: e.sub(e.sub(o, e.div(o, x)), e.k0e(x)),
    "exprel": lambda x, o: over(x, e.sub(e.exp(x), o), 0.5),
    "entr": lambda x, o: e.neg(e.add(e.log(x), 1.0)),
    "exp10": lambda x, o: e.mul(math.log(10), o),
    "cosm1": lambda x, o: e.neg(e.sin(x)),
    "spence": lambda x, o: over(e.sub(1.0, x), e.log(x), -1.0),
    "ellipk": ellipk_slope,
    "ellipe": lambda m, o: over(m, e.mul(0.5, e.sub(o, e.ellipk(m))), -math.pi / 8),
    "ellipkm1": lambda p, o: e.neg(ellipk_slope(e.sub(1.0, p), o)),
    "sindg": lambda x, o: e.mul(math.pi / 180, e.cosdg(x)),
    "cosdg": lambda x, o: e.mul(-math.pi / 180, e.sindg(x)),
    "tandg": lambda x, o: e.mul(math.pi / 180, e.add(1.0, e.square(o))),
    "gammasgn": None,
}  # fmt: skip

TWO = {  # of two: a derivative by each
    "xlogy": (lambda x, y, o: e.log(y), lambda x, y, o: e.div(x, y)),
    "xlog1py": (lambda x, y, o: e.log1p(y), lambda x, y, o: e.div(x, e.add(1.0, y))),
    "rel_entr": (lambda x, y, o: e.add(e.log(e.div(x, y)), 1.0), lambda x, y, o: e.neg(e.div(x, y))),
    "kl_div": (lambda x, y, o: e.log(e.div(x, y)), lambda x, y, o: e.sub(1.0, e.div(x, y))),
    "beta": (
        lambda a, b, o: digamma_difference(o, a, e.add(a, b)),
        lambda a, b, o: digamma_difference(o, b, e.add(a, b)),
    ),
    "betaln": (
        lambda a, b, o: e.sub(e.digamma(a), e.digamma(e.add(a, b))),
        lambda a, b, o: e.sub(e.digamma(b), e.digamma(e.add(a, b))),
    ),
    "boxcox": (lambda x, l, o: e.pow(x, e.sub(l, 1.0)), lambda x, l, o: boxcox_slope(e.log(x), l)),
    "boxcox1p": (
        lambda x, l, o: e.pow(e.add(1.0, x), e.sub(l, 1.0)),
        lambda x, l, o: boxcox_slope(e.log1p(x), l),
    ),
    "inv_boxcox": (lambda y, l, o: e.pow(o, e.sub(1.0, l)), no_derivative("inv_boxcox", "lmbda")),
    "inv_boxcox1p": (lambda y, l, o: e.pow(e.add(o, 1.0), e.sub(1.0, l)), no_derivative("inv_boxcox1p", "lmbda")),
    "huber": (
        lambda d, r, o: e.maximum(e.sub(e.abs(r), d), 0.0),
        lambda d, r, o: e.maximum(e.minimum(r, d), e.neg(d)),
    ),
    "pseudo_huber": (
        lambda d, r, o: e.sub(e.mul(e.mul(2.0, d), e.sub(pseudo_root(d, r), 1.0)), e.div(e.square(r), e.mul(d, pseudo_root(d, r)))),
        lambda d, r, o: e.div(r, pseudo_root(d, r)),
    ),
    "gammainc": (no_derivative("gammainc", "a"), lambda a, x, o: gamma_density(a, x)),
    "gammaincc": (no_derivative("gammaincc", "a"), lambda a, x, o: e.neg(gamma_density(a, x))),
    "zeta": (no_derivative("zeta", "x"), lambda s, q, o: e.neg(e.mul(s, e.zeta(e.add(s, 1.0), q)))),
    "jv": (no_derivative("jv", "v"), bessel("jv", 1.0, -1.0)),
    "yv": (no_derivative("yv", "v"), bessel("yv", 1.0, -1.0)),
    "iv": (no_derivative("iv", "v"), bessel("iv", 1.0, 1.0)),
    "kv": (no_derivative("kv", "v"), bessel("kv", -1.0, -1.0)),
    "ive": (no_derivative("ive", "v"), bessel("ive", 1.0, 1.0, lambda z, o: e.neg(e.mul(e.sign(z), o)))),
    "kve": (no_derivative("kve", "v"), bessel("kve", -1.0, -1.0, lambda z, o: o)),
    "binom": (
        lambda n, k, o: digamma_difference(o, e.add(n, 1.0), e.add(e.sub(n, k), 1.0)),
        lambda n, k, o: digamma_difference(o, e.add(e.sub(n, k), 1.0), e.add(k, 1.0)),
    ),
    "poch": (
        lambda a, m, o: digamma_difference(o, e.add(a, m), a),
        lambda a, m, o: e.mul(o, e.digamma(e.add(a, m))),
    ),
}  # fmt: skip

THREE = {
    "betainc": (
        no_derivative("betainc", "a"),
        no_derivative("betainc", "b"),
        lambda a, b, x, o: beta_density(a, b, x),
    ),
    "betaincc": (
        no_derivative("betaincc", "a"),
        no_derivative("betaincc", "b"),
        lambda a, b, x, o: e.neg(beta_density(a, b, x)),
    ),
}

# SciPy's names for rows that NumPy's functions have already.
SAME = {"log1p": "log1p", "expm1": "expm1", "cbrt": "cbrt", "exp2": "exp2", "round": "rint", "psi": "digamma"}

# Compositions for compiled code, where SciPy exports no routine of float64.
HOST = {"zeta", "binom"}


@functools.lru_cache(None)
def load() -> dict:
    """The rows, added to the table; SciPy's ufuncs -> names of rows."""
    import scipy.special

    found = {}
    rows = {name: None if f is None else (f,) for name, f in ONE.items()} | TWO | THREE
    for name, partials in rows.items():
        ufunc = getattr(scipy.special, name, None)
        if isinstance(ufunc, np.ufunc) and name not in TABLE:
            native = f"host:{name}" if name in HOST else f"special:{name}"
            TABLE[name] = Row(name, ufunc, partials, native=native)
            found[ufunc] = name
    found |= {getattr(scipy.special, name): row for name, row in SAME.items() if hasattr(scipy.special, name)}
    return found
