"""Functions whose bits are the same in NumPy and compiled, whatever the machine and its libraries.

IEEE's arithmetic rounds sums, quotients and roots in one way only; so does a product that is not
fused with a sum (`times`).  What is made of these alone, with the logarithm and the exponential below
in place of a library's, is the same number everywhere.  Both are those of fdlibm (Sun Microsystems,
1993), within one unit in the last place; float32 takes the same steps with constants of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rune.constructs.custom import custom_jvp
from rune.primitives.scalar import e
from rune.value import box, raw

__all__ = ["exp", "log", "polynomial", "times"]


class Constants(NamedTuple):
    high: float  # log 2 in two parts: `high` times an exponent is exact
    low: float
    log: tuple[float, ...]  # nearly 2/3, 2/5, ...: log((1 + s) / (1 - s)) = s (2 + 2/3 s**2 + ...)
    exp: tuple[float, ...]  # nearly 1/6, -1/360, ...: x coth(x / 2) = 2 + 1/6 x**2 - ...
    least: float  # exp of less is 0
    most: float  # and of more infinite


CONSTANTS = {
    np.dtype(np.float64): Constants(
        6.93147180369123816490e-01, 1.90821492927058770002e-10,
        (6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
         2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
         1.479819860511658591e-01),
        (1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
         -1.65339022054652515390e-06, 4.13813679705723846039e-08),
        -750.0, 710.0,
    ),
    np.dtype(np.float32): Constants(
        6.9313812256e-01, 9.0580006145e-06,
        (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841),
        (1.6666625440e-1, -2.7667332906e-3),
        -105.0, 89.0,
    ),
}  # fmt: skip


def times(x: Any, y: Any) -> Any:
    """A product that is rounded before it is added to."""
    return box(e.product(raw(x), raw(y)))


def polynomial(coefficients: tuple, x: Any) -> Any:
    """By Horner's rule; the coefficients by rising power."""
    total = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = times(total, x) + c
    return total


def log(x: Any) -> Any:
    """The logarithm of positive normal numbers."""
    c = CONSTANTS[x.dtype]
    m, k = np.frexp(x)
    low = m < 0.7071067811865476
    f = np.where(low, m + m, m) - 1.0
    k = np.where(low, k - 1, k).astype(x.dtype)
    s = f / (f + 2.0)
    z = times(s, s)
    half = times(times(f, f), 0.5)
    rest = times(s, half + times(z, polynomial(c.log, z)))
    return times(k, c.high) - ((half - (rest + times(k, c.low))) - f)


@custom_jvp
@np.errstate(all="ignore")  # 0 and infinity are results like others
def exp(x):
    c = CONSTANTS[x.dtype]
    inside = np.minimum(np.maximum(x, c.least), c.most)
    k = np.rint(times(inside, 1.4426950408889634))
    high, low = inside - times(k, c.high), times(k, c.low)
    r = high - low
    z = times(r, r)
    p = r - times(z, polynomial(c.exp, z))
    y = 1.0 - ((low - times(r, p) / (2.0 - p)) - high)
    # In two steps: 2**k alone may be out of range.
    half = np.floor(times(k, 0.5))
    y = times(times(y, power_of_two(half)), power_of_two(k - half))
    return y, lambda dx: dx * y


def power_of_two(k: Any) -> Any:
    return box(e.power_of_two(raw(k)))
