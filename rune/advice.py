"""What to write instead of the call that asked a traced value for a plain array or number.

NumPy's functions dispatch on their arguments, not on what lists hold, and `np.array` on nothing at all;
`math` and most of SciPy convert what they are given.  The call that did so is read off the Python
frames that lead to it, and where C code was called directly off the source it was called from.
"""

from __future__ import annotations

import ast
import builtins
import dis
import itertools
import linecache
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["instead"]

LIBRARIES = ("numpy", "scipy", "rune")

# By the functions and classes of NumPy and SciPy that ask, which are Python's.
ASKING = {
    "full": "for np.full(n, x) write np.full(n, x, like=x)",
    "full_like": "for np.full_like(plain, x) write np.full(plain.shape, x, like=x)",
    "RClass": "for np.r_[a, b] write np.hstack([a, b])",
    "CClass": "for np.c_[a, b] write np.column_stack([a, b])",
    "vectorize": "for np.vectorize(f)(x) write rune.vmap(f)(x), or f(x) where f is made of NumPy's functions",
    "ndenumerate": "for np.ndenumerate(x) write ((i, x[i]) for i in np.ndindex(x.shape))",
    "Polynomial": "for np.polynomial.Polynomial(c)(x) write np.polyval(c[::-1], x)",
    "logsumexp": "for scipy.special.logsumexp write rune.logsumexp(x), or np.logaddexp.reduce(x)",
    "softmax": "for scipy.special.softmax write rune.softmax(x)",
    "polygamma": "for scipy.special.polygamma write rune.polygamma(n, x)",
    "log_softmax": "for scipy.special.log_softmax write rune.log_softmax(x)",
} | {
    name: f"for scipy.linalg.{name} write rune.linalg.{name}"
    for name in ("block_diag", "cho_factor", "cho_solve", "expm", "solve_triangular", "toeplitz")
}

# By the call in the user's source, for functions that are C code.
NUMPY = {
    "array": "for np.array([a, b]) write np.array([a, b], like=a) or np.stack([a, b])",
    "arange": "for np.arange(start, stop, step) write start + step * np.arange(n)",
    "fromiter": "for np.fromiter(items, float) write np.fromiter(items, float, like=x)",
} | {
    name: f"for np.{name}(x) write x, or rune.asarray(x) for a list or a number"
    for name in ("asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
}

BUILTINS = {
    "max": "for max(x) write np.max(x), for max(x, y) np.maximum(x, y)",
    "min": "for min(x) write np.min(x), for min(x, y) np.minimum(x, y)",
    "sorted": "for sorted(x) write np.sort(x)",
    "any": "for any(x) write np.any(x)",
    "all": "for all(x) write np.all(x)",
    "range": "for a loop over range(n) write rune.scan, or rune.iterate where n is not known",
}

MATH = {  # math's names for functions of NumPy and SciPy
    "fabs": "np.abs",
    "pow": "np.power",
    "fsum": "np.sum",
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
    "gamma": "scipy.special.gamma",
    "lgamma": "scipy.special.gammaln",
    "comb": "scipy.special.binom",
} | {name: f"np.{name}" for name in dir(math) if callable(getattr(np, name, None))}


def instead(what: str) -> str:
    """The advice for the call in the user's code that led here, to a read by `what`; "" where there is none."""
    frame = sys._getframe(1)
    while frame is not None and library(frame):
        if library(frame) != "rune":
            for name in names_of(frame):
                if name in ASKING:
                    return ASKING[name]
        frame = frame.f_back
    called = None if frame is None else written_call(frame)
    name = getattr(called, "__name__", "")
    if called is None or not name:
        return ""
    if getattr(builtins, name, None) is called:
        return BUILTINS.get(name, "")
    if getattr(math, name, None) is called:
        return f"for math.{name} write {MATH[name]}" if name in MATH else ""
    for module, prefix in ((np, "np"), (np.linalg, "np.linalg")):
        if getattr(module, name, None) is called:
            of_lists = f"for {prefix}.{name} of a list write {prefix}.{name}(np.stack(list))"
            return NUMPY.get(name, of_lists if what == "asarray" else "")
    if type(getattr(called, "__self__", None)).__module__.startswith("numpy.random"):
        return f"for NumPy's generators write rune.random, as rune.random.{name}(key, ...)"
    return ""


def library(frame: Any) -> str:
    name = frame.f_globals.get("__name__", "").partition(".")[0]
    return name if name in LIBRARIES else ""


def names_of(frame: Any) -> Iterator[str]:
    """The function that a frame of a library runs, its class, and the function that a wrapper of SciPy's holds."""
    yield type(frame.f_locals.get("self")).__name__
    yield frame.f_code.co_name
    yield getattr(frame.f_locals.get("f"), "__name__", "")


def written_call(frame: Any) -> Any:
    """What the source calls where `frame` stands; None where it is no dotted name, or there is no source."""
    if not dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL"):
        return None
    called = getattr(source(frame), "func", None)
    path: list[str] = []
    while isinstance(called, ast.Attribute):
        path.insert(0, called.attr)
        called = called.value
    if not isinstance(called, ast.Name):
        return None
    x = (frame.f_builtins | frame.f_globals | frame.f_locals).get(called.id)
    for part in path:
        if not isinstance(x, types.ModuleType) and not type(x).__module__.startswith("numpy.random"):
            return None  # what else has attributes may compute them
        x = getattr(x, part, None)
    return x


def source(frame: Any) -> ast.expr | None:
    """The expression that `frame` stands at."""
    line, last, start, end = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if line is None or start is None:
        return None
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[line - 1 : last]
    if not lines:
        return None
    encoded = [text.encode() for text in lines]  # columns are bytes
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    try:
        return ast.parse(b"(" + b"".join(encoded) + b")", mode="eval").body
    except SyntaxError:  # the file is not what was compiled
        return None
