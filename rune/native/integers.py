"""Rows of `math` for integers: they wrap around, divide as NumPy does, and never trap.

Division by 0, of the least integer by -1, and shifts by the width or more are undefined in LLVM, and
some of them end the process; each is guarded here and gives what NumPy gives.
"""

from __future__ import annotations

from .function import LLVM, SIZE
from .math import INT_MIN, ROWS, C, I, and_, cast, cmp, constant, float_to_int, num, or_, row, select, truth


@row("add sub mul", "iu")
def _(op, fn, a, b):
    return I(fn, op, a, b)


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
