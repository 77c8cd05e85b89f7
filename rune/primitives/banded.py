"""Linear systems of band matrices, given by their diagonals: ab[upper + i - j, j] = a[i, j].

Those of a positive definite matrix, which has as many above as below, are solved by its Cholesky factor.

As for other matrices, `solve` factors once, the derivative dx = solve(a, db - da x) and the transpose
use the same factors, and the matrix says all there is of a derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import linalg, movement
from rune.primitives.primitive import Primitive, where_taken
from rune.primitives.scalar import e
from rune.program import Type, type_of

__all__ = ["moved_down", "solve", "solve_definite"]


class BandLU(Primitive):
    """ab [lower + upper + 1, n] -> LAPACK's band factors [n, 2 lower + upper + 1] and row exchanges, from 1."""

    name = "BandLU"
    recompute = False

    def effect(self, params):
        return "fail"

    def type(self, types, params):
        (ab,) = types
        *lead, width, n = ab.shape
        return [
            Type(ab.dtype, (*lead, n, width + params["lower"])),
            Type(np.dtype(np.int32), (*lead, n)),
        ]

    def evaluate(self, args, params):
        import scipy.linalg  # on first use: it takes longer to import than all the rest

        ab, lower = np.asarray(args[0]), params["lower"]
        *lead, width, n = ab.shape
        factors = np.zeros((*lead, n, width + lower), ab.dtype)
        exchanges = np.empty((*lead, n), np.int32)
        gbtrf = scipy.linalg.get_lapack_funcs("gbtrf", (ab,))
        for k in np.ndindex(*lead if n else (0,)):
            factors[k][:, lower:] = ab[k].T
            columns, rows, info = gbtrf(factors[k].T, lower, params["upper"])
            if info > 0:
                raise np.linalg.LinAlgError("Singular matrix")
            factors[k], exchanges[k] = columns.T, rows + 1
        return [factors, exchanges]

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), [None, None]  # see `solve`: ab carries the derivative

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True, True]

    def guarded(self, args, params, taken):
        t = type_of(args[0])
        one = np.zeros(t.shape, t.dtype)
        one[..., params["upper"], :] = 1
        return [where_taken(taken, args[0], one)], params

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "band_lu", {**e.params, "check": True})]


class BandSolve(linalg.System):
    """inputs (ab, factors, exchanges, b): x with a x = b, or a^T x = b where `transpose`."""

    name = "BandSolve"

    def evaluate(self, args, params):
        import scipy.linalg

        _, factors, exchanges, b = map(np.asarray, args)
        out = np.empty_like(b)
        gbtrs = scipy.linalg.get_lapack_funcs("gbtrs", (factors, b))
        bounds = params["lower"], params["upper"]
        for k in np.ndindex(*b.shape[:-2] if b.size else (0,)):
            out[k], _ = gbtrs(factors[k].T, *bounds, b[k], exchanges[k] - 1, trans=int(params["transpose"]))
        return [out]

    def moved(self, changes, x, params):
        dab = changes[0]
        return [] if dab is None else [product(dab, x, params["upper"], params["transpose"])]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs[1:], "band_solve", dict(e.params))]


class BandCholesky(Primitive):
    """ab [2 k + 1, n] -> the diagonals of its lower factor, from the main one, as columns [n, k + 1]."""

    name = "BandCholesky"
    recompute = False

    def effect(self, params):
        return "fail"

    def type(self, types, params):
        (ab,) = types
        *lead, width, n = ab.shape
        return [Type(ab.dtype, (*lead, n, width // 2 + 1))]

    def evaluate(self, args, params):
        import scipy.linalg

        ab = np.asarray(args[0])
        *lead, width, n = ab.shape
        factors = np.empty((*lead, n, width // 2 + 1), ab.dtype)
        pbtrf = scipy.linalg.get_lapack_funcs("pbtrf", (ab,))
        for k in np.ndindex(*lead if n else (0,)):
            columns, info = pbtrf(ab[k][width // 2 :], lower=1)
            if info > 0:
                raise np.linalg.LinAlgError("Matrix is not positive definite")
            factors[k] = columns.T
        return [factors]

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), [None]  # see `solve_definite`: ab carries the derivative

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True]

    def harmless(self, args, taken):
        t = type_of(args[0])
        one = np.zeros(t.shape, t.dtype)
        one[..., t.shape[-2] // 2, :] = 1
        return [where_taken(taken, args[0], one)]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "band_cholesky", {"check": True})]


class BandCholeskySolve(linalg.System):
    """inputs (ab, factors, b): x with a x = b."""

    name = "BandCholeskySolve"

    def evaluate(self, args, params):
        import scipy.linalg

        _, factors, b = map(np.asarray, args)
        out = np.empty_like(b)
        pbtrs = scipy.linalg.get_lapack_funcs("pbtrs", (factors, b))
        for k in np.ndindex(*b.shape[:-2] if b.size else (0,)):
            out[k], _ = pbtrs(factors[k].T, b[k], lower=1)
        return [out]

    def moved(self, changes, x, params):
        dab = changes[0]
        return [] if dab is None else [product(dab, x, type_of(dab).shape[-2] // 2, False)]

    def transpose(self, cts, args, params):
        # a^T is the conjugate of a
        conj = e.conj if type_of(cts[0]).dtype.kind == "c" else lambda x: x
        return [None, None, conj(bind(self, [*args[:2], conj(cts[0])], params)[0])]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs[1:], "band_cholesky_solve", {})]


def product(ab: Any, x: Any, upper: int, transpose: bool) -> Any:
    """The band matrix, or its transpose, times the columns of x: a sum over its diagonals."""
    *lead, width, n = type_of(ab).shape
    total = None
    for k in range(width):
        diagonal = movement.reshape(movement.part(ab, len(lead), k, k + 1), (*lead, n, 1))
        term = (
            e.mul(diagonal, moved_down(x, upper - k))
            if transpose
            else moved_down(e.mul(diagonal, x), k - upper)
        )
        total = term if total is None else e.add(total, term)
    return total


def moved_down(x: Any, by: int) -> Any:
    """The rows of matrices so many places down, or up, zeros behind them."""
    *lead, n, _ = type_of(x).shape
    by = min(max(by, -n), n)
    part = movement.part(x, len(lead), max(-by, 0), n - max(by, 0))
    none = (0,) * len(lead)
    return movement.pad(part, (*none, max(by, 0), 0), (*none, max(-by, 0), 0))


band_lu_, band_solve_ = BandLU(), BandSolve()
band_cholesky_, band_cholesky_solve_ = BandCholesky(), BandCholeskySolve()


def solve(ab: Any, b: Any, lower: int, upper: int) -> Any:
    """x with a x = b: ab [..., lower + upper + 1, n], b [..., n, k], equal leading shapes and dtypes."""
    params = {"lower": lower, "upper": upper}
    return bind(band_solve_, [ab, *bind(band_lu_, [ab], params), b], {**params, "transpose": False})[0]


def solve_definite(ab: Any, b: Any) -> Any:
    """x with a x = b for a positive definite matrix, all of whose diagonals are given."""
    return bind(band_cholesky_solve_, [ab, *bind(band_cholesky_, [ab], {}), b], {})[0]
