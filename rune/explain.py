"""Looking inside: the traced program of a call, and what compiling did with it."""

from __future__ import annotations

import functools
from typing import Any

from rune import native
from rune.arguments import callable_, raws
from rune.jit import Compiled, Entry, traced
from rune.lower import compiled
from rune.program import Program
from rune.structure import flatten

__all__ = ["explain", "program"]


def entry_of(name: str, f: Any, args: tuple, keywords: dict) -> Entry:
    if isinstance(f, Compiled):
        return f._lookup(args, keywords)[0]
    leaves, tree = flatten((args, keywords))
    return traced(name, f, leaves, tree, True, getattr(f, "__name__", "f"), None)


def program(f):
    callable_("rune.program", f)

    @functools.wraps(f, updated=())
    def program_of(*args, **keywords) -> Program:
        return entry_of("rune.program", f, args, keywords).program

    return program_of


def explain(f):
    callable_("rune.explain", f)

    @functools.wraps(f, updated=())
    def explanation_of(*args, **keywords):
        found = entry_of("rune.explain", f, args, keywords)
        layouts = tuple(native.layout_of(x) or "C" for x in dynamic(args, keywords))
        return native.explanation(compiled(found.program, layouts))

    return explanation_of


def dynamic(args: tuple, keywords: dict) -> list:
    import numpy as np

    from rune.arguments import is_dynamic

    return [np.asarray(x) for x in raws([x for x in flatten((args, keywords))[0] if is_dynamic(x)])]
