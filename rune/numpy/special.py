"""scipy.special's ufuncs, np.i0, and sums of exponentials that do not overflow."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rune.level import TracedValueError, Value
from rune.numpy.arguments import asarray, axes_of, dtype_of, inexact, operand, shape_of
from rune.numpy.elementwise import call_ufunc
from rune.numpy.reductions import reduced
from rune.numpy.register import function
from rune.primitives import movement, several, special
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.value import box, first_traced, tables, unbox

__all__ = ["log_softmax", "logsumexp", "polygamma", "softmax"]


def known_late(ufunc: np.ufunc) -> Any:
    """The function for a ufunc that the table does not have: SciPy's are added when one is first met."""
    if ufunc in special.load():
        for found, name in special.load().items():
            tables.ufuncs.setdefault(
                found, functools.partial(lambda name, *args, **how: call_ufunc(name, args, **how), name)
            )
    for name in several.SLOPES:
        if special.ufunc_of(name) is ufunc:
            tables.ufuncs.setdefault(ufunc, functools.partial(all_results, name))
    return tables.ufuncs.get(ufunc)


def all_results(name: str, *args: Any) -> tuple:
    return several.results(name, [operand(a) for a in args])


tables.late = known_late


@function("i0")
def i0(x):
    special.load()
    x = inexact(asarray(x))
    return cast(e.i0(x), dtype_of(x))


def either(name: str, ours: Any, x: Any, rest: tuple, keywords: dict) -> Any:
    """SciPy's function on plain arrays, ours where a value is traced."""
    if first_traced((x, *rest)) is None:
        import scipy.special as module

        return getattr(module, name)(x, *rest, **keywords)
    return box(ours(*unbox((x, *rest)), **keywords))


def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    return either("logsumexp", log_sum_exp, a, (axis, b), {"keepdims": keepdims, "return_sign": return_sign})


def softmax(x, axis=None):
    return either("softmax", weights, x, (axis,), {})


def log_softmax(x, axis=None):
    return either("log_softmax", log_weights, x, (axis,), {})


def polygamma(n, x):
    return either("polygamma", derivative_of_digamma, n, (x,), {})


def derivative_of_digamma(n: Any, x: Any) -> Any:
    """(-1)^(n+1) n! zeta(n + 1, x), and digamma itself where n is 0; n is known."""
    import scipy.special as module

    special.load()
    if isinstance(n, Value):
        raise TracedValueError(
            f"rune.polygamma: the order n is traced by {n.level.name} and must be known: pass an int, or name it in "
            "static_argnames"
        )
    order, x = np.asarray(n), inexact(asarray(x))
    scale = (-1.0) ** (order + 1) * module.gamma(order + 1.0)
    one = lambda plain: plain.item() if plain.ndim == 0 else plain  # a number, so that float32 stays float32
    found = e.mul(e.zeta(one(np.maximum(order, 1) + 1.0), x), one(np.asarray(scale)))
    return e.select(order == 0, e.digamma(x), found) if np.any(order == 0) else found


def log_sum_exp(a: Any, axis: Any, b: Any, keepdims: bool, return_sign: bool) -> Any:
    a = inexact(asarray(a))
    if b is not None:
        b = asarray(b)
        shape = np.broadcast_shapes(shape_of(a), shape_of(b))
        a, b = movement.broadcast(a, shape), movement.broadcast(b, shape)
        a = e.select(e.eq(b, 0), cast(-np.inf, dtype_of(a)), a)
    axes = axes_of(axis, len(shape_of(a)))
    size = e.real(a) if dtype_of(a).kind == "c" else a
    top = reduced("max", size, axes, True, initial=-np.inf)
    # The shift cancels in the result, derivative included, so that it is a constant to it.
    top = e.select(e.isfinite(top), top, cast(0, dtype_of(top)))
    terms = e.exp(e.sub(a, top))
    total = reduced("sum", terms if b is None else e.mul(b, terms), axes, True)
    sign = None
    if return_sign:
        sign = e.sign(total)
        total = e.abs(total)
    out = e.add(e.log(total), top)
    if not keepdims:
        short = tuple(n for k, n in enumerate(shape_of(a)) if k not in axes)
        out = movement.reshape(out, short)
        sign = None if sign is None else movement.reshape(sign, short)
    return (out, sign) if return_sign else out


def weights(x: Any, axis: Any) -> Any:
    x = inexact(asarray(x))
    terms = e.exp(e.sub(x, reduced("max", x, axis, True)))
    return e.div(terms, reduced("sum", terms, axis, True))


def log_weights(x: Any, axis: Any) -> Any:
    x = inexact(asarray(x))
    return e.sub(x, log_sum_exp(x, axis, None, True, False))
