"""Factorisations whose derivative is a composition: eigenvalues, singular values, QR, pseudo-inverse.

Each works on the last two axes and evaluates by NumPy; compiled code calls the same LAPACK routines.
Where two eigenvalues or singular values are equal their vectors have no derivative; theirs is left
out, so that functions which do not depend on the choice of vectors differentiate right.

Derivatives: Giles, "An extended collection of matrix derivative results" (2008); for a QR
factorisation, Seeger et al., "Auto-differentiating linear algebra" (2017); for a pseudo-inverse of
constant rank, Golub and Pereyra (1973).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import linalg, movement
from rune.primitives.contract import matmul
from rune.primitives.indexing import gather, take_along
from rune.primitives.linalg import conjugate_transpose as H
from rune.primitives.primitive import Primitive
from rune.primitives.reduce import kept, reduce
from rune.primitives.scalar import e
from rune.program import Type, real_dtype, type_of

__all__ = ["Factorisation", "Pinv", "columns", "diagonal", "eig", "eigh", "eye", "pinv", "qr", "svd"]


class Factorisation(Primitive):
    recompute = False

    def batch(self, size, args, mapped, params):
        outs = bind(self, args, params)
        return outs, [True] * len(outs)

    def effect(self, params):
        return "fail"

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, self.name.lower(), dict(e.params))]

    def jvp(self, primals, tangents, params):
        if tangents[0] is None:
            outs = bind(self, primals, params)
            return outs, [None] * len(outs)
        return self.derivative(primals[0], tangents[0], params)


def diagonal(a: Any) -> Any:
    """The diagonal of the last two axes (square)."""
    shape = type_of(a).shape
    n, lead = shape[-1], len(shape) - 2
    front = movement.permute(a, (lead, lead + 1, *range(lead)))
    out = gather(front, [np.arange(n), np.arange(n)], checked=True)
    return movement.permute(out, (*range(1, lead + 1), 0))


def row(v: Any) -> Any:
    """A vector as a row that broadcasts over matrices."""
    shape = type_of(v).shape
    return movement.reshape(v, (*shape[:-1], 1, shape[-1]))


def column(v: Any) -> Any:
    return movement.reshape(v, (*type_of(v).shape, 1))


def eye(n: int, like: Any) -> np.ndarray:
    return np.eye(n, dtype=real_dtype(type_of(like).dtype))


def gaps(w: Any) -> Any:
    """1 / (w_j - w_i), 0 where they are equal (on the diagonal, and for repeated ones)."""
    difference = e.sub(row(w), column(w))
    same = e.eq(difference, 0)
    return e.select(same, 0.0, e.div(1.0, e.select(same, 1.0, difference)))


def columns(a: Any, start: int, stop: int) -> Any:
    return movement.part(a, type_of(a).ndim - 1, start, stop)


def with_others(q: Any, dq: Any) -> Any:
    """The change of all columns of a unitary matrix, from that of the first ones.

    The others are any basis of what is left.  They turn no more than they must, as those of equal
    singular values do: what does not depend on the choice of the basis differentiates right.
    """
    n, k = type_of(q).shape[-1], type_of(dq).shape[-1]
    if n == k:
        return dq
    others = e.neg(matmul(columns(q, 0, k), matmul(H(dq), columns(q, k, n))))
    return movement.concatenate([dq, others], type_of(q).ndim - 1)


class Eigh(Factorisation):
    """A Hermitian matrix -> (w, V): eigenvalues ascending, eigenvectors in columns."""

    name = "Eigh"

    def type(self, types, params):
        (a,) = types
        return [Type(real_dtype(a.dtype), a.shape[:-1]), a.strong()]

    def evaluate(self, args, params):
        return list(np.linalg.eigh(args[0], params["uplo"]))

    def derivative(self, a, da, params):
        w, v = bind(self, [a], params)
        m = matmul(H(v), matmul(da, v))
        dv = matmul(v, e.mul(gaps(w), m))
        if type_of(a).dtype.kind != "c":
            return [w, v], [diagonal(m), dv]
        # LAPACK's vectors have a real component: the first where it reads the lower triangle, else the last.
        n, lead = type_of(v).shape[-1], type_of(v).ndim - 2
        k = 0 if params["uplo"] == "L" else n - 1
        fixed, change = e.real(movement.part(v, lead, k, k + 1)), e.imag(movement.part(dv, lead, k, k + 1))
        still = e.eq(fixed, 0)
        turn = e.select(still, 0.0, e.div(change, e.select(still, 1, fixed)))
        dv = e.sub(dv, e.mul(v, e.complex(np.zeros((), type_of(turn).dtype)[()], turn)))
        return [w, v], [e.real(diagonal(m)), dv]


class Svd(Factorisation):
    """a -> (u, s, vh), or (s,) without `vectors`; `full` square u and vh, or as many columns as s."""

    name = "Svd"

    def type(self, types, params):
        (a,) = types
        *lead, m, n = a.shape
        k = min(m, n)
        s = Type(real_dtype(a.dtype), (*lead, k))
        if not params["vectors"]:
            return [s]
        u, v = (m, n) if params["full"] else (k, k)
        return [Type(a.dtype, (*lead, m, u)), s, Type(a.dtype, (*lead, v, n))]

    def evaluate(self, args, params):
        found = np.linalg.svd(args[0], full_matrices=params["full"], compute_uv=params["vectors"])
        return list(found) if params["vectors"] else [found]

    def derivative(self, a, da, params):
        m, n = type_of(a).shape[-2:]
        k = min(m, n)
        whole_u, s, whole_vh = bind(self, [a], {**params, "vectors": True})
        whole_v = H(whole_vh)
        u, v = columns(whole_u, 0, k), columns(whole_v, 0, k)
        complex_ = type_of(a).dtype.kind == "c"
        p = matmul(matmul(H(u), da), v)
        ds = diagonal(p)
        ds = e.real(ds) if complex_ else ds
        if not params["vectors"]:
            return [s], [ds]
        f = gaps(e.mul(s, s))
        right, left = e.mul(p, row(s)), e.mul(p, column(s))
        turn_u = e.mul(f, e.add(right, H(right)))
        turn_v = e.mul(f, e.add(left, H(left)))
        safe = e.select(e.eq(s, 0), 1.0, s)
        if complex_:
            # The phase of a pair of vectors is shared; it is given to u.
            turn_u = e.add(turn_u, e.mul(eye(min(m, n), a), e.div(e.sub(p, H(p)), e.mul(2.0, row(safe)))))
        du, dv = matmul(u, turn_u), matmul(v, turn_v)
        if m > n:
            away = matmul(da, v)
            du = e.add(du, e.div(e.sub(away, matmul(u, matmul(H(u), away))), row(safe)))
        if n > m:
            away = matmul(H(da), u)
            dv = e.add(dv, e.div(e.sub(away, matmul(v, matmul(H(v), away))), row(safe)))
        return [whole_u, s, whole_vh], [with_others(whole_u, du), ds, H(with_others(whole_v, dv))]


class Qr(Factorisation):
    """a [m, n] with m >= n -> (q, r): q with n orthonormal columns, or m where `complete`."""

    name = "Qr"

    def type(self, types, params):
        (a,) = types
        *lead, m, n = a.shape
        k = m if params["complete"] else min(m, n)
        return [Type(a.dtype, (*lead, m, k)), Type(a.dtype, (*lead, k, n))]

    def evaluate(self, args, params):
        return list(np.linalg.qr(args[0], "complete" if params["complete"] else "reduced"))

    def derivative(self, a, da, params):
        n = type_of(a).shape[-1]
        whole_q, whole_r = bind(self, [a], params)
        rows = type_of(a).ndim - 2
        q, r = columns(whole_q, 0, n), movement.part(whole_r, rows, 0, n)
        transposed = linalg.triangular_solve(r, movement_swap(da), lower=False, transpose=True)
        x = movement_swap(transposed)  # da r^-1
        y = matmul(H(q), x)
        low = e.mul(y, np.tril(np.ones((n, n)), -1).astype(real_dtype(type_of(a).dtype)))
        turn = e.sub(low, H(low))
        if type_of(a).dtype.kind == "c":
            turn = e.add(turn, e.mul(eye(n, a), e.complex(0.0, e.imag(y))))
        dq = e.add(matmul(q, e.sub(turn, y)), x)
        dr = matmul(e.sub(y, turn), r)
        lead = type_of(dr).ndim - 2
        below = type_of(whole_r).shape[-2] - n
        dr = movement.pad(dr, (0,) * (lead + 2), (*(0,) * lead, below, 0)) if below else dr
        return [whole_q, whole_r], [with_others(whole_q, dq), dr]


def movement_swap(a: Any) -> Any:
    n = type_of(a).ndim
    return movement.permute(a, (*range(n - 2), n - 1, n - 2))


class Eig(Factorisation):
    """A general matrix -> (w, V), both complex; columns have norm 1, their largest component real."""

    name = "Eig"

    def type(self, types, params):
        (a,) = types
        dtype = np.result_type(a.dtype, np.complex64)
        return [Type(dtype, a.shape[:-1]), Type(dtype, a.shape)]

    def evaluate(self, args, params):
        dtype = np.result_type(args[0].dtype, np.complex64)
        return [x.astype(dtype) for x in np.linalg.eig(args[0])]

    def derivative(self, a, da, params):
        w, v = bind(self, [a], params)
        if type_of(da).dtype.kind != "c":
            da = e.complex(da, np.zeros((), type_of(da).dtype)[()])
        m = linalg.solve(v, matmul(da, v))
        dv = matmul(v, e.mul(gaps(w), m))
        # The columns keep their norm, and their largest component stays real.
        lead = type_of(v).ndim - 2
        along = reduce("sum", e.real(e.mul(e.conj(v), dv)), (lead,))
        dv = e.sub(dv, e.mul(v, row(along)))
        largest = kept(reduce("argmax", e.abs(v), (lead,)), type_of(v).shape, (lead,))
        turn = e.div(e.imag(take_along(dv, largest, lead)), e.real(take_along(v, largest, lead)))
        dv = e.sub(dv, e.mul(v, e.complex(0.0, turn)))
        return [w, v], [diagonal(m), dv]


class Pinv(Factorisation):
    """The pseudo-inverse, singular values up to `rcond` times the largest taken as zeros.

    Compiled code runs a program of other operations; `program` makes it, from the operand's type.
    """

    name = "Pinv"
    program: Callable = None

    def type(self, types, params):
        (a,) = types
        *lead, m, n = a.shape
        return [Type(a.dtype, (*lead, n, m))]

    def evaluate(self, args, params):
        return [np.linalg.pinv(args[0], params["rcond"])]

    def effect(self, params):
        return None

    def batch(self, size, args, mapped, params):
        return bind(self, args, {**params, "of": type_of(args[0])}), [True]

    def inlined(self, params):
        return Pinv.program(params["of"], params["rcond"])

    def derivative(self, a, da, params):
        (p,) = bind(self, [a], params)
        m, n = type_of(a).shape[-2:]
        dp = e.neg(matmul(p, matmul(da, p)))
        dah = H(da)
        left = e.sub(eye(m, a), matmul(a, p))
        dp = e.add(dp, matmul(p, matmul(H(p), matmul(dah, left))))
        right = e.sub(eye(n, a), matmul(p, a))
        return [p], [e.add(dp, matmul(right, matmul(dah, matmul(H(p), p))))]


eigh_, svd_, qr_, eig_, pinv_ = Eigh(), Svd(), Qr(), Eig(), Pinv()


def eigh(a: Any, uplo: str = "L") -> list:
    return bind(eigh_, [a], {"uplo": uplo})


def svd(a: Any, vectors: bool = True, full: bool = False) -> list:
    return bind(svd_, [a], {"vectors": vectors, "full": full})


def qr(a: Any, complete: bool = False) -> list:
    return bind(qr_, [a], {"complete": complete})


def eig(a: Any) -> list:
    return bind(eig_, [a], {})


def pinv(a: Any, rcond: float) -> Any:
    return bind(pinv_, [a], {"rcond": rcond, "of": type_of(a)})[0]
