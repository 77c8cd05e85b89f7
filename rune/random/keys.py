"""Threefry-2x32-20 and what is made of it: keys, streams of words, and floats from words.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011).  A *key* is two 32-bit words.  The generator is a bijection of two *counter* words under a
key; element i of a draw reads the counter (stream, i), so an element depends on the key and its index
alone, and a draw is elementwise arithmetic on an array of indices.

This package is plain NumPy that rune transforms: keys and parameters may be arrays or traced values.
Streams of draws count from 0; those of `split` and `fold_in` lie above, so that no child key is ever
a number that its parent drew.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.constancy import when_constant
from rune.level import tracing
from rune.random.arguments import count, drawable
from rune.structure import describe
from rune.value import Traced, raw

__all__ = [
    "BLOCK", "WORD", "children", "counters", "drawn", "drawn_by", "fold_in", "half", "key", "split",
    "threefry", "unit",
]  # fmt: skip

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA  # of the key schedule, from Threefish
SPLIT, FOLD = np.uint32(0x80000000), np.uint32(0xC0000000)  # first counter words
WORD = 0xFFFFFFFF
BLOCK = 1 << 14  # elements that plain NumPy draws at once, so that its temporaries stay in the cache


def threefry(k0: Any, k1: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
    """The two words of a counter under a key; all are uint32, of shapes that broadcast."""
    with np.errstate(over="ignore"):
        schedule = (k0, k1, k0 ^ k1 ^ PARITY)
        x, y = c0 + k0, c1 + k1
        for group in range(5):
            for by in ROTATIONS[group % 2]:
                x = x + y
                y = ((y << by) | (y >> (32 - by))) ^ x
            x = x + schedule[(group + 1) % 3]
            y = y + (schedule[(group + 2) % 3] + (group + 1))
        return x, y


# Keys


def key(seed):
    if isinstance(seed, (Traced, np.ndarray, np.generic)):
        if seed.dtype.kind not in "iu":
            raise TypeError(f"rune.random.key: the seed must be an integer, got {describe(seed)}")
        if seed.shape:
            raise ValueError(f"rune.random.key: one seed gives one key, got {describe(seed)}")
    elif type(seed) is not int:
        raise TypeError(f"rune.random.key: the seed must be an integer, got {describe(seed)}")
    elif not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"rune.random.key: the seed {seed} has more than 64 bits")
    if not isinstance(seed, Traced):
        seed = np.uint64(int(seed) & (1 << 64) - 1)
    seed = seed.astype(np.uint64)
    return np.stack([(seed >> 32).astype(np.uint32), (seed & WORD).astype(np.uint32)])


def split(key, n=2):
    words = checked("split", key)
    n = count("split", "n", n)
    drawable("split", (n,))
    return children(words, n)


def children(words: Any, n: int) -> Any:
    """The first n children of a key, one per row."""
    return np.stack(threefry(words[0], words[1], SPLIT, counters((n,))), axis=-1)


def fold_in(key, k):
    words = checked("fold_in", key)
    if not isinstance(k, (Traced, np.ndarray, np.generic)) and type(k) is not int:
        raise TypeError(f"rune.random.fold_in: k must be an integer, got {describe(k)}")
    if not isinstance(k, int):
        if k.dtype.kind not in "iu":
            raise TypeError(f"rune.random.fold_in: k must be an integer, got {describe(k)}")
        if k.shape:
            raise ValueError(f"rune.random.fold_in: k is one number, got {describe(k)}")
    if isinstance(k, Traced):
        k = k.astype(np.uint32)
    elif 0 <= k <= WORD:
        k = np.uint32(k)
    else:
        raise ValueError(f"rune.random.fold_in: k is {k}, and must be at least 0 and less than 2**32")
    return np.stack(threefry(words[0], words[1], FOLD, k))


def checked(name: str, key: Any) -> Any:
    """`key`, refused where it is none."""
    if not isinstance(key, (Traced, np.ndarray)):
        raise TypeError(
            f"rune.random.{name}: a key is a uint32 array of shape [2], got {describe(key)}: make one with rune.random.key(seed)"
        )
    if key.dtype != np.uint32 or key.shape != (2,):
        more = ": map over keys with rune.vmap" if key.dtype == np.uint32 and key.shape[-1:] == (2,) else ""
        raise ValueError(
            f"rune.random.{name}: a key is a uint32 array of shape [2], got {describe(key)}{more}"
        )
    return key


def drawn_by(name: str, key: Any) -> Any:
    """`key`, for the entry point that draws with it; reports a draw that a program holds as a constant."""
    key = checked(name, key)
    if tracing():
        caller = sys._getframe(1)  # Python shows a warning once per line: the user's
        while caller.f_back and caller.f_globals.get("__name__", "").partition(".")[0] == "rune":
            caller = caller.f_back
        message = (
            f"rune.random.{name}: the key does not depend on the arguments of the function that is being "
            f"compiled, so every call of it will see the same numbers: pass the key as an argument"
        )
        place = (caller.f_code.co_filename, caller.f_lineno, caller.f_globals.get("__name__"))
        seen = caller.f_globals.setdefault("__warningregistry__", {})
        when_constant(raw(key), lambda: warnings.warn_explicit(message, UserWarning, *place, seen))
    return key


# Draws


def counters(shape: tuple[int, ...]) -> np.ndarray:
    """The index of every element of a draw, in C order."""
    return np.arange(math.prod(shape), dtype=np.uint32).reshape(shape)


def drawn(key: Any, shape: tuple[int, ...], f: Callable[[Any, Any], Any], stream: int = 0) -> Any:
    """`f` of the two words of every element of a draw; `f` is elementwise."""
    index, stream = counters(shape), np.uint32(stream)
    if isinstance(key, Traced) or index.size <= BLOCK:
        return f(*threefry(key[0], key[1], stream, index))
    flat = index.reshape(-1)
    blocks = [f(*threefry(key[0], key[1], stream, flat[k : k + BLOCK])) for k in range(0, index.size, BLOCK)]
    return np.concatenate(blocks).reshape(shape)


def unit(dtype: np.dtype) -> Callable[[Any, Any], Any]:
    """Words to multiples of 2**-53 in [0, 1), of 2**-24 in float32 and 2**-11 in float16."""
    if dtype == np.float64:
        # the upper 53 bits of the two words; every step is exact
        return lambda x, y: (x * 2097152.0 + (y >> 11)) * 2.0**-53
    bits = 24 if dtype == np.float32 else 11
    return lambda x, y: (x >> (32 - bits)).astype(dtype) * 2.0**-bits


def half(dtype: np.dtype) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Words to a fair sign (a boolean) and p in (0, 1/2): a probability and the side that it lies on.

    p is an odd multiple of 2**-54, so neither 0 nor 1/2, and as fine near 0 as its logarithm asks; in
    float32 a rounded odd multiple of 2**-33.
    """
    if dtype == np.float64:
        p = lambda x, y: (x * 1048576.0 + (y >> 12) + 0.5) * 2.0**-53
    else:
        p = lambda x, y: ((x >> 1).astype(dtype) + 0.5) * 2.0**-32
    return lambda x, y: ((y & 1) == 1, p(x, y))
