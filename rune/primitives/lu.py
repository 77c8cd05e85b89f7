"""LU factors as results, with a derivative of their own, and the order of rows that exchanges lead to.

`linalg.solve` needs none of this: the matrix carries its derivative.  Where the factors themselves are
asked for, let P A = L U, L extended to a square with ones on its diagonal, and X = L^-1 P dA.  From
X = (L^-1 dL) U + dU, with L^-1 dL strictly lower and dU upper, follows for matrices of any shape

    L^-1 dL = the strictly lower part of X U^-1, one column for each that has rows below its pivot,
    dU = X - (L^-1 dL) U,

in which only the pivots that divide something are inverted: the last one of a square matrix may be zero.

de Hoog, Anderssen and Lukas, "Differentiation of matrix functionals using triangular factorization"
(2011); Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in
optimum experimental design" (2010); Murray, "Differentiation of the Cholesky decomposition" (2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import linalg, movement
from rune.primitives.contract import matmul, swap
from rune.primitives.determinant import rows_in_order
from rune.primitives.factor import Factorisation, columns, eye
from rune.primitives.primitive import Primitive
from rune.primitives.scalar import e
from rune.program import Type, type_of

__all__ = ["factors", "row_order"]


class Factors(Factorisation):
    """a [m, n] -> (lu, perm, exchanges): a[perm] = L U, both in one matrix; LAPACK's row exchanges, from 0."""

    name = "LUFactors"

    def effect(self, params):
        return None  # of a singular matrix some pivot is zero

    def type(self, types, params):
        (a,) = types
        *lead, m, n = a.shape
        return [
            a.strong(),
            Type(np.dtype(np.int64), (*lead, m)),
            Type(np.dtype(np.int32), (*lead, min(m, n))),
        ]

    def evaluate(self, args, params):
        found, exchanges = linalg.factored(args[0], False)
        return [found, linalg.row_order(exchanges, found.shape[-2]), exchanges]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "lu", {"check": False})]

    def derivative(self, a, da, params):
        lu, perm, exchanges = bind(self, [a], params)
        m, n = type_of(a).shape[-2:]
        divided = max(min(m - 1, n), 0)  # columns with rows below their pivot
        low = wider(columns(lu, 0, min(m, n)), m)
        x = linalg.triangular_solve(low, rows_in_order(da, perm), lower=True, transpose=False, unit=True)
        up = movement.part(lu, type_of(lu).ndim - 2, 0, divided)
        turned = swap(columns(x, 0, divided))
        by_up = swap(linalg.triangular_solve(columns(up, 0, divided), turned, lower=False, transpose=True))
        change = lower_part(by_up)
        d_up = e.sub(x, matmul(change, upper_part(up)))
        d_low = matmul(e.add(lower_part(low), eye(m, a)), change)
        return [lu, perm, exchanges], [e.add(lower_part(wider(d_low, n)), upper_part(d_up)), None, None]


def wider(a: Any, n: int) -> Any:
    """`a` with columns of zeros behind its own, n in all."""
    *lead, _, own = type_of(a).shape
    none = (0,) * (len(lead) + 1)
    return movement.pad(a, (*none, 0), (*none, n - own))


def mask(a: Any) -> np.ndarray:
    return np.tri(*type_of(a).shape[-2:], k=-1, dtype=bool)


def lower_part(a: Any) -> Any:
    """What stands below the diagonal; a select, so that nothing infinite above it counts."""
    return e.select(mask(a), a, 0)


def upper_part(a: Any) -> Any:
    return e.select(mask(a), 0, a)


class RowOrder(Primitive):
    """exchanges -> the order of `rows` rows after all of them, step k's with row k."""

    name = "RowOrder"

    def type(self, types, params):
        return [Type(np.dtype(np.int64), (*types[0].shape[:-1], params["rows"]))]

    def evaluate(self, args, params):
        return [linalg.row_order(args[0], params["rows"])]

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), [None]

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "row_order", {})]


factors_, row_order_ = Factors(), RowOrder()


def factors(a: Any) -> list:
    return bind(factors_, [a], {})


def row_order(exchanges: Any, rows: int) -> Any:
    return bind(row_order_, [exchanges], {"rows": rows})[0]
