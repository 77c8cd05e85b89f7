"""NumPy's functions that make arrays, asked with `like=x` for what traced values can be written to.

`np.array([a, b])` and `np.zeros(3)` dispatch on none of their arguments; with NEP 35's `like=` they do.
What they make is then a value of the innermost transformation, and the lists may hold traced values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import TracedValueError, Value, innermost
from rune.numpy.arguments import asarray, holds_value, shape_of, shape_to, supported
from rune.numpy.register import function
from rune.primitives import movement
from rune.primitives.map import cast
from rune.value import Traced, box, unbox

__all__ = ["array", "full", "made"]


def made(x: Any) -> Any:
    """An array as a value of the innermost transformation."""
    level, x = innermost(), np.asarray(x)
    return x if level is None else level.lift(x)


def of_dtype(x: Any, dtype: Any) -> Any:
    return x if dtype is None else cast(x, supported(np.dtype(dtype)))


@function("array")
def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0):
    if not holds_value(object):
        return made(np.array(object, dtype, ndmin=ndmin))
    x = of_dtype(asarray(object), dtype)
    shape = shape_of(x)
    return x if len(shape) >= ndmin else movement.reshape(x, (1,) * (ndmin - len(shape)) + shape)


@function("asarray", "asanyarray", "ascontiguousarray", "asfortranarray", boxed=True)
def converted(a, dtype=None, order=None, *, device=None, copy=None):
    """An array that is what is asked for is itself, and so is written through the result."""
    if isinstance(a, Traced) and not copy and dtype in (None, a.dtype) and not a._type.weak:
        return a
    return box(array(unbox(a), dtype))


@function("require", boxed=True)
def require(a, dtype=None, requirements=None):
    return converted(a, dtype)


@function("full")
def full(shape, fill_value, dtype=None, order="C", *, device=None):
    if not holds_value(fill_value):
        return made(np.full(shape_to(shape), fill_value, dtype))
    return movement.broadcast(of_dtype(asarray(fill_value), dtype), shape_to(shape))


@function("zeros", "empty")
def zeros(shape, dtype=float, order="C", *, device=None):
    return made(np.zeros(shape_to(shape), dtype))


@function("ones")
def ones(shape, dtype=None, order="C", *, device=None):
    return made(np.ones(shape_to(shape), dtype))


@function("fromiter")
def fromiter(iter, dtype, count=-1):
    items = [x for _, x in zip(range(count), iter, strict=False)] if count >= 0 else list(iter)
    if len(items) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(items)} items.")
    return array(unbox(items), dtype)


@function("fromfunction")
def fromfunction(function, shape, *, dtype=float, **keywords):
    return unbox(function(*np.indices(shape_to(shape), dtype=dtype), **keywords))


def of_known(name: str) -> Callable:
    """NumPy's function of that name, whose arguments decide the shape of its result."""
    numpy_function = getattr(np, name)

    def make(*args: Any, **keywords: Any) -> Any:
        for x in (*args, *keywords.values()):
            if isinstance(x, Value):
                raise TracedValueError(
                    f"numpy.{name}: the value is traced by {x.level.name}; the shape of the result depends on it: "
                    f"pass a Python number"
                    + (", and write start + step * np.arange(n)" if name == "arange" else "")
                )
        return made(numpy_function(*args, **keywords))

    return function(name)(make)


for _name in ("arange", "eye", "identity", "tri"):
    of_known(_name)
