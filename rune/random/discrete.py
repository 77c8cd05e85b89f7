"""Draws of integers: uniform ones, coins, categories, choices, permutations and Poisson counts."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from rune.primitives import effects
from rune.primitives.indexing import gather
from rune.random.arguments import at_least, in_order, parameters, real, result, shaped
from rune.random.exact import exp, log, polynomial, times
from rune.random.keys import WORD, counters, drawn, drawn_by, half, threefry, unit
from rune.random.rejection import first_accepted
from rune.structure import describe
from rune.value import Traced, box, raw

__all__ = ["bernoulli", "categorical", "choice", "integers", "permutation", "poisson"]

FLOAT = np.dtype(np.float64)


def integers(key, shape, low, high, dtype=np.int64):
    key = drawn_by("integers", key)
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        raise TypeError(f"rune.random.integers: dtype {dtype}: an integer dtype is drawn")
    low, small = bound("low", low, dtype)
    high, large = bound("high", high, dtype)
    if small is not None and large is not None and np.any(small >= large):
        raise ValueError(
            f"rune.random.integers: low: {np.max(small)}, which is not below high: {np.min(large)}"
        )
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


def bound(path: str, x: Any, dtype: np.dtype) -> tuple[Any, Any]:
    """A bound modulo 2**64 as uint64, and as it is where it is plain."""
    if isinstance(x, Traced):
        if x.dtype.kind not in "iu":
            raise TypeError(f"rune.random.integers: {path}: an integer is needed, got {describe(x)}")
        return x.astype(np.uint64), None
    plain = np.asarray(x, object if type(x) is int else None)
    if type(x) is not int and plain.dtype.kind not in "iu":
        raise TypeError(f"rune.random.integers: {path}: an integer is needed, got {describe(x)}")
    limits = np.iinfo(dtype)
    if np.any(plain < limits.min) or np.any(plain > limits.max + (path == "high")):
        raise ValueError(f"rune.random.integers: {path}: {describe(x)} is out of the range of {dtype}")
    if type(x) is int:
        return np.uint64(x & (1 << 64) - 1), plain
    return plain.astype(np.uint64)[()], plain


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
    at_least("bernoulli", "p", p, 0.0, 1.0)
    return drawn(key, shape, unit(FLOAT)) < p


def categorical(key, shape, logits, axis=-1):
    key = drawn_by("categorical", key)
    in_order("categorical", shape)
    logits = real("categorical", "logits", logits, FLOAT)
    if not np.ndim(logits):
        raise ValueError("rune.random.categorical: logits: a vector is needed, got one number")
    if not logits.size:
        raise ValueError(f"rune.random.categorical: logits: no category in shape {list(logits.shape)}")
    logits = np.moveaxis(logits, axis, -1)
    shape = shaped("categorical", shape, {"logits": logits.shape[:-1]})
    with np.errstate(invalid="ignore"):
        weights = exp(logits - np.max(logits, axis=-1, keepdims=True))
    return category(key, shape, np.cumsum(weights, axis=-1))


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
        return order(key, count("permutation", x))
    x = x if isinstance(x, Traced) else np.asarray(x)
    if not -x.ndim <= axis < x.ndim:
        raise np.exceptions.AxisError(axis, x.ndim, "rune.random.permutation: x")
    return taken(x, order(key, x.shape[axis]), axis)


def count(name: str, n: Any) -> int:
    """A number of things: an int that shapes depend on."""
    if isinstance(n, Traced) or type(n) in (float, bool):
        raise TypeError(f"rune.random.{name}: an int or an array is needed, got {describe(n)}")
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"rune.random.{name}: {n} things")
    return n


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
        n = count("choice", a)
    else:
        things = things if isinstance(things, Traced) else np.asarray(things)
        n = things.shape[axis]
    size = int(np.prod(shape))
    if n == 0 and size:
        raise ValueError("rune.random.choice: a: nothing to choose from")
    if not replace and size > n:
        raise ValueError(f"rune.random.choice: {size} of {n} things without replacement")
    if p is not None:
        p = real("choice", "p", p, FLOAT)
        if np.shape(p) != (n,):
            raise ValueError(f"rune.random.choice: p: shape {list(np.shape(p))}, where there are {n} things")
        at_least("choice", "p", p)
    if replace:
        index = integers_below(key, shape, n) if p is None else category(key, shape, np.cumsum(p))
    elif p is None:
        index = order(key, n)[:size].reshape(shape)
    else:
        # The smallest of exponential times with rates p (Efraimidis and Spirakis, 2006).
        waits = drawn(key, (n,), lambda x, y: -log(2.0 * half(FLOAT)(x, y)[1]))
        with np.errstate(divide="ignore"):
            waits = waits / p
        index = np.argsort(waits, kind="stable")[:size].reshape(shape)
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
    at_least("poisson", "lam", lam, 0.0, MOST)
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
    below = level <= times(k, log(lam)) - lam - log_factorial(np.where(k < 0.0, 0.0, k))
    return k, inner | (~outer & below)


STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def log_factorial(k: Any) -> Any:
    """log k! by Stirling's series at k + 9, where six terms are exact to 1e-15."""
    z = k + 9.0
    inverse = 1.0 / z
    series = times(inverse, polynomial(STIRLING, inverse * inverse))
    product = k + 1.0
    for j in range(2, 9):
        product = product * (k + j)
    return times(z - 0.5, log(z)) - z + (0.9189385332046727 + series) - log(product)
