"""scipy.linalg's most used functions, for traced values too.

SciPy's functions convert their arguments to plain arrays before anything can intervene.  These have
the same names and results; on plain arrays they are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune import _spec
from rune.loops import scan
from rune.numpy import matrices
from rune.value import box, first_traced, unbox

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "circulant",
    "expm",
    "hankel",
    "lu",
    "lu_factor",
    "lu_solve",
    "solve",
    "solve_banded",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "solveh_banded",
    "toeplitz",
]


def either(name: str, args: tuple, **keywords: Any) -> Any:
    """SciPy's function on plain arrays, ours where a value is traced."""
    if first_traced(args) is None:
        import scipy.linalg

        return getattr(scipy.linalg, name)(*args, **keywords)
    f: Callable = getattr(matrices, name)
    return box(f(*unbox(args), **keywords))


def block_diag(*arrs):
    return either("block_diag", arrs)


def cho_factor(a, lower=False):
    return either("cho_factor", (a,), lower=lower)


def cho_solve(c_and_lower, b):
    return either("cho_solve", (tuple(c_and_lower), b))


def circulant(c):
    return either("circulant", (c,))


def expm(A):
    if first_traced(A) is None:
        return either("expm", (A,))
    power, times = box(matrices.scaled_exponential(unbox(A)))
    more = np.arange(float(matrices.known_rounds(unbox(times))))
    square = lambda x, k: (np.where((k < times)[..., None, None], x @ x, x), None)
    return scan(square, power, more)[0]


def hankel(c, r=None):
    return either("hankel", (c,) if r is None else (c, r))


def lu(a, permute_l=False, p_indices=False):
    return either("lu", (a,), permute_l=permute_l, p_indices=p_indices)


def lu_factor(a):
    return either("lu_factor", (a,))


def lu_solve(lu_and_piv, b, trans=0):
    return either("lu_solve", (tuple(lu_and_piv), b), trans=trans)


def solve(a, b, lower=False, assume_a=None, transposed=False):
    return either("solve", (a, b), lower=lower, assume_a=assume_a, transposed=transposed)


def solve_banded(l_and_u, ab, b):
    return either("solve_banded", (tuple(l_and_u), ab, b))


def solve_continuous_lyapunov(a, q):
    return either("solve_continuous_lyapunov", (a, q))


def solve_discrete_lyapunov(a, q, method=None):
    return either("solve_discrete_lyapunov", (a, q), method=method)


def solve_sylvester(a, b, q):
    return either("solve_sylvester", (a, b, q))


def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False):
    return either("solve_triangular", (a, b), trans=trans, lower=lower, unit_diagonal=unit_diagonal)


def solveh_banded(ab, b, lower=False):
    return either("solveh_banded", (ab, b), lower=lower)


def toeplitz(c, r=None):
    return either("toeplitz", (c,) if r is None else (c, r))


_spec.document(globals())
