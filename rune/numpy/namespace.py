"""The array API namespace (2024.12) that a traced value answers.

It is NumPy's, whose functions dispatch to the tables.  Those that make arrays do not dispatch: here
they take traced values, and give floating arrays as values of the innermost transformation, so that
a library may write into what it made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import TracedValueError
from rune.numpy import making
from rune.numpy.arguments import on_cpu
from rune.numpy.register import method
from rune.value import Traced, box, first_traced, unbox

__all__ = ["namespace"]


def made(x: np.ndarray, device: Any) -> Any:
    """A floating array as a value of the innermost transformation."""
    on_cpu(device)
    return box(making.made(x)) if x.dtype.kind in "fc" else x


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
        on_cpu(device)
        if first_traced(obj) is None:
            return np.asarray(obj, dtype=dtype, copy=copy)
        if isinstance(obj, Traced) and not copy and dtype in (None, obj.dtype):
            return obj
        return box(making.array(unbox(obj), dtype))

    array = asarray

    def from_dlpack(self, x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
        on_cpu(device)
        return self.asarray(x, copy=copy) if isinstance(x, Traced) else np.from_dlpack(x)

    def full(self, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        if first_traced(fill_value) is None:
            return made(np.full(shape, fill_value, dtype), device)
        on_cpu(device)
        return box(making.full(shape, unbox(fill_value), dtype))

    def zeros(self, shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return made(np.zeros(shape, dtype), device)

    empty = zeros

    def ones(self, shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return made(np.ones(shape, dtype), device)

    def eye(
        self, n: int, m: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
    ) -> Any:
        return made(np.eye(n, m, k, dtype or np.float64), device)


namespace = Namespace()


@method("__dlpack__")
def dlpack(a: Any, **how: Any) -> Any:
    raise TracedValueError(
        f"from_dlpack: the value is traced by {a.level.name}; another library cannot hold it: "
        f"compute with it as it is, and hand on the result outside"
    )


@method("__dlpack_device__")
def dlpack_device(a: Any) -> tuple[int, int]:
    return (1, 0)  # the CPU


@method("__array_namespace__")
def array_namespace(a: Any, *, api_version: str | None = None) -> Namespace:
    if api_version is not None and api_version > namespace.__array_api_version__:
        raise ValueError(
            f"array API version {api_version} is not supported, {namespace.__array_api_version__} is"
        )
    return namespace
