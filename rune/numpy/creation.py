"""Arrays like another, grids and ranges, and what depends on an array's type alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import (
    asarray,
    axes_of,
    axis_of,
    broadcast_shape,
    castable,
    dtype_of,
    integer,
    lifted,
    on_cpu,
    operand,
    require,
    shape_of,
    shape_to,
    supported,
    weak_kind,
)
from rune.numpy.register import attribute, function, method
from rune.numpy.shapes import array_box, moveaxis, size_of
from rune.primitives import movement
from rune.primitives.indexing import gather
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.value import Traced, box, unbox

__all__ = ["linspace"]


def like(a: Any, value: Any, dtype: Any, shape: Any, device: Any) -> Any:
    on_cpu(device)
    a = asarray(a)
    dtype = supported(np.dtype(dtype)) if dtype is not None else dtype_of(a)
    shape = shape_of(a) if shape is None else shape_to(shape)
    return lifted(a, movement.broadcast(cast(operand(value), dtype), shape))


@function("zeros_like")
def zeros_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, 0, dtype, shape, device)


@function("empty_like")
def empty_like(prototype, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(prototype, 0, dtype, shape, device)


@function("ones_like")
def ones_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, 1, dtype, shape, device)


@function("full_like")
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, fill_value, dtype, shape, device)


@function("copy", method="copy __copy__")
def copy(a, order="K", subok=False):
    return asarray(a)


@method("__deepcopy__")
def deepcopy(a, memo=None):
    return a


@function("astype", boxed=True)
def astype_function(x, dtype, /, *, copy=True, device=None):
    on_cpu(device)
    return x.astype(dtype, copy=copy)


@method("astype", boxed=True)
def astype(a, dtype, order="K", casting="unsafe", subok=True, copy=True):
    dtype = supported(np.dtype(dtype))
    if not copy and dtype == a.dtype and not a._type.weak:
        return a
    return box(converted(unbox(a), dtype, casting))


def converted(a: Any, dtype: np.dtype, casting: str) -> Any:
    castable(a, dtype, casting)
    return cast(asarray(a), dtype)


@function("meshgrid", boxed=True)
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    xi = [np.ravel(array_box(x)) for x in xi]
    n = len(xi)
    at = list(range(n))
    if indexing == "xy" and n > 1:
        at[:2] = [1, 0]
    out = tuple(x.reshape([-1 if at[k] == j else 1 for j in range(n)]) for k, x in enumerate(xi))
    out = out if sparse else tuple(np.broadcast_arrays(*out))
    return tuple(x.copy() for x in out) if copy else out


@function("linspace")
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    on_cpu(device)
    start, stop, num = asarray(start), asarray(stop), integer(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    kind = np.result_type(dtype_of(start), dtype_of(stop), float(num))
    start, stop = cast(start, kind), cast(stop, kind)
    parts = num - 1 if endpoint else num
    shape = broadcast_shape(start, stop)
    k = np.arange(num, dtype=kind).reshape((num,) + (1,) * len(shape))
    step = e.div(e.sub(stop, start), parts) if parts > 0 else cast(np.nan, kind)
    out = e.add(start, e.mul(k, step if parts > 0 else 0.0))
    if endpoint and num > 1:
        last = np.arange(num).reshape(k.shape) == num - 1  # NumPy sets the last one exactly
        out = e.select(last, stop, out)
    if axis != 0:
        out = moveaxis(out, 0, axis)
    if dtype is not None:
        out = cast(e.floor(out) if np.dtype(dtype).kind in "iu" else out, dtype)
    return (out, step) if retstep else out


@function("logspace")
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    y = linspace(start, stop, num, endpoint, axis=axis)
    out = e.pow(operand(base), y)
    return out if dtype is None else cast(out, dtype)


@function("geomspace")
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    start, stop = asarray(start), asarray(stop)
    require(e.logical_and(e.ne(start, 0), e.ne(stop, 0)), "Geometric sequence cannot include zero")
    sign = e.sign(start)
    y = linspace(e.log10(e.div(start, sign)), e.log10(e.div(stop, sign)), num, endpoint, axis=0)
    out = e.mul(sign, e.pow(10.0, y))
    # Both ends are the numbers given, which a power of a logarithm may miss.
    end = lambda x: cast(movement.broadcast(x, (1, *shape_of(out)[1:])), dtype_of(out))
    n = shape_of(out)[0]
    last = n - 1 if endpoint and n > 1 else n
    parts = [end(start), movement.part(out, 0, 1, last), *([end(stop)] if last < n else [])]
    out = movement.concatenate(parts, 0) if n else out
    out = moveaxis(out, 0, axis) if axis != 0 else out
    return cast(out, np.result_type(dtype_of(out), float) if dtype is None else dtype)


# What depends on the type alone


@function("shape")
def shape(a):
    return shape_of(asarray(a))


@function("ndim")
def ndim(a):
    return len(shape_of(asarray(a)))


@function("size")
def size(a, axis=None):
    a = asarray(a)
    return size_of(a) if axis is None else math.prod(shape_of(a)[k] for k in axes_of(axis, len(shape_of(a))))


@function("result_type")
def result_type(*arrays_and_dtypes):
    return np.result_type(*(weak_kind(x) if isinstance(x, Value) else x for x in arrays_and_dtypes))


@function("can_cast")
def can_cast(from_, to, casting="safe"):
    return np.can_cast(dtype_of(from_) if isinstance(from_, Value) else from_, to, casting)


@function("min_scalar_type")
def min_scalar_type(a):
    raise TypeError("numpy.min_scalar_type: the dtype would depend on traced values")


@function("common_type")
def common_type(*arrays):
    return np.common_type(*(np.zeros((), dtype_of(asarray(a))) for a in arrays))


def memory(a: Any) -> tuple[Any, Any]:
    """The box whose elements `a` reads, and their places in it."""
    if not isinstance(a, Traced):
        return a, np.zeros(0, int)
    if a._base is None or not a._linked():
        return a, np.arange(a.size)
    return a._base, a._move(np.arange(a._base.size).reshape(a._base.shape))


@function("shares_memory", boxed=True)
def shares_memory(a, b, /, max_work=-1):
    (one, these), (other, those) = memory(a), memory(b)
    return one is other and bool(np.intersect1d(these, those).size)


@function("may_share_memory", boxed=True)
def may_share_memory(a, b, /, max_work=0):
    """Whether the bounds overlap, which is what NumPy asks."""
    (one, these), (other, those) = memory(a), memory(b)
    if one is not other or not these.size or not those.size:
        return False
    return bool(these.min() <= those.max() and those.min() <= these.max())


@attribute("device")
def device(a):
    return "cpu"


@method("to_device")
def to_device(a, device, *, stream=None):
    on_cpu(device)
    return a


@function("lib.stride_tricks.sliding_window_view", view=True, read_only=True)
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    x = asarray(x)
    window = shape_to(window_shape)
    n = len(shape_of(x))
    if not isinstance(x, Value):
        return np.lib.stride_tricks.sliding_window_view(x, window_shape, axis)
    axes = axes_of(axis, n) if axis is None else tuple(axis_of(k, n) for k in shape_to(axis))
    if len(window) != len(axes):
        raise ValueError("Must provide matching length window_shape and axis")
    for w, k in zip(window, axes, strict=True):
        if w < 0:
            raise ValueError("`window_shape` cannot contain negative values")
        m = shape_of(x)[k] - w + 1
        if m < 1:
            raise ValueError("window shape cannot be larger than input array shape")
        rows = np.arange(m)[:, None] + np.arange(w)
        front = movement.permute(x, (k, *(j for j in range(len(shape_of(x))) if j != k)))
        out = gather(front, [rows])
        total = len(shape_of(out))
        x = movement.permute(out, (*range(2, k + 2), 0, *range(k + 2, total), 1))
    return x
