"""Rows for scipy.special's families whose derivatives stay in the family or are elementary.

Hypergeometric functions, orthogonal polynomials, elliptic integrals (Carlson's and Legendre's), Kelvin and
Struve functions, Bessel functions with a scale, cumulative distributions by their variable, and inverses
of rows that have a derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rune.primitives.scalar import constant, e
from rune.primitives.special import beta_density, gamma_density, no_derivative

__all__ = ["ROWS"]


def total(first: Any, *rest: Any) -> Any:
    return e.add(first, total(*rest)) if rest else first


def product(first: Any, *rest: Any) -> Any:
    return e.mul(first, product(*rest)) if rest else first


# Orthogonal polynomials: their derivative is a multiple of one of degree n - 1.


def lower(factor: Callable, name: str, *parameters: Callable) -> Callable:
    """factor(n, *given) times the polynomial `name` of degree n - 1; 0 for degree 0."""

    def slope(n, *rest):
        *given, x, _ = rest
        found = getattr(e, name)(e.sub(n, 1), *(p(*given) for p in parameters), x)
        return e.select(e.eq(n, 0), 0.0, e.mul(factor(n, *given), found))

    return slope


def shifted(name: str) -> Callable:
    """Of a polynomial in 2 x - 1."""

    def slope(n, x, _):
        return e.mul(2.0, POLYNOMIALS[name](n, e.sub(e.mul(2.0, x), 1.0), None))

    return slope


def one_more(a: Any, *_: Any) -> Any:
    return e.add(a, 1.0)


def half_of(n: Any, *given: Any) -> Any:
    return e.mul(0.5, total(n, 1.0, *given))


POLYNOMIALS = {
    "eval_legendre": lower(half_of, "eval_jacobi", lambda: 1.0, lambda: 1.0),
    "eval_chebyt": lower(lambda n: n, "eval_chebyu"),
    "eval_chebyu": lower(lambda n: 2.0, "eval_gegenbauer", lambda: 2.0),
    "eval_gegenbauer": lower(lambda n, a: e.mul(2.0, a), "eval_gegenbauer", one_more),
    "eval_jacobi": lower(half_of, "eval_jacobi", one_more, lambda a, b: e.add(b, 1.0)),
    "eval_hermite": lower(lambda n: e.mul(2.0, n), "eval_hermite"),
    "eval_hermitenorm": lower(lambda n: n, "eval_hermitenorm"),
    "eval_laguerre": lower(lambda n: -1.0, "eval_genlaguerre", lambda: 1.0),
    "eval_genlaguerre": lower(lambda n, a: -1.0, "eval_genlaguerre", one_more),
    "eval_sh_legendre": shifted("eval_legendre"),
    "eval_sh_chebyt": shifted("eval_chebyt"),
    "eval_sh_chebyu": shifted("eval_chebyu"),
}

DEGREES = {"eval_jacobi": 4, "eval_gegenbauer": 3, "eval_genlaguerre": 3}  # arguments, where not two

# Distributions: their density.


def student(df: Any, t: Any) -> Any:
    scale = e.mul(e.sqrt(df), e.beta(constant(0.5, df), e.mul(0.5, df)))
    power = e.mul(e.mul(-0.5, e.add(df, 1.0)), e.log1p(e.div(e.square(t), df)))
    return e.div(e.exp(power), scale)


def chi_square(v: Any, x: Any) -> Any:
    return e.mul(0.5, gamma_density(e.mul(0.5, v), e.mul(0.5, x)))


def variance_ratio(n: Any, d: Any, x: Any) -> Any:
    """The density of an F distribution, by the beta density of n x / (d + n x)."""
    whole = e.add(d, e.mul(n, x))
    y = e.div(e.mul(n, x), whole)
    slope = e.div(e.mul(n, d), e.square(whole))
    return e.mul(beta_density(e.mul(0.5, n), e.mul(0.5, d), y), slope)


# Elliptic integrals.


def root_at(phi: Any, m: Any) -> Any:
    return e.sqrt(e.sub(1.0, e.mul(m, e.square(e.sin(phi)))))


def incomplete_by_m(phi: Any, m: Any, o: Any) -> Any:
    """dF/dm = E / (2 m (1 - m)) - F / (2 m) - sin 2 phi / (4 (1 - m) root)."""
    rest = e.sub(1.0, m)
    edge = e.div(e.sin(e.mul(2.0, phi)), product(4.0, rest, root_at(phi, m)))
    by_m = e.sub(e.div(e.ellipeinc(phi, m), rest), o)
    return over_m(phi, m, e.sub(e.mul(0.5, by_m), e.mul(m, edge)), 1.0)


def over_m(phi: Any, m: Any, x: Any, sign: float) -> Any:
    """x / m, whose limit at 0 is half the integral of sin**2, times the sign."""
    zero = e.eq(m, 0.0)
    limit = e.mul(sign / 8, e.sub(e.mul(2.0, phi), e.sin(e.mul(2.0, phi))))
    return e.select(zero, limit, e.div(x, e.select(zero, 1.0, m)))


def carlson(k: int) -> Callable:
    """The derivative of R_F by its argument k: -R_D with that argument last, over 6."""
    return lambda x, y, z, o: e.mul(
        -1 / 6, e.elliprd(*(v for i, v in enumerate((x, y, z)) if i != k), (x, y, z)[k])
    )


def kelvin(other: str, sign: float) -> Callable:
    """The second derivative of a Kelvin function: x**2 y'' + x y' = i x**2 y."""
    return lambda x, o: e.sub(e.mul(sign, getattr(e, other)(x)), e.div(o, x))


def struve(sign: float, name: str) -> Callable:
    """Of Struve functions: (f(v - 1) +- f(v + 1) and an elementary term) / 2."""

    def by_x(v, x, o):
        edge = e.div(e.pow(e.mul(0.5, x), v), e.mul(math.sqrt(math.pi), e.gamma(e.add(v, 1.5))))
        f = getattr(e, name)
        return e.mul(0.5, total(f(e.sub(v, 1.0), x), e.mul(-sign, f(e.add(v, 1.0), x)), edge))

    return by_x


BY_THE_LAST = {  # the derivative by the last argument; there is none by those before it
    "hyp0f1": lambda b, z, o: e.div(e.hyp0f1(e.add(b, 1.0), z), b),
    "hyp1f1": lambda a, b, z, o: e.mul(e.div(a, b), e.hyp1f1(e.add(a, 1.0), e.add(b, 1.0), z)),
    "hyp2f1": lambda a, b, c, z, o: e.mul(
        e.div(e.mul(a, b), c), e.hyp2f1(e.add(a, 1.0), e.add(b, 1.0), e.add(c, 1.0), z)
    ),
    "hyperu": lambda a, b, z, o: e.neg(e.mul(a, e.hyperu(e.add(a, 1.0), e.add(b, 1.0), z))),
    "expn": lambda n, x, o: e.neg(
        e.select(
            e.eq(n, 0),
            e.div(e.mul(e.exp(e.neg(x)), e.add(1.0, e.reciprocal(x))), x),
            e.expn(e.maximum(e.sub(n, 1), 0), x),
        )
    ),
    "wright_bessel": lambda a, b, x, o: e.wright_bessel(a, e.add(a, b), x),
    "struve": struve(1.0, "struve"),
    "modstruve": struve(-1.0, "modstruve"),
    "stdtr": lambda df, t, o: student(df, t),
    "chdtr": lambda v, x, o: chi_square(v, x),
    "chdtrc": lambda v, x, o: e.neg(chi_square(v, x)),
    "fdtr": lambda n, d, x, o: variance_ratio(n, d, x),
    "fdtrc": lambda n, d, x, o: e.neg(variance_ratio(n, d, x)),
    "pdtr": lambda k, m, o: e.neg(gamma_density(e.add(e.floor(k), 1.0), m)),
    "pdtrc": lambda k, m, o: gamma_density(e.add(e.floor(k), 1.0), m),
    "gammaincinv": lambda a, y, o: e.reciprocal(gamma_density(a, o)),
    "gammainccinv": lambda a, y, o: e.neg(e.reciprocal(gamma_density(a, o))),
    "betaincinv": lambda a, b, y, o: e.reciprocal(beta_density(a, b, o)),
    "betainccinv": lambda a, b, y, o: e.neg(e.reciprocal(beta_density(a, b, o))),
    "stdtrit": lambda df, p, o: e.reciprocal(student(df, o)),
    "chdtri": lambda v, p, o: e.neg(e.reciprocal(chi_square(v, o))),
    "fdtri": lambda n, d, p, o: e.reciprocal(variance_ratio(n, d, o)),
    "hankel1": lambda v, z, o: e.mul(0.5, e.sub(e.hankel1(e.sub(v, 1.0), z), e.hankel1(e.add(v, 1.0), z))),
    "hankel2": lambda v, z, o: e.mul(0.5, e.sub(e.hankel2(e.sub(v, 1.0), z), e.hankel2(e.add(v, 1.0), z))),
}


def gamma_at(a: Any, b: Any, x: Any) -> Any:
    """The density of gdtr in a x."""
    return gamma_density(b, e.mul(a, x))


def by_last(name: str, arguments: int, slope: Callable) -> tuple:
    return (*(no_derivative(name, f"argument {k}") for k in range(arguments - 1)), slope)


ROWS = {
    **{name: by_last(name, DEGREES.get(name, 2), f) for name, f in POLYNOMIALS.items()},
    **{name: by_last(name, f.__code__.co_argcount - 1, f) for name, f in BY_THE_LAST.items()},
    "gdtr": (
        lambda a, b, x, o: e.mul(x, gamma_at(a, b, x)),
        no_derivative("gdtr", "b"),
        lambda a, b, x, o: e.mul(a, gamma_at(a, b, x)),
    ),
    "gdtrc": (
        lambda a, b, x, o: e.neg(e.mul(x, gamma_at(a, b, x))),
        no_derivative("gdtrc", "b"),
        lambda a, b, x, o: e.neg(e.mul(a, gamma_at(a, b, x))),
    ),
    "owens_t": (
        lambda h, a, o: product(
            -0.5 / math.sqrt(2 * math.pi),
            e.exp(e.mul(-0.5, e.square(h))),
            e.erf(product(math.sqrt(0.5), a, h)),
        ),
        lambda h, a, o: e.div(
            e.exp(product(-0.5, e.square(h), e.add(1.0, e.square(a)))),
            e.mul(2 * math.pi, e.add(1.0, e.square(a))),
        ),
    ),
    "powm1": (
        lambda x, y, o: e.mul(y, e.pow(x, e.sub(y, 1.0))),
        lambda x, y, o: e.mul(e.add(o, 1.0), e.log(x)),
    ),
    "ellipkinc": (lambda phi, m, o: e.reciprocal(root_at(phi, m)), incomplete_by_m),
    "ellipeinc": (
        lambda phi, m, o: root_at(phi, m),
        lambda phi, m, o: over_m(phi, m, e.mul(0.5, e.sub(o, e.ellipkinc(phi, m))), -1.0),
    ),
    "elliprf": (carlson(0), carlson(1), carlson(2)),
    "elliprc": (
        lambda x, y, o: e.mul(-1 / 6, e.elliprd(y, y, x)),
        lambda x, y, o: e.mul(-1 / 3, e.elliprd(x, y, y)),
    ),
    "wrightomega": (lambda z, o: e.div(o, e.add(1.0, o)),),
    "cotdg": (lambda x, o: e.mul(-math.pi / 180, e.add(1.0, e.square(o))),),
    "ber": (lambda x, o: e.berp(x),),
    "bei": (lambda x, o: e.beip(x),),
    "ker": (lambda x, o: e.kerp(x),),
    "kei": (lambda x, o: e.keip(x),),
    "berp": (kelvin("bei", -1.0),),
    "beip": (kelvin("ber", 1.0),),
    "kerp": (kelvin("kei", -1.0),),
    "keip": (kelvin("ker", 1.0),),
    "itstruve0": (lambda x, o: e.struve(constant(0.0, x), x),),
    "itmodstruve0": (lambda x, o: e.modstruve(constant(0.0, x), x),),
    "wofz": (lambda z, o: e.sub(2j / math.sqrt(math.pi), e.mul(2.0, e.mul(z, o))),),
}
