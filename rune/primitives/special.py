"""Rows of the table of scalar functions for scipy.special's ufuncs, added when one is first used.

SciPy takes longer to import than all the rest; whoever calls one of its functions has imported it.
Compiled code calls SciPy's own routines by pointer, and for those without one the loop of their ufunc.

The obvious derivatives of many of these functions are differences of nearly equal numbers.  They
are written with functions that have no such differences: erfcx for the normal tails, `digamma_rise`
for the beta family, asymptotic differences for the scaled Bessel functions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.primitives.scalar import TABLE, Row, e
from rune.program import type_of

__all__ = ["beta_density", "gamma_density", "load", "no_derivative", "over", "ufunc_of"]

ROOT_PI = math.sqrt(math.pi)
ROOT_2PI = math.sqrt(2 * math.pi)
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def polynomial(coefficients: Any, x: Any) -> Any:
    """Horner's rule, the constant first."""
    *rest, total = coefficients
    for c in reversed(rest):
        total = e.add(c, e.mul(x, total))
    return total


def total(terms: Any) -> Any:
    return functools.reduce(e.add, terms)


def over(x: Any, y: Any, at_zero: float) -> Any:
    """y / x, and its limit where x is 0."""
    zero = e.eq(x, 0.0)
    return e.select(zero, at_zero, e.div(y, e.select(zero, 1.0, x)))


def quotient(x: Any, y: Any) -> Any:
    """x / y, 0 where both are 0: of functions that are 0 at x = 0 whatever y."""
    return e.div(x, e.select(e.logical_and(e.eq(x, 0.0), e.eq(y, 0.0)), 1.0, y))


def is_complex(x: Any) -> bool:
    return type_of(x).dtype.kind == "c"


def no_derivative(name: str, operand: str) -> Callable:
    def refuse(*args):
        raise TypeError(
            f"scipy.special.{name} has no derivative by {operand}: pass it through rune.detach, or give a rule with rune.custom_jvp"
        )

    return refuse


# The normal distribution: exp(-x**2), and the erfc family that scales it away.


def exp_minus_square(x: Any) -> Any:
    """exp(-x**2): the square's rounding is kept, which at x = 20 is 200 units in the last place."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return np.exp(-x * x)
    if x.dtype.itemsize < 8:
        return np.exp(-np.square(x, dtype=np.float64)).astype(x.dtype)
    x = np.minimum(np.abs(x), 64.0)
    high = np.rint(x * 2.0**20) * 2.0**-20  # its square is exact
    low = (x - high) * (x + high)
    return np.exp(-high * high) * (1 - low * (1 - low * (0.5 - low / 6)))


GAUSSIAN = Row("gaussian", exp_minus_square, (lambda x, o: e.mul(-2.0, e.mul(x, o)),))


def normal_density(x: Any) -> Any:
    return e.mul(1 / ROOT_2PI, e.square(e.gaussian(e.mul(0.5, x))))


def erfcx_slope(x: Any, o: Any) -> Any:
    """2 x erfcx(x) - 2/sqrt(pi); for larger x from the continued fraction of erfcx, which has no difference."""
    near = e.sub(e.mul(2.0, e.mul(x, o)), 2 / ROOT_PI)
    if is_complex(x):
        return near
    far = e.gt(x, 2.5)
    y = e.select(far, x, 2.5)
    t = y
    for n in range(30, 1, -1):
        t = e.add(y, e.div(n / 2, t))
    t = e.div(0.5, t)
    return e.select(far, e.mul(-2 / ROOT_PI, e.div(t, e.add(y, t))), near)


def inverse_erf_slope(tail: Any, o: Any) -> Any:
    """sqrt(pi)/2 exp(o**2), from erfc(|o|), which o's rounding does not touch."""
    return e.mul(ROOT_PI / 2, e.div(e.erfcx(e.abs(o)), tail))


def log_ndtr_slope(x: Any, o: Any) -> Any:
    if is_complex(x):
        return e.mul(1 / ROOT_2PI, e.exp(e.sub(e.mul(-0.5, e.square(x)), o)))
    low = e.lt(x, 0.0)
    left = e.div(2 / ROOT_2PI, e.erfcx(e.mul(-math.sqrt(0.5), e.select(low, x, 0.0))))
    right = e.select(low, 0.0, x)
    return e.select(low, left, e.div(normal_density(right), e.ndtr(right)))


def ndtri_slope(tail: Any, o: Any) -> Any:
    return e.mul(ROOT_2PI / 2, e.div(e.erfcx(e.mul(math.sqrt(0.5), e.abs(o))), tail))


def ndtri_exp_slope(x: Any, o: Any) -> Any:
    scaled = e.mul(ROOT_2PI / 2, e.erfcx(e.mul(math.sqrt(0.5), e.abs(o))))
    low = e.lt(o, 0.0)
    upper = e.select(low, -1.0, x)
    return e.select(low, scaled, e.mul(scaled, e.div(e.exp(upper), e.neg(e.expm1(upper)))))


# The gamma family.


def trigamma(x: Any) -> Any:
    """The derivative of digamma, by reflection, recurrence and its asymptotic series at x + 10."""
    left = e.lt(x, 0.5)
    y = e.select(left, e.sub(1.0, x), x)
    z = e.reciprocal(e.add(y, 10.0))
    square = e.mul(z, z)
    near = total(e.square(e.reciprocal(e.add(y, float(k)))) for k in range(10))
    tail = e.add(z, e.add(e.mul(0.5, square), e.mul(e.mul(square, z), polynomial(BERNOULLI, square))))
    right = e.add(near, tail)
    # trigamma(x) + trigamma(1 - x) = (pi / sin(pi x))**2, whose period is 1.
    inside = e.select(left, x, 0.25)
    period = e.rint(e.real(inside) if is_complex(x) else inside)
    sine = e.sin(e.mul(math.pi, e.sub(inside, period)))
    return e.select(left, e.sub(e.square(e.div(math.pi, sine)), right), right)


def digamma_rise(a: Any, b: Any) -> Any:
    """digamma(a + b) - digamma(a), a sum of terms of one sign where a and a + b are positive.

    Ten terms of the recurrence, then the difference of the asymptotic series with b taken out.
    """
    c = e.add(a, b)
    plain = e.sub(e.digamma(c), e.digamma(a))
    if is_complex(c):
        return plain
    positive = e.logical_and(e.gt(a, 0.0), e.gt(c, 0.0))
    a, b, c = e.select(positive, a, 1.0), e.select(positive, b, 1.0), e.select(positive, c, 2.0)
    near = total(e.div(e.div(b, e.add(a, float(k))), e.add(c, float(k))) for k in range(10))
    u, v = e.reciprocal(e.add(a, 10.0)), e.reciprocal(e.add(c, 10.0))
    step = e.mul(e.mul(b, u), v)  # u - v
    uu, vv = e.square(u), e.square(v)
    last, powers, terms = vv, e.add(uu, vv), []  # (uu**n - vv**n) / (uu - vv), from n = 2
    for n, bernoulli in enumerate(BERNOULLI[1:], 2):
        terms.append(e.mul(bernoulli / (2 * n), powers))
        last = e.mul(vv, last)
        powers = e.add(e.mul(uu, powers), last)
    series = e.mul(e.mul(step, e.add(u, v)), e.add(total(reversed(terms)), BERNOULLI[0] / 2))
    far = e.add(e.log1p(e.mul(b, u)), e.add(e.mul(0.5, step), series))
    return e.select(positive, e.add(near, far), plain)


def minus_digamma_rise(o: Any, a: Any, b: Any) -> Any:
    return e.neg(e.mul(o, digamma_rise(a, b)))


def rgamma_slope(x: Any, o: Any) -> Any:
    """-digamma/gamma; at a pole, n = -x, where gamma is infinite, (-1)**n n!."""
    if is_complex(x):
        return e.neg(e.mul(o, e.digamma(x)))
    pole = e.logical_and(e.le(x, 0.0), e.eq(x, e.floor(x)))
    n = e.select(pole, e.neg(x), 0.0)
    at_pole = e.mul(e.sub(1.0, e.mul(2.0, e.mod(n, 2.0))), e.gamma(e.add(n, 1.0)))
    return e.select(pole, at_pole, e.neg(e.mul(o, e.digamma(e.select(pole, 1.0, x)))))


STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def gamma_density(a: Any, x: Any) -> Any:
    """x**(a-1) exp(-x) / gamma(a): as it stands while that cannot overflow; else by C. Loader's saddle point."""
    large = e.logical_or(e.gt(a, 100.0), e.gt(x, 1000.0))
    small = e.select(large, 1.0, a)
    half = e.exp(e.mul(-0.5, x))
    direct = e.div(
        e.mul(e.mul(half, e.pow(e.select(large, 1.0, x), e.sub(small, 1.0))), half), e.gamma(small)
    )
    a = e.select(large, a, 100.0)
    y = e.select(e.logical_and(large, e.gt(x, 0.0)), x, 100.0)
    t = e.div(e.sub(y, a), a)
    v = e.div(t, e.add(2.0, t))  # t - log1p(t) = t v - 2 (v**3/3 + v**5/5 + ...)
    close = e.lt(e.abs(t), 0.5)
    s = e.select(close, v, 0.0)
    odd = polynomial([1 / (2 * k + 3) for k in range(17)], e.square(s))
    gap = e.sub(e.mul(t, s), e.mul(2.0, e.mul(e.mul(e.square(s), s), odd)))
    gap = e.select(close, gap, e.sub(t, e.log(e.select(close, 1.0, e.div(y, a)))))
    inverse = e.reciprocal(a)
    correction = e.mul(inverse, polynomial(STIRLING, e.square(inverse)))
    saddle = e.exp(e.neg(e.add(e.mul(a, gap), correction)))
    saddle = e.mul(e.mul(e.sqrt(a), e.div(1 / ROOT_2PI, y)), saddle)
    return e.select(large, e.select(e.gt(x, 0.0), saddle, 0.0), direct)


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """x**(a-1) (1-x)**(b-1) / beta(a, b), by logarithms where the powers would underflow."""
    large = e.gt(e.add(a, b), 500.0)
    logs = e.sub(e.add(e.xlogy(e.sub(a, 1.0), x), e.xlog1py(e.sub(b, 1.0), e.neg(x))), e.betaln(a, b))
    a, b = e.select(large, 1.0, a), e.select(large, 1.0, b)
    low = e.lt(x, 0.5)  # where 1 - x is rounded
    right = e.exp(e.xlog1py(e.sub(b, 1.0), e.neg(e.select(low, x, 0.5))))
    right = e.select(low, right, e.pow(e.sub(1.0, e.select(low, 0.5, x)), e.sub(b, 1.0)))
    direct = e.div(e.mul(e.pow(x, e.sub(a, 1.0)), right), e.beta(a, b))
    return e.select(large, e.exp(e.select(large, logs, 0.0)), direct)


# Bessel functions.


def bessel(name: str, first: float, second: float, extra: Callable | None = None) -> Callable:
    """(first f(v-1, z) + second f(v+1, z)) / 2, and what a scaled function adds."""
    f = lambda *args: getattr(e, name)(*args)

    def by_z(v, z, o):
        slope = e.mul(0.5, e.add(e.mul(first, f(e.sub(v, 1.0), z)), e.mul(second, f(e.add(v, 1.0), z))))
        return slope if extra is None else e.add(slope, extra(z, o))

    return by_z


def ive_scale(z: Any, o: Any) -> Any:
    """What exp(-|Re z|) adds to the derivative of ive by a real z."""
    if is_complex(z):
        raise TypeError(
            "scipy.special.ive is scaled by the real part, and has no complex derivative: write iv(v, z) * exp(-abs(z.real))"
        )
    return e.neg(e.mul(e.sign(z), o))


def hankel_terms(v: int) -> list[float]:
    """Coefficients of 1/x in the asymptotic series of sqrt(2 x / pi) exp(x) K_v(x)."""
    terms = [1.0]
    for k in range(1, 32):
        terms.append(terms[-1] * (4 * v * v - (2 * k - 1) ** 2) / (8 * k))
    return terms


RISE = [one - zero for zero, one in zip(hankel_terms(0), hankel_terms(1), strict=True)]


def scaled_difference(x: Any, near: Any, sign: int) -> Any:
    """i0e - i1e (sign -1) or k1e - k0e (sign 1) for x > 0: `near` loses digits as x grows."""
    far = e.gt(x, 25.0)
    z = e.reciprocal(e.select(far, x, 25.0))
    terms = [c * (sign**k) * sign for k, c in enumerate(RISE)]
    scale = e.sqrt(e.mul(math.pi / 2 if sign > 0 else 1 / (2 * math.pi), z))
    return e.select(far, e.mul(scale, polynomial(terms, z)), near)


def i0e_slope(x: Any, o: Any) -> Any:
    a = e.abs(x)
    return e.neg(e.mul(e.sign(x), scaled_difference(a, e.sub(o, e.i1e(a)), -1)))


def i1e_slope(x: Any, o: Any) -> Any:
    a, size = e.abs(x), e.abs(o)
    near = e.sub(e.mul(0.5, e.add(e.i0e(a), e.ive(2.0, a))), e.mul(e.abs(e.sign(x)), size))
    far = e.gt(a, 25.0)
    safe = e.select(far, a, 25.0)
    tail = e.sub(scaled_difference(safe, 0.0, -1), e.div(size, safe))
    return e.select(far, tail, near)


def k0e_slope(x: Any, o: Any) -> Any:
    return e.neg(scaled_difference(x, e.sub(e.k1e(x), o), 1))


# Others.


def exprel_slope(x: Any, o: Any) -> Any:
    """(exp(x) - exprel(x)) / x; near 0 its series."""
    near = e.lt(e.abs(x), 0.5)
    series = polynomial([(n + 1) / math.factorial(n + 2) for n in range(15)], e.select(near, x, 0.0))
    far = e.select(near, 1.0, x)
    return e.select(near, series, e.div(e.sub(e.exp(far), o), far))


def ellipk_slope(m: Any, rest: Any, k: Any) -> Any:
    whole = e.sub(e.div(e.ellipe(m), rest), k)
    return over(m, e.mul(0.5, whole), math.pi / 8)


def boxcox_slope(logarithm: Any, l: Any) -> Any:
    """The derivative of (exp(l log) - 1) / l by l: log**2 times that of exprel at l log."""
    z = e.mul(l, logarithm)
    return e.mul(e.square(logarithm), exprel_slope(z, e.exprel(z)))


def pseudo_root(d: Any, r: Any) -> Any:
    return e.hypot(1.0, e.div(r, d))


def pseudo_huber_by_d(d: Any, r: Any, o: Any) -> Any:
    """2 d (root - 1) - r**2 / (d root), without its differences."""
    s = pseudo_root(d, r)
    low = e.sub(s, 1.0)
    return e.div(e.mul(e.mul(d, low), e.sub(s, 1.0)), s)


ONE = {  # of one argument: name -> derivative from (x, result)
    "expit": lambda x, o: e.mul(o, e.expit(e.neg(x))),
    "logit": lambda x, o: e.reciprocal(e.mul(x, e.sub(1.0, x))),
    "log_expit": lambda x, o: e.expit(e.neg(x)),
    "erf": lambda x, o: e.mul(2 / ROOT_PI, e.gaussian(x)),
    "erfc": lambda x, o: e.mul(-2 / ROOT_PI, e.gaussian(x)),
    "erfcx": erfcx_slope,
    "erfi": lambda x, o: e.mul(2 / ROOT_PI, e.square(e.square(e.reciprocal(e.gaussian(e.mul(0.5, x)))))),
    "erfinv": lambda x, o: inverse_erf_slope(e.sub(1.0, e.abs(x)), o),
    "erfcinv": lambda x, o: e.neg(inverse_erf_slope(e.minimum(x, e.sub(2.0, x)), o)),
    "dawsn": lambda x, o: e.sub(1.0, e.mul(2.0, e.mul(x, o))),
    "ndtr": lambda x, o: normal_density(x),
    "ndtri": lambda x, o: ndtri_slope(e.minimum(x, e.sub(1.0, x)), o),
    "log_ndtr": log_ndtr_slope,
    "ndtri_exp": ndtri_exp_slope,
    "gammaln": lambda x, o: e.digamma(x),
    "loggamma": lambda x, o: e.digamma(x),
    "gamma": lambda x, o: e.mul(o, e.digamma(x)),
    "rgamma": rgamma_slope,
    "digamma": lambda x, o: trigamma(x),
    "riemann_zeta": no_derivative("zeta", "x"),
    "j0": lambda x, o: e.neg(e.j1(x)),
    "j1": lambda x, o: e.mul(0.5, e.sub(e.j0(x), e.jv(2.0, x))),
    "y0": lambda x, o: e.neg(e.y1(x)),
    "y1": lambda x, o: e.sub(e.y0(x), e.div(o, x)),
    "i0": lambda x, o: e.i1(x),
    "i1": lambda x, o: e.mul(0.5, e.add(e.i0(x), e.iv(2.0, x))),
    "i0e": i0e_slope,
    "i1e": i1e_slope,
    "k0": lambda x, o: e.neg(e.k1(x)),
    "k1": lambda x, o: e.neg(e.add(e.k0(x), e.div(o, x))),
    "k0e": k0e_slope,
    "k1e": lambda x, o: e.neg(e.sub(e.div(o, x), scaled_difference(x, e.sub(o, e.k0e(x)), 1))),
    "expi": lambda x, o: e.div(e.exp(x), x),
    "exp1": lambda x, o: e.neg(e.div(e.exp(e.neg(x)), x)),
    "exprel": exprel_slope,
    "entr": lambda x, o: e.neg(e.add(e.log(x), 1.0)),
    "exp10": lambda x, o: e.mul(math.log(10), o),
    "cosm1": lambda x, o: e.neg(e.sin(x)),
    "spence": lambda x, o: over(e.sub(1.0, x), e.log(x), -1.0),
    "ellipk": lambda m, o: ellipk_slope(m, e.sub(1.0, m), o),
    "ellipe": lambda m, o: over(m, e.mul(0.5, e.sub(o, e.ellipk(m))), -math.pi / 8),
    "ellipkm1": lambda p, o: e.neg(ellipk_slope(e.sub(1.0, p), p, o)),
    "sindg": lambda x, o: e.mul(math.pi / 180, e.cosdg(x)),
    "cosdg": lambda x, o: e.mul(-math.pi / 180, e.sindg(x)),
    "tandg": lambda x, o: e.mul(math.pi / 180, e.add(1.0, e.square(o))),
    "gammasgn": None,
}

TWO = {  # of two: a derivative by each
    "xlogy": (lambda x, y, o: e.log(y), lambda x, y, o: quotient(x, y)),
    "xlog1py": (lambda x, y, o: e.log1p(y), lambda x, y, o: quotient(x, e.add(1.0, y))),
    "rel_entr": (lambda x, y, o: e.add(e.log(e.div(x, y)), 1.0), lambda x, y, o: e.neg(quotient(x, y))),
    "kl_div": (lambda x, y, o: e.log(e.div(x, y)), lambda x, y, o: e.sub(1.0, e.div(x, y))),
    "beta": (lambda a, b, o: minus_digamma_rise(o, a, b), lambda a, b, o: minus_digamma_rise(o, b, a)),
    "betaln": (lambda a, b, o: e.neg(digamma_rise(a, b)), lambda a, b, o: e.neg(digamma_rise(b, a))),
    "boxcox": (lambda x, l, o: e.pow(x, e.sub(l, 1.0)), lambda x, l, o: boxcox_slope(e.log(x), l)),
    "boxcox1p": (
        lambda x, l, o: e.pow(e.add(1.0, x), e.sub(l, 1.0)),
        lambda x, l, o: boxcox_slope(e.log1p(x), l),
    ),
    "inv_boxcox": (lambda y, l, o: e.pow(o, e.sub(1.0, l)), no_derivative("inv_boxcox", "lmbda")),
    "inv_boxcox1p": (
        lambda y, l, o: e.pow(e.add(o, 1.0), e.sub(1.0, l)),
        no_derivative("inv_boxcox1p", "lmbda"),
    ),
    "huber": (
        lambda d, r, o: e.maximum(e.sub(e.abs(r), d), 0.0),
        lambda d, r, o: e.maximum(e.minimum(r, d), e.neg(d)),
    ),
    "pseudo_huber": (pseudo_huber_by_d, lambda d, r, o: e.div(r, pseudo_root(d, r))),
    "gammainc": (no_derivative("gammainc", "a"), lambda a, x, o: gamma_density(a, x)),
    "gammaincc": (no_derivative("gammaincc", "a"), lambda a, x, o: e.neg(gamma_density(a, x))),
    "zeta": (no_derivative("zeta", "x"), lambda s, q, o: e.neg(e.mul(s, e.zeta(e.add(s, 1.0), q)))),
    "jv": (no_derivative("jv", "v"), bessel("jv", 1.0, -1.0)),
    "yv": (no_derivative("yv", "v"), bessel("yv", 1.0, -1.0)),
    "yn": (no_derivative("yn", "n"), bessel("yv", 1.0, -1.0)),
    "kn": (no_derivative("kn", "n"), bessel("kv", -1.0, -1.0)),
    "iv": (no_derivative("iv", "v"), bessel("iv", 1.0, 1.0)),
    "kv": (no_derivative("kv", "v"), bessel("kv", -1.0, -1.0)),
    "ive": (no_derivative("ive", "v"), bessel("ive", 1.0, 1.0, ive_scale)),
    "kve": (no_derivative("kve", "v"), bessel("kve", -1.0, -1.0, lambda z, o: o)),
    "binom": (
        lambda n, k, o: e.mul(o, digamma_rise(e.add(e.sub(n, k), 1.0), k)),
        lambda n, k, o: e.mul(o, digamma_rise(e.add(k, 1.0), e.sub(n, e.mul(2.0, k)))),
    ),
    "poch": (
        lambda a, m, o: e.mul(o, digamma_rise(a, m)),
        lambda a, m, o: e.mul(o, e.digamma(e.add(a, m))),
    ),
}

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

# SciPy's names for rows that NumPy's functions have already, and for those of its ufuncs that are private.
SAME = {"log1p": "log1p", "expm1": "expm1", "cbrt": "cbrt", "exp2": "exp2", "round": "rint", "psi": "digamma"}
PRIVATE = {"zeta": "_zeta", "riemann_zeta": "_riemann_zeta"}  # scipy.special.zeta calls one or the other

LOOPED = {"zeta", "riemann_zeta", "binom"}  # SciPy exports no routine of float64, but a loop over arrays


def ufunc_of(name: str) -> Any:
    """SciPy's ufunc of that name; in its array API mode scipy.special has functions around some."""
    import scipy.special

    return getattr(scipy.special._ufuncs, name, None) or getattr(scipy.special, name, None)


@functools.lru_cache(None)
def load() -> dict:
    """The rows, added to the table; SciPy's ufuncs -> names of rows."""
    from rune.primitives import families  # its rows use the densities above

    found = {}
    rows = {name: None if f is None else (f,) for name, f in ONE.items()} | TWO | THREE
    for name, partials in (rows | families.ROWS).items():
        ufunc = ufunc_of(PRIVATE.get(name, name))
        if isinstance(ufunc, np.ufunc) and name not in TABLE:
            native = f"loop:{name}" if name in LOOPED or name in families.ROWS else f"special:{name}"
            TABLE[name] = Row(name, ufunc, partials, native=native)
            found[ufunc] = name
    TABLE["gaussian"] = GAUSSIAN
    found |= {ufunc_of(name): row for name, row in SAME.items() if ufunc_of(name) is not None}
    for name, ufunc in without_rows(found):
        refusals = tuple(no_derivative(name, f"argument {k}") for k in range(ufunc.nin))
        TABLE[name] = Row(name, ufunc, refusals, native=f"loop:{name}")
        found[ufunc] = name
    return found


def without_rows(found: dict) -> list[tuple[str, np.ufunc]]:
    """SciPy's other ufuncs of one result: their values are SciPy's, and they have no derivative here."""
    import scipy.special

    listed = ((name, ufunc_of(name)) for name in scipy.special.__all__)
    return [
        (name, f)
        for name, f in listed
        if isinstance(f, np.ufunc) and f.nout == 1 and f not in found and name not in TABLE
    ]
