"""What has a shape that depends on values: nonzero, unique, sets, masks that choose.

It works where the values are known (under differentiation: the places are read, the elements there
are taken, and have derivatives) and raises where they are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import asarray, axes_of, dtype_of, integer, shape_of
from rune.numpy.joining import concatenate
from rune.numpy.needed import concrete, dependent
from rune.numpy.register import function, method
from rune.numpy.shapes import array_box
from rune.numpy.sorting import flat, take
from rune.primitives import indexing as primitive
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.reduce import reduce
from rune.primitives.scalar import e
from rune.value import unbox

__all__ = ["flatnonzero"]


@function("nonzero", method="nonzero")
def nonzero(a):
    return np.nonzero(concrete("nonzero", a))


@function("flatnonzero")
def flatnonzero(a):
    return np.flatnonzero(concrete("flatnonzero", a))


@function("argwhere")
def argwhere(a):
    return np.argwhere(concrete("argwhere", a))


def first_of_each(name: str, ar: Any, **how: Any) -> tuple:
    """np.unique's places in `ar`, from its numbers."""
    numbers = concrete(name, ar)
    return np.unique(numbers, return_index=True, return_inverse=True, return_counts=True, **how)


@function("unique")
def unique(
    ar,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    *,
    equal_nan=True,
    sorted=True,
):
    ar = asarray(ar)
    _, index, inverse, counts = first_of_each("unique", ar, axis=axis, equal_nan=equal_nan)
    out = [take(flat(ar), index) if axis is None else take(ar, index, axis)]
    out += [
        x for x, asked in ((index, return_index), (inverse, return_inverse), (counts, return_counts)) if asked
    ]
    return out[0] if len(out) == 1 else tuple(out)


@function("unique_values")
def unique_values(x):
    return unique(x, equal_nan=False)


@function("isin")
def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None):
    element, test = asarray(element), flat(asarray(test_elements))
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: {kind!r}. Please use None, 'sort' or 'table'.")
    if kind == "table" and not {dtype_of(element).kind, dtype_of(test).kind} <= set("iub"):
        raise ValueError("The 'table' method is only supported for boolean or integer arrays.")
    hits = e.eq(movement.reshape(element, (*shape_of(element), 1)), test)
    found = reduce("any", hits, (len(shape_of(element)),))
    return e.logical_not(found) if invert else found


@function("bincount")
def bincount(x, /, weights=None, minlength=0):
    x = asarray(x)
    if len(shape_of(x)) != 1:
        raise ValueError(f"object of too {'deep' if shape_of(x) else 'small'} depth for desired array")
    size = integer(minlength)
    if isinstance(x, Value):
        if not size:
            raise dependent("bincount", x)
    else:
        size = max(size, int(x.max(initial=-1)) + 1)
    w = np.ones(shape_of(x), np.int64) if weights is None else cast(asarray(weights), np.float64)
    return primitive.scatter("add", movement.full((size,), dtype_of(w).type(0)), [cast(x, np.int64)], w)


@function("compress")
def compress(condition, a, axis=None, out=None):
    a = asarray(a)
    if isinstance(condition, Value):
        raise dependent("compress", condition)
    if np.ndim(condition) != 1:
        raise ValueError("condition must be a 1-d array")
    if axis is None:
        a, axis = flat(a), 0
    return take(a, np.flatnonzero(condition), axis)


@method("compress")
def compress_method(a, condition, axis=None, out=None):
    return compress(condition, a, axis)


@function("extract")
def extract(condition, arr):
    if isinstance(condition, Value):
        raise dependent("extract", condition)
    return take(flat(asarray(arr)), np.flatnonzero(condition))


@function("unique_all")
def unique_all(x):
    result = np.unique_all(concrete("unique_all", x))
    return type(result)(take(flat(asarray(x)), result.indices), *result[1:])


@function("unique_counts")
def unique_counts(x):
    index, counts = np.unique(
        concrete("unique_counts", x), return_index=True, return_counts=True, equal_nan=False
    )[1:]
    return type(np.unique_counts(np.zeros(1)))(take(flat(asarray(x)), index), counts)


@function("unique_inverse")
def unique_inverse(x):
    result = np.unique_inverse(concrete("unique_inverse", x))
    index = np.unique(concrete("unique_inverse", x), return_index=True, equal_nan=False)[1]
    return type(result)(take(flat(asarray(x)), index), result.inverse_indices)


def chosen(name: str, ar1: Any, ar2: Any, **how: Any) -> Any:
    """The elements of either array that NumPy's set operation gives, taken from their places."""
    both = [flat(asarray(x)) for x in (ar1, ar2)]
    numbers = [concrete(name, x) for x in both]
    found = getattr(np, name)(*numbers, **how)
    all_numbers = np.concatenate(numbers)
    order = np.argsort(all_numbers, kind="stable")
    places = order[np.searchsorted(all_numbers, found, sorter=order)]
    return take(concatenate(both), places)


@function("union1d")
def union1d(ar1, ar2):
    return chosen("union1d", ar1, ar2)


@function("setxor1d")
def setxor1d(ar1, ar2, assume_unique=False):
    return chosen("setxor1d", ar1, ar2)


@function("setdiff1d")
def setdiff1d(ar1, ar2, assume_unique=False):
    return chosen("setdiff1d", ar1, ar2)


@function("intersect1d")
def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    out = chosen("intersect1d", ar1, ar2)
    if not return_indices:
        return out
    numbers = [concrete("intersect1d", flat(asarray(x))) for x in (ar1, ar2)]
    return out, *np.intersect1d(*numbers, assume_unique, True)[1:]


@function("trim_zeros", boxed=True)
def trim_zeros(filt, trim="fb", axis=None):
    x = array_box(filt)
    numbers = concrete("trim_zeros", unbox(x))
    places = np.argwhere(numbers)
    axes = axes_of(axis, numbers.ndim)
    for k in axes:
        n = numbers.shape[k]
        first, last = (places[:, k].min(), places[:, k].max() + 1) if len(places) else (0, 0)
        start = int(first) if "f" in trim.lower() or not len(places) else 0
        stop = max(start, int(last) if "b" in trim.lower() or not len(places) else n)
        x = x[(slice(None),) * k + (slice(start, stop),)]
    return x
