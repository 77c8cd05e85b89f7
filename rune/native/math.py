"""Scalar operations as LLVM instructions: one table, one row for each operation and class of dtype.

A row receives the function being built, the operands and the dtype code of the result, and gives a
value.  It follows NumPy's ufunc, special values included.  float16 computes in float32 and rounds.

`contract` (fused multiply-add) is allowed on an addition or subtraction unless both operands may be
products: x*x - y*y must be 0 at x = y.  Functions of libm carry their vector variants of libmvec.
"""

from __future__ import annotations

import functools
import math
import struct

import numpy as np

from .function import LLVM, SIZE, Function
from .index import Value

INT_MIN = {"i1": -(2**7), "i2": -(2**15), "i4": -(2**31), "i8": -(2**63)}
PART = {"c8": "f4", "c16": "f8"}
KINDS = {np.dtype(code): code for code in SIZE}


def kind_of(dtype) -> str:
    code = np.dtype(dtype).str[1:]
    if code not in SIZE:
        raise NotImplementedError(f"no native code for dtype {dtype}")
    return code


# constants ------------------------------------------------------------------------------------


def float_text(x: float, kind: str) -> str:
    if kind == "f2":
        return f"0xH{np.float16(x).view(np.uint16):04X}"
    if kind == "f4":
        with np.errstate(all="ignore"):
            x = float(np.float32(x))
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


@functools.lru_cache(4096)
def _text(bits: bytes, kind: str) -> tuple:
    value = np.frombuffer(bits, np.dtype(kind))[0]
    if kind[0] == "f":
        return float_text(float(value), kind), None
    if kind[0] == "c":
        return float_text(float(value.real), PART[kind]), float_text(float(value.imag), PART[kind])
    if kind == "b1":
        return ("true" if value else "false"), None
    return str(int(value)), None


def constant(value, kind: str) -> Value:
    """A constant; float32 constants keep their value, NaNs their bits as far as LLVM's text can."""
    name, im = _text(np.asarray(value, np.dtype(kind)).tobytes(), kind)
    return Value(name, kind, 0, None, im)


def is_constant(v: Value, x: float) -> bool:
    return v.fn is None and v.im is None and v.kind[0] == "f" and v.name == float_text(x, v.kind)


# small pieces ---------------------------------------------------------------------------------


def part(v: Value, which: str) -> Value:
    """The real or imaginary part of a complex value, of the same function and scope."""
    return Value(v.name if which == "re" else v.im, PART[v.kind], v.depth, v.fn)


def parts(fn: Function, v: Value):
    """Both parts, named in the function being built."""
    re, im = fn.name_of(v), fn.imag_of(v)
    depth, owner = (v.depth, fn) if v.fn is fn else (0, fn if v.fn else None)
    return Value(re, PART[v.kind], depth, owner), Value(im, PART[v.kind], depth, owner)


def complex_of(fn, re: Value, im: Value, kind: str) -> Value:
    a, b = fn.name_of(re), fn.name_of(im)
    if re.fn is None and im.fn is None:
        return Value(a, kind, 0, None, b)
    return Value(a, kind, fn.depth_of(re, im), fn, b)


def I(fn, op: str, *a: Value, kind=None, flags: str = "") -> Value:  # noqa: E743
    """One instruction over operands of one type."""
    kind = kind or a[0].kind
    names = ", ".join([fn.name_of(x) for x in a])
    return fn.put(f"{op}{flags} {LLVM[a[0].kind]} {names}", kind, *a)


def C(fn, op: str, *a: Value, kind=None) -> Value:
    """A call of an LLVM intrinsic overloaded on the type of its first operand."""
    t = LLVM[a[0].kind]
    suffix = {"half": "f16", "float": "f32", "double": "f64"}.get(t, t)
    name = f"llvm.{op}.{suffix}"
    kind = kind or a[0].kind
    args = ", ".join(f"{LLVM[x.kind]} {fn.name_of(x)}" for x in a)
    declared = ", ".join(LLVM[x.kind] for x in a)
    fn.unit.declare(f"declare {LLVM[kind]} @{name}({declared})")
    return fn.put(f"call {LLVM[kind]} @{name}({args})", kind, *a)


def cmp(fn, op: str, a: Value, b: Value) -> Value:
    word = "fcmp" if a.kind[0] == "f" else "icmp"
    return fn.put(f"{word} {op} {LLVM[a.kind]} {fn.name_of(a)}, {fn.name_of(b)}", "b1", a, b)


def select(fn, c: Value, a: Value, b: Value) -> Value:
    if c.fn is None:
        return a if c.name == "true" else b
    if a.im is not None:
        (ar, ai), (br, bi) = parts(fn, a), parts(fn, b)
        return complex_of(fn, select(fn, c, ar, br), select(fn, c, ai, bi), a.kind)
    t = LLVM[a.kind]
    return fn.put(f"select i1 {fn.name_of(c)}, {t} {fn.name_of(a)}, {t} {fn.name_of(b)}", a.kind, c, a, b)


def num(x, like: Value) -> Value:
    if like.kind[0] == "f":
        return Value(float_text(x, like.kind), like.kind)
    return Value({True: "true", False: "false"}[bool(x)] if like.kind == "b1" else str(int(x)), like.kind)


def product(fn, v: Value) -> Value:
    """Marks a value as one that LLVM may see as a product."""
    if v.fn is fn:
        fn.unit.products.add((fn.name, v.name))
    return v


def may_be_product(fn, v: Value) -> bool:
    return (fn.name, v.name) in fn.unit.products


def fadd(fn, a: Value, b: Value, op: str = "fadd") -> Value:
    flags = "" if may_be_product(fn, a) and may_be_product(fn, b) else " contract"
    return I(fn, op, a, b, flags=flags)


def fmul(fn, a: Value, b: Value) -> Value:
    if is_constant(b, 1.0):
        return a
    if is_constant(a, 1.0):
        return b
    return product(fn, I(fn, "fmul", a, b, flags=" contract"))


def fneg(fn, a: Value) -> Value:
    r = I(fn, "fneg", a)
    return product(fn, r) if may_be_product(fn, a) else r


# libm -----------------------------------------------------------------------------------------

VECTOR1 = set(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cbrt "
    "erf erfc".split()
)
VECTOR2 = {"pow", "atan2", "hypot"}


def libm(fn, name: str, *a: Value) -> Value:
    """A call of libm, with libmvec's variants for LLVM's vectoriser."""
    kind = a[0].kind
    t = LLVM[kind]
    symbol = name + ("f" if kind == "f4" else "")
    fn.unit.libm(symbol, t, len(a), name in VECTOR1 or name in VECTOR2)
    args = ", ".join(f"{t} {fn.name_of(x)}" for x in a)
    return fn.put(f"call {t} @{symbol}({args})", kind, *a)


# casts ----------------------------------------------------------------------------------------


def cast(fn, a: Value, to: str) -> Value:
    k = a.kind
    if k == to:
        return a
    if k[0] == "c":
        re, im = parts(fn, a)
        if to[0] == "c":
            return complex_of(fn, cast(fn, re, PART[to]), cast(fn, im, PART[to]), to)
        if to == "b1":
            return or_(fn, truth(fn, re), truth(fn, im))
        return cast(fn, re, to)
    if to[0] == "c":
        return complex_of(fn, cast(fn, a, PART[to]), Value(float_text(0.0, PART[to]), PART[to]), to)
    if to == "b1":
        return truth(fn, a)
    s, t, name = LLVM[k], LLVM[to], fn.name_of(a)
    if to[0] == "f":
        if k == "f8" and to == "f2":
            return double_to_half(fn, a)
        if k == "f2" and to == "f8":
            return cast(fn, half_to_float(fn, a), to)
        if k[0] == "f":
            word = "fpext" if SIZE[to] > SIZE[k] else "fptrunc"
        elif to == "f2" and SIZE[k] > 2:  # round once: through float64 integers below 2**53 are exact
            return cast(fn, cast(fn, a, "f8"), "f2")
        else:
            word = "uitofp" if k[0] in "ub" else "sitofp"
        return fn.put(f"{word} {s} {name} to {t}", to, a)
    if k[0] == "f":
        return float_to_int(fn, a, to)
    if SIZE[to] == SIZE[k] and k != "b1":
        return Value(a.name, to, a.depth, a.fn)
    if SIZE[to] < SIZE[k]:
        return fn.put(f"trunc {s} {name} to {t}", to, a)
    word = "zext" if k[0] in "ub" else "sext"
    return fn.put(f"{word} {s} {name} to {t}", to, a)


def half_to_float(fn, a: Value) -> Value:
    """float16 as float32, such that LLVM does not merge it with a cast that follows.

    The merged casts (float16 to float64 or int64) are library calls that no library here has.
    """
    bits = fn.put(f"bitcast half {fn.name_of(a)} to i16", "i2", a)
    fn.unit.declare("declare float @llvm.convert.from.fp16.f32(i16)")
    return fn.put(f"call float @llvm.convert.from.fp16.f32(i16 {bits.name})", "f4", bits)


def double_to_half(fn, a: Value) -> Value:
    """float64 as float16 with one rounding: float32 rounded to odd keeps what the second needs."""
    near = fn.put(f"fptrunc double {fn.name_of(a)} to float", "f4", a)
    back = fn.put(f"fpext float {near.name} to double", "f8", near)
    bits = fn.put(f"bitcast float {near.name} to i32", "i4", near)
    beyond = cmp(fn, "ogt", C(fn, "fabs", back), C(fn, "fabs", a))
    toward = select(fn, beyond, I(fn, "sub", bits, num(1, bits)), bits)
    inexact = cmp(fn, "one", back, a)
    odd = select(fn, inexact, I(fn, "or", toward, num(1, bits)), bits)
    single = fn.put(f"bitcast i32 {odd.name} to float", "f4", odd)
    return fn.put(f"fptrunc float {single.name} to half", "f2", single)


def float_to_int(fn, a: Value, to: str) -> Value:
    """C's cast where it is defined; elsewhere what x86 gives, the least integer of the register."""
    if a.kind == "f2":
        a = half_to_float(fn, a)
    wide = "i8" if to in ("i8", "u4", "u8") else "i4"
    bits = 8 * SIZE[wide]
    t = LLVM[wide]
    low, high = num(-(2.0 ** (bits - 1)), a), num(2.0 ** (bits - 1), a)
    fits = cmp(fn, "olt", a, high)
    above = (
        cmp(fn, "oge", a, low)
        if wide == "i8" or a.kind == "f4"
        else cmp(fn, "ogt", a, num(-(2.0**31) - 1, a))
    )
    fits = fn.put(f"and i1 {fn.name_of(fits)}, {fn.name_of(above)}", "b1", fits, above)
    r = fn.put(f"fptosi {LLVM[a.kind]} {fn.name_of(a)} to {t}", wide, a)
    r = select(fn, fits, r, Value(str(INT_MIN[wide]), wide))
    if to == "u8":
        big = cmp(fn, "oge", a, num(2.0**63, a))
        most = cmp(fn, "olt", a, num(2.0**64, a))
        big = fn.put(f"and i1 {fn.name_of(big)}, {fn.name_of(most)}", "b1", big, most)
        unsigned = fn.put(f"fptoui {LLVM[a.kind]} {fn.name_of(a)} to i64", "i8", a)
        r = select(fn, big, unsigned, r)
    return cast(fn, r, to)


def truth(fn, a: Value) -> Value:
    """Whether a value is not zero (NaN is not)."""
    if a.kind == "b1":
        return a
    if a.kind[0] == "c":
        re, im = parts(fn, a)
        return or_(fn, truth(fn, re), truth(fn, im))
    if a.kind[0] == "f":
        return cmp(fn, "une", a, num(0.0, a))
    return cmp(fn, "ne", a, num(0, a))


def or_(fn, a, b):
    return I(fn, "or", a, b)


def and_(fn, a, b):
    return I(fn, "and", a, b)


def not_(fn, a):
    return fn.put(f"xor i1 {fn.name_of(a)}, true", "b1", a)


# the table ------------------------------------------------------------------------------------

ROWS: dict = {}  # (operation, class) -> row; a class is one of b i u f c


def row(names: str, classes: str):
    def define(f):
        for name in names.split():
            for c in classes:
                ROWS[name, c] = functools.partial(f, name) if names.count(" ") else f
        return f

    return define


def apply(fn: Function, op: str, a: list[Value], out: str) -> Value:
    """The result of operation `op` on operands of one dtype, as dtype code `out`."""
    if op == "cast":
        return cast(fn, a[0], out)
    if op == "select":
        return select(fn, a[0], a[1], a[2])
    if op == "complex":
        return complex_of(fn, a[0], a[1], out)
    if op.startswith("special:"):
        from .special import special  # stands above this table

        return special(fn, op[8:], a, out)
    k = a[0].kind
    if k == "f2" and op == "nextafter":
        return next_half(fn, *a)
    if k == "f2":
        wide = [cast(fn, x, "f4") if x.kind == "f2" else x for x in a]
        r = apply(fn, op, wide, "f4" if out == "f2" else out)
        return cast(fn, r, out)
    f = ROWS.get((op, k[0]))
    if f is None:
        raise NotImplementedError(f"no native code for {op} of {np.dtype(k)}")
    r = f(fn, *a)
    return r if r.kind == out else cast(fn, r, out)


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


@row("add sub mul", "iu")
def _(op, fn, a, b):
    return I(fn, op, a, b)


@row("add maximum logical_or or fmax", "b")
def _(op, fn, a, b):
    return or_(fn, a, b)


@row("mul minimum logical_and and fmin", "b")
def _(op, fn, a, b):
    return and_(fn, a, b)


@row("logical_xor xor ne", "b")
def _(op, fn, a, b):
    return I(fn, "xor", a, b)


@row("not logical_not", "b")
def _(op, fn, a):
    return not_(fn, a)


@row("and or xor", "iu")
def _(op, fn, a, b):
    return I(fn, op, a, b)


@row("not", "iu")
def _(fn, a):
    return I(fn, "xor", a, num(-1, a))


@row("logical_and", "iufc")
def _(fn, a, b):
    return and_(fn, truth(fn, a), truth(fn, b))


@row("logical_or", "iufc")
def _(fn, a, b):
    return or_(fn, truth(fn, a), truth(fn, b))


@row("logical_xor", "iufc")
def _(fn, a, b):
    return I(fn, "xor", truth(fn, a), truth(fn, b))


@row("logical_not", "iufc")
def _(fn, a):
    return not_(fn, truth(fn, a))


COMPARE = {
    "f": dict(eq="oeq", ne="une", lt="olt", le="ole", gt="ogt", ge="oge"),
    "i": dict(eq="eq", ne="ne", lt="slt", le="sle", gt="sgt", ge="sge"),
    "u": dict(eq="eq", ne="ne", lt="ult", le="ule", gt="ugt", ge="uge"),
}
COMPARE["b"] = COMPARE["u"]


@row("eq ne lt le gt ge", "biuf")
def _(op, fn, a, b):
    if {a.kind[0], b.kind[0]} == {"i", "u"}:
        return compare_signs(fn, op, a, b)
    return cmp(fn, COMPARE[a.kind[0]][op], a, b)


def compare_signs(fn, op, a, b):
    """int64 beside uint64, which NumPy compares by value: what is negative is less than all else."""
    x = a if a.kind[0] == "i" else b
    negative = cmp(fn, "slt", x, num(0, x))
    known = constant(op == "ne" or ((op[0] == "l") == (x is a) and op != "eq"), "b1")
    return select(fn, negative, known, cmp(fn, COMPARE["u"][op], a, b))


@row("eq ne lt le gt ge", "c")
def _(op, fn, a, b):
    (ar, ai), (br, bi) = parts(fn, a), parts(fn, b)
    eq = and_(fn, cmp(fn, "oeq", ar, br), cmp(fn, "oeq", ai, bi))
    if op == "eq":
        return eq
    if op == "ne":
        return not_(fn, eq)
    # NumPy orders by real part, then imaginary; a NaN in any part that is looked at gives False
    strict = COMPARE["f"][op[0] + "t"]
    first = cmp(fn, strict, ar, br)
    ordered = cmp(fn, "ord", ai, bi)
    tie = and_(fn, cmp(fn, "oeq", ar, br), cmp(fn, COMPARE["f"][op], ai, bi))
    return or_(fn, and_(fn, first, ordered), tie)


# integers: division, shifts, powers


def _safe_divisor(fn, a, b):
    """A divisor that cannot trap, and whether it had to be replaced (by 0 or overflow)."""
    bad = cmp(fn, "eq", b, num(0, b))
    if a.kind[0] == "i":
        least = cmp(fn, "eq", a, num(INT_MIN[a.kind], a))
        minus = cmp(fn, "eq", b, num(-1, b))
        bad = or_(fn, bad, and_(fn, least, minus))
    return select(fn, bad, num(1, b), b), bad


@row("floor_div", "iu")
def _(fn, a, b):
    safe, _ = _safe_divisor(fn, a, b)
    zero = cmp(fn, "eq", b, num(0, b))
    if a.kind[0] == "u":
        return select(fn, zero, num(0, a), I(fn, "udiv", a, safe))
    q = I(fn, "sdiv", a, safe)  # the least integer over -1 divides by 1: itself, as NumPy gives
    r = I(fn, "sub", a, I(fn, "mul", q, safe))
    signs = cmp(fn, "slt", I(fn, "xor", a, safe), num(0, a))
    down = and_(fn, cmp(fn, "ne", r, num(0, r)), signs)
    q = select(fn, down, I(fn, "sub", q, num(1, q)), q)
    return select(fn, zero, num(0, a), q)


@row("mod fmod", "iu")
def _(op, fn, a, b):
    safe, bad = _safe_divisor(fn, a, b)
    if a.kind[0] == "u":
        return select(fn, bad, num(0, a), I(fn, "urem", a, safe))
    r = I(fn, "srem", a, safe)
    if op == "mod":
        signs = cmp(fn, "slt", I(fn, "xor", r, safe), num(0, a))
        r = select(fn, and_(fn, cmp(fn, "ne", r, num(0, r)), signs), I(fn, "add", r, safe), r)
    return select(fn, bad, num(0, a), r)


@row("left_shift right_shift", "iu")
def _(op, fn, a, b):
    width = num(8 * SIZE[a.kind], a)
    inside = cmp(fn, "ult", b, width)
    safe = select(fn, inside, b, num(0, b))
    if op == "left_shift":
        return select(fn, inside, I(fn, "shl", a, safe), num(0, a))
    if a.kind[0] == "u":
        return select(fn, inside, I(fn, "lshr", a, safe), num(0, a))
    sign = I(fn, "ashr", a, num(8 * SIZE[a.kind] - 1, a))
    return select(fn, inside, I(fn, "ashr", a, safe), sign)


IPOW = """define internal {t} @ipow_{k}({t} %a, {t} %b) #0 {{
entry:
  %neg = icmp slt {t} %b, {least}
  br i1 %neg, label %negative, label %head
head:
  %x = phi {t} [ %a, %entry ], [ %xx, %body ]
  %n = phi {t} [ %b, %entry ], [ %half, %body ]
  %r = phi {t} [ 1, %entry ], [ %next, %body ]
  %more = icmp ne {t} %n, 0
  br i1 %more, label %body, label %done
body:
  %bit = and {t} %n, 1
  %odd = icmp ne {t} %bit, 0
  %times = mul {t} %r, %x
  %next = select i1 %odd, {t} %times, {t} %r
  %xx = mul {t} %x, %x
  %half = lshr {t} %n, 1
  br label %head
negative:
  %one = icmp eq {t} %a, 1
  %v = select i1 %one, {t} 1, {t} 0
  ret {t} %v
done:
  ret {t} %r
}}
"""


@row("pow", "iu")
def _(fn, a, b):
    t = LLVM[a.kind]
    text = IPOW.format(t=t, k=a.kind, least=0)
    if a.kind[0] == "u":
        text = text.replace("icmp slt", "icmp ult")
    fn.unit.define(f"ipow_{a.kind}", text)
    return fn.put(f"call {t} @ipow_{a.kind}({t} {fn.name_of(a)}, {t} {fn.name_of(b)})", a.kind, a, b)


@row("neg", "iu")
def _(fn, a):
    return I(fn, "sub", num(0, a), a)


@row("abs", "i")
def _(fn, a):
    return select(fn, cmp(fn, "slt", a, num(0, a)), I(fn, "sub", num(0, a), a), a)


@row("sign", "i")
def _(fn, a):
    return select(fn, cmp(fn, "sgt", a, num(0, a)), num(1, a), I(fn, "ashr", a, num(8 * SIZE[a.kind] - 1, a)))


@row("sign", "u")
def _(fn, a):
    return cast(fn, truth(fn, a), a.kind)


@row("abs floor ceil trunc rint conj", "u")
@row("floor ceil trunc rint conj", "i")
@row("abs floor ceil trunc rint square conj", "b")
@row("conj real", "f")
@row("real conj", "iub")
def _(op, fn, a):
    return a


@row("imag", "iubf")
def _(fn, a):
    return num(0, a)


@row("square", "iu")
def _(fn, a):
    return I(fn, "mul", a, a)


@row("reciprocal", "iu")
def _(fn, a):
    # NumPy casts 1.0 / x, which for 0 is an infinity
    r = float_to_int(fn, I(fn, "fdiv", constant(1.0, "f8"), cast(fn, a, "f8")), a.kind)
    return select(fn, cmp(fn, "eq", a, num(0, a)), num(0, a), r) if a.kind == "u8" else r


@row("maximum fmax", "iu")
def _(op, fn, a, b):
    return C(fn, "smax" if a.kind[0] == "i" else "umax", a, b)


@row("minimum fmin", "iu")
def _(op, fn, a, b):
    return C(fn, "smin" if a.kind[0] == "i" else "umin", a, b)


@row("isnan isinf", "biu")
def _(op, fn, a):
    return constant(False, "b1")


@row("isfinite", "biu")
def _(fn, a):
    return constant(True, "b1")


@row("signbit", "i")
def _(fn, a):
    return cmp(fn, "slt", a, num(0, a))


GCD = """define internal {t} @gcd_{k}({t} %a, {t} %b) #0 {{
entry:
  br label %head
head:
  %x = phi {t} [ %a, %entry ], [ %y, %body ]
  %y = phi {t} [ %b, %entry ], [ %r, %body ]
  %more = icmp ne {t} %y, 0
  br i1 %more, label %body, label %done
body:
  %r = urem {t} %x, %y
  br label %head
done:
  ret {t} %x
}}
"""


@row("gcd", "iu")
def _(fn, a, b):
    if a.kind[0] == "i":
        a, b = ROWS["abs", "i"](fn, a), ROWS["abs", "i"](fn, b)
    t = LLVM[a.kind]
    fn.unit.define(f"gcd_{a.kind}", GCD.format(t=t, k=a.kind))
    return fn.put(f"call {t} @gcd_{a.kind}({t} {fn.name_of(a)}, {t} {fn.name_of(b)})", a.kind, a, b)


@row("lcm", "iu")
def _(fn, a, b):
    g = ROWS["gcd", a.kind[0]](fn, a, b)
    if a.kind[0] == "i":
        a, b = ROWS["abs", "i"](fn, a), ROWS["abs", "i"](fn, b)
    zero = cmp(fn, "eq", g, num(0, g))
    q = I(fn, "udiv", a, select(fn, zero, num(1, g), g))
    return select(fn, zero, num(0, a), I(fn, "mul", q, b))


# real floats


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
    return libm(fn, "fmod", a, b)


def _divmod(fn, a, b):
    """NumPy's `npy_divmod`, step by step."""
    mod = libm(fn, "fmod", a, b)
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
    """nextafter of float16, on the bits."""
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
