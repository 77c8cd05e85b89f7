"""One law over the table of scalar functions: every derivative, and every second derivative, is right to 64 ulp.

The reference is mpmath.  A case names a row, the function in mpmath, and points of its domain:
inside, near kinks and ends, tiny and huge.  A derivative that is a subnormal number may be 0, and
near a zero of the second derivative the first over the operand is what errors are relative to.
"""

import functools
import itertools

import mpmath
import numpy as np
import pytest
import scipy.special as sp
from mpmath import mp

import rune
from rune.primitives import families, special
from rune.primitives.map import elementwise
from rune.primitives.scalar import TABLE
from rune.value import box, raw

special.load()
TINY = np.finfo(float).tiny


def pairs(xs, ys):
    return list(itertools.product(xs, ys))


WIDE = [1e-100, 1e-20, 1e-5, 0.1, 0.7, 1.0, 1.5, 3.0, 12.0, 100.0, 1e5, 1e20, 1e150]
BOTH = [*WIDE, *(-x for x in WIDE)]
POSITIVE = WIDE
UNIT = [1e-100, 1e-20, 1e-8, 0.1, 0.3, 0.6, 0.9, 0.999, 1 - 1e-10, 1 - 2**-53]
INSIDE = [*UNIT, *(-x for x in UNIT)]
ABOVE = [1 + 2**-52, 1 + 1e-10, 1.001, 1.5, 3.0, 100.0, 1e10, 1e150]
ANGLES = [1e-100, 1e-9, 0.1, 1.0, -1.0, 2.5, 10.0, -100.0, 1e5 + 0.3, 1e15]
EXPONENTS = [-700.0, -30.0, -1.0, -1e-8, 0.0, 1e-100, 1e-8, 0.5, 1.0, 30.0, 700.0]
NORMAL = [0.0, 1e-20, 0.3, -0.3, 1.0, -1.0, 2.5, -2.7, 5.1, -5.1, 8.3, -8.3]
TAILS = [*NORMAL, 13.7, -13.7, 20.3, -20.3, 26.1, -26.1]
# for large orders near the mode: far out the density is an exponential of a large number, and its digits are its
GAMMAS = [
    *pairs([0.01, 0.5, 1.0, 3.3, 19.0, 25.0, 90.0], [1e-5, 0.3, 2.0, 15.0, 40.0, 290.0]),
    (300.0, 290.0),
    (300.0, 340.0),
    (1e5, 1.001e5),
]
LOGS = [(x, y) for x in (0.0, 1.0, -30.0, 300.0) for y in (0.25, 1.0, -300.0, 1000.0, 1000.25)]
GAMMA = [1e-100, 1e-10, 0.01, 0.3, 0.5, 1.0, 1.2, 1.9, 2.5, 7.7, 15.2, 100.3]
BESSEL = [1e-10, 1e-3, 0.1, 0.5, 1.3, 3.0, 4.7, 8.1, 17.0, 24.0, 27.0, 91.1]


def normal_cdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def normal_quantile(p):
    """By Newton's iteration on the logarithm of the lower tail, from SciPy's."""
    if p > mp.mpf(1) / 2:
        return -normal_quantile(1 - p)
    x = mp.mpf(float(sp.ndtri(float(p)))) if p != mp.mpf(1) / 2 else mp.mpf(0)
    for _ in range(8):
        x -= (mp.log(normal_cdf(x)) - mp.log(p)) * normal_cdf(x) / mp.npdf(x)
    return x


def scaled(f, v, sign):
    return lambda x: f(v, x) * mp.exp(sign * abs(x))


def case(f, points, second=64, slopes=None, digits=900):
    """`second`: the ulps of second derivatives; `slopes`: the derivatives, where they are simpler than f."""
    return f, [p if isinstance(p, tuple) else (p,) for p in points], second, slopes, digits


special_case = functools.partial(case, digits=100)


NEVER = "no derivative"
CASES = {
    "add": case(lambda x, y: x + y, pairs([1.0, -1e100], [1e-100, 2.0])),
    "sub": case(lambda x, y: x - y, pairs([1.0, -1e100], [1e-100, 2.0])),
    "mul": case(lambda x, y: x * y, pairs([1.0, -1e200], [1e-200, 2.0])),
    "product": case(lambda x, y: x * y, pairs([1.0, -1e200], [1e-200, 2.0])),
    "div": case(lambda x, y: x / y, pairs([1.0, -1e200, 1e-200], [1e-100, -2.0, 1e100])),
    "neg": case(lambda x: -x, BOTH),
    "mod": case(lambda x, y: x - y * mp.floor(x / y), [(5.3, 2.0), (-5.3, 2.0), (5.3, -2.0), (1e10, 0.3)]),
    "fmod": case(lambda x, y: x - y * mp.sign(x / y) * mp.floor(abs(x / y)), [(5.3, 2.0), (-5.3, 2.0), (5.3, -2.0)]),
    "pow": case(
        mp.power,
        [*pairs([1e-100, 0.3, 1.0, 1 + 1e-15, 7.0, 1e100], [-2.0, -0.3, 1e-20, 0.1, 0.5, 1.0, 1.7, 3.0]), (1e300, 0.1), (1e300, -0.9)],
    ),
    "abs": case(abs, BOTH),
    "reciprocal": case(lambda x: 1 / x, BOTH),
    "square": case(lambda x: x * x, BOTH),
    "sqrt": case(mp.sqrt, POSITIVE),
    "cbrt": case(mp.cbrt, POSITIVE),
    "hypot": case(mp.hypot, pairs([3.0, 1e100, 1e-100, -1e-5], [4.0, -1e100, 1e-100, 1e-5])),
    "copysign": case(lambda x, y: abs(x) * mp.sign(y), pairs([3.0, -1e-300], [4.0, -1e200])),
    "maximum": case(max, pairs([1.0, -2.0], [1 + 2**-52, -3.0])),
    "minimum": case(min, pairs([1.0, -2.0], [1 + 2**-52, -3.0])),
    "fmax": case(max, pairs([1.0, -2.0], [1 + 2**-52, -3.0])),
    "fmin": case(min, pairs([1.0, -2.0], [1 + 2**-52, -3.0])),
    "heaviside": case(lambda x, y: mp.mpf(x > 0), pairs([1.0, -1e-300], [0.5, 2.0])),
    "nextafter": case(lambda x, y: x, pairs([1.0, -1e-300], [0.5, 2.0])),
    "logaddexp": case(None, LOGS, slopes=[lambda x, y: 1 / (1 + mp.power(mp.e, y - x)), lambda x, y: 1 / (1 + mp.power(mp.e, x - y))]),
    "logaddexp2": case(None, LOGS, slopes=[lambda x, y: 1 / (1 + mp.power(2, y - x)), lambda x, y: 1 / (1 + mp.power(2, x - y))]),
    "exp": case(mp.exp, EXPONENTS),
    "exp2": case(lambda x: mp.power(2, x), EXPONENTS),
    "expm1": case(mp.expm1, EXPONENTS),
    "log": case(mp.log, [*POSITIVE, 1 - 2**-53, 1 + 2**-52]),
    "log2": case(lambda x: mp.log(x, 2), [*POSITIVE, 1 - 2**-53]),
    "log10": case(mp.log10, [*POSITIVE, 1 - 2**-53]),
    "log1p": case(lambda x: mp.log(1 + x), [*POSITIVE, -1e-20, -0.5, -0.999, -1 + 2**-53]),
    "sin": case(mp.sin, ANGLES),
    "cos": case(mp.cos, ANGLES),
    "tan": case(mp.tan, [1e-300, 0.1, 1.0, 1.5, 1.5707, -1.57079632, 2.0, 1e5]),
    "arcsin": case(mp.asin, INSIDE),
    "arccos": case(mp.acos, INSIDE),
    "arctan": case(mp.atan, BOTH),
    "arctan2": case(
        lambda y, x: mp.atan(y / x),
        pairs([3.0, 1e100, 1e-100, -1e-5], [4.0, -1e100, 1e-100, 1e-5]),
    ),
    "sinh": case(mp.sinh, EXPONENTS[1:-1]),
    "cosh": case(mp.cosh, EXPONENTS[1:-1]),
    # a function of its result, so that a loop keeps nothing else: its error is that of 1 - |result|
    "tanh": case(mp.tanh, [1e-300, 1e-9, 0.1, 1.0, -1.0, 2.0, -3.0]),
    "arcsinh": case(mp.asinh, BOTH),
    "arccosh": case(mp.acosh, ABOVE),
    "arctanh": case(mp.atanh, INSIDE),
    "deg2rad": case(mp.radians, BOTH),
    "rad2deg": case(mp.degrees, BOTH),
    # scipy.special
    "expit": case(lambda x: 1 / (1 + mp.exp(-x)), EXPONENTS),
    "logit": case(lambda x: mp.log(x / (1 - x)), UNIT),
    "log_expit": case(lambda x: -mp.log(1 + mp.exp(-x)), EXPONENTS),
    "gaussian": case(lambda x: mp.exp(-x * x), TAILS),
    "erf": case(None, TAILS, slopes=[lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)]),
    "erfc": case(None, TAILS, slopes=[lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x)]),
    "erfcx": special_case(lambda x: mp.exp(x * x) * mp.erfc(x), [-26.0, -5.0, -1.0, 1e-10, 0.5, 1.0, 2.0, 2.99, 3.0, 3.01, 5.0, 10.0, 25.0, 1e3, 1e10], second=128),
    "erfi": special_case(mp.erfi, [*NORMAL, 20.3, 26.1]),
    "erfinv": special_case(None, INSIDE, slopes=[lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2)]),
    "erfcinv": special_case(lambda x: -normal_quantile(x / 2) / mp.sqrt(2), [1e-140, 1e-20, 0.1, 0.7, 1.3, 1.9, 2 - 1e-10]),
    "ndtr": case(None, [*TAILS, 35.0, -36.7], slopes=[mp.npdf]),
    "ndtri": special_case(normal_quantile, [1e-140, *UNIT[1:]]),
    "log_ndtr": case(lambda x: mp.log(normal_cdf(x)), [*TAILS, -1e3, -1e8]),
    "ndtri_exp": special_case(lambda x: normal_quantile(mp.exp(x)), [-1e-5, -0.1, -0.6, -0.8, -5.0, -100.0, -700.0]),
    "gammaln": special_case(lambda x: mp.loggamma(x).real, [*GAMMA, 1e10, -0.3, -2.5]),
    "loggamma": special_case(mp.loggamma, [*GAMMA, 1e10]),
    "gamma": special_case(mp.gamma, [*GAMMA, -0.3, -2.7]),
    # second derivatives of rgamma lose digits towards its zeros, as differences of digamma and trigamma
    "rgamma": special_case(mp.rgamma, [*GAMMA[2:], -0.3, -2.7]),
    "digamma": special_case(mp.digamma, [*GAMMA, 1e10, -0.3, -2.5, -5 + 1e-6, -30.001]),
    "zeta": special_case(mp.zeta, pairs([1.1, 2.0, 5.5, 30.0], [0.01, 0.5, 1.0, 7.7, 100.0]), slopes=[NEVER, lambda s, q: -s * mp.zeta(s + 1, q)]),
    "j0": special_case(mp.j0, BESSEL),
    "j1": special_case(mp.j1, BESSEL),
    "y0": special_case(lambda x: mp.bessely(0, x), BESSEL),
    "y1": special_case(lambda x: mp.bessely(1, x), BESSEL),
    "i0": special_case(lambda x: mp.besseli(0, x), [*BESSEL, -3.0]),
    "i1": special_case(lambda x: mp.besseli(1, x), [*BESSEL, -3.0]),
    # second derivatives of the scaled ones are differences, up to where their asymptotic series take over
    "i0e": special_case(scaled(mp.besseli, 0, -1), [*BESSEL, -3.0, 1e3, 1e10], second=2048),
    "i1e": special_case(scaled(mp.besseli, 1, -1), [*BESSEL, -3.0, 1e3, 1e10], second=2048),
    "k0": case(lambda x: mp.besselk(0, x), BESSEL, digits=50),
    "k1": case(lambda x: mp.besselk(1, x), BESSEL, digits=50),
    "k0e": case(scaled(mp.besselk, 0, 1), BESSEL, second=2048, digits=50),
    "k1e": case(scaled(mp.besselk, 1, 1), BESSEL, second=2048, digits=50),
    "jv": special_case(mp.besselj, pairs([0.5, 2.0], BESSEL[2:-1]), slopes=[NEVER, lambda v, x: mp.besselj(v, x, 1)]),
    "yv": special_case(mp.bessely, pairs([0.5, 3.3], BESSEL[2:-1]), slopes=[NEVER, lambda v, x: mp.bessely(v, x, 1)]),
    "iv": special_case(mp.besseli, pairs([0.5, 2.0, 3.3], BESSEL[2:-1]), slopes=[NEVER, lambda v, x: mp.besseli(v, x, 1)]),
    "ive": special_case(None, pairs([0.5, 2.0, 3.3], [0.1, 1.3]), second=512, slopes=[NEVER, lambda v, x: mp.exp(-x) * (mp.besseli(v, x, 1) - mp.besseli(v, x))]),
    "kve": special_case(None, pairs([0.5, 3.3], [0.1, 1.3]), second=512, slopes=[NEVER, lambda v, x: mp.exp(x) * (mp.besselk(v, x) - (mp.besselk(v - 1, x) + mp.besselk(v + 1, x)) / 2)]),
    "kv": special_case(None, pairs([0.5, 3.3], BESSEL[2:-1]), slopes=[NEVER, lambda v, x: -(mp.besselk(v - 1, x) + mp.besselk(v + 1, x)) / 2]),
    "expi": special_case(mp.ei, [1e-100, 1e-8, 0.1, 0.37, 1.0, 3.0, 30.0, 700.0, -1e-8, -0.5, -3.0, -600.0]),
    "exp1": special_case(mp.e1, [1e-100, 1e-8, 0.1, 0.5, 1.0, 3.0, 30.0, 600.0]),
    "yn": special_case(mp.bessely, pairs([1.0, 3.0], BESSEL[2:-1]), slopes=[NEVER, lambda n, x: mp.bessely(n, x, 1)]),
    "kn": special_case(None, pairs([1.0, 3.0], BESSEL[2:-1]), slopes=[NEVER, lambda n, x: -(mp.besselk(n - 1, x) + mp.besselk(n + 1, x)) / 2]),
    "exprel": case(lambda x: mp.expm1(x) / x, [-700.0, -30.0, -1.0, -0.3, 1e-100, 1e-8, 0.1, 0.49, 0.51, 3.0, 700.0]),
    "entr": case(lambda x: -x * mp.log(x), POSITIVE),
    "exp10": case(lambda x: mp.power(10, x), [-300.0, -1.0, 1e-10, 2.0, 300.0]),
    "cosm1": case(lambda x: mp.cos(x) - 1, ANGLES),
    "spence": special_case(lambda x: mp.polylog(2, 1 - x), [1e-10, 0.3, 0.9, 0.99, 1.01, 1.5, 10.0, 1e10], second=1024, slopes=[lambda x: mp.log(x) / (1 - x)]),
    "ellipk": special_case(mp.ellipk, [-5.0, 0.3, 0.5, 0.9, 0.999]),
    "ellipe": special_case(mp.ellipe, [-5.0, 0.3, 0.5, 0.9, 0.999]),
    "ellipkm1": special_case(lambda p: mp.ellipk(1 - p), [1e-10, 0.1, 0.5]),
    "sindg": special_case(lambda x: mp.sin(x * mp.pi / 180), [1e-10, 30.0, 100.0]),
    "cosdg": special_case(lambda x: mp.cos(x * mp.pi / 180), [10.0, 30.0, 100.0]),
    "tandg": special_case(lambda x: mp.tan(x * mp.pi / 180), [1e-10, 30.0, 100.0]),
    "dawsn": special_case(lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), [1e-10, 0.5, 2.0, -2.5]),
    "xlogy": case(lambda x, y: x * mp.log(y), pairs([1e-300, 0.3, 1e5], [1e-300, 0.3, 7.0, 1e100])),
    "xlog1py": case(lambda x, y: x * mp.log(1 + y), pairs([1e-300, 0.3, 1e5], [-0.999, 1e-50, 0.3, 7.0, 1e100])),
    "rel_entr": case(lambda x, y: x * mp.log(x / y), pairs([1e-100, 0.3, 1e5], [1e-100, 0.3, 7.0, 1e100])),
    "kl_div": case(lambda x, y: x * mp.log(x / y) - x + y, pairs([1e-100, 0.3, 1e5], [1e-100, 0.35, 7.0, 1e100])),
    "beta": special_case(mp.beta, pairs([1e-5, 0.3, 2.5, 30.0], [1e-5, 0.5, 2.5, 20.0])),
    "betaln": special_case(lambda a, b: mp.log(mp.beta(a, b)), pairs([1e-5, 0.3, 2.5, 30.0, 1e8], [1e-5, 0.5, 2.5, 1e5])),
    "boxcox": special_case(lambda x, l: (x**l - 1) / l, pairs([0.3, 2.0, 100.0], [-2.0, 1e-5, 0.5, 3.0])),
    "boxcox1p": special_case(lambda x, l: ((1 + x) ** l - 1) / l, pairs([1e-5, 0.3, 2.0, 100.0], [-2.0, 1e-5, 0.5, 3.0])),
    "inv_boxcox": special_case(lambda y, l: (1 + l * y) ** (1 / l), pairs([0.3, 2.0], [0.5, 3.0]), slopes=[lambda y, l: (1 + l * y) ** (1 / l - 1), NEVER]),
    "inv_boxcox1p": special_case(lambda y, l: (1 + l * y) ** (1 / l) - 1, pairs([0.3, 2.0], [0.5, 3.0]), slopes=[lambda y, l: (1 + l * y) ** (1 / l - 1), NEVER]),
    "huber": special_case(lambda d, r: r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2), pairs([0.3, 2.0], [0.5, -3.0, 1e-9])),
    "pseudo_huber": special_case(lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), pairs([0.3, 2.0], [0.5, -3.0, 100.0])),
    "gammainc": special_case(None, GAMMAS, slopes=[NEVER, lambda a, x: x ** (a - 1) * mp.exp(-x) / mp.gamma(a)]),
    "gammaincc": special_case(None, GAMMAS, slopes=[NEVER, lambda a, x: -(x ** (a - 1)) * mp.exp(-x) / mp.gamma(a)]),
    "betainc": special_case(None, [(a, b, x) for a, b in [(0.5, 0.5), (2.5, 3.0), (1e-3, 4.0), (30.0, 60.0)] for x in (1e-10, 0.2, 0.45, 0.7, 0.999)], slopes=[NEVER, NEVER, lambda a, b, x: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)]),
    "betaincc": special_case(None, [(a, b, x) for a, b in [(0.5, 0.5), (2.5, 3.0), (30.0, 60.0)] for x in (1e-10, 0.2, 0.45, 0.7, 0.999)], slopes=[NEVER, NEVER, lambda a, b, x: -(x ** (a - 1)) * (1 - x) ** (b - 1) / mp.beta(a, b)]),
    "binom": special_case(mp.binomial, [(5.5, 2.3), (30.2, 11.0), (3.0, 0.5)]),
    "poch": special_case(mp.rf, [(2.5, 3.3), (0.1, 20.5)]),
}  # fmt: skip


def slope(f, k, at):
    """The derivative of an mpmath function by operand k, to half of the digits there are."""
    step = mpmath.mpf(10) ** -(mp.dps // 4) * (abs(at[k]) or 1)
    up, down = ([*at[:k], at[k] + s, *at[k + 1 :]] for s in (step, -step))
    return (f(*up) - f(*down)) / (2 * step)


def references(f, slopes, points, digits):
    """By operand: (k, first derivatives); by two: (k, l, second derivatives); None where there is none."""
    count = len(points[0])
    with mp.workdps(digits):
        exact = [[mp.mpf(v) for v in p] for p in points]
        first = slopes or [functools.partial(lambda k, *at: slope(f, k, list(at)), k) for k in range(count)]
        ks = [k for k in range(count) if first[k] is not NEVER]
        value = {(k,): np.array([float(mp.re(first[k](*p))) for p in exact]) for k in ks}
        for k, l in itertools.product(ks, repeat=2):
            value[k, l] = np.array([float(mp.re(slope(first[k], l, p))) for p in exact])
    return value


def by(f, k):
    """The derivative of a function of arrays by operand k, element by element."""

    def derivative(*args):
        along = lambda v: f(*args[:k], v, *args[k + 1 :])
        return rune.jvp(along, (args[k],), (np.ones(np.shape(args[k])),))[1]

    return derivative


def compare(name, got, want, ulps, scale, points):
    got = np.broadcast_to(got, want.shape)
    with np.errstate(all="ignore"):
        error = np.abs(got - want) / np.spacing(np.maximum(np.maximum(np.abs(want), scale), TINY))
    wrong = ~((got == want) | (error <= ulps) | (np.abs(got - want) <= TINY))
    assert not wrong.any(), "\n" + "\n".join(
        f"{name} at {points[i]}: {got[i]!r}, mpmath {want[i]!r}, {error[i]:.3g} ulp"
        for i in np.flatnonzero(wrong)
    )


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_mpmath(name):
    f, points, second, slopes, digits = CASES[name]
    operands = tuple(np.array(x) for x in zip(*points, strict=True))
    function = lambda *args: box(elementwise(name, *(raw(a) for a in args)))
    wanted = references(f, slopes, points, digits)
    derivatives = {ks: functools.reduce(by, ks, function) for ks in wanted}
    everything = lambda *args: {ks: d(*args) for ks, d in derivatives.items()}
    for way in (everything, rune.jit(everything)):
        for ks, got in way(*operands).items():
            first = len(ks) == 1
            near = 1.0 if first else np.maximum(ks[0] == ks[1], np.abs(operands[ks[1]]))
            scale = 0.0 if first else np.abs(wanted[ks[:1]]) / np.where(near == 0, 1, near)
            compare(f"{name} by {ks}", got, wanted[ks], 64 if first else second, scale, points)


def test_every_row_with_a_derivative_has_a_case():
    exact = {"select", "cast", "conj", "real", "imag", "complex", "sign"}  # linear, or of complex numbers
    refused = {
        n
        for n, r in TABLE.items()
        if r.partials and all(getattr(p, "__name__", "") == "refuse" for p in r.partials)
    }
    elsewhere = exact | refused | families.ROWS.keys()  # test_scalar_rows.py has the families' cases
    missing = [n for n, r in TABLE.items() if not r.zero and n not in CASES and n not in elsewhere]
    assert missing == []
