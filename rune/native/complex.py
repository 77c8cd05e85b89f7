"""Complex rows of the table of scalar operations.

A complex value is a pair of real ones, and each row computes with the parts, as NumPy's loops do:
Smith's method divides, powers of zero are NumPy's, and libm has the functions.  Nothing is fused.
"""

from __future__ import annotations

import functools
import math

from .index import Value
from .math import ROWS, C, I, and_, cmp, complex_of, constant, is_constant, libm, num, or_, parts, row, select


def libm_complex(fn, name: str, *a: Value) -> Value:
    """A call of libm's complex function (System V: two doubles in two registers, floats in one)."""
    kind = a[0].kind
    if kind == "c16":
        fn.unit.declare(f"declare {{double, double}} @{name}({', '.join(['double, double'] * len(a))}) #1")
        args = ", ".join(f"double {fn.name_of(x)}, double {fn.imag_of(x)}" for x in a)
        r = fn.put(f"call {{double, double}} @{name}({args})", kind, *a)
        re = fn.put(f"extractvalue {{double, double}} {r.name}, 0", "f8", r)
        im = fn.put(f"extractvalue {{double, double}} {r.name}, 1", "f8", r)
        return complex_of(fn, re, im, kind)
    fn.unit.declare(f"declare <2 x float> @{name}f({', '.join(['<2 x float>'] * len(a))}) #1")
    packed = []
    for x in a:
        re = fn.put(f"insertelement <2 x float> zeroinitializer, float {fn.name_of(x)}, i32 0", kind, x)
        packed.append(
            fn.put(f"insertelement <2 x float> {re.name}, float {fn.imag_of(x)}, i32 1", kind, x, re)
        )
    args = ", ".join(f"<2 x float> {x.name}" for x in packed)
    r = fn.put(f"call <2 x float> @{name}f({args})", kind, *packed)
    re = fn.put(f"extractelement <2 x float> {r.name}, i32 0", "f4", r)
    im = fn.put(f"extractelement <2 x float> {r.name}, i32 1", "f4", r)
    return complex_of(fn, re, im, kind)


@row("add sub", "c")
def _(op, fn, a, b):
    (ar, ai), (br, bi) = parts(fn, a), parts(fn, b)
    return complex_of(fn, I(fn, "f" + op, ar, br), I(fn, "f" + op, ai, bi), a.kind)


@row("mul", "c")
def _(fn, a, b):
    (ar, ai), (br, bi) = parts(fn, a), parts(fn, b)
    re = I(fn, "fsub", I(fn, "fmul", ar, br), I(fn, "fmul", ai, bi))
    im = I(fn, "fadd", I(fn, "fmul", ar, bi), I(fn, "fmul", ai, br))
    return complex_of(fn, re, im, a.kind)


@row("div", "c")
def _(fn, a, b):
    """Smith's method, as NumPy divides."""
    (ar, ai), (br, bi) = parts(fn, a), parts(fn, b)
    abr, abi = C(fn, "fabs", br), C(fn, "fabs", bi)
    first = cmp(fn, "oge", abr, abi)
    big, small = select(fn, first, br, bi), select(fn, first, bi, br)
    x, y = select(fn, first, ar, ai), select(fn, first, ai, ar)
    ratio = I(fn, "fdiv", small, big)
    scale = I(fn, "fdiv", num(1.0, ratio), I(fn, "fadd", big, I(fn, "fmul", small, ratio)))
    re = I(fn, "fmul", I(fn, "fadd", x, I(fn, "fmul", y, ratio)), scale)
    xr = I(fn, "fmul", x, ratio)
    one = I(fn, "fsub", y, xr)  # |re| larger: ai - ar * ratio
    two = I(fn, "fsub", xr, y)  # |im| larger: ai * ratio - ar
    im = I(fn, "fmul", select(fn, first, one, two), scale)
    zero = and_(fn, cmp(fn, "oeq", abr, num(0.0, br)), cmp(fn, "oeq", abi, num(0.0, bi)))
    re = select(fn, zero, I(fn, "fdiv", ar, abr), re)
    im = select(fn, zero, I(fn, "fdiv", ai, abr), im)
    return complex_of(fn, re, im, a.kind)


@row("neg", "c")
def _(fn, a):
    re, im = parts(fn, a)
    return complex_of(fn, I(fn, "fneg", re), I(fn, "fneg", im), a.kind)


@row("conj", "c")
def _(fn, a):
    re, im = parts(fn, a)
    return complex_of(fn, re, I(fn, "fneg", im), a.kind)


@row("real", "c")
def _(fn, a):
    return parts(fn, a)[0]


@row("imag", "c")
def _(fn, a):
    return parts(fn, a)[1]


@row("abs", "c")
def _(fn, a):
    return libm(fn, "hypot", *parts(fn, a))


@row("square", "c")
def _(fn, a):
    return ROWS["mul", "c"](fn, a, a)


@row("reciprocal", "c")
def _(fn, a):
    re, im = parts(fn, a)
    abr, abi = C(fn, "fabs", re), C(fn, "fabs", im)
    first = cmp(fn, "oge", abr, abi)  # NumPy's: ratio of the smaller to the larger part
    big, small = select(fn, first, re, im), select(fn, first, im, re)
    ratio = I(fn, "fdiv", small, big)
    d = I(fn, "fadd", big, I(fn, "fmul", small, ratio))
    one = I(fn, "fdiv", num(1.0, re), d)
    other = I(fn, "fdiv", ratio, d)
    return complex_of(fn, select(fn, first, one, other), I(fn, "fneg", select(fn, first, other, one)), a.kind)


@row("sign", "c")
def _(fn, a):
    """z / |z|, as NumPy 2 defines it; 0 at 0, and one infinite part alone gives the direction."""
    re, im = parts(fn, a)
    size = libm(fn, "hypot", re, im)
    zero, one = num(0.0, re), num(1.0, re)
    at_zero = cmp(fn, "oeq", size, zero)
    infinite = [ROWS["isinf", "f"](fn, x) for x in (re, im)]
    either, both = or_(fn, *infinite), and_(fn, *infinite)
    out = []
    for x, here in zip((re, im), infinite, strict=True):
        along = select(fn, here, C(fn, "copysign", one, x), zero)
        along = select(fn, both, num(math.nan, re), along)
        out.append(select(fn, either, along, select(fn, at_zero, zero, I(fn, "fdiv", x, size))))
    return complex_of(fn, *out, a.kind)


@row("isnan isinf", "c")
def _(op, fn, a):
    re, im = parts(fn, a)
    return or_(fn, ROWS[op, "f"](fn, re), ROWS[op, "f"](fn, im))


@row("isfinite", "c")
def _(fn, a):
    re, im = parts(fn, a)
    return and_(fn, ROWS["isfinite", "f"](fn, re), ROWS["isfinite", "f"](fn, im))


@row("maximum minimum fmax fmin", "c")
def _(op, fn, a, b):
    wins = ROWS["ge" if op.endswith("max") or op == "maximum" else "le", "c"](fn, a, b)
    nan = ROWS["isnan", "c"](fn, a if op in ("maximum", "minimum") else b)
    return select(fn, or_(fn, wins, nan), a, b)


LIBM_COMPLEX = dict(
    exp="cexp", log="clog", sin="csin", cos="ccos", tan="ctan", arcsin="casin", arccos="cacos",
    arctan="catan", sinh="csinh", cosh="ccosh", tanh="ctanh", arcsinh="casinh", arccosh="cacosh",
    arctanh="catanh", sqrt="csqrt",
)  # fmt: skip
for _op, _symbol in LIBM_COMPLEX.items():
    ROWS[_op, "c"] = functools.partial(lambda symbol, fn, *a: libm_complex(fn, symbol, *a), _symbol)


def whole_power(fn, a: Value, n: Value) -> Value:
    """a ** n for a whole n below 100 in size: squares, multiplied by its bits in NumPy's order."""
    size = C(fn, "fabs", n)
    left, p, out = size, a, constant(1, a.kind)
    for bit in range(7):
        half = C(fn, "floor", I(fn, "fmul", left, num(0.5, n)))
        odd = cmp(fn, "one", left, I(fn, "fadd", half, half))
        out = select(fn, odd, ROWS["mul", "c"](fn, out, p), out)
        left = half
        p = ROWS["mul", "c"](fn, p, p) if bit < 6 else p
    square = ROWS["mul", "c"](fn, a, a)
    for k, known in ((1.0, a), (2.0, square), (3.0, ROWS["mul", "c"](fn, square, a))):
        out = select(fn, cmp(fn, "oeq", n, num(k, n)), known, out)
    inverse = ROWS["div", "c"](fn, constant(1, a.kind), out)
    return select(fn, cmp(fn, "olt", n, num(0.0, n)), inverse, out)


@row("pow", "c")
def _(fn, a, b):
    """libm's, but x ** 0 is 1, 0 ** y is 0 (NaN where the real part of y is not positive), and
    whole powers below 100 multiply, as in NumPy."""
    (ar, ai), (br, bi) = parts(fn, a), parts(fn, b)
    if is_constant(bi, 0.0):
        square = ROWS["mul", "c"](fn, a, a)
        for n, r in ((0, constant(1, a.kind)), (1, a), (2, square)):
            if is_constant(br, n):
                return r
        if is_constant(br, 3.0):
            return ROWS["mul", "c"](fn, a, square)
    zero = num(0.0, ar)
    whole = and_(fn, cmp(fn, "oeq", C(fn, "trunc", br), br), cmp(fn, "oeq", bi, zero))
    whole = and_(fn, whole, cmp(fn, "olt", C(fn, "fabs", br), num(100.0, br)))
    r = select(fn, whole, whole_power(fn, a, br), libm_complex(fn, "cpow", a, b))
    origin = and_(fn, cmp(fn, "oeq", ar, zero), cmp(fn, "oeq", ai, zero))
    limit = select(
        fn, cmp(fn, "ogt", br, zero), constant(0, a.kind), constant(complex(math.nan, math.nan), a.kind)
    )
    r = select(fn, origin, limit, r)
    none = and_(fn, cmp(fn, "oeq", br, zero), cmp(fn, "oeq", bi, zero))
    return select(fn, none, constant(1, a.kind), r)


def _scaled_log(factor, fn, a):
    re, im = parts(fn, libm_complex(fn, "clog", a))
    return complex_of(fn, I(fn, "fmul", re, num(factor, re)), I(fn, "fmul", im, num(factor, im)), a.kind)


ROWS["log2", "c"] = functools.partial(_scaled_log, 1 / math.log(2))
ROWS["log10", "c"] = functools.partial(_scaled_log, 1 / math.log(10))


@row("log1p", "c")
def _(fn, a):
    re, im = parts(fn, a)
    one = I(fn, "fadd", re, num(1.0, re))
    size = libm(fn, "hypot", one, im)
    return complex_of(fn, libm(fn, "log", size), libm(fn, "atan2", im, one), a.kind)


@row("expm1", "c")
def _(fn, a):
    re, im = parts(fn, a)
    half = libm(fn, "sin", I(fn, "fmul", im, num(0.5, im)))
    e = libm(fn, "expm1", re)
    twice = I(fn, "fmul", num(2.0, re), I(fn, "fmul", half, half))
    x = I(fn, "fsub", I(fn, "fmul", e, libm(fn, "cos", im)), twice)
    y = I(fn, "fmul", libm(fn, "exp", re), libm(fn, "sin", im))
    return complex_of(fn, x, y, a.kind)


@row("exp2", "c")
def _(fn, a):
    re, im = parts(fn, a)
    k = num(math.log(2), re)
    return libm_complex(fn, "cexp", complex_of(fn, I(fn, "fmul", re, k), I(fn, "fmul", im, k), a.kind))


@row("floor ceil trunc rint", "c")
def _(op, fn, a):
    re, im = parts(fn, a)
    return complex_of(fn, C(fn, op, re), C(fn, op, im), a.kind)


@row("gaussian", "c")
def _(fn, a):
    return libm_complex(fn, "cexp", ROWS["neg", "c"](fn, ROWS["mul", "c"](fn, a, a)))
