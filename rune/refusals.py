"""What a traced value answers where it cannot be read, held by something plain, or given to a function.

An error says what was asked for, which transformation traces the value, and what to write instead.
"""

from __future__ import annotations

import numpy as np

from rune.advice import instead
from rune.level import Level, TracedValueError

__all__ = ["NUMBERS", "unanswered", "unheld", "unread"]

NUMBERS = ("float", "int", "complex")
PLAIN = {
    "float": "a Python float cannot hold it: use NumPy's functions, and write into rune.asarray(plain) or np.zeros_like(x)",
    "int": "a Python int cannot hold it: use x.astype(int), and static_argnames for a size",
    "complex": "a Python complex cannot hold it: use NumPy's functions, and write into rune.asarray(plain) or np.zeros_like(x)",
    "index": "use rune.asarray(x)[i] to index by it, x[i + np.arange(n)] for x[i : i + n], static_argnames for a shape",
    "asarray": "a plain array cannot hold it: build with np.stack, np.concatenate or np.array(..., like=x), index with rune.asarray(plain)[i], "
    "write into rune.asarray(plain) or np.zeros_like(x), multiply with plain @ x",
    "pickle": "return it from the function and pickle the result",
}
READ = {
    "bool": "its value is not known here: choose with np.where, branch with rune.cond, or name the argument in static_argnames",
    "item": "its value is not known here: compute with the array, or read the result outside",
    "format": "its value is not known here: write it without a format, as in f'{x}', or print the result outside",
}


def unread(what: str, why: TracedValueError) -> TracedValueError:
    """A value that is not known was read by `what`."""
    return TracedValueError(f"{what}: {why}; {advised(what, READ.get(what, READ['item']))}")


def unheld(what: str, level: Level, known: bool) -> TracedValueError:
    """A value, known or not, was to become something plain, which has no derivative."""
    advice = advised(what, PLAIN[what])
    if known and what in NUMBERS:
        advice += "; x.item() reads the value, without its derivative"
    return TracedValueError(f"{what}: the value is traced by {level.name}; {advice}")


def advised(what: str, general: str) -> str:
    """Why a call is refused, and what to write for it: for what the user wrote where that is known, else in general."""
    known = instead(what)
    reason, colon, _ = general.partition(": ")
    return f"{reason}{colon}{known}" if known and colon else known or general


def unanswered(level: Level, ufunc: np.ufunc) -> TypeError:
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return TypeError(f"{level.name}: numpy.{name} has no rule")
    return TypeError(
        f"{level.name}: the ufunc {name} has no rule: call it with rune.callback, and give its derivative with rune.custom_jvp"
    )
