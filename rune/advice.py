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

# By the functions and classes that ask, which are Python's.
ASKING = {
    "numpy": {
        "full": "for np.full(n, x) write np.full(n, x, like=x)",
        "full_like": "for np.full_like(plain, x) write np.full(plain.shape, x, like=x)",
        "take": "for np.take(plain, i) write np.take(rune.asarray(plain), i)",
        "RClass": "for np.r_[a, b] write np.hstack([a, b])",
        "CClass": "for np.c_[a, b] write np.column_stack([a, b])",
        "vectorize": "for np.vectorize(f)(x) write rune.vmap(f)(x), or f(x) where f is made of NumPy's functions",
        "ndenumerate": "for np.ndenumerate(x) write ((i, x[i]) for i in np.ndindex(x.shape))",
        "Polynomial": "for np.polynomial.Polynomial(c)(x) write np.polyval(c[::-1], x)",
    },
    "scipy": {
        "logsumexp": "for scipy.special.logsumexp write rune.logsumexp(x), or np.logaddexp.reduce(x)",
        "softmax": "for scipy.special.softmax write rune.softmax(x)",
        "polygamma": "for scipy.special.polygamma write rune.polygamma(n, x)",
        "log_softmax": "for scipy.special.log_softmax write rune.log_softmax(x)",
    }
    | {
        name: f"for scipy.linalg.{name} write rune.linalg.{name}"
        for name in (
            "block_diag cho_factor cho_solve circulant expm hankel lu lu_factor lu_solve solve solve_banded "
            "solve_continuous_lyapunov solve_discrete_lyapunov solve_sylvester solve_triangular solveh_banded toeplitz"
        ).split()
    }
    | {
        name: f"for scipy.linalg.{name} write np.linalg.{name}"
        for name in ("cholesky", "det", "eigh", "eigvalsh", "inv", "lstsq", "pinv", "qr", "svd")
    }
    | {
        name: f"for the {name} of scipy.stats write its formula, with scipy.special (gammaln, ndtr, log_ndtr, xlogy)"
        for name in ("cdf", "logcdf", "logpdf", "logpmf", "logsf", "pdf", "pmf", "ppf", "sf")
    },
}
SCIPY = (
    "SciPy's functions of arrays take traced values where SCIPY_ARRAY_API=1 was set before SciPy was imported "
    "and they support it, for a solver write rune.root, whose solve may read rune.detach(x), for others rune.callback"
)

# By the call in the user's source, for functions that are C code.
NUMPY = {
    "array": "for np.array([a, b]) write np.stack([a, b]), or np.array([a, b], like=x) with an array x",
    "arange": "for np.arange(start, stop, step) write start + step * np.arange(n) with a Python int n",
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
    passed = set()
    while frame is not None and (inside := library(frame)):
        for name in names_of(frame):
            if name in ASKING.get(inside, {}):
                return ASKING[inside][name]
        passed.add(inside)
        frame = frame.f_back
    if "scipy" in passed:
        return SCIPY
    call = None if frame is None else written_call(frame)
    return "" if call is None else of_call(what, frame, call)


def of_call(what: str, frame: Any, call: ast.Call) -> str:
    called = meant(frame, call.func)
    name = getattr(called, "__name__", "")
    if called is None or not name:
        return ""
    if getattr(builtins, name, None) is called:
        return BUILTINS.get(name, "")
    if getattr(math, name, None) is called:
        return f"for math.{name} write {MATH[name]}" if name in MATH else ""
    if isinstance(called, type) and issubclass(called, np.generic):
        return f"for np.{name}(x) write x.astype(np.{name})"
    for module, prefix in ((np, "np"), (np.linalg, "np.linalg")):
        if getattr(module, name, None) is called:
            lists = what == "asarray" and any(isinstance(meant(frame, x), (list, tuple)) for x in call.args)
            advice = f"for {prefix}.{name} of a list write {prefix}.{name}(np.stack(list))" if lists else ""
            return NUMPY.get(name, advice)
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


def written_call(frame: Any) -> ast.Call | None:
    """The call in the source that `frame` stands at."""
    if not dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL"):
        return None
    found = source(frame)
    return found if isinstance(found, ast.Call) else None


def meant(frame: Any, written: ast.expr) -> Any:
    """What a name, dotted or not, stands for in the frame, or a list; None for other expressions."""
    if isinstance(written, (ast.List, ast.Tuple, ast.ListComp)):
        return []
    if isinstance(written, ast.Name):
        return (frame.f_builtins | frame.f_globals | frame.f_locals).get(written.id)
    if not isinstance(written, ast.Attribute):
        return None
    x = meant(frame, written.value)
    if not isinstance(x, types.ModuleType) and not type(x).__module__.startswith("numpy.random"):
        return None  # what else has attributes may compute them
    return getattr(x, written.attr, None)


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
