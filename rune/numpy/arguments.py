"""Arguments as NumPy reads them: array-likes, dtypes, axes and shapes.

An *operand* of an elementwise function keeps Python numbers weak (NEP 50); every other function
takes its arguments as arrays, where a Python number has a dtype like any other.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from rune.level import TracedValueError, Value, bind
from rune.primitives import movement
from rune.primitives.effects import check_
from rune.primitives.map import cast, supported
from rune.program import real_dtype, type_of

__all__ = [
    "asarray", "axes_of", "axis_of", "broadcast_shape", "c_order", "castable", "common", "dtype_of", "holds_value",
    "inexact", "integer", "known", "lifted", "on_cpu", "operand", "promote", "real_dtype", "require", "shape_of",
    "shape_to", "supported", "weak_kind",
]  # fmt: skip

NUMBERS = {float, int, complex, bool}


def plain(x: Any) -> np.ndarray:
    """An array without a traced value in it."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported: use np.where with a mask of your own")
    if isinstance(x, np.matrix):
        raise TypeError("np.matrix is not supported: use a two-dimensional array, and @ for products")
    x = np.asarray(x)
    supported(x.dtype)
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def operand(x: Any) -> Any:
    """A value, plain array, scalar or Python number that stands for `x`."""
    if isinstance(x, Value) or type(x) in NUMBERS:
        return x
    if isinstance(x, (list, tuple)) and holds_value(x):
        return stacked(x)
    if isinstance(x, np.generic):
        supported(x.dtype)
        return x
    return plain(x)


def asarray(x: Any) -> Any:
    """A value or plain array that stands for `x`, of a dtype that is not weak."""
    x = operand(x)
    if isinstance(x, Value):
        return cast(x, x.type.dtype) if x.type.weak else x
    return np.asarray(x)


def holds_value(x: Any) -> bool:
    return isinstance(x, Value) or (isinstance(x, (list, tuple)) and any(map(holds_value, x)))


def stacked(x: list | tuple) -> Any:
    """A nested list with values in it, as the array that np.array would make of its numbers."""
    leaves: list = []
    outer = nesting(x, leaves)
    leaves = promote(*map(asarray, leaves))
    inner = shape_of(leaves[0])
    if any(shape_of(v) != inner for v in leaves):
        raise ValueError("setting an array element with a sequence: the parts of a list differ in shape")
    rows: list = []
    for v in leaves:
        v = movement.reshape(v, (1, *inner))
        if rows and not isinstance(v, Value) and not isinstance(rows[-1], Value):
            rows[-1] = np.concatenate([rows[-1], v])
        else:
            rows.append(v)
    return movement.reshape(movement.concatenate(rows, 0), outer + inner)


def nesting(x: Any, leaves: list) -> tuple[int, ...]:
    """The shape of the lists around the leaves, which are collected."""
    if not (isinstance(x, (list, tuple)) and holds_value(x)):
        leaves.append(x)
        return ()
    parts = [
        part if isinstance(part, Value) else (list(part) if isinstance(part, (list, tuple)) else part)
        for part in x
    ]
    deep = any(isinstance(part, list) and holds_value(part) for part in parts)
    if not deep:
        leaves.extend(parts)
        return (len(parts),)
    shapes = {nesting(part, leaves) if holds_value(part) else split(part, parts, leaves) for part in parts}
    if len(shapes) != 1:
        raise ValueError("setting an array element with a sequence: the parts of a list differ in shape")
    return (len(parts), *shapes.pop())


def split(part: Any, siblings: list, leaves: list) -> tuple[int, ...]:
    """A plain part beside nested ones: divided as deep as they are."""
    depth = max(map(depth_of, siblings))
    array = np.asarray(part)
    leaves.extend(array.reshape(-1, *array.shape[depth:]))
    return array.shape[:depth]


def depth_of(x: Any) -> int:
    if not (isinstance(x, (list, tuple)) and holds_value(x)):
        return 0
    return 1 + max(map(depth_of, x))


# Types


def shape_of(x: Any) -> tuple[int, ...]:
    return x.shape if type(x) is np.ndarray else type_of(x).shape


def dtype_of(x: Any) -> np.dtype:
    return x.dtype if type(x) is np.ndarray and x.dtype.isnative else type_of(x).dtype


def weak_kind(x: Any) -> Any:
    """What np.result_type takes for an operand: a Python number where it is weak."""
    t = type_of(x)
    return {"f": 0.0, "c": 0j, "i": 0}.get(t.dtype.kind, t.dtype) if t.weak else t.dtype


def common(*xs: Any) -> np.dtype:
    """NumPy's common dtype of operands."""
    return result_type(*map(weak_kind, xs))


result_type = functools.lru_cache(maxsize=1 << 12, typed=True)(np.result_type)


def promote(*xs: Any) -> list:
    dtype = common(*xs)
    return [cast(x, dtype) for x in xs]


def inexact(x: Any) -> Any:
    """`x` with a floating or complex dtype, as NumPy's means and linear algebra convert it."""
    t = type_of(x)
    return x if t.inexact else cast(x, np.dtype(np.float64))


def castable(x: Any, dtype: np.dtype, casting: str) -> None:
    """Raise where NumPy's rule of that name does not let `x` become `dtype`."""
    if not np.can_cast(dtype_of(x), dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {dtype_of(x)!r} to {np.dtype(dtype)!r} according to the rule '{casting}'"
        )


def lifted(like: Any, x: Any) -> Any:
    """Plain `x` as a value of the level of `like`, where `like` is one."""
    return like.level.lift(x) if isinstance(like, Value) and not isinstance(x, Value) else x


# Axes and shapes


def integer(x: Any) -> int:
    """An int that a shape or an axis depends on."""
    if isinstance(x, Value):
        raise TracedValueError(
            f"index: the value is traced by {x.level.name}; a shape or an axis would depend on it: "
            f"pass it as a Python int, or name it in static_argnames"
        )
    return operator.index(x)


def require(ok: Any, message: str) -> None:
    """The call fails with the message where `ok` is false, at once where that is known."""
    bind(check_, [ok], {"message": message, "lanes": 0})


def on_cpu(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')


def known(name: str, x: Any) -> Any:
    """An argument that decides what is computed, so that its value must be known."""
    if not isinstance(x, Value):
        return x
    try:
        return x.level.concrete(x)
    except TracedValueError as error:
        raise TracedValueError(
            f"{name}: {error}; it decides what is computed: name it in static_argnames, or close over it"
        ) from None


def axis_of(axis: Any, ndim: int) -> int:
    axis = integer(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def axes_of(axis: Any, ndim: int, scalars: bool = False) -> tuple[int, ...]:
    """The axes that `axis` (None for all, an int, or several) names, in the order given.

    With `scalars` a 0-d array has the axes 0 and -1, as in NumPy's reductions.
    """
    if axis is None:
        return tuple(range(ndim))
    if scalars and ndim == 0 and not isinstance(axis, Iterable) and integer(axis) in (0, -1):
        return ()
    if not isinstance(axis, Iterable):
        return (axis_of(axis, ndim),)
    axes = tuple(axis_of(a, ndim) for a in axis)
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes


def shape_to(shape: Any) -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints."""
    if isinstance(shape, Value) or not isinstance(shape, Iterable):
        return (integer(shape),)
    return tuple(map(integer, shape))


def broadcast_shape(*xs: Any) -> tuple[int, ...]:
    return np.broadcast_shapes(*map(shape_of, xs))


def c_order(order: Any, allowed: str = "CKA") -> None:
    """Traced arrays are in C order, so the orders that keep a layout mean C."""
    if order not in (None, *allowed):
        raise ValueError(
            f"order must be one of {', '.join(map(repr, allowed))} for a traced array (got {order!r})"
        )
