"""What draws have in common: the dtype of a result, its shape, and the parameters' fit to both."""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.numpy.arguments import shape_to
from rune.structure import describe
from rune.value import Traced

__all__ = ["at_least", "floating", "in_order", "ordered", "parameters", "result", "shaped"]


def floating(name: str, dtype: Any) -> tuple[np.dtype, np.dtype]:
    """A result's dtype, and the one to compute in: float16 is computed in float32."""
    dtype = np.dtype(dtype)
    if dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"rune.random.{name}: dtype {dtype}: float16, float32 or float64 is drawn")
    return dtype, np.dtype(np.float32) if dtype == np.float16 else dtype


def real(name: str, path: str, x: Any, dtype: Any) -> Any:
    """A parameter in the dtype that is computed in."""
    if not isinstance(x, Traced):
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


def in_order(name: str, shape: Any) -> None:
    """Refuse a parameter that stands where the shape belongs."""
    if isinstance(shape, (float, np.floating)) or (
        isinstance(shape, (np.ndarray, Traced)) and shape.dtype.kind not in "iu"
    ):
        raise no_shape(name, shape)


def no_shape(name: str, shape: Any) -> TypeError:
    return TypeError(
        f"rune.random.{name}: shape: an int or a tuple of ints is needed, got {describe(shape)}: the order is key, shape, parameters"
    )


def at_least(name: str, path: str, x: Any, low: float = 0.0, high: float = np.inf) -> None:
    """Refuse a plain parameter that is out of range; a traced one is not known."""
    if not isinstance(x, Traced) and np.any((x < low) | (x > high)):
        bounds = f"at least {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
        worst = np.asarray(x)[(x < low) | (x > high)].flat[0]
        raise ValueError(f"rune.random.{name}: {path}: {worst:g}, where it must be {bounds}")


def ordered(name: str, low: Any, high: Any) -> None:
    """Refuse plain bounds that leave no number between them."""
    if not isinstance(low, Traced) and not isinstance(high, Traced) and np.any(low > high):
        raise ValueError(f"rune.random.{name}: low: {np.max(low)}, which is above high: {np.min(high)}")


def result(x: Any, dtype: Any) -> Any:
    """A draw in the dtype asked for; a NumPy scalar where it has no dimension."""
    if x.dtype != dtype:
        x = x.astype(dtype)
    return x[()] if isinstance(x, np.ndarray) and not x.ndim else x
