"""Machines: loop nests (`nest`), fusion (`plan`), code (`emit`, `math`), libraries, the native call.

`compile(block, layouts)` turns a block of the loop language into one native function.  Nothing here
knows a transformation or a primitive.  LLVM and SciPy are imported when something compiles.
"""

from __future__ import annotations

from typing import Any

from .consume import CONSUMED, consumable

__all__ = ["CONSUMED", "compile", "consumable", "direct", "layout_of"]


def layout_of(array: Any) -> str | None:
    """ "C", "S" (strides read at run time), or None where the array must be copied first."""
    flags = array.flags
    if not (flags.aligned and array.dtype.isnative):
        return None
    return "C" if flags.c_contiguous else "S"


def compile(block: Any, layouts: Any, name: str = "main", threads: int | None = None) -> Any:
    """An executable for a block, for one layout of each input, on so many threads at most."""
    from .executable import compile

    return compile(block, layouts, name, threads)


def direct(executable: Any, fallback: Any, single: bool = False, numbers: tuple = ()) -> Any:
    """A builtin that runs an executable on plain arrays (`dispatch`), or None where only Python can."""
    from .dispatch import direct

    return direct(executable, fallback, single, numbers)
