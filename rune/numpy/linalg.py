"""numpy.linalg: systems, factorisations, determinants and norms over the last two axes."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import (
    asarray,
    axes_of,
    dtype_of,
    inexact,
    integer,
    known,
    lifted,
    promote,
    real_dtype,
    shape_of,
)
from rune.numpy.elementwise import conjugate
from rune.numpy.products import matmul
from rune.numpy.reductions import reduced, safe_root
from rune.numpy.register import function
from rune.numpy.shapes import moveaxis, swap_last
from rune.numpy.sorting import argsort, take_along_axis
from rune.numpy.triangles import diagonal
from rune.primitives import determinant, factor, linalg, movement
from rune.primitives.map import cast
from rune.primitives.reduce import reduce
from rune.primitives.scalar import e
from rune.trace import record

__all__ = ["H", "eigvals", "eye", "inv", "lstsq", "matrices", "norm", "solve", "stated"]


def computable(x: Any) -> Any:
    x = inexact(asarray(x))
    if dtype_of(x) == np.float16:
        raise TypeError("array type float16 is unsupported in linalg")
    return x


def matrices(*xs: Any, square: bool = False) -> list:
    """The arguments as arrays of matrices, floating or complex, in their common dtype."""
    xs = promote(*map(computable, xs))
    for x in xs:
        if len(shape_of(x)) < 2:
            raise np.linalg.LinAlgError(
                f"{len(shape_of(x))}-dimensional array given. Array must be at least two-dimensional"
            )
        if square and shape_of(x)[-1] != shape_of(x)[-2]:
            raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return xs


def H(a: Any) -> Any:
    return conjugate(swap_last(a))


def eye(n: int, like: Any) -> Any:
    return np.broadcast_to(np.eye(n, dtype=dtype_of(like)), (*shape_of(like)[:-2], n, n))


# Systems


@function("linalg.solve")
def solve(a, b):
    a, b = asarray(a), asarray(b)
    vector = len(shape_of(b)) == 1
    if vector:
        b = movement.reshape(b, (*shape_of(b), 1))
    (a,) = matrices(a, square=True)
    a, b = promote(a, computable(b))
    n = shape_of(a)[-1]
    if len(shape_of(b)) < 2 or shape_of(b)[-2] != n:
        raise ValueError(
            f"solve: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (m,m),(m,n)->(m,n) "
            f"(size {shape_of(b)[-2] if len(shape_of(b)) > 1 else 1} is different from {n})"
        )
    lead = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    factors = linalg.lu(a)
    whole = [
        movement.broadcast(x, lead + shape_of(x)[-k:])
        for x, k in ((a, 2), (factors[0], 2), (factors[1], 1), (b, 2))
    ]
    x = linalg.bind(linalg.solve_, whole, {"transpose": False})[0]
    return movement.reshape(x, shape_of(x)[:-1]) if vector else x


@function("linalg.inv")
def inv(a):
    (a,) = matrices(a, square=True)
    return linalg.solve(a, eye(shape_of(a)[-1], a))


@function("linalg.tensorsolve")
def tensorsolve(a, b, axes=None):
    a, b = asarray(a), asarray(b)
    if axes is not None:
        a = moveaxis(a, axes, tuple(range(-len(axes), 0)))
    n = len(shape_of(b))
    rest = shape_of(a)[n:]
    size = math.prod(rest)
    x = solve(
        movement.reshape(a, (math.prod(shape_of(a)[:n]), size)),
        movement.reshape(b, (math.prod(shape_of(b)),)),
    )
    return movement.reshape(x, rest)


@function("linalg.tensorinv")
def tensorinv(a, ind=2):
    a = asarray(a)
    shape, ind = shape_of(a), integer(ind)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    rows = math.prod(shape[:ind])
    return movement.reshape(
        inv(movement.reshape(a, (rows, math.prod(shape[ind:])))), shape[ind:] + shape[:ind]
    )


def of_each(tolerance: Any) -> Any:
    """A tolerance, one for each matrix, beside their singular values."""
    tolerance = asarray(tolerance)
    return movement.reshape(tolerance, (*shape_of(tolerance), 1))


def by_singular_values(a, rcond):
    """The pseudo-inverse as NumPy computes it; `rcond` is a number, or one per matrix with an axis of 1."""
    u, s, vh = factor.svd(a)
    large = e.gt(s, e.mul(rcond, reduced("max", s, -1, True)))
    inverse = e.select(large, e.div(1.0, e.select(large, s, 1.0)), 0.0)
    return matmul(H(vh), e.mul(movement.reshape(inverse, (*shape_of(inverse), 1)), H(u)))


@functools.lru_cache(maxsize=256)
def pinv_program(type, rcond):
    return record("pinv", [type], lambda args: [by_singular_values(args[0], rcond)])[0]


factor.Pinv.program = staticmethod(pinv_program)


@function("linalg.pinv")
def pinv(a, rcond=None, hermitian=False, *, rtol=None):
    a = asarray(a)
    if rcond is not None and rtol is not None and rtol is not np._NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if len(shape_of(a)) > 1 and 0 in shape_of(a)[-2:]:
        return swap_last(a)
    (a,) = [stated(a, "L")] if hermitian else matrices(a)
    if rcond is None:
        rcond = (
            1e-15
            if rtol is None
            else max(shape_of(a)[-2:]) * np.finfo(dtype_of(a)).eps
            if rtol is np._NoValue
            else rtol
        )
    if isinstance(rcond, Value) or np.ndim(rcond):
        return by_singular_values(a, of_each(rcond))
    return factor.pinv(a, float(rcond))


@function("linalg.lstsq")
def lstsq(a, b, rcond=None):
    """(x, residuals, rank, singular values); there are residuals where a matrix of full rank leaves some."""
    a, b, rcond = asarray(a), asarray(b), known("rcond", rcond)
    vector = len(shape_of(b)) == 1
    a, b = matrices(a, movement.reshape(b, (*shape_of(b), 1)) if vector else b)
    m, n = shape_of(a)
    if shape_of(b)[0] != m:
        raise np.linalg.LinAlgError("Incompatible dimensions")
    smallest = np.finfo(dtype_of(a)).eps
    rcond = max(m, n) * smallest if rcond is None else smallest if rcond < 0 else rcond
    x, s = matmul(pinv(a, rcond), b), svdvals(a)
    rank = reduced("sum", e.gt(s, e.mul(reduced("max", s, -1, True, initial=0), rcond)), -1)
    away = e.sub(b, matmul(a, x))
    residuals = reduce("sum", squared(away), (0,)) if m > n else np.empty(0, real_dtype(dtype_of(a)))
    x = movement.reshape(x, (n,)) if vector else x
    return x, residuals, cast(rank, np.int32), s


def squared(x: Any) -> Any:
    """|x|^2, which is real."""
    return e.add(e.square(e.real(x)), e.square(e.imag(x))) if dtype_of(x).kind == "c" else e.square(x)


# Determinants


@functools.lru_cache(maxsize=256)
def determinant_program(type):
    return record("det", [type], lambda args: determinant.by_factors(*args))[0]


@functools.lru_cache(maxsize=256)
def slogdet_program(type):
    return record("slogdet", [type], lambda args: determinant.logarithm_by_factors(*args))[0]


determinant.Det.program = staticmethod(determinant_program)
determinant.SlogDet.program = staticmethod(slogdet_program)


@function("linalg.det")
def det(a):
    return determinant.det(*matrices(a, square=True))


SlogdetResult = type(np.linalg.slogdet(np.eye(1)))
EighResult = type(np.linalg.eigh(np.eye(1)))
EigResult = type(np.linalg.eig(np.eye(1)))
SVDResult = type(np.linalg.svd(np.eye(1)))
QRResult = type(np.linalg.qr(np.eye(1)))


@function("linalg.slogdet")
def slogdet(a):
    return SlogdetResult(*determinant.slogdet(*matrices(a, square=True)))


# Factorisations


@function("linalg.cholesky")
def cholesky(a, /, *, upper=False):
    (a,) = matrices(a, square=True)
    return H(linalg.cholesky(H(a))) if upper else linalg.cholesky(a)


def stated(a: Any, UPLO: str) -> Any:
    """The Hermitian matrix that one triangle of `a` states."""
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    (a,) = matrices(a, square=True)
    n = shape_of(a)[-1]
    read = np.tri(n, dtype=bool)
    read = read if UPLO.upper() == "L" else read.T
    if dtype_of(a).kind == "c":
        # LAPACK reads the real part of the diagonal.
        a = e.select(np.eye(n, dtype=bool), e.complex(e.real(a), real_dtype(dtype_of(a)).type(0)), a)
    return e.select(read, a, H(a))


@function("linalg.eigh")
def eigh(a, UPLO="L"):
    return EighResult(*factor.eigh(stated(a, UPLO), UPLO.upper()))


@function("linalg.eigvalsh")
def eigvalsh(a, UPLO="L"):
    return factor.eigh(stated(a, UPLO))[0]


@function("linalg.eig")
def eig(a):
    return EigResult(*factor.eig(*matrices(a, square=True)))


@function("linalg.eigvals")
def eigvals(a):
    return factor.eig(*matrices(a, square=True))[0]


@function("linalg.svd")
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    if hermitian:
        found = by_eigenvalues(stated(a, "L"))
    else:
        (a,) = matrices(a)
        m, n = shape_of(a)[-2:]
        found = factor.svd(a, bool(compute_uv), bool(full_matrices) and m != n and compute_uv)
    return SVDResult(*found) if compute_uv else found[len(found) // 2]


def by_eigenvalues(a: Any) -> tuple:
    """The singular values and vectors of a Hermitian matrix, in NumPy's order and with its signs."""
    w, v = factor.eigh(a)
    order = movement.flip(argsort(e.abs(w)), (len(shape_of(w)) - 1,))
    w = take_along_axis(w, order, -1)
    row = lambda x: movement.reshape(x, (*shape_of(x)[:-1], 1, shape_of(x)[-1]))
    u = take_along_axis(v, row(order), -1)
    return u, e.abs(w), H(e.mul(u, row(e.sign(w))))


@function("linalg.svdvals")
def svdvals(x, /):
    return svd(x, compute_uv=False)


@function("linalg.qr")
def qr(a, mode="reduced"):
    (a,) = matrices(a)
    m, n = shape_of(a)[-2:]
    if mode not in ("reduced", "complete", "r"):
        raise TypeError(
            f"numpy.linalg.qr: mode {mode!r} is not supported for traced values: use 'reduced', 'complete' or 'r'"
        )
    if m < n:
        # Q comes from the leading square block, which alone decides it.
        axis = len(shape_of(a)) - 1
        q, r = factor.qr(movement.part(a, axis, 0, m))
        r = movement.concatenate([r, matmul(H(q), movement.part(a, axis, m, n))], axis)
    else:
        q, r = factor.qr(a, mode == "complete" and m != n)
    return r if mode == "r" else QRResult(q, r)


@function("linalg.matrix_power")
def matrix_power(a, n):
    a, n = asarray(a), integer(n)
    if len(shape_of(a)) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if n == 0:
        return lifted(a, np.array(eye(shape_of(a)[-1], a)))
    if n < 0:
        a, n = inv(a), -n
    out = None
    while n:
        if n & 1:
            out = a if out is None else matmul(out, a)
        n >>= 1
        a = matmul(a, a) if n else a
    return out


@function("linalg.cond")
def cond(x, p=None):
    """A matrix without an inverse has an infinite condition."""
    x, p = inexact(asarray(x)), known("p", p)
    if len(shape_of(x)) > 1 and 0 in shape_of(x)[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p in (None, 2, -2):
        s = svdvals(x)
        axis = len(shape_of(s)) - 1
        largest, smallest = reduced("max", s, axis), reduced("min", s, axis)
        found = e.div(smallest, largest) if p == -2 else e.div(largest, smallest)
    else:
        (x,) = matrices(x, square=True)
        pivots = diagonal(linalg.lu(x, check=False)[0], 0, -2, -1)
        whole = reduced("all", e.ne(pivots, 0), -1)
        over = movement.reshape(whole, (*shape_of(whole), 1, 1))
        inverse = inv(e.select(over, x, eye(shape_of(x)[-1], x)))
        product = e.mul(norm(x, p, (-2, -1)), norm(inverse, p, (-2, -1)))
        found = e.select(whole, product, cast(np.inf, dtype_of(product)))
    unknown = e.logical_and(e.isnan(found), e.logical_not(reduced("any", e.isnan(x), (-2, -1))))
    return e.select(unknown, cast(np.inf, dtype_of(found)), found)


@function("linalg.matrix_rank")
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    a = asarray(A)
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if len(shape_of(a)) < 2:
        return cast(reduced("any", e.ne(a, 0)), np.int64)
    s = svdvals(stated(a, "L") if hermitian else a)
    if tol is None:
        rtol = max(shape_of(a)[-2:]) * np.finfo(dtype_of(s)).eps if rtol is None else of_each(rtol)
        tol = e.mul(reduced("max", s, -1, True, initial=0), rtol)
    else:
        tol = of_each(tol)
    return reduced("sum", e.gt(s, tol), -1)


# Norms


def vector_norm_over(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    ord = known("ord", ord)
    if ord is None or ord == 2:
        return safe_root(reduced("sum", squared(x), axes, keepdims))
    size = e.abs(x)
    if ord == np.inf:
        return reduced("max", size, axes, keepdims, initial=0)
    if ord == -np.inf:
        return reduced("min", size, axes, keepdims)
    if ord == 0:
        return reduced("sum", cast(e.ne(x, 0), dtype_of(size)), axes, keepdims)
    if ord == 1:
        return reduced("sum", size, axes, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    total = reduced("sum", e.pow(size, ord), axes, keepdims)
    zero = e.eq(total, 0)
    limit = cast(0 if ord > 0 else np.inf, dtype_of(total))
    return e.select(zero, limit, e.pow(e.select(zero, 1, total), 1.0 / ord))


def matrix_norm_over(x: Any, ord: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    ord = known("ord", ord)
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if ord in (None, "fro", "f"):
        return vector_norm_over(x, None, axes, keepdims)
    rows, columns = axes
    if ord in (1, -1, np.inf, -np.inf):
        over, then = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = reduced("sum", e.abs(x), over, True)
        out = reduced("max", sums, then, True, initial=0) if ord > 0 else reduced("min", sums, then, True)
    elif ord in (2, -2, "nuc"):
        s = svdvals(moveaxis(x, axes, (-2, -1)))
        name = {2: "max", -2: "min", "nuc": "sum"}[ord]
        out = reduced(name, s, -1, initial=0) if ord == 2 else reduced(name, s, -1)
        shape = tuple(1 if k in axes else n for k, n in enumerate(shape_of(x)))
        out = movement.reshape(out, shape)
    else:
        raise ValueError("Invalid norm order for matrices.")
    if keepdims:
        return out
    return movement.reshape(out, tuple(n for k, n in enumerate(shape_of(out)) if k not in axes))


@function("linalg.norm")
def norm(x, ord=None, axis=None, keepdims=False):
    x = inexact(asarray(x))
    n = len(shape_of(x))
    if axis is None:
        if ord is None or (ord in ("f", "fro") and n == 2) or (ord == 2 and n == 1):
            return vector_norm_over(x, None, tuple(range(n)), keepdims)
        axis = tuple(range(n))
    axes = axes_of(axis, n)
    if len(axes) == 1:
        return vector_norm_over(x, ord, axes, keepdims)
    if len(axes) == 2:
        return matrix_norm_over(x, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


@function("linalg.vector_norm")
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    x = inexact(asarray(x))
    return vector_norm_over(x, ord, axes_of(axis, len(shape_of(x))), keepdims)


@function("linalg.matrix_norm")
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    x = inexact(asarray(x))
    n = len(shape_of(x))
    return matrix_norm_over(x, ord, (n - 2, n - 1), keepdims)
