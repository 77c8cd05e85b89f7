"""Averages, quantiles and covariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import asarray, axes_of, common, dtype_of, inexact, operand, real_dtype, shape_of
from rune.numpy.products import matmul
from rune.numpy.reductions import count, keep, mean, reduced
from rune.numpy.register import function
from rune.numpy.shapes import entries
from rune.primitives import movement
from rune.primitives.indexing import argsort, gather, take_along
from rune.primitives.map import cast
from rune.primitives.reduce import reduce
from rune.primitives.scalar import e

__all__ = ["median"]


@function("average")
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    a = asarray(a)
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        total = cast(count(a, axes, True, None), dtype_of(out))
    else:
        w = asarray(weights)
        if shape_of(w) != shape:
            if axis is None:
                raise TypeError("Axis must be specified when shapes of a and weights differ.")
            if shape_of(w) != tuple(shape[k] for k in axes):
                raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
            w = movement.permute(w, tuple(int(k) for k in np.argsort(axes)))
            w = movement.reshape(w, tuple(n if k in axes else 1 for k, n in enumerate(shape)))
        # NumPy widens integers: the average of integers is a float64.
        dtype = np.result_type(dtype_of(a), dtype_of(w), *([np.float64] if dtype_of(a).kind in "iub" else []))
        a, w = cast(a, dtype), cast(w, dtype)
        total = reduced("sum", movement.broadcast(w, shape), axis, keepdims)
        out = e.div(reduced("sum", e.mul(a, w), axis, keepdims), total)
    return (out, movement.broadcast(total, shape_of(out))) if returned else out


def sorted_last(a: Any, axis: Any) -> tuple:
    """`a` sorted along `axis` (several are one), which comes last; and the shape it had."""
    a = asarray(a)
    shape = shape_of(a)
    axes = tuple(sorted(axes_of(axis, len(shape))))
    rest = tuple(k for k in range(len(shape)) if k not in axes)
    a = movement.permute(a, rest + axes)
    a = movement.reshape(a, tuple(shape[k] for k in rest) + (math.prod(shape[k] for k in axes),))
    return sort_last(a), shape, axes


def sort_last(a: Any) -> Any:

    return take_along(a, argsort(a), len(shape_of(a)) - 1)


def quantile_of(a: Any, q: Any, axis: Any, method: str, keepdims: Any, skip_nan: bool) -> Any:
    """Quantiles by interpolation between neighbours in sorted order; a NaN makes its row NaN."""
    if dtype_of(asarray(a)).kind in "bc":
        raise TypeError("a must be an array of real numbers")
    # An element of the array keeps its dtype; what is interpolated has the common one of array and q.
    # With whole q every place of the linear method is one of them.
    element = method in ELEMENTS or (method == "linear" and dtype_of(asarray(q)).kind in "iu")
    if skip_nan and 0 in shape_of(asarray(a)):
        return mean(a, axis, keepdims=keepdims)  # NumPy's answer, whatever the shape of q
    dtype = dtype_of(asarray(a)) if element else common(inexact(asarray(a)), q)
    a, shape, axes = sorted_last(a, axis)
    q = asarray(q)
    lead, n = shape_of(a)[:-1], shape_of(a)[-1]
    if n == 0:
        raise IndexError("quantile: index -1 is out of bounds for an axis with size 0")
    missing = e.isnan(a)
    size = e.sub(n, reduce("sum", cast(missing, np.float64), (len(lead),))) if skip_nan else float(n)
    parts = []
    flat = movement.reshape(q, (math.prod(shape_of(q)),))
    for p in entries(flat):
        p = p if isinstance(p, Value) else p[()]
        below, share = place_of(p, size, method)
        top = e.maximum(e.sub(size, 1.0), 0.0)
        first = cast(e.minimum(e.maximum(below, 0.0), top), np.int64)
        second = cast(e.minimum(e.maximum(e.add(below, 1.0), 0.0), top), np.int64)
        if element:
            parts.append(pick(a, first))
            continue
        low, high = cast(pick(a, first), dtype), cast(pick(a, second), dtype)
        share = cast(share, dtype)
        # NumPy's lerp: exact at both ends.
        d = e.sub(high, low)
        upper = e.sub(high, e.mul(d, e.sub(1, share)))
        parts.append(e.select(e.ge(share, 0.5), upper, e.add(low, e.mul(d, share))))
    bad = reduce("all" if skip_nan else "any", missing, (len(lead),))
    if dtype.kind == "f":
        parts = [e.select(bad, cast(np.nan, dtype), part) for part in parts]
    parts = [keep(part, shape, axes, keepdims) for part in parts]
    if not shape_of(q):
        return parts[0]
    rows = [movement.reshape(part, (1, *shape_of(part))) for part in parts]
    return movement.reshape(movement.concatenate(rows, 0), shape_of(q) + shape_of(parts[0]))


ELEMENTS = {"lower", "higher", "nearest", "inverted_cdf", "closest_observation"}
PLACES = {  # method -> (alpha, beta) of Hyndman and Fan (1996)
    "linear": (1, 1), "weibull": (0, 0), "hazen": (0.5, 0.5), "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8), "interpolated_inverted_cdf": (0, 1),
}  # fmt: skip


def place_of(p: Any, n: Any, method: str) -> tuple:
    """The index below the quantile, and the share of the one above."""
    if method in PLACES:
        alpha, beta = PLACES[method]
        at = e.sub(e.add(e.mul(n, p), e.add(alpha, e.mul(p, 1 - alpha - beta))), 1)
        at = at if method != "linear" else e.mul(e.sub(n, 1.0), p)
        below = e.floor(at)
        return below, e.sub(at, below)
    at = e.mul(e.sub(n, 1.0), p)
    if method in ("lower", "higher", "nearest", "midpoint"):
        round_ = {"lower": e.floor, "higher": e.ceil, "nearest": e.rint, "midpoint": e.floor}[method]
        below = round_(at)
        half = e.select(e.eq(e.sub(at, e.floor(at)), 0.0), 0.0, 0.5) if method == "midpoint" else 0.0
        return below, half
    if method in ("inverted_cdf", "averaged_inverted_cdf", "closest_observation"):
        at = e.mul(n, p) if method != "closest_observation" else e.sub(e.mul(n, p), 0.5)
        below = e.sub(e.ceil(at), 1.0)
        exact = e.eq(at, e.floor(at))
        if method == "inverted_cdf":
            return below, 0.0
        if method == "averaged_inverted_cdf":
            return below, e.select(exact, 0.5, 0.0)
        even = e.eq(e.mod(e.floor(at), 2.0), 0.0)  # of two equally near, the one of even rank, counted from 1
        return e.select(e.logical_and(exact, even), e.sub(e.floor(at), 1.0), e.floor(at)), 0.0
    raise ValueError(f"{method!r} is not a valid method")


def pick(a: Any, index: Any) -> Any:
    """a[..., index] for an integer, or an array of them, one per row of `a`."""
    lead, _n = shape_of(a)[:-1], shape_of(a)[-1]
    if not isinstance(index, Value) and np.ndim(index) == 0:
        return movement.reshape(movement.part(a, len(lead), int(index), int(index) + 1), lead)
    index = movement.broadcast(index, lead)
    grid = [np.broadcast_to(g, lead) for g in np.ix_(*map(np.arange, lead))]
    return gather(a, [*grid, index], checked=True)


def check_q(q: Any, top: float) -> Any:
    """q as a share of 1; a Python number stays weak."""
    q = operand(q)
    if not isinstance(q, Value) and not (np.all(np.greater_equal(q, 0)) and np.all(np.less_equal(q, top))):
        allowed = (
            "Quantiles must be in the range [0, 1]"
            if top == 1
            else "Percentiles must be in the range [0, 100]"
        )
        raise ValueError(allowed)
    if top == 1:
        return q
    return q / 100 if type(q) in (int, float) else e.div(q, 100)


def quantiles(name: str, top: float, skip_nan: bool) -> None:
    @function(name)
    def answer(
        a,
        q,
        axis=None,
        out=None,
        overwrite_input=False,
        method="linear",
        keepdims=False,
        *,
        weights=None,
        interpolation=None,
    ):
        if weights is not None:
            raise TypeError(
                f"numpy.{name}: weights are not supported for traced values: sort and accumulate them yourself"
            )
        return quantile_of(a, check_q(q, top), axis, interpolation or method, keepdims, skip_nan)


quantiles("quantile", 1, False)
quantiles("percentile", 100, False)
quantiles("nanquantile", 1, True)
quantiles("nanpercentile", 100, True)


@function("median")
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    a, shape, axes = sorted_last(a, axis)
    n = shape_of(a)[-1]
    if n == 0:
        return keep(mean(a, -1), shape, axes, keepdims)
    last = len(shape_of(a)) - 1
    low, high = pick(a, (n - 1) // 2), pick(a, n // 2)
    out = (
        mean(low, ()) if n % 2 else mean(movement.concatenate([kept_last(low), kept_last(high)], last), last)
    )
    if dtype_of(a).kind in "fc":
        out = e.select(e.isnan(pick(a, n - 1)), cast(np.nan, dtype_of(out)), out)  # NaN sorts last
    return keep(out, shape, axes, keepdims)


def kept_last(x: Any) -> Any:
    return movement.reshape(x, (*shape_of(x), 1))


@function("nanmedian")
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    if 0 in shape_of(asarray(a)) or dtype_of(asarray(a)).kind not in "fiu":
        return median(a, axis, None, False, keepdims)
    a, shape, axes = sorted_last(a, axis)
    lead, n = shape_of(a)[:-1], shape_of(a)[-1]
    missing = e.isnan(a)
    size = e.sub(n, reduce("sum", cast(missing, np.int64), (len(lead),)))
    low = pick(a, e.floor_div(e.maximum(e.sub(size, 1), 0), 2))
    high = pick(a, e.minimum(e.floor_div(size, 2), n - 1))
    both = movement.concatenate([kept_last(low), kept_last(high)], len(lead))
    # The middle one of an odd number is itself: infinities have no mean with one another.
    out = e.select(e.eq(e.mod(size, 2), 1), mean(kept_last(low), len(lead)), mean(both, len(lead)))
    return keep(e.select(e.eq(size, 0), cast(np.nan, dtype_of(out)), out), shape, axes, keepdims)


# Covariances


def check_weights(name: str, w: Any, n: int) -> None:
    if name == "fweights" and not isinstance(w, Value) and np.any(w != np.around(w)):
        raise TypeError(f"{name} must be integer")
    if len(shape_of(w)) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if shape_of(w) != (n,):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if not isinstance(w, Value) and np.any(w < 0):
        raise ValueError(f"{name} cannot be negative")


@function("cov")
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    m = asarray(m)
    if y is not None:
        y = asarray(y)
    dtype = dtype or np.result_type(dtype_of(m), np.float64, *([] if y is None else [dtype_of(y)]))
    rows = lambda x: (
        movement.reshape(x, (1, *shape_of(x)))
        if len(shape_of(x)) == 1
        else (x if rowvar else movement.permute(x, (1, 0)))
    )
    if len(shape_of(m)) > 2:
        raise ValueError("m has more than 2 dimensions")
    x = cast(movement.reshape(m, (1, 1)) if not shape_of(m) else rows(m), dtype)
    if y is not None:
        x = movement.concatenate([x, cast(rows(y), dtype)], 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    w = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            check_weights(name, asarray(given), shape_of(x)[1])
    for given in (fweights, aweights):
        if given is not None:
            w = cast(asarray(given), np.float64) if w is None else e.mul(w, cast(asarray(given), np.float64))
    if w is None:
        n = shape_of(x)[1]
        middle, scaled, left = mean(x, 1, keepdims=True), None, float(max(n - ddof, 0))
    else:
        total = reduced("sum", w)
        middle = e.div(reduced("sum", e.mul(x, w), 1, True), total)
        if ddof == 0:
            left = total
        elif aweights is None:
            left = e.sub(total, ddof)
        else:
            left = e.sub(total, e.div(e.mul(float(ddof), reduced("sum", e.mul(w, asarray(aweights)))), total))
    x = e.sub(x, middle)
    scaled = x if w is None else e.mul(x, w)
    scaled = movement.permute(e.conj(scaled) if np.dtype(dtype).kind == "c" else scaled, (1, 0))
    out = e.mul(matmul(x, scaled), cast(e.div(1.0, left), real_dtype(np.dtype(dtype))))
    return (
        movement.reshape(out, tuple(n for n in shape_of(out) if n != 1)) if shape_of(out) == (1, 1) else out
    )


@function("corrcoef")
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    c = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(c):
        return e.div(c, c)
    n = shape_of(c)[0]
    variances = gather(c, [np.arange(n), np.arange(n)])
    s = e.sqrt(e.real(variances) if dtype_of(c).kind == "c" else variances)
    out = e.div(e.div(c, movement.reshape(s, (n, 1))), movement.reshape(s, (1, n)))
    if dtype_of(out).kind == "c":
        limit = lambda v: e.minimum(e.maximum(v, -1.0), 1.0)
        return e.complex(limit(e.real(out)), limit(e.imag(out)))
    return e.minimum(e.maximum(out, -1.0), 1.0)
