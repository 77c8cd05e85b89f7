"""The array API namespace (2024.12) that a traced value answers.

It is NumPy's, whose functions dispatch to the tables.  NumPy's functions that make arrays do not
dispatch: here they take traced values, and give floating arrays as values of the innermost
transformation, so that a library may write into what it made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import innermost
from rune.numpy.arguments import asarray, dtype_of
from rune.numpy.register import method
from rune.primitives import movement
from rune.primitives.map import cast
from rune.value import Traced, box, first_traced, unbox

__all__ = ["namespace"]


def made(x: np.ndarray) -> Any:
    """A floating array as a value of the innermost transformation."""
    level = innermost()
    return x if level is None or x.dtype.kind not in "fc" else box(level.lift(x))


class Namespace:
    """NumPy, with the functions that make arrays."""

    __array_api_version__ = "2024.12"
    __name__ = "rune.numpy.namespace"

    @property
    def special(self) -> Any:
        """SciPy's ufuncs, as its array API mode looks for them."""
        from scipy.special import _ufuncs

        return _ufuncs

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def __dir__(self) -> list[str]:
        return dir(np)

    def asarray(self, obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
        if first_traced(obj) is None:
            return np.asarray(obj, dtype=dtype, copy=copy)
        if isinstance(obj, Traced) and not copy and dtype in (None, obj.dtype):
            return obj
        x = asarray(unbox(obj))
        return box(cast(x, dtype_of(x) if dtype is None else dtype))

    array = asarray

    def full(self, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if first_traced(fill_value) is None:
            return made(np.full(shape, fill_value, dtype))
        x = asarray(unbox(fill_value))
        return box(movement.broadcast(cast(x, dtype_of(x) if dtype is None else dtype), shape))

    def zeros(self, shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return made(np.zeros(shape, dtype or np.float64))

    def ones(self, shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return made(np.ones(shape, dtype or np.float64))

    def empty(self, shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return made(np.zeros(shape, dtype or np.float64))

    def eye(
        self, n: int, m: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
    ) -> Any:
        return made(np.eye(n, m, k, dtype or np.float64))


namespace = Namespace()


@method("__array_namespace__")
def array_namespace(a: Any, *, api_version: str | None = None) -> Namespace:
    if api_version is not None and api_version > namespace.__array_api_version__:
        raise ValueError(
            f"array API version {api_version} is not supported, {namespace.__array_api_version__} is"
        )
    return namespace
