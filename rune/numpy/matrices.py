"""scipy.linalg's most used functions over values: SciPy's own read their arguments as plain arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from rune.level import TracedValueError, Value
from rune.numpy.arguments import asarray, dtype_of, inexact, promote, real_dtype, shape_of
from rune.numpy.elementwise import conjugate
from rune.numpy.joining import concatenate
from rune.numpy.linalg import H, eye, matrices, stated
from rune.numpy.linalg import solve as general_solve
from rune.numpy.products import matmul
from rune.numpy.reductions import reduced
from rune.numpy.shapes import swap_last
from rune.numpy.sorting import argsort, take
from rune.numpy.triangles import tril, triu
from rune.primitives import banded, linalg, movement
from rune.primitives import lu as pivoted
from rune.primitives.determinant import rows_in_order
from rune.primitives.indexing import gather
from rune.primitives.map import cast
from rune.primitives.scalar import e
from rune.primitives.sylvester import sylvester

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "circulant",
    "hankel",
    "known_rounds",
    "lu",
    "lu_factor",
    "lu_solve",
    "scaled_exponential",
    "solve",
    "solve_banded",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "solveh_banded",
    "toeplitz",
]


def columns(b: Any) -> tuple:
    """`b` with its columns as a last axis, and whether it was one vector."""
    b = asarray(b)
    vector = len(shape_of(b)) == 1
    return movement.reshape(b, (*shape_of(b), 1)) if vector else b, vector


def lead_equal(a: Any, b: Any) -> list:
    """Both operands with the same leading axes."""
    lead = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    return [movement.broadcast(x, lead + shape_of(x)[-2:]) for x in (a, b)]


def solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False) -> Any:
    b, vector = columns(b)
    a, b = matrices(a, inexact(b))
    if shape_of(a)[-1] != shape_of(b)[-2]:
        raise ValueError(f"shapes of a {shape_of(a)} and b {shape_of(b)} are incompatible")
    turn = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}[trans]
    a = conjugate(a) if turn == 2 else a
    a, b = lead_equal(a, b)
    x = linalg.triangular_solve(a, b, lower=bool(lower), transpose=bool(turn), unit=bool(unit_diagonal))
    return movement.reshape(x, shape_of(x)[:-1]) if vector else x


def cho_factor(a: Any, lower: bool = False) -> tuple:
    """The Cholesky factor in the triangle asked for, zeros in the other."""
    (a,) = matrices(a, square=True)
    c = linalg.cholesky(a) if lower else H(linalg.cholesky(H(a)))
    return c, bool(lower)


def cho_solve(c_and_lower: tuple, b: Any) -> Any:
    c, lower = c_and_lower
    first, second = (0, "C") if lower else ("C", 0)
    return solve_triangular(c, solve_triangular(c, b, first, lower), second, lower)


def solve(a: Any, b: Any, lower: bool = False, assume_a: str | None = None, transposed: bool = False) -> Any:
    """`a x = b`, where only what `assume_a` says of `a` is read."""
    (a,) = matrices(a, square=True)
    lower = {"upper triangular": False, "lower triangular": True}.get(assume_a, lower)
    if transposed:
        a, lower = swap_last(a), not lower
    if assume_a in ("pos", "positive definite"):
        return cho_solve(cho_factor(a, lower), b)
    if assume_a in ("upper triangular", "lower triangular"):
        return solve_triangular(a, b, lower=lower)
    if assume_a in ("her", "hermitian"):
        a = stated(a, "L" if lower else "U")
    elif assume_a in ("sym", "symmetric"):
        read = np.tri(shape_of(a)[-1], dtype=bool)
        a = e.select(read if lower else read.T, a, swap_last(a))
    elif assume_a not in (None, "gen", "general", "diagonal", "tridiagonal", "banded"):
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return general_solve(a, b)


def lu(a: Any, permute_l: bool = False, p_indices: bool = False) -> tuple:
    """`a = p @ l @ u`, or `l[p] @ u`, or `pl @ u`."""
    (a,) = matrices(a)
    factors, order, _ = pivoted.factors(a)
    m, n = shape_of(a)[-2:]
    last, k = len(shape_of(a)) - 1, min(m, n)
    low = e.add(tril(movement.part(factors, last, 0, k), -1), np.eye(m, k, dtype=dtype_of(a)))
    up = triu(movement.part(factors, last - 1, 0, k))
    rows = argsort(order)
    if permute_l:
        return rows_in_order(low, rows), up
    if p_indices:
        return cast(rows, np.int32), low, up
    places = e.eq(movement.reshape(rows, (*shape_of(rows), 1)), np.arange(m))
    return cast(places, real_dtype(dtype_of(a))), low, up


def lu_factor(a: Any) -> tuple:
    factors, _, exchanges = pivoted.factors(*matrices(a))
    return factors, exchanges


def lu_solve(lu_and_piv: tuple, b: Any, trans: Any = 0) -> Any:
    factors, exchanges = lu_and_piv
    b, vector = columns(b)
    (factors,) = matrices(factors, square=True)
    factors, b = matrices(factors, inexact(b))
    exchanges, n = asarray(exchanges), shape_of(factors)[-1]
    if dtype_of(exchanges).kind not in "iu":
        raise TypeError(
            f"rune.linalg.lu_solve: piv: {dtype_of(exchanges)} where the integers of lu_factor are needed"
        )
    if shape_of(exchanges) != shape_of(factors)[:-1]:
        raise ValueError(
            f"rune.linalg.lu_solve: piv has shape {shape_of(exchanges)}, lu {shape_of(factors)}: give both as lu_factor does"
        )
    if shape_of(b)[-2] != n:
        raise ValueError(
            f"rune.linalg.lu_solve: lu has shape {shape_of(factors)}, b {shape_of(b)[: -1 if vector else None]}"
        )
    if trans not in (0, 1, 2):
        raise ValueError(
            f"rune.linalg.lu_solve: trans is {trans!r}: use 0, 1 (transposed) or 2 (and conjugated)"
        )
    order = pivoted.row_order(gather(np.arange(n), [exchanges]), n)
    factors = conjugate(factors) if trans == 2 else factors
    lead = np.broadcast_shapes(shape_of(factors)[:-2], shape_of(b)[:-2])
    order = movement.broadcast(order, (*lead, n))
    factors, b = lead_equal(factors, b)
    by_low = lambda b: linalg.triangular_solve(factors, b, lower=True, transpose=bool(trans), unit=True)
    by_up = lambda b: linalg.triangular_solve(factors, b, lower=False, transpose=bool(trans))
    if trans:
        x = rows_in_order(by_low(by_up(b)), argsort(order))
    else:
        x = by_up(by_low(rows_in_order(b, order)))
    return movement.reshape(x, shape_of(x)[:-1]) if vector else x


def solve_banded(l_and_u: tuple, ab: Any, b: Any) -> Any:
    """`a x = b`, where `ab[u + i - j, j] = a[i, j]`."""
    lower, upper = map(operator.index, l_and_u)
    b, vector = columns(b)
    ab, b = matrices(ab, inexact(b))
    width, n = shape_of(ab)[-2:]
    if min(lower, upper) < 0 or width != lower + upper + 1:
        raise ValueError(
            f"rune.linalg.solve_banded: ab has {width} diagonals, l_and_u {(lower, upper)} makes {lower + upper + 1}"
        )
    if shape_of(b)[-2] != n:
        raise ValueError(
            f"rune.linalg.solve_banded: ab has {n} columns, b shape {shape_of(b)[: -1 if vector else None]}"
        )
    x = banded.solve(*lead_equal(ab, b), lower, upper)
    return movement.reshape(x, shape_of(x)[:-1]) if vector else x


def solveh_banded(ab: Any, b: Any, lower: bool = False) -> Any:
    """`a x = b` for a positive definite matrix, of whose diagonals one half is given."""
    b, vector = columns(b)
    ab, b = matrices(ab, inexact(b))
    width, n = shape_of(ab)[-2:]
    if shape_of(b)[-2] != n:
        raise ValueError(
            f"rune.linalg.solveh_banded: ab has {n} columns, b shape {shape_of(b)[: -1 if vector else None]}"
        )
    axis, own = len(shape_of(ab)) - 2, 0 if lower else width - 1
    diagonal = lambda k: movement.part(ab, axis, k, k + 1)

    def opposite(k: int) -> Any:
        """The diagonal that is as far from the main one on the other side."""
        return conjugate(swap_last(banded.moved_down(swap_last(diagonal(k)), k - own)))

    main = diagonal(own)
    if dtype_of(ab).kind == "c":
        # LAPACK reads the real part of the diagonal.
        main = e.complex(e.real(main), real_dtype(dtype_of(ab)).type(0))
    others = range(1, width) if lower else range(width - 1)
    given, other = [diagonal(k) for k in others], [opposite(k) for k in reversed(others)]
    rows = [*other, main, *given] if lower else [*given, main, *other]
    x = banded.solve_definite(*lead_equal(concatenate(rows, -2), b))
    return movement.reshape(x, shape_of(x)[:-1]) if vector else x


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """`a x + x b = q`."""
    (a,), (b,) = matrices(a, square=True), matrices(b, square=True)
    a, b, q = matrices(a, b, q)
    m, n = shape_of(a)[-1], shape_of(b)[-1]
    if shape_of(q)[-2:] != (m, n):
        raise ValueError(
            f"rune.linalg.solve_sylvester: q has shape {shape_of(q)}, where a and b have {m} and {n} rows"
        )
    lead = np.broadcast_shapes(*(shape_of(x)[:-2] for x in (a, b, q)))
    return sylvester(*(movement.broadcast(x, lead + shape_of(x)[-2:]) for x in (a, b, q)))


def of_one_shape(name: str, a: Any, q: Any) -> list:
    a, q = matrices(a, q, square=True)
    if shape_of(a)[-1] != shape_of(q)[-1]:
        raise ValueError(
            f"rune.linalg.{name}: a has shape {shape_of(a)}, q {shape_of(q)}: they need as many rows"
        )
    return lead_equal(a, q)


def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """`a x + x a^H = q`."""
    a, q = of_one_shape("solve_continuous_lyapunov", a, q)
    return sylvester(a, H(a), q)


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """`a x a^H - x + q = 0`: as equations in the elements of x, or bilinear, by a continuous equation."""
    a, q = of_one_shape("solve_discrete_lyapunov", a, q)
    *lead, n, _ = shape_of(a)
    method = (method or ("bilinear" if n >= 10 else "direct")).lower()
    if method == "direct":
        by_row = movement.reshape(a, (*lead, n, 1, n, 1))
        by_column = movement.reshape(conjugate(a), (*lead, 1, n, 1, n))
        both = movement.reshape(e.mul(by_row, by_column), (*lead, n * n, n * n))
        x = linalg.solve(e.sub(eye(n * n, both), both), movement.reshape(q, (*lead, n * n, 1)))
        return movement.reshape(x, (*lead, n, n))
    if method == "bilinear":
        # with b = (a + 1)^-1 (a - 1): b x + x b^H = -2 (a + 1)^-1 q (a + 1)^-H
        one = eye(n, a)
        more = e.add(a, one)
        left = linalg.solve(more, concatenate([e.sub(a, one), q], -1))
        b, half = movement.part(left, len(lead) + 1, 0, n), movement.part(left, len(lead) + 1, n, 2 * n)
        return sylvester(b, H(b), e.mul(-2.0, H(linalg.solve(more, H(half)))))
    raise ValueError(f"rune.linalg.solve_discrete_lyapunov: method {method!r}: use 'direct' or 'bilinear'")


PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
THETA = {np.dtype(np.float64): 5.371920351148152, np.dtype(np.float32): 3.925724783138660}
SQUARINGS = 16  # where the norm is not known: enough for norms up to 2^16 times theta


def scaled_exponential(A: Any) -> tuple:
    """exp(A / 2^k), and k: how often it must be squared, so that the approximant is exact to rounding.

    The [13/13] Padé approximant with scaling and squaring (Higham, 2005).
    """
    (a,) = matrices(A, square=True)
    theta = THETA[np.dtype(np.float32) if dtype_of(a).char in "fF" else np.dtype(np.float64)]
    norm = reduced("max", reduced("sum", e.abs(a), -2), -1, initial=0)
    times = e.minimum(e.maximum(e.ceil(e.log2(e.div(norm, theta))), 0.0), float(SQUARINGS))
    scale = movement.reshape(e.exp2(e.neg(times)), (*shape_of(times), 1, 1))
    return pade(e.mul(a, scale)), times


def known_rounds(times: Any) -> int:
    """How many squarings are needed at most."""
    if isinstance(times, Value):
        try:
            times = times.level.concrete(times)
        except TracedValueError:
            return SQUARINGS
    return int(np.max(times))


def pade(a: Any) -> Any:
    b, one = PADE, eye(shape_of(a)[-1], a)
    a2 = matmul(a, a)
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)

    def polynomial(high: tuple, low: tuple) -> Any:
        """a6 (h0 a6 + h1 a4 + h2 a2) + l0 a6 + l1 a4 + l2 a2 + l3, by powers of a^2."""
        powers = (a6, a4, a2)
        total = lambda cs: [e.mul(c, p) for c, p in zip(cs, powers, strict=True)]
        add = lambda terms: terms[0] if len(terms) == 1 else e.add(terms[0], add(terms[1:]))
        return add([matmul(a6, add(total(high))), *total(low[:3]), e.mul(low[3], one)])

    u = matmul(a, polynomial((b[13], b[11], b[9]), (b[7], b[5], b[3], b[1])))
    v = polynomial((b[12], b[10], b[8]), (b[6], b[4], b[2], b[0]))
    return linalg.solve(e.sub(v, u), e.add(v, u))


def block_diag(*arrs: Any) -> Any:
    blocks = [asarray(a) for a in arrs] or [np.zeros((1, 0))]
    blocks = promote(*(movement.reshape(a, (1,) * (2 - len(shape_of(a))) + shape_of(a)) for a in blocks))
    lead = np.broadcast_shapes(*(shape_of(a)[:-2] for a in blocks))
    width = sum(shape_of(a)[-1] for a in blocks)
    none = (0,) * (len(lead) + 1)
    rows, before = [], 0
    for a in blocks:
        m, n = shape_of(a)[-2:]
        whole = movement.broadcast(a, (*lead, m, n))
        rows.append(movement.pad(whole, (*none, before), (*none, width - before - n)))
        before += n
    return movement.concatenate(rows, len(lead))


def vector(x: Any) -> Any:
    """A number as a vector of one element; the leading axes of others count vectors."""
    x = asarray(x)
    return x if shape_of(x) else movement.reshape(x, (1,))


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix constant along its diagonals: first column c, first row r (its first element is c's)."""
    c = vector(c)
    r = conjugate(c) if r is None else vector(r)
    m, n = shape_of(c)[-1], shape_of(r)[-1]
    lead = np.broadcast_shapes(shape_of(c)[:-1], shape_of(r)[:-1])
    c, r = movement.broadcast(c, (*lead, m)), movement.broadcast(r, (*lead, n))
    both = concatenate([movement.flip(c, (len(lead),)), movement.part(r, len(lead), min(1, n), n)], -1)
    return take(both, np.arange(m - 1, -1, -1)[:, None] + np.arange(n), -1)


def circulant(c: Any) -> Any:
    """The matrix whose columns are c, each turned down by one against the one before."""
    c = vector(c)
    places = np.arange(shape_of(c)[-1])
    return take(c, (places[:, None] - places) % max(len(places), 1), -1)


def hankel(c: Any, r: Any = None) -> Any:
    """The matrix constant along its anti-diagonals: first column c, last row r (its first element is c's)."""
    c = asarray(c)
    r = np.zeros(shape_of(c), dtype_of(c)) if r is None else asarray(r)
    for name, x in (("c", c), ("r", r)):
        if len(shape_of(x)) != 1:
            raise ValueError(
                f"rune.linalg.hankel: {name}: shape {list(shape_of(x))}, one axis is needed: give x.ravel()"
            )
    m, n = shape_of(c)[0], shape_of(r)[0]
    both = concatenate([c, movement.part(r, 0, min(1, n), n)])
    return take(both, np.arange(m)[:, None] + np.arange(n), 0)
