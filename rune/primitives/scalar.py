"""The table of scalar functions: one row each, with NumPy's ufunc, derivative and native code.

A row's derivative is one expression per operand (`partials`), written with other rows over values;
`None` is a zero.  Rows that are linear in their operands state `tangent` and `back` instead: the
tangent is then the function itself, and `back` its transpose.  `native` names the row's code in
`rune.native.math`.

The kinks follow rules.md: the derivative of `abs` at 0 is 0, tied operands of `maximum` and
`minimum` take half each, `hypot` at 0 has 0, and of x**y the one by x is 0 where y is 0, the one by
y is 0 where x is 0 and y > 0.

A derivative is accurate to a few units in the last place wherever it is a normal number, near a kink
and in the tails too, and on a branch cut it is that of the side the sign of zero names.  Two are
functions of the result alone, so that a loop keeps nothing but its results: those of `tanh` and of
`exp`; the first is accurate as far as its result tells (its error is relative to 1 - |result|).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import Value
from rune.program import Type, real_dtype, type_of

__all__ = ["TABLE", "Row", "constant", "e"]


@dataclasses.dataclass(eq=False)
class Row:
    name: str
    ufunc: Any
    partials: tuple | None = None  # per operand: f(*operands, out) -> value, or None for a zero
    tangent: Callable | None = None  # (tangents, primals, out, params) -> tangent or None
    back: Callable | None = None  # (k, ct, args, params) -> the cotangent of linear operand k
    linear: str = ""  # "all": in all operands together; "each": in one at a time; or positions, "12"
    native: str = ""

    def __post_init__(self) -> None:
        self.native = self.native or self.name
        # What `Level.scalar` may take: of two operands only NumPy's own, for which a number is weak (SciPy's ask it).
        own = getattr(np, getattr(self.ufunc, "__name__", ""), None) is self.ufunc
        self.short = isinstance(self.ufunc, np.ufunc) and (
            self.ufunc.nin == 1 or (self.ufunc.nin == 2 and own)
        )
        self.zero = self.tangent is None and (self.partials is None or not any(self.partials))

    def operand_dtypes(self, kinds: tuple) -> tuple[np.dtype, ...]:
        """The loop NumPy would choose, for dtypes and weak types (NEP 50)."""
        if self.name == "select":
            common = [_python(k) for k in kinds[1:]]
            dtype = np.result_type(*(k if isinstance(k, np.dtype) else k(0) for k in common))
            return (np.dtype(bool), dtype, dtype)
        asked = tuple(_python(k) for k in kinds)
        if not isinstance(self.ufunc, np.ufunc):
            dtype = np.result_type(*(k if isinstance(k, np.dtype) else k(0) for k in asked))
            return (dtype,) * len(kinds)
        return self.ufunc.resolve_dtypes((*asked, *(None,) * self.ufunc.nout))[: len(kinds)]

    def result_dtype(self, dtypes: list[np.dtype]) -> np.dtype:
        if self.name == "select":
            return dtypes[1]
        if self.name in ("real", "imag", "abs") and dtypes[0].kind == "c":
            return real_dtype(dtypes[0])
        if self.name in ("real", "imag"):
            return dtypes[0]
        if self.name == "complex":
            return np.result_type(dtypes[0], np.complex64)
        if self.name == "sign":
            return dtypes[0]
        if not isinstance(self.ufunc, np.ufunc):
            return dtypes[0]
        return self.ufunc.resolve_dtypes((*dtypes, *(None,) * self.ufunc.nout))[len(dtypes)]

    def linear_in(self, flags: list[bool]) -> bool:
        if self.linear == "all":
            return True
        if self.linear == "each":
            return sum(flags) == 1
        return bool(self.linear) and all(str(k) in self.linear for k, f in enumerate(flags) if f)

    def transpose(self, k: int, ct: Any, args: list, params: dict) -> Any:
        return self.back(k, ct, args, params)


def _python(kind: Any) -> Any:
    if isinstance(kind, Type):
        return {"f": float, "c": complex, "i": int}.get(kind.dtype.kind, kind.dtype)
    return kind


class _Expressions:
    """`e.sin(x)`: rows as functions, for the derivatives below and for compositions elsewhere."""

    def __getattr__(self, name: str) -> Callable:
        from rune.primitives.map import expression

        if name.rstrip("_") not in TABLE:
            raise AttributeError(name)
        f = expression(name.rstrip("_"))
        setattr(self, name, f)
        return f


e = _Expressions()
TABLE: dict[str, Row] = {}


def row(name: str, ufunc: Any, *partials: Callable | None, **more: Any) -> None:
    TABLE[name] = Row(name, ufunc, partials or None, **more)


def _cast_back(k, ct, args, params):
    from rune.primitives.map import cast

    return cast(ct, args[0].type.dtype)


def _cast_tangent(tangents, primals, out, params):
    from rune.primitives.map import cast

    return cast(tangents[0], params["dtype"]) if tangents[0] is not None else None


def _add_tangent(tangents, primals, out, params):
    a, b = tangents
    if a is None or b is None:
        return b if a is None else a
    return e.add(a, b)


def _sub_tangent(tangents, primals, out, params):
    a, b = tangents
    if b is None:
        return a
    return e.neg(b) if a is None else e.sub(a, b)


def _fill(t: Any, p: Any) -> Any:
    return np.zeros((), type_of(p).dtype)[()] if t is None else t


def _select_tangent(tangents, primals, out, params):
    _, a, b = tangents
    if a is None and b is None:
        return None
    return e.select(primals[0], _fill(a, primals[1]), _fill(b, primals[2]))


def _select_back(k, ct, args, params):
    zero = np.zeros((), type_of(ct).dtype)[()]
    return e.select(args[0], ct, zero) if k == 1 else e.select(args[0], zero, ct)


def _same(name: str) -> Callable:
    """The tangent of a function linear in all its operands: the function of the tangents."""

    def tangent(tangents, primals, out, params):
        if all(t is None for t in tangents):
            return None
        return getattr(e, name)(*(_fill(t, p) for t, p in zip(tangents, primals, strict=True)))

    return tangent


def _imag_tangent(tangents, primals, out, params):
    return e.imag(tangents[0]) if tangents[0] is not None and type_of(primals[0]).dtype.kind == "c" else None


def _mul_back(k, ct, args, params):
    return e.mul(ct, args[1 - k])


def _div_tangent(tangents, primals, out, params):
    (dx, dy), (_, y) = tangents, primals
    by_x = None if dx is None else e.div(dx, y)
    if dy is None:
        return by_x
    by_y = e.mul(dy, e.neg(e.div(out, y)))
    return by_y if by_x is None else e.add(by_x, by_y)


def _abs_tangent(tangents, primals, out, params):
    (dx,), (x,) = tangents, primals
    if dx is None:
        return None
    if type_of(x).dtype.kind != "c":
        return e.mul(dx, e.sign(x))
    # d|z| = Re(conj(z) dz) / |z|, 0 at 0
    direction = e.div(e.conj(x), e.select(e.eq(out, 0.0), 1.0, out))
    return e.real(e.mul(direction, dx))


def _half(over: str) -> tuple:
    """Partials of maximum and minimum: 1 where the operand wins, half where both are equal."""
    half = lambda x, y: e.select(e.eq(x, y), constant(0.5, x), 0.0)
    one = lambda x, y: e.select(getattr(e, over)(x, y), 1.0, half(x, y))
    return lambda x, y, o: one(x, y), lambda x, y, o: one(y, x)


def _sign_tangent(tangents, primals, out, params):
    """Of z/|z|: what of dz is across z, over |z|; real signs are steps."""
    (dz,), (z,) = tangents, primals
    if dz is None or not _is_complex(z):
        return None
    size = e.abs(z)
    size = e.select(e.eq(size, 0.0), np.inf, size)  # at 0 the sign is 0, and so is its derivative
    across = e.div(e.imag(e.mul(e.conj(out), dz)), size)
    return e.mul(out, e.complex(_zero(across), across))


def raised(x: Any, k: Any) -> Any:
    """x**k for a constant k, without `pow` where another row says it."""
    name = (
        {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal"}.get(float(k))
        if not np.ndim(k) and not np.iscomplexobj(k)
        else None
    )
    if name is None or type_of(x).dtype != np.result_type(type_of(x).dtype, type_of(k).dtype):
        return e.pow(x, k)
    return getattr(e, name)(x)


def _pow_x(x, y, o):
    if not isinstance(y, Value) and np.all(np.not_equal(y, 0)):
        slope = e.mul(y, raised(x, y - 1))
    else:
        # The power is taken where y is not 0 only: at x = 0 its derivative would be infinite.
        zero = e.eq(y, 0)
        slope = e.select(zero, 0.0, e.mul(y, e.pow(x, e.sub(e.select(zero, 1, y), 1))))
    if _is_complex(o) or (not isinstance(y, Value) and np.all((y >= 0.5) | (y % 0.5 == 0))):
        return slope
    # y - 1 is rounded below 1/2; there x**y / x is as good as x**y, where x is neither 0 nor infinite.
    through = e.logical_and(e.lt(y, 0.5), e.logical_and(e.isfinite(x), e.ne(x, 0)))
    return e.select(through, e.mul(y, e.div(o, e.select(through, x, 1))), slope)


def _pow_y(x, y, o):
    silent = e.logical_and(e.eq(x, 0), e.gt(y, 0)) if not _is_complex(y) else e.eq(x, 0)
    return e.select(silent, 0.0, e.mul(o, e.log(e.select(silent, 1.0, x))))


def _hypot(x, o):
    return e.select(e.eq(o, 0.0), 0.0, e.div(x, e.select(e.eq(o, 0.0), 1.0, o)))


def _logadd(exp):
    """Partials of log(exp(x) + exp(y)): the logistic function of x - y, from an exponential of -|x - y|."""

    def share(x, y):
        both = e.logical_and(e.eq(x, y), e.isinf(x))  # equal infinities share equally
        d = e.select(both, 0.0, e.sub(x, y))
        first = e.ge(d, 0.0)
        t = exp(e.select(first, e.neg(d), d))
        return e.div(e.select(first, 1.0, t), e.add(1.0, t))

    return lambda x, y, o: share(x, y), lambda x, y, o: share(y, x)


def constant(c: float, like: Any) -> Any:
    """`c` of the dtype of `like`, where nothing else in an expression has it."""
    return type_of(like).dtype.type(c)


def _is_complex(x: Any) -> bool:
    return type_of(x).dtype.kind == "c"


# 1 + z and 1 - z that keep the sign of a zero imaginary part, which names the side of a branch cut.
def _plus1(z: Any) -> Any:
    return e.sub(z, -1.0)


def _less1(z: Any) -> Any:
    return e.neg(e.sub(z, 1.0))


def _arcsin(x, o):
    return e.reciprocal(e.mul(e.sqrt(_less1(x)), e.sqrt(_plus1(x))))


def _arcsinh(x, o):
    return e.reciprocal(e.sqrt(_plus1(e.mul(x, x))) if _is_complex(x) else e.hypot(x, 1.0))


def _arctan2(a, y, x):
    """a / (x**2 + y**2), where the squares would over- or underflow too."""
    h = e.hypot(y, x)
    return e.div(e.div(a, h), h)


def _number(over: str) -> tuple:
    """Partials of fmax and fmin: those of maximum and minimum, and 1 where the other operand is NaN."""
    by_x, by_y = _half(over)
    return (
        lambda x, y, o: e.select(e.isnan(y), 1.0, by_x(x, y, o)),
        lambda x, y, o: e.select(e.isnan(x), 1.0, by_y(x, y, o)),
    )


def _power_of_two(k: Any) -> Any:
    limits = np.finfo(np.result_type(k, np.float32))  # float16 is computed in float32
    within = np.trunc(np.fmax(np.fmin(k, limits.maxexp), limits.minexp))
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(np.ones((), k.dtype), within.astype(np.int32))


def _parts(re: Any, im: Any) -> Any:
    """The complex numbers with these parts, each as it is: re + 1j * im would lose -0.0 and make NaN of infinity."""
    out = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), np.result_type(re, im, np.complex64))
    out.real, out.imag = re, im
    return out[()]


LN2, LN10 = math.log(2.0), math.log(10.0)

# arithmetic
row("add", np.add, linear="all", tangent=_add_tangent, back=lambda k, ct, args, p: ct)
row(
    "sub",
    np.subtract,
    linear="all",
    tangent=_sub_tangent,
    back=lambda k, ct, a, p: ct if k == 0 else e.neg(ct),
)
row("mul", np.multiply, lambda x, y, o: y, lambda x, y, o: x, linear="each", back=_mul_back)
# a product that is rounded before it is added to: compiled code fuses it with nothing
row("product", np.multiply, lambda x, y, o: y, lambda x, y, o: x, linear="each", back=_mul_back)
row("div", np.divide, linear="0", tangent=_div_tangent, back=lambda k, ct, args, p: e.div(ct, args[1]))
row("neg", np.negative, linear="all", tangent=_same("neg"), back=lambda k, ct, args, p: e.neg(ct))
row("floor_div", np.floor_divide)
row("mod", np.remainder, lambda x, y, o: 1.0, lambda x, y, o: e.neg(e.floor_div(x, y)))
row("fmod", np.fmod, lambda x, y, o: 1.0, lambda x, y, o: e.neg(e.trunc(e.div(x, y))))
row("pow", np.power, _pow_x, _pow_y)
row("abs", np.absolute, tangent=_abs_tangent)
row("sign", np.sign, tangent=_sign_tangent)
row("reciprocal", np.reciprocal, lambda x, o: e.neg(e.mul(o, o)))
row("square", np.square, lambda x, o: e.mul(x, 2.0))
row("sqrt", np.sqrt, lambda x, o: e.div(0.5, o))
row("cbrt", np.cbrt, lambda x, o: e.div(1 / 3, e.mul(o, o)))
row("hypot", np.hypot, lambda x, y, o: _hypot(x, o), lambda x, y, o: _hypot(y, o))
row("copysign", np.copysign, lambda x, y, o: e.mul(e.copysign(1.0, x), e.copysign(1.0, y)), None)
row("maximum", np.maximum, *_half("gt"))
row("minimum", np.minimum, *_half("lt"))
row("fmax", np.fmax, *_number("gt"))
row("fmin", np.fmin, *_number("lt"))
row("floor", np.floor)
row("ceil", np.ceil)
row("trunc", np.trunc)
row("rint", np.rint)
row("heaviside", np.heaviside, None, lambda x, y, o: e.select(e.eq(x, 0.0), constant(1.0, x), 0.0))
row("nextafter", np.nextafter, lambda x, y, o: 1.0, None)
row("gcd", np.gcd)
row("lcm", np.lcm)
row("logaddexp", np.logaddexp, *_logadd(lambda d: e.exp(d)))
row("logaddexp2", np.logaddexp2, *_logadd(lambda d: e.exp2(d)))

# comparison and logic: results are booleans or integers, which have no derivative
for _name, _ufunc in {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "signbit": np.signbit, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "logical_not": np.logical_not, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}.items():  # fmt: skip
    row(_name, _ufunc)

# exponentials and logarithms
row("exp", np.exp, lambda x, o: o)
row("exp2", np.exp2, lambda x, o: e.mul(o, LN2))
row("expm1", np.expm1, lambda x, o: e.exp(x))
row("log", np.log, lambda x, o: e.reciprocal(x))
row("log2", np.log2, lambda x, o: e.div(1 / LN2, x))
row("log10", np.log10, lambda x, o: e.div(1 / LN10, x))
row("log1p", np.log1p, lambda x, o: e.reciprocal(e.add(x, 1.0)))
# the k of x = m 2**k with m from 1/2 up to 1, and 2**k of an integral k (of one out of range, the nearest)
row("exponent", lambda x: np.frexp(x)[1].astype(x.dtype))
row("power_of_two", _power_of_two)

# trigonometric and hyperbolic
row("sin", np.sin, lambda x, o: e.cos(x))
row("cos", np.cos, lambda x, o: e.neg(e.sin(x)))
row("tan", np.tan, lambda x, o: e.add(1.0, e.mul(o, o)))
row("arcsin", np.arcsin, _arcsin)
row("arccos", np.arccos, lambda x, o: e.neg(_arcsin(x, o)))
row("arctan", np.arctan, lambda x, o: e.reciprocal(e.add(1.0, e.mul(x, x))))
row("arctan2", np.arctan2, lambda y, x, o: _arctan2(x, y, x), lambda y, x, o: e.neg(_arctan2(y, y, x)))
row("sinh", np.sinh, lambda x, o: e.cosh(x))
row("cosh", np.cosh, lambda x, o: e.sinh(x))
row("tanh", np.tanh, lambda x, o: e.mul(e.sub(1.0, o), e.add(1.0, o)))
row("arcsinh", np.arcsinh, _arcsinh)
row("arccosh", np.arccosh, lambda x, o: e.reciprocal(e.mul(e.sqrt(e.sub(x, 1.0)), e.sqrt(_plus1(x)))))
row("arctanh", np.arctanh, lambda x, o: e.reciprocal(e.mul(e.sub(1.0, x), e.add(1.0, x))))
row("deg2rad", np.deg2rad, lambda x, o: math.pi / 180)
row("rad2deg", np.rad2deg, lambda x, o: 180 / math.pi)

# choice, dtype, and the parts of a complex number
row("select", np.where, linear="12", tangent=_select_tangent, back=_select_back)
row("cast", None, linear="all", tangent=_cast_tangent, back=_cast_back)
row("conj", np.conjugate, linear="all", tangent=_same("conj"), back=lambda k, ct, args, p: e.conj(ct))
row("real", np.real, linear="all", tangent=_same("real"), back=lambda k, ct, args, p: _from_real(ct, args[0]))
row(
    "imag",
    np.imag,
    linear="all",
    tangent=_imag_tangent,
    back=lambda k, ct, args, p: _from_imag(ct, args[0]),
)
row(
    "complex",
    _parts,
    linear="all",
    tangent=_same("complex"),
    back=lambda k, ct, args, p: e.real(ct) if k == 0 else e.neg(e.imag(ct)),
)


def _zero(ct: Any) -> Any:
    return np.zeros((), type_of(ct).dtype)[()]


def _from_real(ct: Any, operand: Any) -> Any:
    return e.complex(ct, _zero(ct)) if operand.type.dtype.kind == "c" else ct


def _from_imag(ct: Any, operand: Any) -> Any:
    if operand.type.dtype.kind == "c":
        return e.complex(_zero(ct), e.neg(ct))
    return np.broadcast_to(_zero(ct), operand.type.shape)
