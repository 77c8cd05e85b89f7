"""Arguments that a call consumes: a result may be computed in their storage.

`CONSUMED` is the layout of such an argument, C order in storage of its own.  A program that wrote to
it leaves the array without its elements: `taken` moves the storage to a new array, which is the
result, and the old one keeps a dtype that no operation takes and whose name says what happened, so
whatever reads it raises.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

CONSUMED = "O"
GONE = np.dtype([("consumed by rune.jit", "V0")])
BASE = 48  # bytes into NumPy's array object, as its C API fixes them
STORAGE = ((16, 32), (56, 16), (88, 8))  # data, ndim, shape, strides; dtype, flags; what frees the data


def consumable(x: Any) -> bool:
    """Whether an array's storage is its own, so that it can be another's."""
    flags = x.flags
    return bool(x.ndim and x.size and flags.owndata and flags.writeable and flags.c_contiguous)


def taken(x: Any) -> Any:
    """A new array with the storage of `x`, which is left with nothing."""
    new = np.empty((), GONE)
    new.flags.writeable = False
    for start, count in STORAGE:
        ours, theirs = ((ctypes.c_char * count).from_address(id(a) + start) for a in (x, new))
        ours[:], theirs[:] = theirs[:], ours[:]
    # views of x look at the storage still: as its base, the new array lives as long as they
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(new))
    ctypes.c_void_p.from_address(id(x) + BASE).value = id(new)
    return new


__all__ = ["CONSUMED", "GONE", "consumable", "taken"]
