"""Scalar operations as LLVM instructions: one table, one row for each operation and class of dtype.

Here stand the table, and what its rows are made of: constants, instructions, casts, calls of libm.  The
rows stand in `logic`, `integers`, `reals` and `complex`, by class.

A row receives the function being built, the operands and the dtype code of the result, and gives a
value.  It follows NumPy's ufunc, special values included.  float16 computes in float32 and rounds.

`contract` (fused multiply-add) is allowed on an addition or subtraction unless both operands may be
products: x*x - y*y must be 0 at x = y.  Functions of libm carry their vector variants of libmvec.
"""

from __future__ import annotations

import functools
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

ROWS: dict = {}  # (operation, class) -> row; a class is one of b i u f c, or the one dtype of that code


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
    if k == "f2" and (op, k) not in ROWS:
        wide = [cast(fn, x, "f4") if x.kind == "f2" else x for x in a]
        r = apply(fn, op, wide, "f4" if out == "f2" else out)
        return cast(fn, r, out)
    f = ROWS.get((op, k)) or ROWS.get((op, k[0]))
    if f is None:
        raise NotImplementedError(f"no native code for {op} of {np.dtype(k)}")
    r = f(fn, *a)
    return r if r.kind == out else cast(fn, r, out)
