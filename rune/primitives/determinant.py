"""Determinants, and their signs and logarithms.

The derivative of the determinant is the matrix of cofactors (Jacobi), which exists where the inverse
does not.  It is computed by elimination of all but the last three rows and columns, the columns in
the order of a pivoted QR factorisation (Businger and Golub, 1965), so that what has no inverse is left
for the end, where the determinant is a polynomial.  All derivatives are right where at most three
dimensions are lost; where more are, those up to the third are zeros, and so are the ones computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import linalg, movement
from rune.primitives.contract import matmul
from rune.primitives.factor import diagonal
from rune.primitives.indexing import take_along
from rune.primitives.map import cast
from rune.primitives.primitive import Primitive
from rune.primitives.reduce import reduce
from rune.primitives.scalar import e
from rune.program import Type, real_dtype, type_of

__all__ = [
    "SMALL",
    "Det",
    "SlogDet",
    "by_factors",
    "det",
    "logarithm_by_factors",
    "rows_in_order",
    "slogdet",
]  # fmt: skip

SMALL = 3  # rows up to which a determinant is a polynomial


class PivotColumns(Primitive):
    """The order of the columns in which each is, of those left, the farthest from the span of those before."""

    name = "PivotColumns"
    recompute = False

    def type(self, types, params):
        (a,) = types
        return [Type(np.dtype(np.int64), (*a.shape[:-2], a.shape[-1]))]

    def evaluate(self, args, params):
        import scipy.linalg  # on first use: it takes longer to import than all the rest

        a = np.asarray(args[0])
        geqp3 = scipy.linalg.get_lapack_funcs("geqp3", (a,))
        out = np.empty((*a.shape[:-2], a.shape[-1]), np.int64)
        for k in np.ndindex(*a.shape[:-2]):
            out[k] = geqp3(a[k])[1] - 1
        return [out]

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), [None]

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "pivot_columns", {})]


class Composed(Primitive):
    """Compiled code runs a program of other operations; `program` makes it, from the operand's type."""

    recompute = False
    program: Callable = None

    def batch(self, size, args, mapped, params):
        outs = bind(self, args, {"of": type_of(args[0])})
        return outs, [True] * len(outs)

    def inlined(self, params):
        return type(self).program(params["of"])

    def jvp(self, primals, tangents, params):
        outs = bind(self, primals, params)
        if tangents[0] is None:
            return outs, [None] * len(outs)
        return outs, self.tangents(outs, primals[0], tangents[0])


class Det(Composed):
    name = "Det"

    def type(self, types, params):
        (a,) = types
        return [Type(a.dtype, a.shape[:-2])]

    def evaluate(self, args, params):
        return [np.linalg.det(args[0])]

    def tangents(self, outs, a, da):
        order, perm, sign, cofactors = cofactors_in_order(a)
        moved = rows_in_order(columns_in_order(da, order), perm)
        return [e.mul(sign, reduce("sum", e.mul(cofactors, moved), last_two(a)))]


class SlogDet(Composed):
    """a -> (the determinant over its size, the logarithm of its size)"""

    name = "SlogDet"

    def type(self, types, params):
        (a,) = types
        return [Type(a.dtype, a.shape[:-2]), Type(real_dtype(a.dtype), a.shape[:-2])]

    def evaluate(self, args, params):
        return list(np.linalg.slogdet(args[0]))

    def tangents(self, outs, a, da):
        trace = diagonal(linalg.solve(a, da, check=False))
        trace = reduce("sum", trace, (type_of(trace).ndim - 1,))
        if type_of(a).dtype.kind != "c":
            return [None, trace]
        zero = np.zeros((), real_dtype(type_of(a).dtype))[()]
        return [e.mul(outs[0], e.complex(zero, e.imag(trace))), e.real(trace)]


pivot_columns_, det_, slogdet_ = PivotColumns(), Det(), SlogDet()


def det(a: Any) -> Any:
    if type_of(a).shape[-1] <= SMALL:
        return polynomial(a)
    return bind(det_, [a], {"of": type_of(a)})[0]


def slogdet(a: Any) -> list:
    return bind(slogdet_, [a], {"of": type_of(a)})


def by_factors(a: Any) -> list:
    """The program of a determinant: the product of the pivots."""
    factors, perm = linalg.lu(a, check=False)
    d = diagonal(factors)
    return [e.mul(reduce("prod", d, (type_of(d).ndim - 1,)), parity(perm, real_dtype(type_of(a).dtype)))]


def logarithm_by_factors(a: Any) -> list:
    factors, perm = linalg.lu(a, check=False)
    d = diagonal(factors)
    size, last = e.abs(d), (type_of(d).ndim - 1,)
    complex_ = type_of(a).dtype.kind == "c"
    signs = e.div(d, e.select(e.eq(size, 0), 1, size)) if complex_ else e.sign(d)
    sign = e.mul(reduce("prod", signs, last), parity(perm, real_dtype(type_of(a).dtype)))
    return [sign, reduce("sum", e.log(size), last)]


def last_two(a: Any) -> tuple[int, int]:
    n = type_of(a).ndim
    return n - 2, n - 1


def element(a: Any, i: int, j: int) -> Any:
    rows, columns = last_two(a)
    found = movement.part(movement.part(a, rows, i, i + 1), columns, j, j + 1)
    return movement.reshape(found, type_of(a).shape[:-2])


def block(a: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    first, second = last_two(a)
    return movement.part(movement.part(a, first, *rows), second, *columns)


def turned(a: Any, axis: int, k: int) -> Any:
    """`a` from its element k of an axis on, those before it behind the last."""
    n = type_of(a).shape[axis]
    return movement.concatenate([movement.part(a, axis, k, n), movement.part(a, axis, 0, k)], axis)


def cofactors_of_three(a: Any) -> Any:
    """Of matrices of 3 rows: with rows and columns taken in a circle no cofactor changes its sign."""
    rows, columns = last_two(a)
    at = lambda i, j: turned(turned(a, rows, i), columns, j)
    return e.sub(e.mul(at(1, 1), at(2, 2)), e.mul(at(1, 2), at(2, 1)))


def by_first_row(a: Any, cofactors: Any) -> Any:
    """A determinant from its matrix and its cofactors."""
    rows, columns = last_two(a)
    first = e.mul(movement.part(a, rows, 0, 1), movement.part(cofactors, rows, 0, 1))
    return reduce("sum", first, (rows, columns))


def polynomial(a: Any) -> Any:
    """The determinant of up to three rows."""
    n = type_of(a).shape[-1]
    if n == 0:
        return movement.broadcast(type_of(a).dtype.type(1), type_of(a).shape[:-2])
    if n == 1:
        return element(a, 0, 0)
    if n == 2:
        at = lambda i, j: element(a, i, j)
        return e.sub(e.mul(at(0, 0), at(1, 1)), e.mul(at(0, 1), at(1, 0)))
    return by_first_row(a, cofactors_of_three(a))


def parity(perm: Any, dtype: np.dtype) -> Any:
    """The sign of a permutation: the product of the signs of all ordered differences."""
    *lead, n = type_of(perm).shape
    rows, columns = movement.reshape(perm, (*lead, n, 1)), movement.reshape(perm, (*lead, 1, n))
    signs = e.select(np.tri(n, k=-1, dtype=bool), e.sign(e.sub(rows, columns)), 1)
    return cast(reduce("prod", signs, (len(lead), len(lead) + 1)), dtype)


def rows_in_order(a: Any, order: Any) -> Any:
    shape = type_of(a).shape
    order = movement.broadcast(movement.reshape(order, (*shape[:-2], shape[-2], 1)), shape)
    return take_along(a, order, len(shape) - 2)


def columns_in_order(a: Any, order: Any) -> Any:
    shape = type_of(a).shape
    order = movement.broadcast(movement.reshape(order, (*shape[:-2], 1, shape[-1])), shape)
    return take_along(a, order, len(shape) - 1)


def cofactors_in_order(a: Any) -> tuple:
    """Column order, row order, their sign, and the cofactors of the matrix in that order.

    With A = [[B, C], [D, E]] in that order, X = B^-1 C, Y = D B^-1, S = E - D X of three rows:
    det A = det B det S, and adj A = det B [[det S B^-1 + X adj S Y, -X adj S], [-adj S Y, adj S]].
    """
    t = type_of(a)
    n, dtype = t.shape[-1], t.dtype
    k = n - SMALL
    (order,) = bind(pivot_columns_, [a], {})
    a = columns_in_order(a, order)
    _, perm = linalg.lu(a, check=False)
    a = rows_in_order(a, perm)
    b = block(a, (0, k), (0, k))
    factors, exchanges = linalg.lu(b, check=False)
    # Where more than three dimensions are lost there is no B^-1, and the cofactors are zeros.
    sound = reduce("all", e.ne(diagonal(factors), 0), (t.ndim - 2,))
    over = movement.reshape(sound, (*t.shape[:-2], 1, 1))
    identity = movement.broadcast(np.eye(k, dtype=dtype), (*t.shape[:-2], k, k))
    b, factors = e.select(over, b, identity), e.select(over, factors, identity)
    lu = (factors, exchanges)
    by_b = lambda right, transpose: bind(linalg.solve_, [b, *lu, right], {"transpose": transpose})[0]
    inverse = by_b(identity, False)
    x = by_b(block(a, (0, k), (k, n)), False)
    y = linalg.swap(by_b(linalg.swap(block(a, (k, n), (0, k))), True))
    s = e.sub(block(a, (k, n), (k, n)), matmul(block(a, (k, n), (0, k)), x))
    rows, columns = last_two(a)
    cofactors = cofactors_of_three(s)
    adj = linalg.swap(cofactors)
    det_s = movement.reshape(by_first_row(s, cofactors), (*t.shape[:-2], 1, 1))
    x_adj = matmul(x, adj)
    upper = [e.add(e.mul(det_s, inverse), matmul(x_adj, y)), e.neg(x_adj)]
    lower = [e.neg(matmul(adj, y)), adj]
    adjugate = movement.concatenate([movement.concatenate(half, columns) for half in (upper, lower)], rows)
    size = e.select(sound, det(b), dtype.type(0))
    adjugate = e.mul(movement.reshape(size, (*t.shape[:-2], 1, 1)), adjugate)
    real = real_dtype(dtype)
    return order, perm, e.mul(parity(order, real), parity(perm, real)), linalg.swap(adjugate)
