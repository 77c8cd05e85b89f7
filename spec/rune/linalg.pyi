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

def block_diag(*arrs: Any) -> Any:
    """The matrix with the given blocks on its diagonal and zeros elsewhere; leading axes count matrices."""

def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """The Cholesky factor of a positive definite matrix, and whether it is the lower one.

    Traced, the other triangle holds zeros; SciPy leaves it undefined.

    Raises ``numpy.linalg.LinAlgError`` where the matrix is not positive definite.
    """

def cho_solve(c_and_lower: tuple[Any, bool], b: Any) -> Any:
    """The solution of ``a x = b``, given `cho_factor` of ``a``."""

def circulant(c: Any) -> Any:
    """The matrix whose first column is ``c``, and each further column the one before turned down by one.

    Leading axes count vectors.

    >>> from rune import linalg
    >>> rune.jit(linalg.circulant)(np.array([1, 2, 3]))
    array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]])
    """

def expm(A: Any) -> Any:
    """The matrix exponential of the last two axes, by a Padé approximant with scaling and squaring.

    >>> from rune import linalg
    >>> rune.grad(lambda t: linalg.expm(t * np.array([[0.0, 1.0], [-1.0, 0.0]]))[0, 1])(0.0)
    np.float64(1.0)

    The exponential is the rotation by ``t``, whose upper right element is sin t.
    """

def hankel(c: Any, r: Any = None) -> Any:
    """The matrix that is constant along its anti-diagonals, from its first column and its last row.

    Without ``r`` the last row is zeros; the first element of ``r`` is not read. Both have one axis: SciPy
    changes what more axes mean, and traced values that have them raise ``ValueError``.
    """

def lu(a: Any, permute_l: bool = False, p_indices: bool = False) -> tuple[Any, ...]:
    """The factors of matrices of any shape, the rows exchanged so that the largest pivots come first.

    They are ``(p, l, u)`` with ``a = p @ l @ u``: a permutation, a lower matrix with ones on its diagonal
    and an upper one. With ``p_indices`` the permutation is the integers ``p`` of ``a = l[p] @ u``; with
    ``permute_l`` there are two factors, ``a = pl @ u``. Leading axes count matrices.

    The derivative keeps the permutation. It divides by every pivot with rows below it; where such a pivot
    is zero the columns before it do not decide ``l``, and the derivative is not finite.

    >>> from rune import linalg
    >>> a = np.array([[1.0, 2.0], [2.0, 3.0]])
    >>> linalg.lu(a)[2]
    array([[2. , 3. ],
           [0. , 0.5]])
    >>> rune.grad(lambda a: linalg.lu(a)[2][1, 1])(a)
    array([[-1.5 ,  1.  ],
           [ 0.75, -0.5 ]])

    The rows are exchanged, so the last pivot is ``a01 - a00 a11 / a10``: its derivatives are -3 / 2, 1,
    1 * 3 / 4 and -1 / 2.

    de Hoog, Anderssen and Lukas, "Differentiation of matrix functionals using triangular factorization"
    (2011); Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2010).
    """

def lu_factor(a: Any) -> tuple[Any, Any]:
    """Both factors of `lu` in one array, and for each pivot the row that was exchanged with its own.

    A singular matrix has a pivot of zero. SciPy warns of it on plain arrays; traced, nothing does.
    """

def lu_solve(lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0) -> Any:
    """The solution of ``a x = b``, given `lu_factor` of ``a``, by two triangular solves.

    ``trans`` is 0 for ``a``, 1 for its transpose, 2 for its conjugate transpose. Where a pivot is zero the
    solution is not finite, as SciPy's.

    >>> from rune import linalg
    >>> factors = linalg.lu_factor(np.array([[1.0, 2.0], [2.0, 3.0]]))
    >>> rune.grad(lambda b: linalg.lu_solve(factors, b)[0])(np.array([1.0, 1.0]))
    array([-3.,  2.])

    The gradient is the first row of the inverse, [[-3, 2], [2, -1]].

    Raises ``IndexError`` where ``piv`` names no row.
    """

def solve(a: Any, b: Any, lower: bool = False, assume_a: str | None = None, transposed: bool = False) -> Any:
    """The solution of ``a x = b``, or of the transposed system.

    ``assume_a`` states what ``a`` is: "pos" (solved by its Cholesky factor), "her", "sym", "upper
    triangular", "lower triangular", or "gen"; of a symmetric matrix the upper triangle is read, or the
    lower one with ``lower``.

    Raises ``numpy.linalg.LinAlgError`` where the matrix is singular, or not positive definite.
    """

def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any) -> Any:
    """The solution of ``a x = b`` for a matrix with ``l`` diagonals below its own and ``u`` above.

    ``ab`` holds them in its rows, the uppermost first: ``ab[u + i - j, j] = a[i, j]``; its corners that
    stand for no element are not read. The time and memory are those of the diagonals. Leading axes count
    systems; a ``b`` of one axis is one vector, else its columns are the right-hand sides.

    >>> from rune import linalg
    >>> ab = np.array([[0.0, 1.0, 1.0], [2.0, 2.0, 2.0], [1.0, 1.0, 0.0]])
    >>> rune.jit(lambda ab, b: linalg.solve_banded((1, 1), ab, b))(ab, np.array([3.0, 4.0, 3.0])).round(12)
    array([1., 1., 1.])

    Raises ``numpy.linalg.LinAlgError`` where the matrix is singular.
    """

def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The solution of ``a x + x a^H = q``; leading axes count equations. See `solve_sylvester`."""

def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """The solution of ``a x a^H - x + q = 0``; leading axes count equations.

    ``method`` is "direct", one system in all elements of ``x``, which is what fewer than ten rows take, or
    "bilinear", by a continuous equation, which needs that -1 is no eigenvalue of ``a``.

    >>> from rune import linalg
    >>> rune.grad(lambda a: linalg.solve_discrete_lyapunov(a, np.eye(1))[0, 0])(np.array([[0.5]])).round(12)
    array([[1.77777778]])

    The variance of ``x' = a x + noise`` is 1 / (1 - a^2), whose derivative is 2 a / (1 - a^2)^2 = 16 / 9.
    """

def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The solution of ``a x + x b = q``, by Schur factors of ``a`` and ``b``; leading axes count equations.

    >>> from rune import linalg
    >>> a = np.array([[1.0, 0.0], [0.0, 3.0]])
    >>> rune.grad(lambda q: linalg.solve_sylvester(a, a, q)[0, 1])(np.ones((2, 2)))
    array([[0.  , 0.25],
           [0.  , 0.  ]])

    The matrices are diagonal, so ``x01`` is ``q01`` over the sum of 1 and 3.

    There is one solution where no eigenvalue of ``a`` is that of ``-b``; where one is, LAPACK disturbs it,
    and the solution is large, as SciPy's. Raises ``numpy.linalg.LinAlgError`` where an element of ``a`` or
    ``b`` is not finite.
    """

def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """The solution of ``a x = b`` for a triangular ``a``, whose other triangle is not read.

    ``trans`` is 0 or "N" for ``a``, 1 or "T" for its transpose, 2 or "C" for its conjugate transpose.
    """

def solveh_banded(ab: Any, b: Any, lower: bool = False) -> Any:
    """The solution of ``a x = b`` for a positive definite band matrix, by its Cholesky factor.

    ``ab`` holds one half of the diagonals as `solve_banded` has them: the main one last, or first with
    ``lower``. Leading axes count systems.

    Raises ``numpy.linalg.LinAlgError`` where the matrix is not positive definite.
    """

def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix that is constant along its diagonals, from its first column and its first row.

    Without ``r`` the first row is the conjugate of ``c``; the first element of ``r`` is not read.
    Leading axes count vectors.
    """
