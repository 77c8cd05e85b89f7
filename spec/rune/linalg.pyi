"""scipy.linalg's most used functions, for traced values too.

SciPy's functions convert their arguments to plain arrays before anything can intervene, so on a
traced value they raise `TracedValueError`, whose message names these. They have SciPy's names,
arguments and results; on plain arrays they are SciPy's own.

>>> import numpy as np
>>> import rune
>>> from rune import linalg
>>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
>>> rune.jit(lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b))(A, np.array([3.0, 4.0]))
array([1., 1.])
"""

from typing import Any

__all__ = ["block_diag", "cho_factor", "cho_solve", "expm", "solve", "solve_triangular", "toeplitz"]

def block_diag(*arrs: Any) -> Any:
    """The matrix with the given blocks on its diagonal and zeros elsewhere."""

def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """The Cholesky factor of a positive definite matrix, and whether it is the lower one.

    Traced, the other triangle holds zeros; SciPy leaves it undefined.

    Raises ``numpy.linalg.LinAlgError`` where the matrix is not positive definite.
    """

def cho_solve(c_and_lower: tuple[Any, bool], b: Any) -> Any:
    """The solution of ``a x = b``, given `cho_factor` of ``a``."""

def expm(A: Any) -> Any:
    """The matrix exponential of the last two axes, by a Padé approximant with scaling and squaring.

    >>> from rune import linalg
    >>> rune.grad(lambda t: linalg.expm(t * np.array([[0.0, 1.0], [-1.0, 0.0]]))[0, 1])(0.0)
    np.float64(1.0)

    The exponential is the rotation by ``t``, whose upper right element is sin t.
    """

def solve(a: Any, b: Any, lower: bool = False, assume_a: str | None = None, transposed: bool = False) -> Any:
    """The solution of ``a x = b``, or of the transposed system.

    ``assume_a`` states what ``a`` is: "pos" (solved by its Cholesky factor), "her", "sym", "upper
    triangular", "lower triangular", or "gen"; of a symmetric matrix the upper triangle is read, or the
    lower one with ``lower``.

    Raises ``numpy.linalg.LinAlgError`` where the matrix is singular, or not positive definite.
    """

def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """The solution of ``a x = b`` for a triangular ``a``, whose other triangle is not read.

    ``trans`` is 0 or "N" for ``a``, 1 or "T" for its transpose, 2 or "C" for its conjugate transpose.
    """

def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix that is constant along its diagonals, from its first column and its first row.

    Without ``r`` the first row is the conjugate of ``c``; the first element of ``r`` is not read.
    """
