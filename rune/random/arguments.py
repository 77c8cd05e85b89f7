"""What draws have in common: the dtype of a result, its shape, and the parameters' fit to both."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from rune.arguments import refuse
from rune.checks import check
from rune.numpy.arguments import shape_to
from rune.structure import describe
from rune.value import Traced

__all__ = [
    "at_least",
    "axis_of",
    "count",
    "drawable",
    "dtype_of",
    "floating",
    "holds",
    "in_order",
    "ordered",
    "parameters",
    "real",
    "result",
    "shaped",
]  # fmt: skip

MOST = 1 << 32  # numbers that one key draws: as many as a counter word tells apart


def floating(name: str, dtype: Any) -> tuple[np.dtype, np.dtype]:
    """A result's dtype, and the one to compute in: float16 is computed in float32."""
    dtype = dtype_of(name, dtype)
    if dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"rune.random.{name}: dtype {dtype}: float16, float32 or float64 is drawn")
    return dtype, np.dtype(np.float32) if dtype == np.float16 else dtype


def dtype_of(name: str, dtype: Any) -> np.dtype:
    try:
        return np.dtype(dtype)
    except TypeError:
        raise TypeError(f"rune.random.{name}: dtype: {describe(dtype)} is no dtype") from None


def real(name: str, path: str, x: Any, dtype: Any) -> Any:
    """A parameter in the dtype that is computed in."""
    if not isinstance(x, Traced):
        refuse(f"rune.random.{name}", path, x)
        try:
            x = np.asarray(x)
        except ValueError:
            raise TypeError(
                f"rune.random.{name}: {path}: a real array is needed, got {describe(x)}"
            ) from None
    if x.dtype.kind not in "biuf":
        raise TypeError(f"rune.random.{name}: {path}: a real array is needed, got {describe(x)}")
    x = x.astype(dtype)
    return x if isinstance(x, Traced) else x[()]


def parameters(name: str, shape: Any, dtype: Any, **given: Any) -> tuple[tuple[int, ...], list]:
    """The shape of a draw and its parameters, which broadcast to it."""
    found = {path: real(name, path, x, dtype) for path, x in given.items()}
    return shaped(name, shape, {path: np.shape(x) for path, x in found.items()}), list(found.values())


def shaped(name: str, shape: Any, parts: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """`shape` as a tuple, `None` being what the parameters' shapes broadcast to."""
    in_order(name, shape)
    if shape is None:
        try:
            return np.broadcast_shapes(*parts.values())
        except ValueError:
            listed = ", ".join(f"{path} {list(s)}" for path, s in parts.items())
            raise ValueError(f"rune.random.{name}: shapes that do not broadcast: {listed}") from None
    try:
        shape = shape_to(shape)
    except TypeError:
        raise no_shape(name, shape) from None
    if any(n < 0 for n in shape):
        raise ValueError(f"rune.random.{name}: shape: a negative length in {list(shape)}")
    drawable(name, shape)
    for path, own in parts.items():
        try:
            fits = np.broadcast_shapes(own, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"rune.random.{name}: {path}: shape {list(own)} does not broadcast to the draw's shape {list(shape)}"
            )
    return shape


def drawable(name: str, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MOST:
        raise ValueError(
            f"rune.random.{name}: shape: {math.prod(shape)} numbers, where one key draws at most 2**32: split the key"
        )


def in_order(name: str, shape: Any) -> None:
    """Refuse a parameter that stands where the shape belongs."""
    if isinstance(shape, (float, np.floating, type)) or (
        isinstance(shape, (np.ndarray, Traced)) and shape.dtype.kind not in "iu"
    ):
        raise no_shape(name, shape)


def no_shape(name: str, shape: Any) -> TypeError:
    return TypeError(
        f"rune.random.{name}: shape: an int or a tuple of ints is needed, got {describe(shape)}: the order is key, shape, parameters"
    )


def at_least(name: str, path: str, x: Any, low: float = 0.0, high: float = np.inf, nan: bool = True) -> None:
    """Refuse a plain parameter that is out of range; a traced one is not known.  `nan` lets NaN pass,
    for draws that are NaN then."""
    if isinstance(x, Traced):
        return
    out = (x < low) | (x > high) | (False if nan else x != x)
    if np.any(out):
        bounds = f"at least {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
        raise ValueError(
            f"rune.random.{name}: {path}: {np.asarray(x)[out].flat[0]:g}, where it must be {bounds}"
        )


def holds(name: str, ok: Any, problem: str) -> None:
    """Refuse parameters where `ok` is false: at once where they are plain, else after the call ran.

    It serves draws of integers, which have no NaN to say that there is no draw.
    """
    message = f"rune.random.{name}: {problem}"
    if isinstance(ok, Traced):
        check(ok, message)
    elif not ok:
        raise ValueError(message)


def count(name: str, path: str, n: Any, kind: str = "an int") -> int:
    """A number of things: an int that shapes depend on."""
    try:
        if type(n) is bool:
            raise TypeError
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"rune.random.{name}: {path}: {kind} is needed, got {describe(n)}") from None
    if n < 0:
        raise ValueError(f"rune.random.{name}: {path}: {n}, where it must be at least 0")
    return n


def axis_of(name: str, path: str, axis: Any, ndim: int) -> int:
    """`axis` of an array of `ndim` axes, counted from the first."""
    try:
        k = operator.index(axis)
    except TypeError:
        raise TypeError(f"rune.random.{name}: axis: an int is needed, got {describe(axis)}") from None
    if not -ndim <= k < ndim:
        raise np.exceptions.AxisError(k, ndim, f"rune.random.{name}: {path}")
    return k % ndim


def ordered(name: str, low: Any, high: Any) -> None:
    """Refuse plain bounds that leave no number between them."""
    if not isinstance(low, Traced) and not isinstance(high, Traced) and np.any(low > high):
        raise ValueError(f"rune.random.{name}: low: {np.max(low)}, which is above high: {np.min(high)}")


def result(x: Any, dtype: Any) -> Any:
    """A draw in the dtype asked for; a NumPy scalar where it has no dimension."""
    if x.dtype != dtype:
        x = x.astype(dtype)
    return x[()] if isinstance(x, np.ndarray) and not x.ndim else x
