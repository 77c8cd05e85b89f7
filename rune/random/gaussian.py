"""The normal distribution: its quantiles and its probabilities, whose bits are the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.constructs.custom import custom_jvp
from rune.random.exact import exp, log, polynomial, times
from rune.value import Traced

__all__ = ["normal_of", "probability", "quantile"]

ROOT_2PI = 2.5066282746310002


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


def upper(p: Any) -> Any:
    """The z >= 0 that a normal variable exceeds with probability p, for p in (0, 1/2]."""
    bounds = [p >= 0.075, (p < 0.075) & (p >= LEAST), p < LEAST]
    if not isinstance(p, Traced):
        return np.piecewise(p, bounds, [lambda p, f=f: np.divide(*f(p)) for f in (central, tail, far_tail)])
    # Where all pieces are computed, a division apiece would be most of the work.
    numerator, denominator = (
        np.select(bounds, parts) for parts in zip(central(p), tail(p), far_tail(p), strict=True)
    )
    return numerator / denominator


LEAST = 1.3887943864964021e-11  # exp(-25)


def central(p: Any) -> tuple[Any, Any]:
    q = 0.5 - p
    numerator, denominator = (polynomial(c, 0.180625 - times(q, q)) for c in CENTRE)
    return times(q, numerator), denominator


def tail(p: Any) -> tuple[Any, Any]:
    numerator, denominator = (polynomial(c, np.sqrt(-log(p)) - 1.6) for c in MIDDLE)
    return numerator, denominator


def far_tail(p: Any) -> tuple[Any, Any]:
    numerator, denominator = (polynomial(c, np.sqrt(-log(p)) - 5.0) for c in FAR)
    return numerator, denominator


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


# Cody, "Rational Chebyshev approximations for the error function", Mathematics of Computation 23 (1969):
# of (P(x) - 1/2) / x by x**2; of P(-x) exp(x**2 / 2) by x; and of what that lacks of 1 / (x sqrt(2 pi)),
# times x**3, by 1 / x**2.  Numerators and denominators by rising power.
NEAR = (
    (1.8154981253343561249e4, 1.0676894854603709582e3, 1.6102823106855587881e2, 2.2352520354606839287e0,
     6.5682337918207449113e-2),
    (4.5507789335026729956e4, 1.0260932208618978205e4, 9.7609855173777669322e2, 4.720258190468824187e1, 1.0),
)  # fmt: skip
BETWEEN = (
    (9.8427148383839780218e3, 1.1602651437647350124e4, 6.8481904505362823326e3, 2.4945375852903726711e3,
     5.9727027639480026226e2, 9.3506656132177855979e1, 8.8831497943883759412e0, 3.9894151208813466764e-1,
     1.0765576773720192317e-8),
    (1.9685429676859990727e4, 3.8912003286093271411e4, 3.4900952721145977266e4, 1.8615571640885098091e4,
     6.485558298266760755e3, 1.519377599407554805e3, 2.3538790178262499861e2, 2.2266688044328115691e1, 1.0),
)  # fmt: skip
BEYOND = (
    (2.9112874951168792e-5, 1.421619193227893466e-3, 2.2235277870649807e-2, 1.274011611602473639e-1,
     2.1589853405795699e-1, 2.307344176494017303e-2),
    (7.29751555083966205e-5, 3.78239633202758244e-3, 6.59881378689285515e-2, 4.68238212480865118e-1,
     1.28426009614491121e0, 1.0),
)  # fmt: skip


@custom_jvp
def probability(x):
    """The probability that a normal variable stays below x."""
    size = np.minimum(np.abs(x), 40.0)  # beyond, it is 0 in float64
    near, between, beyond = size <= 0.66291, (size > 0.66291) & (size <= 5.65), size > 5.65
    below = np.piecewise(size, [near, between, beyond], [middle_half, lower_tail, lowest_tail])
    p = np.where(x > 0.0, 1.0 - below, below)
    return np.where(x == x, p, x), lambda dx: dx * (np.exp(-0.5 * x * x) / ROOT_2PI)


def rational(pair: tuple, x: Any) -> Any:
    numerator, denominator = (polynomial(c, x) for c in pair)
    return numerator / denominator


def middle_half(x: Any) -> Any:
    return 0.5 - times(x, rational(NEAR, times(x, x)))


def lower_tail(x: Any) -> Any:
    return times(bell(x), rational(BETWEEN, x))


def lowest_tail(x: Any) -> Any:
    w = 1.0 / times(x, x)
    return times(bell(x), (1 / ROOT_2PI - times(w, rational(BEYOND, w))) / x)


def bell(x: Any) -> Any:
    """exp(-x**2 / 2): of a few bits of x, whose square is exact, times that of the rest."""
    some = np.trunc(x * 16.0) * 0.0625
    rest = times(x - some, x + some)
    return times(exp(times(some, some) * -0.5), exp(rest * -0.5))
