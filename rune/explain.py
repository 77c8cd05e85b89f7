"""Looking inside: the traced program of a call, and what compiling did with it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rune import native
from rune.arguments import callable_, is_dynamic, raws
from rune.jit import Compiled, Entry, traced
from rune.lower import compiled
from rune.program import Program
from rune.structure import flatten

__all__ = ["Explanation", "explain", "program"]


class Explanation:
    """What compiling a call did, as data; `str` of it is for reading."""

    def __init__(self, program: Program, executable: Any):
        report = executable.report
        self.program = program
        self.kernels = report.kernels  # each nest of loops, and the operations fused into it
        self.loops = report.loops  # each with `kept_bytes` per step, and where its carry lives
        self.buffers = report.buffers  # bytes of each intermediate that has storage
        self.taken = report.taken  # result -> the consumed argument in whose storage it is computed
        self.library_calls = report.library_calls
        self.host_calls = report.host_calls
        self._report = report
        self._executable = executable

    @property
    def llvm(self) -> str:
        """The optimised LLVM text."""
        return self._executable.llvm

    @property
    def asm(self) -> str:
        """The machine code, as assembly text."""
        return self._executable.asm

    def __str__(self) -> str:
        return str(self._report)


def program(f):
    callable_("rune.program", f)

    @functools.wraps(f, updated=())
    def program_of(*args, **keywords) -> Program:
        return entry_of("rune.program", f, args, keywords).program

    return program_of


def explain(f):
    callable_("rune.explain", f)

    @functools.wraps(f, updated=())
    def explanation_of(*args, **keywords) -> Explanation:
        entry = entry_of("rune.explain", f, args, keywords)
        leaves = [np.asarray(x) for x in raws([x for x in flatten((args, keywords))[0] if is_dynamic(x)])]
        layouts = [native.layout_of(x) or "C" for x in leaves]
        for k in entry.consumed:
            if native.consumable(leaves[k]):
                layouts[k] = native.CONSUMED
        return Explanation(entry.program, compiled(entry.program, tuple(layouts)))

    return explanation_of


def entry_of(name: str, f: Any, args: tuple, keywords: dict) -> Entry:
    """The traced program of a call, from a compiled function's own keys where it is one."""
    if isinstance(f, Compiled):
        return f._lookup(args, keywords)[0]
    leaves, tree = flatten((args, keywords))
    return traced(name, f, leaves, tree, getattr(f, "__name__", "f"), None)
