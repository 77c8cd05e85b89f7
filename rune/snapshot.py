"""Plain arrays that are kept for later, and what may happen to them meanwhile.

A trace and a record keep the plain arrays that an operation read.  If the caller writes into one
afterwards, as code with a work buffer does, what was kept must still be what was read.  A small array
is copied when it is kept.  A large one is bound by reference, with a checksum that is compared when it
is used again and when the function has returned: a change raises.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

__all__ = ["Snapshots"]

SMALL = 1 << 16  # bytes up to which an array is copied


class Snapshots:
    """The plain arrays that one trace or record keeps."""

    def __init__(self, name: str):
        self.name = name
        self.found: dict[int, tuple] = {}  # id(array) -> (array, its copy or its checksum)

    def keep(self, x: Any) -> Any:
        """The array to keep for `x`: one that holds what `x` holds now, the same one until `x` changes."""
        if not isinstance(x, np.ndarray) or not x.flags.writeable:
            return x
        held = self.found.get(id(x))
        if x.nbytes <= SMALL:
            if held is None or not same(held[1], x):
                held = self.found[id(x)] = (x, x.copy())
            return held[1]
        if held is None:
            self.found[id(x)] = (x, checksum(x))
        elif held[1] != checksum(x):
            raise self.changed(x)
        return x

    def verify(self) -> None:
        """Raise if an array that is bound by reference has changed since it was kept."""
        for x, kept in self.found.values():
            if not isinstance(kept, np.ndarray) and kept != checksum(x):
                raise self.changed(x)

    def changed(self, x: np.ndarray) -> ValueError:
        return ValueError(
            f"{self.name}: an array of {x.dtype} {list(x.shape)} was written after the function had used it: "
            f"write into a copy, or make the array anew each time"
        )


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


def checksum(x: np.ndarray) -> int:
    return zlib.crc32(x if x.flags.c_contiguous else np.ascontiguousarray(x))
