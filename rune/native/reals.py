"""Rows of `math` for real floats: arithmetic, rounding, division, and the functions of libm."""

from __future__ import annotations

import functools
import math

from .function import LLVM
from .index import Value
from .math import (
    ROWS,
    C,
    I,
    and_,
    cast,
    cmp,
    fadd,
    fmul,
    fneg,
    is_constant,
    libm,
    num,
    or_,
    row,
    select,
)


@row("add", "f")
def _(fn, a, b):
    return fadd(fn, a, b)


@row("sub", "f")
def _(fn, a, b):
    return fadd(fn, a, b, "fsub")


@row("mul", "f")
def _(fn, a, b):
    return fmul(fn, a, b)


@row("product", "f")
def _(fn, a, b):
    return I(fn, "fmul", a, b)


@row("div", "f")
def _(fn, a, b):
    return I(fn, "fdiv", a, b)


@row("neg", "f")
def _(fn, a):
    return fneg(fn, a)


@row("abs", "f")
def _(fn, a):
    return C(fn, "fabs", a)


@row("sign", "f")
def _(fn, a):
    r = select(fn, cmp(fn, "oeq", a, num(0.0, a)), num(0.0, a), a)
    r = select(fn, cmp(fn, "olt", a, num(0.0, a)), num(-1.0, a), r)
    return select(fn, cmp(fn, "ogt", a, num(0.0, a)), num(1.0, a), r)


@row("reciprocal", "f")
def _(fn, a):
    return I(fn, "fdiv", num(1.0, a), a)


@row("square", "f")
def _(fn, a):
    return fmul(fn, a, a)


@row("sqrt", "f")
def _(fn, a):
    return C(fn, "sqrt", a)


@row("floor ceil trunc rint", "f")
def _(op, fn, a):
    return C(fn, op, a)


@row("copysign", "f")
def _(fn, a, b):
    return C(fn, "copysign", a, b)


@row("maximum minimum", "f")
def _(op, fn, a, b):
    # the comparison takes b where it is greater, or where a is ordered with nothing: NaN wins
    wins = cmp(fn, "ogt" if op == "maximum" else "olt", a, b)
    nan = cmp(fn, "uno", a, a)
    return select(fn, or_(fn, wins, nan), a, b)


@row("fmax fmin", "f")
def _(op, fn, a, b):
    wins = cmp(fn, "oge" if op == "fmax" else "ole", a, b)
    nan = cmp(fn, "uno", b, b)
    return select(fn, or_(fn, wins, nan), a, b)


@row("isnan", "f")
def _(fn, a):
    return cmp(fn, "uno", a, a)


@row("isinf", "f")
def _(fn, a):
    return cmp(fn, "oeq", C(fn, "fabs", a), num(math.inf, a))


@row("isfinite", "f")
def _(fn, a):
    return cmp(fn, "olt", C(fn, "fabs", a), num(math.inf, a))


@row("signbit", "f")
def _(fn, a):
    kind = "i4" if a.kind == "f4" else "i8"
    bits = fn.put(f"bitcast {LLVM[a.kind]} {fn.name_of(a)} to {LLVM[kind]}", kind, a)
    return cmp(fn, "slt", bits, num(0, bits))


def layout(a: Value) -> tuple[str, int, int]:
    """The integer of a float's width, its bits of fraction, and its bias."""
    return ("i4", 23, 127) if a.kind == "f4" else ("i8", 52, 1023)


@row("exponent", "f")
def _(fn, a):
    integer, fraction, bias = layout(a)
    size = C(fn, "fabs", a)
    tiny = cmp(fn, "olt", size, num(2.0 ** (1 - bias), a))
    scaled = select(fn, tiny, I(fn, "fmul", size, num(2.0 ** (fraction + 1), a)), size)
    bits = fn.put(f"bitcast {LLVM[a.kind]} {fn.name_of(scaled)} to {LLVM[integer]}", integer, scaled)
    k = cast(fn, cast(fn, I(fn, "lshr", bits, num(fraction, bits)), "i4"), a.kind)
    shift = select(fn, tiny, num(1.0 - bias - fraction - 1, a), num(1.0 - bias, a))
    some = and_(fn, cmp(fn, "ogt", size, num(0.0, a)), cmp(fn, "olt", size, num(math.inf, a)))
    return select(fn, some, I(fn, "fadd", k, shift), num(0.0, a))


@row("power_of_two", "f")
def _(fn, a):
    integer, fraction, bias = layout(a)
    k = C(fn, "maxnum", C(fn, "minnum", a, num(bias + 1.0, a)), num(1.0 - bias, a))
    whole = cast(fn, fn.put(f"fptosi {LLVM[a.kind]} {fn.name_of(k)} to i32", "i4", k), integer)
    bits = I(fn, "shl", I(fn, "add", whole, num(bias, whole)), num(fraction, whole))
    return fn.put(f"bitcast {LLVM[integer]} {fn.name_of(bits)} to {LLVM[a.kind]}", a.kind, bits)


@row("heaviside", "f")
def _(fn, a, b):
    r = select(fn, cmp(fn, "oeq", a, num(0.0, a)), b, a)
    r = select(fn, cmp(fn, "olt", a, num(0.0, a)), num(0.0, a), r)
    return select(fn, cmp(fn, "ogt", a, num(0.0, a)), num(1.0, a), r)


@row("fmod", "f")
def _(fn, a, b):
    return remainder(fn, a, b)


def remainder(fn, a, b):
    """libm's fmod, called by an instruction: LLVM takes the call by name for one without NaN where it knows
    that a is finite and b is not 0, and then makes up what fmod(1.0, NaN) is."""
    return I(fn, "frem", a, b)


def _divmod(fn, a, b):
    """NumPy's `npy_divmod`, step by step."""
    mod = remainder(fn, a, b)
    zero = num(0.0, a)
    div = I(fn, "fdiv", I(fn, "fsub", a, mod), b)
    some = cmp(fn, "une", mod, zero)
    differ = I(fn, "xor", cmp(fn, "olt", b, zero), cmp(fn, "olt", mod, zero))
    fix = and_(fn, some, differ)
    div = select(fn, fix, I(fn, "fsub", div, num(1.0, a)), div)
    moved = select(fn, fix, I(fn, "fadd", mod, b), mod)
    moved = select(fn, some, moved, C(fn, "copysign", zero, b))
    down = C(fn, "floor", div)
    up = cmp(fn, "ogt", I(fn, "fsub", div, down), num(0.5, a))
    down = select(fn, up, I(fn, "fadd", down, num(1.0, a)), down)
    ratio = I(fn, "fdiv", a, b)
    down = select(fn, cmp(fn, "une", div, zero), down, C(fn, "copysign", zero, ratio))
    by_zero = cmp(fn, "oeq", b, zero)
    return select(fn, by_zero, ratio, down), select(fn, by_zero, mod, moved)


@row("floor_div", "f")
def _(fn, a, b):
    return _divmod(fn, a, b)[0]


@row("mod", "f")
def _(fn, a, b):
    return _divmod(fn, a, b)[1]


@row("pow", "f")
def _(fn, a, b):
    if is_constant(b, 2.0):
        return fmul(fn, a, a)
    if is_constant(b, 1.0):
        return a
    if is_constant(b, 0.0):
        return num(1.0, a)
    if is_constant(b, 3.0):
        return fmul(fn, fmul(fn, a, a), a)
    if is_constant(b, 4.0):
        s = fmul(fn, a, a)
        return fmul(fn, s, s)
    if is_constant(b, -1.0):
        return I(fn, "fdiv", num(1.0, a), a)
    if is_constant(b, -2.0):
        return I(fn, "fdiv", num(1.0, a), fmul(fn, a, a))
    return libm(fn, "pow", a, b)


LIBM = dict(
    exp="exp", exp2="exp2", expm1="expm1", log="log", log2="log2", log10="log10", log1p="log1p", sin="sin",
    cos="cos", tan="tan", arcsin="asin", arccos="acos", arctan="atan", sinh="sinh", cosh="cosh", tanh="tanh",
    arcsinh="asinh", arccosh="acosh", arctanh="atanh", cbrt="cbrt", arctan2="atan2", hypot="hypot",
    nextafter="nextafter", erf="erf", erfc="erfc",
)  # fmt: skip
for _op, _symbol in LIBM.items():
    ROWS[_op, "f"] = functools.partial(lambda symbol, fn, *a: libm(fn, symbol, *a), _symbol)


@row("gaussian", "f")
def _(fn, a):
    """exp(-x**2) with the square's rounding, as `rune.primitives.special.exp_minus_square`."""
    if a.kind != "f8":
        wide = cast(fn, a, "f8")
        return cast(fn, libm(fn, "exp", I(fn, "fneg", I(fn, "fmul", wide, wide))), a.kind)
    x = C(fn, "fabs", a)
    x = select(fn, cmp(fn, "ogt", x, num(64.0, x)), num(64.0, x), x)
    high = I(fn, "fmul", C(fn, "rint", I(fn, "fmul", x, num(2.0**20, x))), num(2.0**-20, x))
    low = I(fn, "fmul", I(fn, "fsub", x, high), I(fn, "fadd", x, high))
    near = libm(fn, "exp", I(fn, "fneg", I(fn, "fmul", high, high)))
    tail = num(1 / 6, x)
    for c in (0.5, 1.0, 1.0):
        tail = I(fn, "fsub", num(c, x), I(fn, "fmul", low, tail))
    return I(fn, "fmul", near, tail)


def next_half(fn, a: Value, b: Value) -> Value:
    """nextafter of float16, on the bits: a step of float32 is none."""
    bits = fn.put(f"bitcast half {fn.name_of(a)} to i16", "i2", a)
    zero = num(0.0, a)
    up = cmp(fn, "olt", a, b)
    away = I(fn, "xor", up, cmp(fn, "slt", bits, num(0, bits)))
    step = select(fn, away, num(1, bits), num(-1, bits))
    moved = I(fn, "add", bits, step)
    least = select(fn, up, num(1, bits), num(-(2**15) + 1, bits))
    moved = select(fn, cmp(fn, "oeq", a, zero), least, moved)
    moved = fn.put(f"bitcast i16 {fn.name_of(moved)} to half", "f2", moved)
    moved = select(fn, cmp(fn, "oeq", a, b), a, moved)
    moved = select(fn, cmp(fn, "uno", a, a), a, moved)
    return select(fn, cmp(fn, "uno", b, b), b, moved)


ROWS["nextafter", "f2"] = next_half


@row("deg2rad rad2deg", "f")
def _(op, fn, a):
    return fmul(fn, a, num(math.pi / 180 if op == "deg2rad" else 180 / math.pi, a))


@row("logaddexp logaddexp2", "f")
def _(op, fn, a, b):
    # the greater plus log(1 + exp(-distance)); equal operands (infinities too) add log(2)
    two = op == "logaddexp2"
    difference = I(fn, "fsub", a, b)
    positive = cmp(fn, "ogt", difference, num(0.0, a))
    greater = select(fn, positive, a, b)
    e = libm(fn, "exp2" if two else "exp", fneg(fn, C(fn, "fabs", difference)))
    tail = libm(fn, "log1p", e)
    if two:
        tail = I(fn, "fmul", tail, num(1 / math.log(2), a))
    r = I(fn, "fadd", greater, tail)
    r = select(fn, cmp(fn, "uno", difference, difference), difference, r)
    same = I(fn, "fadd", a, num(1.0 if two else math.log(2), a))
    return select(fn, cmp(fn, "oeq", a, b), same, r)
