"""Machines: loop nests (`nest`), fusion (`plan`), code (`emit`, `math`), libraries, the native call.

`compile(block, layouts)` turns a block of the loop language into one native function.  Nothing here
knows a transformation or a primitive.  LLVM and SciPy are imported when something compiles.
"""

from __future__ import annotations

from .executable import Executable, compile, layout_of

__all__ = ["Executable", "compile", "layout_of"]
