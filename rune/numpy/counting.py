"""Counting: histograms, and indices as arithmetic on positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import asarray, dtype_of, inexact, integer, operand, require, shape_of, shape_to
from rune.numpy.creation import linspace
from rune.numpy.differences import diff
from rune.numpy.elementwise import ufunc
from rune.numpy.reductions import reduced
from rune.numpy.register import function
from rune.numpy.sets import flatnonzero
from rune.numpy.shapes import entries, size_of, take_axis
from rune.numpy.sorting import bounded, flat, searchsorted, within
from rune.primitives import indexing as primitive
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.scalar import e

__all__: list[str] = []


# Histograms


def edges_of(name: str, a: Any, bins: Any, range_: Any) -> Any:
    if isinstance(bins, str):
        raise TypeError(
            f"numpy.{name}: bins={bins!r} would make a shape depend on traced values: pass a number of bins or their edges"
        )
    if isinstance(bins, Value) or np.ndim(bins) == 1:
        return asarray(bins)
    n = integer(bins)
    if n < 1:
        raise ValueError("`bins` must be positive, when an integer")
    if range_ is not None:
        low, high = map(operand, range_)
        if not isinstance(low, Value) and not isinstance(high, Value):
            if low > high:
                raise ValueError("max must be larger than min in range parameter.")
            if not (np.isfinite(low) and np.isfinite(high)):
                raise ValueError(f"supplied range of [{low}, {high}] is not finite")
    elif math.prod(shape_of(a)) == 0:
        low, high = 0.0, 1.0
    else:
        low, high = reduced("min", a), reduced("max", a)
        require(e.logical_and(e.isfinite(low), e.isfinite(high)), "autodetected range is not finite")
    same = e.eq(low, high)  # NumPy widens an empty range by a half on both sides
    low, high = e.select(same, e.sub(low, 0.5), low), e.select(same, e.add(high, 0.5), high)
    return cast(linspace(low, high, n + 1), dtype_of(a) if dtype_of(a).kind == "f" else np.float64)


@function("histogram_bin_edges")
def histogram_bin_edges(a, bins=10, range=None, weights=None):
    return edges_of("histogram_bin_edges", inexact(flat(asarray(a))), bins, range)


def place_in(sample: Any, edges: Any) -> tuple:
    """The bin of each sample, and whether it lies in one; the last bin holds its right edge."""
    n = shape_of(edges)[0] - 1
    k = e.sub(searchsorted(edges, sample, "right"), 1)
    top = take_axis(edges, 0, n)
    k = e.select(e.eq(sample, top), n - 1, k)
    inside = e.logical_and(e.ge(k, 0), e.lt(k, n))
    return e.minimum(e.maximum(k, 0), n - 1), inside


def counted(places: Any, inside: Any, size: int, weights: Any) -> Any:
    w = cast(inside, np.int64) if weights is None else e.mul(weights, cast(inside, dtype_of(weights)))
    return primitive.scatter("add", movement.full((size,), dtype_of(w).type(0)), [places], w, checked=True)


@function("histogram")
def histogram(a, bins=10, range=None, density=None, weights=None):
    a = flat(asarray(a))
    edges = edges_of("histogram", inexact(a), bins, range)
    w = None if weights is None else flat(asarray(weights))
    k, inside = place_in(a, edges)
    counts = counted(k, inside, shape_of(edges)[0] - 1, w)
    if density:
        counts = e.div(e.div(counts, diff(edges)), reduced("sum", counts))
    return counts, edges


def length(bins: Any) -> int | None:
    """How many things `bins` holds; None where it is one number."""
    if isinstance(bins, Value):
        return shape_of(bins)[0] if shape_of(bins) else None
    return len(bins) if np.iterable(bins) else None


@function("histogramdd")
def histogramdd(sample, bins=10, range=None, density=None, weights=None):
    if isinstance(sample, (list, tuple)):
        columns = [asarray(x) for x in sample]
    else:
        sample = asarray(sample)
        columns = entries(sample, 1)
    n = len(columns)
    count = length(bins)
    if isinstance(bins, Value) and count is not None:
        bins = entries(bins)
    bins = [bins] * n if count is None else list(bins)
    if len(bins) != n:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * n if range is None else list(range)
    edges = [edges_of("histogramdd", inexact(x), b, r) for x, b, r in zip(columns, bins, ranges, strict=True)]
    sizes = tuple(shape_of(x)[0] - 1 for x in edges)
    places, everywhere = 0, True
    for x, edge, size in zip(columns, edges, sizes, strict=True):
        k, inside = place_in(x, edge)
        places = e.add(e.mul(places, size), k)
        everywhere = e.logical_and(everywhere, inside)
    counts = counted(places, everywhere, math.prod(sizes), None if weights is None else asarray(weights))
    counts = cast(movement.reshape(counts, sizes), np.float64)
    if density:
        total = reduced("sum", counts)
        for axis, edge in enumerate(edges):
            counts = e.div(
                counts,
                movement.reshape(diff(edge), tuple(m if k == axis else 1 for k, m in enumerate(sizes))),
            )
        counts = e.div(counts, total)
    return counts, edges


@function("histogram2d")
def histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    if size_of(asarray(x)) != size_of(asarray(y)):
        raise ValueError("x and y must have the same length.")
    if length(bins) not in (None, 1, 2):  # edges of both
        bins = [asarray(bins)] * 2
    counts, (xe, ye) = histogramdd([x, y], bins, range, density, weights)
    return counts, xe, ye


# Positions


@function("ravel_multi_index")
def ravel_multi_index(multi_index, dims, mode="raise", order="C"):
    dims = shape_to(dims)
    if isinstance(multi_index, Value):
        multi_index = entries(multi_index)
    modes = (mode,) * len(dims) if isinstance(mode, str) else mode
    parts = []
    for i, n, how in zip(map(asarray, multi_index), dims, modes, strict=True):
        if dtype_of(i).kind not in "iub":
            raise TypeError(f"only int indices permitted, not {dtype_of(i)}")
        i = cast(i, np.int64)
        if how == "raise":
            require(within(i, n), "invalid entry in coordinates array")
        parts.append(bounded(i, n, how))
    if order == "F":
        parts, dims = parts[::-1], dims[::-1]
    total = parts[0]
    for i, n in zip(parts[1:], dims[1:], strict=True):
        total = e.add(e.mul(total, n), i)
    return total


@function("unravel_index")
def unravel_index(indices, shape, order="C"):
    i, shape = asarray(indices), shape_to(shape)
    if dtype_of(i).kind not in "iub":
        raise TypeError(f"only int indices permitted, not {dtype_of(i)}")
    i = cast(i, np.int64)
    size = math.prod(shape)
    require(within(i, size), f"index is out of bounds for array with size {size}")
    out = []
    for n in shape[::-1] if order == "C" else shape:
        out.append(e.mod(i, n))
        i = e.floor_div(i, n)
    return tuple(out[::-1] if order == "C" else out)


@function("ix_")
def ix_(*args):
    out = []
    for k, x in enumerate(args):
        x = asarray(x)
        if len(shape_of(x)) != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if dtype_of(x).kind == "b":
            x = flatnonzero(x)
        out.append(movement.reshape(x, (1,) * k + shape_of(x) + (1,) * (len(args) - k - 1)))
    return tuple(out)


@function("diag_indices_from")
def diag_indices_from(arr):
    return np.diag_indices_from(np.broadcast_to(0, shape_of(asarray(arr))))


@function("tril_indices_from")
def tril_indices_from(arr, k=0):
    return np.tril_indices_from(np.broadcast_to(0, shape_of(asarray(arr))), k)


@function("triu_indices_from")
def triu_indices_from(arr, k=0):
    return np.triu_indices_from(np.broadcast_to(0, shape_of(asarray(arr))), k)


# Bits


@ufunc("bitwise_count")
def bitwise_count(x):
    x = cast(x, np.bitwise_count.resolve_dtypes((dtype_of(x), None))[0])
    dtype = dtype_of(x)
    x = e.abs(x) if dtype.kind == "i" else x
    total = None
    for k in range(dtype.itemsize * 8):
        bit = e.and_(e.right_shift(x, cast(k, dtype)), cast(1, dtype))
        total = bit if total is None else e.add(total, bit)
    return cast(total, np.uint8)


@function("packbits")
def packbits(a, axis=None, bitorder="big"):
    if dtype_of(asarray(a)).kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    a = cast(asarray(a), bool)
    if axis is None:
        a, axis = flat(a), 0
    axis = axis % len(shape_of(a))
    n = shape_of(a)[axis]
    full = -(-n // 8) * 8
    a = movement.pad(
        cast(a, np.uint8),
        (0,) * len(shape_of(a)),
        tuple(full - n if k == axis else 0 for k in range(len(shape_of(a)))),
    )
    shape = shape_of(a)
    a = movement.reshape(a, (*shape[:axis], full // 8, 8, *shape[axis + 1 :]))
    powers = 2 ** np.arange(8, dtype=np.uint8)
    powers = powers if bitorder == "little" else powers[::-1]
    a = e.mul(a, powers.reshape((8,) + (1,) * (len(shape) - axis - 1)))
    return reduced("sum", a, axis + 1, dtype=np.uint8)


@function("unpackbits")
def unpackbits(a, axis=None, count=None, bitorder="big"):
    a = asarray(a)
    if dtype_of(a) != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    if axis is None:
        a, axis = flat(a), 0
    axis = axis % len(shape_of(a))
    shape = shape_of(a)
    shifts = np.arange(8, dtype=np.uint8)
    shifts = (shifts if bitorder == "little" else shifts[::-1]).reshape((8,) + (1,) * (len(shape) - axis - 1))
    wide = movement.reshape(a, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    bits = e.and_(e.right_shift(wide, shifts), np.uint8(1))
    bits = movement.reshape(bits, (*shape[:axis], shape[axis] * 8, *shape[axis + 1 :]))
    if count is None:
        return bits
    n = shape[axis] * 8
    count = integer(count)
    if count < 0:
        return movement.part(bits, axis, 0, n + count)
    if count <= n:
        return movement.part(bits, axis, 0, count)
    return movement.pad(
        bits, (0,) * len(shape), tuple(count - n if k == axis else 0 for k in range(len(shape)))
    )
