"""Draws of integers: uniform ones, coins, categories, choices, permutations and Poisson counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.arguments import refuse
from rune.primitives import effects
from rune.primitives.indexing import gather
from rune.random.arguments import (
    at_least,
    axis_of,
    count,
    drawable,
    dtype_of,
    holds,
    in_order,
    parameters,
    real,
    result,
    shaped,
)  # fmt: skip
from rune.random.continuous import standard_exponential
from rune.random.exact import exp, log, polynomial, times
from rune.random.keys import WORD, counters, drawn, drawn_by, half, threefry, unit
from rune.random.rejection import first_accepted
from rune.structure import describe
from rune.value import Traced, box, raw

__all__ = ["bernoulli", "categorical", "choice", "integers", "permutation", "poisson"]

FLOAT = np.dtype(np.float64)


def integers(key, shape, low, high, dtype=np.int64):
    key = drawn_by("integers", key)
    dtype = dtype_of("integers", dtype)
    if dtype.kind not in "iu":
        raise TypeError(f"rune.random.integers: dtype {dtype}: an integer dtype is drawn")
    low, high = bounds(low, high, dtype)
    shape = shaped("integers", shape, {"low": np.shape(low), "high": np.shape(high)})
    with np.errstate(over="ignore"):
        width = high - low  # 0 stands for 2**64
        index = counters(shape)
        first = threefry(key[0], key[1], np.uint32(0), index)
        part, rest = scaled(first, width)
        if isinstance(width, Traced) or np.any((width > 1 << 32) | (width == 0)):
            # Of a width beyond 32 bits a word of 64 would favour some numbers: 64 more decide the carry.
            more, _ = scaled(threefry(key[0], key[1], np.uint32(1), index), width)
            carry = (width > 1 << 32) & (rest + more < rest)
            part = part + carry.astype(np.uint64)
            x, y = first
            whole = (x.astype(np.uint64) << 32) | y.astype(np.uint64)
            part = np.where(width == 0, whole, part)
        return result((low + part).astype(dtype), dtype)


def bounds(low: Any, high: Any, dtype: np.dtype) -> tuple[Any, Any]:
    """Both bounds modulo 2**64, as uint64."""
    problem = "low: not below high"
    if not isinstance(low, Traced) and not isinstance(high, Traced):
        listed = (f(np.asarray(x, object)) for f, x in ((np.max, low), (np.min, high)))
        problem = "low: {}, which is not below high: {}".format(*listed)
    low, high = bound("low", low, dtype), bound("high", high, dtype)
    with np.errstate(over="ignore"):
        # Words in the order of the numbers; a plain 2**64 is 0 like no other, as `high` is above the least.
        first, end = (x + np.uint64(1 << 63 if dtype.kind == "i" else 0) for x in (low, high))
    some = first < end
    holds("integers", np.all(some if isinstance(high, Traced) else some | (end == 0)), problem)
    return low, high


def bound(path: str, x: Any, dtype: np.dtype) -> Any:
    given = x
    if not isinstance(x, (Traced, np.ndarray, np.generic)):
        x = np.asarray(x, object)  # of Python's integers: NumPy makes a list of large ones real
        whole = all(isinstance(v, (int, np.integer)) and type(v) is not bool for v in x.flat)
        x = np.asarray(np.frompyfunc(int, 1, 1)(x), object) if whole else x
    else:
        whole = x.dtype.kind in "iu"
    if not whole:
        raise TypeError(f"rune.random.integers: {path}: an integer is needed, got {describe(given)}")
    limits, last = np.iinfo(dtype), path == "high"
    least, most = limits.min + last, limits.max + last
    own = None if x.dtype == object else np.iinfo(x.dtype)
    inside = [x >= least] if own is None or own.min < least else []
    inside += [x <= most] if own is None or own.max > most else []
    for ok in inside:
        holds("integers", np.all(ok), f"{path}: out of the range from {least} to {most}, for {dtype}")
    return (np.asarray(x & (1 << 64) - 1) if x.dtype == object else x).astype(np.uint64)[()]


def scaled(words: tuple, width: Any) -> tuple[Any, Any]:
    """A word of 64 bits times `width`: the upper and the lower 64 bits of the product."""
    x, y = (w.astype(np.uint64) for w in words)
    w1, w0 = width >> 32, width & WORD
    y0, y1, x0, x1 = y * w0, y * w1, x * w0, x * w1
    middle = (y0 >> 32) + (y1 & WORD) + (x0 & WORD)
    return x1 + (y1 >> 32) + (x0 >> 32) + (middle >> 32), (middle << 32) | (y0 & WORD)


def bernoulli(key, shape=(), p=0.5):
    key = drawn_by("bernoulli", key)
    shape, (p,) = parameters("bernoulli", shape, FLOAT, p=p)
    at_least("bernoulli", "p", p, 0.0, 1.0, nan=False)
    holds("bernoulli", np.all(p == p), "p: NaN, where it must be between 0 and 1")
    return drawn(key, shape, unit(FLOAT)) < p


def categorical(key, shape, logits, axis=-1):
    key = drawn_by("categorical", key)
    in_order("categorical", shape)
    logits = real("categorical", "logits", logits, FLOAT)
    if not np.ndim(logits):
        raise ValueError("rune.random.categorical: logits: a vector is needed, got one number")
    logits = np.moveaxis(logits, axis_of("categorical", "logits", axis, logits.ndim), -1)
    if not logits.shape[-1]:
        raise ValueError("rune.random.categorical: logits: no category")
    shape = shaped("categorical", shape, {"logits": logits.shape[:-1]})
    with np.errstate(invalid="ignore"):
        sums = np.cumsum(exp(logits - np.max(logits, axis=-1, keepdims=True)), axis=-1)
    holds("categorical", proper(sums), "logits: a greatest one is needed that is finite, and no NaN")
    return category(key, shape, sums)


def proper(sums: Any) -> Any:
    """Whether running sums of weights have totals that a share can be taken of."""
    total = sums[..., -1]
    return np.all((total > 0.0) & (total < np.inf))


COMPARED = 64  # categories up to which compiled code compares with each sum; more are bisected


def category(key: Any, shape: tuple[int, ...], sums: Any) -> Any:
    """The first category whose running sum of weights is above a uniform share of their total."""
    level = drawn(key, shape, unit(FLOAT)) * sums[..., -1]
    plain = not isinstance(level, Traced) and not isinstance(sums, Traced)
    if sums.ndim == 1 and (plain or sums.size > COMPARED):
        return result(np.searchsorted(sums[:-1], level, side="right"), np.int64)
    return result(np.sum(level[..., None] >= sums[..., :-1], axis=-1), np.int64)


def permutation(key, x, axis=0):
    key = drawn_by("permutation", key)
    if isinstance(x, (int, np.integer)) or np.ndim(x) == 0:
        n = count("permutation", "x", x, "an int or an array")
        drawable("permutation", (n,))
        return order(key, n)
    x = array("permutation", "x", x)
    axis = axis_of("permutation", "x", axis, x.ndim)
    return taken(x, order(key, x.shape[axis]), axis)


def array(name: str, path: str, x: Any) -> Any:
    """An array whose rows are chosen; of whatever things, strings too."""
    if isinstance(x, (np.ma.MaskedArray, np.matrix)):
        refuse(f"rune.random.{name}", path, x)
    return x if isinstance(x, Traced) else np.asarray(x)


def order(key: Any, n: int) -> Any:
    """0..n-1 in the order of n words of 64 bits; that two are equal has probability n**2 / 2**65."""
    words = lambda x, y: (x.astype(np.uint64) << 32) | y.astype(np.uint64)
    return np.argsort(drawn(key, (n,), words), kind="stable")


def taken(x: Any, index: Any, axis: int) -> Any:
    """np.take at indices that are in range."""
    x = np.moveaxis(x, axis, 0)
    rows = box(gather(raw(x), [raw(index)], checked=True))
    back = np.ndim(index)
    return np.moveaxis(rows, range(back), range(axis % x.ndim, axis % x.ndim + back)) if axis else rows


def choice(key, shape, a, replace=True, p=None, axis=0):
    key = drawn_by("choice", key)
    shape = shaped("choice", shape, {})
    things = None if isinstance(a, (int, np.integer)) or np.ndim(a) == 0 else a
    if things is None:
        n = count("choice", "a", a, "an int or an array")
    else:
        things = array("choice", "a", things)
        axis = axis_of("choice", "a", axis, things.ndim)
        n = things.shape[axis]
    size = math.prod(shape)
    if n == 0 and size:
        raise ValueError("rune.random.choice: a: nothing to choose from")
    if not replace and size > n:
        raise ValueError(f"rune.random.choice: {size} of {n} things without replacement")
    if p is not None:
        p = real("choice", "p", p, FLOAT)
        if np.shape(p) != (n,):
            raise ValueError(f"rune.random.choice: p: shape {list(np.shape(p))}, where there are {n} things")
        at_least("choice", "p", p, nan=False)
        enough = 1 if replace else size
        fine = np.all((p >= 0.0) & (p < np.inf)) & (np.sum(p > 0.0) >= min(enough, n))
        holds("choice", fine, f"p: {enough} of the weights must be above 0, and all finite and none below")
    if replace:
        index = integers_below(key, shape, n) if p is None else category(key, shape, np.cumsum(p))
    elif p is None:
        drawable("choice", (n,))
        index = order(key, n)[:size].reshape(shape)
    else:
        # The smallest of exponential times with rates p (Efraimidis and Spirakis, 2006).
        waits = standard_exponential(key, (n,), FLOAT)
        with np.errstate(divide="ignore"):
            waits = waits / p
        index = np.argsort(waits, kind="stable")[:size].reshape(shape)
    index = index if things is not None or not isinstance(index, np.ndarray) else index[()]
    return index if things is None else taken(things, index, axis)


def integers_below(key: Any, shape: tuple[int, ...], n: int) -> Any:
    with np.errstate(over="ignore"):
        part, _ = scaled(threefry(key[0], key[1], np.uint32(0), counters(shape)), np.uint64(n))
    return part.astype(np.int64)


# Poisson


FEW = 10.0  # the mean below which counts are found by adding up probabilities
COUNTS = 50  # for a mean of 10, as many or more have a probability of 2e-19
MOST = 2.0**62


def poisson(key, shape, lam):
    key = drawn_by("poisson", key)
    shape, (lam,) = parameters("poisson", shape, FLOAT, lam=lam)
    at_least("poisson", "lam", lam, 0.0, MOST, nan=False)
    if isinstance(lam, Traced):
        lam = box(effects.detach(raw(lam)))
    lam = np.broadcast_to(lam, shape)
    few, many = (lam >= 0.0) & (lam < FEW), (lam >= FEW) & (lam <= MOST)
    known = not isinstance(lam, Traced)
    out = np.broadcast_to(np.float64(-1.0), shape)  # where a traced mean is none
    if not known or np.any(few):
        out = np.where(few, counted(key, np.where(few, lam, 1.0)), out)
    if not known or np.any(many):
        means = np.where(many, lam, FEW)
        out = np.where(many, first_accepted(hats, key, (means,), out, ~many), out)
    return result(out, np.int64)


def counted(key: Any, lam: Any) -> Any:
    """How many of the running sums of the probabilities a uniform number reaches."""
    u = drawn(key, lam.shape, unit(FLOAT))
    term = total = exp(-lam)
    n = (u >= total).astype(np.float64)
    for k in range(1, COUNTS):
        term = times(term, lam * (1.0 / k))
        total = total + term
        n = n + (u >= total)
    return n


def hats(words: tuple, lam: Any) -> tuple[Any, Any]:
    """A proposal of W. Hoermann, "The transformed rejection method for generating Poisson random
    variables" (1993), algorithm PTRS, for means of 10 and more."""
    u = unit(FLOAT)(*words[0]) - 0.5
    v = 2.0 * half(FLOAT)(*words[1])[1]
    b = times(np.sqrt(lam), 2.53) + 0.931
    a = times(b, 0.02483) - 0.059
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    s = 0.5 - np.abs(u)
    k = np.floor(times(2.0 * a / s + b, u) + lam + 0.43)
    inner = (s >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
    outer = (k < 0.0) | ((s < 0.013) & (v > s))
    level = log(v * inverse_alpha / (a / (s * s) + b))
    return k, inner | (~outer & (level <= log_probability(np.where(k < 0.0, 0.0, k), lam)))


def log_probability(k: Any, lam: Any) -> Any:
    """log(lam**k exp(-lam) / k!), accurate where its large terms cancel: of k near a large lam.

    C. Loader, "Fast and accurate computation of binomial probabilities" (2000): by Stirling's formula it
    is minus k log(k / lam) - (k - lam), minus log(2 pi k) / 2, minus what the formula leaves; and with
    v = (k - lam) / (k + lam), log(k / lam) = 2 artanh(v) gives the first as a series.
    """
    ratio = log(np.where(k < 1.0, 1.0, k) / lam)
    distance = k - lam
    v = distance / (k + lam)
    square = times(v, v)
    series = times(distance, v) + times(2.0 * k * v, times(square, polynomial(ARTANH, square)))
    deviance = np.where(np.abs(v) < 0.1, series, times(k, ratio) - distance)
    few = k < len(LEFT)
    inverse = 1.0 / np.where(few, len(LEFT), k)
    left = times(inverse, polynomial(STIRLING, times(inverse, inverse)))
    left = np.where(few, taken(LEFT, np.where(few, k, 0.0).astype(np.int64), 0), left)
    return -(deviance + 0.5 * (ratio + log(lam * TWO_PI)) + left)


ARTANH = tuple(1 / n for n in range(3, 19, 2))  # artanh(v) = v + v**3 (1/3 + v**2/5 + ...)
TWO_PI = 6.283185307179586
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)  # exact to 1e-15 from 9 on
# What the formula leaves of log k! for fewer; of 0, where its k is taken as 1, minus log(2 pi) / 2.
LEFT = np.array(
    [-0.5 * math.log(TWO_PI)]
    + [math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(TWO_PI) for k in range(1, 9)]
)
