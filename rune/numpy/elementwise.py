"""Elementwise functions: every ufunc with a row in the table of scalar functions, and choices.

A ufunc's keywords are NumPy's: `dtype` and `casting` choose the loop by NumPy's own resolution, and
with `where` the operands of the places left out are replaced by a harmless number, so that neither a
value nor a derivative of theirs is computed.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import (
    asarray,
    c_order,
    common,
    dtype_of,
    integer,
    operand,
    promote,
    require,
    shape_of,
)
from rune.numpy.register import function, method, named
from rune.numpy.shapes import entries
from rune.primitives import movement
from rune.primitives.map import cast, elementwise, short
from rune.primitives.scalar import TABLE, e
from rune.program import Type, type_of
from rune.value import Traced, box, tables, unbox

__all__ = [
    "COMPARISONS", "SPECIAL", "apply", "call_ufunc", "choose_between", "conjugate", "divmod_",
    "isclose", "loop_operands", "positive", "round_", "ufunc",
]  # fmt: skip

COMPARISONS = {
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
}
NAMED = {2: "square", 0.5: "sqrt", -1: "reciprocal"}  # exponents that NumPy computes without `pow`
HARMLESS = {"arccosh": 2.0}  # an operand at which the function and its derivative are finite; 0.5 elsewhere


def call_ufunc(name: str, args: tuple, where: Any = True, dtype: Any = None, casting: str = "same_kind",
               signature: Any = None, order: str = "K", subok: bool = True) -> Any:  # fmt: skip
    """A row as NumPy's ufunc, with its keywords."""
    args = tuple(map(operand, args))
    c_order(order, "CFAK")
    if dtype is not None or signature is not None or casting != "same_kind":
        args = loop_operands(TABLE[name].ufunc, args, dtype, casting, signature)
    if where is True:
        return apply(name, *args)
    where = cast(operand(where), bool)
    spare = HARMLESS.get(name, 0.5)
    args = tuple(e.select(where, a, harmless(type_of(a), spare)) for a in args)
    out = apply(name, *args)
    return e.select(where, out, cast(0, dtype_of(out)))


def harmless(t: Type, spare: float) -> Any:
    """A number that an operand of that type may hold where it is not asked for."""
    return spare if t.inexact else np.True_ if t.dtype.kind == "b" else 1


def loop_operands(ufunc: np.ufunc, args: tuple, dtype: Any, casting: str, signature: Any) -> tuple:
    """The operands cast for the loop that `dtype` or `signature` asks for.

    The ufunc itself judges the casts, on nothing: `resolve_dtypes` ends the process where it refuses that of
    a Python number (numpy#32496).
    """
    if signature is None:
        signature = (*(None,) * ufunc.nin, *(None if dtype is None else np.dtype(dtype),) * ufunc.nout)
    elif isinstance(signature, str):
        signature = tuple(np.dtype(c) for c in signature.replace("->", ""))
    with np.errstate(all="ignore"):
        ufunc(*map(sample, args), signature=signature, casting=casting)
    return in_loop(ufunc, args, signature=signature, casting="unsafe")


def sample(x: Any) -> Any:
    """What NumPy types as it types `x`: a Python number, or a matrix without elements."""
    t = type_of(x)
    return (t.dtype.type(1).item() if isinstance(x, Value) else x) if t.weak else np.empty((0, 0), t.dtype)


def in_loop(ufunc: np.ufunc, args: tuple, **how: Any) -> tuple:
    """The operands cast for the loop that NumPy chooses, where Python numbers are weak."""
    kinds = (
        {"f": float, "c": complex, "i": int}.get(t.dtype.kind, t.dtype) if t.weak else t.dtype
        for t in map(type_of, args)
    )
    dtypes = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout), **how)
    return tuple(cast(a, d) for a, d in zip(args, dtypes[: ufunc.nin], strict=True))


def apply(name: str, *args: Any, operator: bool = False) -> Any:
    if name in COMPARISONS:
        known = out_of_bounds(name, *args)
        if known is not None:
            return known
    special = SPECIAL.get(name)
    if special is not None:
        return special(*args, operator=operator)
    return elementwise(name, *args, operator=operator)


def power(x: Any, y: Any, operator: bool = False) -> Any:
    """x**y; constant exponents that NumPy computes without `pow` are computed as NumPy does."""
    if type(y) in (int, float) and y not in (0, 1):
        found = short(TABLE[NAMED.get(y, "pow")], (x,) if y in NAMED else (x, y))
        if found is not None:
            return found
    y = y[()] if isinstance(y, np.ndarray) else y  # a number, where it has no axes
    dtype = common(x, y)
    if dtype.kind in "iu" and dtype_of(y).kind == "i":
        whole_exponent(y)
    if isinstance(y, Value) or np.ndim(y):
        return elementwise("pow", x, y, operator=operator)
    if dtype.kind not in "fc":
        square = type(y) is int and y == 2 and (operator or dtype == dtype_of(x))
        return (
            elementwise("square", x, operator=operator)
            if square
            else elementwise("pow", x, y, operator=operator)
        )
    if y == 0:
        return e.select(True, cast(1, dtype), x) if isinstance(x, Value) else elementwise("pow", x, y)
    name = NAMED.get(y)
    if name is None and y != 1:
        return elementwise("pow", x, y, operator=operator)
    if dtype_of(x) != dtype:
        x = (
            elementwise("mul", x, 1.0, operator=True)
            if operator and type_of(x).weak and type(y) is float
            else cast(x, dtype)
        )
    return x if name is None else elementwise(name, x, operator=operator)


def whole_exponent(y: Any) -> None:
    """NumPy refuses negative powers of integers; what is traced is checked where it is known."""
    require(e.ge(y, 0), "Integers to negative integer powers are not allowed.")


def out_of_bounds(name: str, x: Any, y: Any) -> Any:
    """A comparison with a Python int that the other's dtype does not hold, which NumPy decides exactly."""
    for number, other, order in ((y, x, lambda a, b: (a, b)), (x, y, lambda a, b: (b, a))):
        dtype = dtype_of(other)
        if type(number) is int and dtype.kind in "iu" and not type_of(other).weak:
            info = np.iinfo(dtype)
            if not info.min <= number <= info.max:
                answer = COMPARISONS[name](*order(0, number))
                return np.full(shape_of(other), answer)
    return None


def conjugate(x: Any, operator: bool = False) -> Any:
    if dtype_of(x).kind == "c":
        return elementwise("conj", x, operator=operator)
    return x


def conjugate_ufunc(x: Any, operator: bool = False) -> Any:
    """NumPy's ufunc has no loop of booleans."""
    return cast(x, np.int8) if dtype_of(x).kind == "b" else conjugate(x, operator)


SPECIAL = {"pow": power, "conj": conjugate_ufunc}

for _row in TABLE.values():
    if isinstance(_row.ufunc, np.ufunc):
        if _row.ufunc in tables.ufuncs:
            continue  # a ufunc's first row answers for it
        tables.ufuncs[_row.ufunc] = functools.partial(
            lambda name, *args, **how: call_ufunc(name, args, **how), _row.name
        )
        if _row.name not in SPECIAL and _row.ufunc.nin <= 2:
            tables.rows[_row.ufunc] = _row


def ufunc(name: str):
    """Answer for a ufunc that is a composition of rows."""

    def register(f):
        def answer(*args, where=True, dtype=None, casting="same_kind", signature=None, order="K", subok=True):
            args = tuple(map(operand, args))
            c_order(order, "CFAK")
            if dtype is not None or signature is not None or casting != "same_kind":
                args = loop_operands(getattr(np, name), args, dtype, casting, signature)
            out = f(*args)
            if where is not True:
                where = cast(operand(where), bool)
                blank = lambda v: e.select(where, v, cast(0, dtype_of(v)))
                out = tuple(map(blank, out)) if isinstance(out, tuple) else blank(out)
            return out

        if hasattr(np, name):
            tables.ufuncs[getattr(np, name)] = answer
        return f

    return register


@ufunc("positive")
def positive(x):
    if dtype_of(x).kind == "b":
        raise TypeError("ufunc 'positive' did not contain a loop with signature matching types bool -> None")
    return cast(x, dtype_of(x))


@ufunc("fabs")
def fabs(x):
    return e.abs(*in_loop(np.fabs, (x,)))


@ufunc("float_power")
def float_power(x, y):
    dtype = np.complex128 if "c" in (dtype_of(x).kind, dtype_of(y).kind) else np.float64
    return power(cast(x, dtype), cast(y, dtype))


@ufunc("divmod")
def divmod_(x, y):
    return e.floor_div(x, y), e.mod(x, y)


@ufunc("modf")
def modf(x):
    (x,) = in_loop(np.modf, (x,))
    whole = e.trunc(x)
    part = e.select(e.isinf(x), e.copysign(cast(0, dtype_of(x)), x), e.copysign(e.sub(x, whole), x))
    return part, whole


@ufunc("ldexp")
def ldexp(x, exponent):
    x, exponent = in_loop(np.ldexp, (x, exponent))
    # In three steps: 2**exponent alone may overflow where the product does not.
    bound = -3 * np.finfo(dtype_of(x)).minexp
    whole = e.minimum(e.maximum(cast(exponent, np.int64), -bound), bound)
    third = e.floor_div(whole, 3)
    step = e.power_of_two(cast(third, dtype_of(x)))
    out = e.mul(e.mul(e.mul(x, step), step), e.power_of_two(cast(e.sub(whole, e.mul(third, 2)), dtype_of(x))))
    return e.select(e.logical_and(e.isfinite(x), e.ne(x, 0)), out, x)


@ufunc("frexp")
def frexp(x):
    (x,) = in_loop(np.frexp, (x,))
    k = e.exponent(x)
    # In two steps: 2**-k alone may be out of range.
    half = e.floor(e.mul(k, -0.5))
    m = e.mul(e.mul(x, e.power_of_two(half)), e.power_of_two(e.sub(e.neg(k), half)))
    return m, cast(k, np.int32)


@ufunc("degrees")
def degrees(x):
    return e.rad2deg(x)


@ufunc("radians")
def radians(x):
    return e.deg2rad(x)


@ufunc("spacing")
def spacing(x):
    (x,) = in_loop(np.spacing, (x,))
    away = cast(np.inf, dtype_of(x))
    if dtype_of(x) != np.float16:  # whose loop goes up from negative numbers too
        away = e.copysign(away, x)
    return e.sub(e.nextafter(x, away), x)


# Choices


@function("where")
def where(condition, *branches):
    if not branches:
        return tables.functions[np.nonzero](condition)
    if len(branches) != 2:
        raise ValueError("either both or neither of x and y should be given")
    return choose_between(condition, *branches)


def choose_between(condition: Any, x: Any, y: Any) -> Any:
    condition, x, y = map(operand, (condition, x, y))
    x, y = (np.asarray(v) if type(v) is bool else v for v in (x, y))
    return e.select(cast(condition, bool), wrapped(x, y), wrapped(y, x))


def wrapped(v: Any, beside: Any) -> Any:
    """A Python int in the integer dtype beside it, as np.where casts it: one that does not fit wraps around."""
    t = type_of(beside)
    fits = type(v) is int and -(1 << 63) <= v < 1 << 63 and t.dtype.kind in "iu" and not t.weak
    return np.asarray(v).astype(t.dtype) if fits else v


@function("select")
def select(condlist, choicelist, default=0):
    condlist, choicelist = (entries(x) if isinstance(x, Value) else x for x in (condlist, choicelist))
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    *choices, out = promote(*map(operand, (*choicelist, default)))
    conditions = list(map(operand, condlist))
    if any(dtype_of(c).kind != "b" for c in conditions):
        raise TypeError("invalid entry in condlist: should be boolean ndarray")
    shape = np.broadcast_shapes(*map(shape_of, (*choices, *conditions)))
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        out = e.select(condition, choice, out)
    return movement.broadcast(out, shape)


@function("piecewise")
def piecewise(x, condlist, funclist, *args, **keywords):
    x = asarray(x)
    condlist = condlist if isinstance(condlist, (list, tuple)) else [condlist]
    conditions = [cast(asarray(c), bool) for c in condlist]
    if len(conditions) == 1 and shape_of(conditions[0]) != shape_of(x):
        conditions = [movement.reshape(c, shape_of(x)) for c in entries(conditions[0])]
    if len(funclist) == len(conditions) + 1:
        otherwise = functools.reduce(e.logical_or, conditions)
        conditions.append(e.logical_not(otherwise))
    elif len(funclist) != len(conditions):
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are expected"
        )
    out = np.zeros(shape_of(x), dtype_of(x))
    for condition, f in zip(conditions, funclist, strict=True):
        y = f
        if callable(f):
            # Elsewhere f sees a place where it is asked for: no NaN of a place left out is differentiated.
            y = unbox(f(box(x), *box(args), **keywords))
        out = e.select(condition, cast(operand(y), dtype_of(x)), out)
    return out


@function("clip")
def clip(a, a_min=None, a_max=None, out=None, *, min=None, max=None, **how):
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if how.get("where", True) is not True:
        raise TypeError("clip: where= is not supported: write np.where(mask, np.clip(x, low, high), y)")
    a = operand(a)
    if dtype_of(a).kind in "iu":
        # A Python number beyond the dtype bounds nothing, where it need not be represented.
        info = np.iinfo(dtype_of(a))
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    low, high = (None if v is None else operand(v) for v in (low, high))
    dtype = how.get("dtype") or common(*(v for v in (a, low, high) if v is not None))
    a = cast(a, dtype)
    if low is None and high is None:
        return positive(a)
    if low is not None:
        a = e.maximum(a, cast(low, dtype))
    return a if high is None else e.minimum(a, cast(high, dtype))


@method("clip")
def clip_method(a, min=None, max=None, out=None, **how):
    return clip(a, min, max, **how)


tables.ufuncs[named("_core.umath.clip")] = clip  # which plain.clip(low, high) calls


@function("nan_to_num", boxed=True)
def nan_to_num_function(x, copy=True, nan=0.0, posinf=None, neginf=None):
    out = nan_to_num(unbox(x), *unbox((nan, posinf, neginf)))
    if copy or not isinstance(x, Traced) or not x.shape:
        return box(out)
    if x.dtype.kind in "fc":
        x[...] = box(out)
    return x


def nan_to_num(x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    x = asarray(x)
    if dtype_of(x).kind == "c":
        parts = (
            nan_to_num(e.real(x), nan, posinf, neginf),
            nan_to_num(e.imag(x), nan, posinf, neginf),
        )
        return e.complex(*parts)
    if dtype_of(x).kind != "f":
        return x
    info = np.finfo(dtype_of(x))
    high = info.max if posinf is None else operand(posinf)
    low = info.min if neginf is None else operand(neginf)
    cast_to = lambda v: cast(operand(v), dtype_of(x))
    out = e.select(e.isnan(x), cast_to(nan), x)
    out = e.select(e.eq(x, cast_to(np.inf)), cast_to(high), out)
    return e.select(e.eq(x, cast_to(-np.inf)), cast_to(low), out)


@function("isposinf")
def isposinf(x, out=None):
    return e.eq(real_only(x), np.inf)


@function("isneginf")
def isneginf(x, out=None):
    return e.eq(real_only(x), -np.inf)


def real_only(x: Any) -> Any:
    x = asarray(x)
    if dtype_of(x).kind == "c":
        raise TypeError("This operation is not supported for complex values because it would be ambiguous.")
    return x


@function("isclose")
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    a, b, rtol, atol = map(operand, (a, b, rtol, atol))
    if dtype_of(b).kind not in "fc":
        b = cast(b, common(b, 1.0))
    near = e.le(e.abs(e.sub(a, b)), e.add(atol, e.mul(rtol, e.abs(b))))
    near = e.logical_or(e.logical_and(near, e.isfinite(b)), e.eq(a, b))
    return e.logical_or(near, e.logical_and(e.isnan(a), e.isnan(b))) if equal_nan else near


# Rounding and special functions


@function("round", "around", method="round")
def round_(a, decimals=0, out=None):
    a, decimals = asarray(a), integer(decimals)
    dtype = dtype_of(a)
    if dtype.kind == "c":
        return e.complex(round_(e.real(a), decimals), round_(e.imag(a), decimals))
    if dtype.kind == "b":
        if decimals:
            raise TypeError("Cannot cast ufunc 'multiply' output from dtype('float64') to dtype('bool')")
        return cast(a, np.float16)
    if dtype.kind in "iu":
        return a if decimals >= 0 else cast(round_(cast(a, np.float64), decimals), dtype)
    if decimals == 0:
        return e.rint(a)
    scale = cast(10.0 ** abs(decimals), dtype)
    there, back = (e.mul, e.div) if decimals > 0 else (e.div, e.mul)
    return back(e.rint(there(a, scale)), scale)


@function("fix")
def fix(x, out=None):
    x = asarray(x)
    return x if dtype_of(x).kind in "iub" else e.trunc(x)


@function("sinc")
def sinc(x):
    x = asarray(x)
    y = e.mul(math.pi, x)
    small = np.finfo(dtype_of(y)).eps if dtype_of(y).kind == "f" else 1e-20
    y = e.select(e.ne(y, 0), y, cast(small, dtype_of(y)))
    return e.div(e.sin(y), y)
