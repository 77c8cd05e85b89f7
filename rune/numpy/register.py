"""How a function joins the tables that traced values read: one decorator on one definition.

Names are NumPy's, below `numpy` ("sum", "linalg.norm"); a name that this NumPy does not have is left
out, so newer functions need no test of the version.  Every function takes what `rune.value.unbox`
gives: plain arrays, numbers, lists and values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.value import tables

__all__ = ["attribute", "function", "method", "named"]


def named(name: str) -> Any:
    """NumPy's object of that name, or None."""
    return functools.reduce(lambda x, part: getattr(x, part, None), name.split("."), np)


def function(
    *names: str,
    method: str = "",
    view: bool = False,
    read_only: bool = False,
    writes: bool = False,
    boxed: bool = False,
) -> Callable:
    """Answer for NumPy functions, and for the method of that name.

    A *view*'s result reads and writes its first argument (not where `read_only`); one that *writes*
    returns what its first argument holds afterwards; one that is *boxed* takes and gives the user's
    arrays, and so may give one of them back or a view that depends on more than shapes.
    """

    def register(f: Callable) -> Callable:
        for name in names:
            answered = named(name)
            if answered is not None:
                tables.functions[answered] = f
        for name in method.split():
            tables.methods[name] = f
        if view:
            tables.views.add(f)
        if read_only:
            tables.read_only.add(f)
        if writes:
            tables.writes.add(f)
        if boxed:
            tables.boxed.add(f)
        code = f.__code__
        parameters = code.co_varnames[: code.co_argcount]
        if "out" in parameters:
            tables.outs[f] = parameters.index("out")
        return f

    return register


def method(name: str, **how: bool) -> Callable:
    """Answer for a method alone."""
    return function(method=name, **how)


def attribute(name: str, view: bool = False) -> Callable:
    def register(f: Callable) -> Callable:
        tables.attributes[name] = f
        if view:
            tables.views.add(f)
        return f

    return register
