"""Linear systems and factorisations over the last two axes.

`solve(a, b)` factors once.  The derivative dx = solve(a, db - da x) and the transpose
solve(a^T, ct) use the same factors: `Solve` takes a, its factors and b, differentiates by a and b,
and never looks at the factors' derivative, since a says it all.  Likewise a Cholesky factor is kept
and never computed twice.

The derivative of a Cholesky factor: Murray, "Differentiation of the Cholesky decomposition" (2016).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import movement
from rune.primitives.contract import matmul, swap
from rune.primitives.primitive import Primitive, where_taken
from rune.primitives.scalar import e
from rune.program import Type, real_dtype, type_of

__all__ = [
    "System", "cholesky", "conjugate_transpose", "factored", "identity_like", "lu", "row_order",
    "solve", "solve_", "stack", "triangular_solve",
]  # fmt: skip


class LU(Primitive):
    """a -> (lu, perm): a[perm] = L U, both factors in one matrix."""

    name = "LU"
    recompute = False

    def effect(self, params):
        return "fail" if params["check"] else None

    def type(self, types, params):
        (a,) = types
        return [a.strong(), Type(np.dtype(np.int64), a.shape[:-1])]

    def evaluate(self, args, params):
        factors, exchanges = factored(args[0], params["check"])
        outs = [factors, row_order(exchanges, factors.shape[-2])]
        for x in outs:
            x.flags.writeable = False  # a record keeps them without a copy
        return outs

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), [None, None]  # see `solve`: a carries the derivative

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True, True]

    def harmless(self, args, taken):
        return [where_taken(taken, args[0], identity_like(args[0]))]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "lu", {"check": e.params["check"]})]


def places(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The indices of an array of that shape; np.ndindex takes 3 us to begin."""
    return itertools.product(*map(range, shape))


def factored(a: np.ndarray, check: bool) -> tuple[np.ndarray, np.ndarray]:
    """Both factors of matrices [m, n] in one, and the row that each step exchanged with its own."""
    a = np.asarray(a)
    *lead, m, n = a.shape
    factors, exchanges = np.empty_like(a), np.empty((*lead, min(m, n)), np.int32)
    getrf = routine("getrf", a.dtype)
    for k in places(lead if a.size else (0,)):
        factors[k], exchanges[k], info = getrf(a[k])
        if info > 0 and check:
            raise np.linalg.LinAlgError("Singular matrix")
    return factors, exchanges


def row_order(exchanges: np.ndarray, m: int) -> np.ndarray:
    """The order of m rows after every exchange, step k's with row k."""
    lead = np.shape(exchanges)[:-1]
    order = np.empty((*lead, m), np.int64)
    for k in places(lead):
        rows = list(range(m))  # elements of a list are exchanged twenty times as fast as an array's
        for i, j in enumerate(exchanges[k].tolist()):
            rows[i], rows[j] = rows[j], rows[i]
        order[k] = rows
    return order


class System(Primitive):
    """x with A x = b; inputs: what A is made of, its factors, and b, in which x is linear.

    What A is made of says all there is of a derivative, dx = solve(..., db - dA x), which the factors at hand
    serve: they are never differentiated.  `moved` gives the terms of dA x.  The transpose is the same system
    with `transpose` turned.
    """

    recompute = False
    itself = True

    def moved(self, changes: list, x: Any, params: dict) -> list:
        """The terms of dA x, given the changes of all inputs but b (None for those that stand)."""
        raise NotImplementedError(f"{self.name}: moved")

    def type(self, types, params):
        return [types[-1].strong()]

    def jvp(self, primals, tangents, params):
        *given, _ = primals
        *changes, change = tangents
        (x,) = bind(self, primals, params)
        for term in self.moved(changes, x, params):
            change = e.neg(term) if change is None else e.sub(change, term)
        if change is None:
            return [x], [None]
        return [x], bind(self, [*given, change], params)

    def linear_in(self, flags, params):
        *given, right = flags
        return right and not any(given)

    def transpose(self, cts, args, params):
        *given, _ = args
        turned = {**params, "transpose": not params["transpose"]}
        return [None] * len(given) + bind(self, [*given, cts[0]], turned)

    def batch(self, size, args, mapped, params):
        return bind(self, stack(size, args, mapped), params), [True]

    def details(self, params):
        return "transposed" if params.get("transpose") else ""


class Solve(System):
    """inputs (a, lu, perm, b): x with a x = b, or a^T x = b where `transpose`."""

    name = "Solve"

    def evaluate(self, args, params):
        _, lu, perm, b = map(np.asarray, args)
        out = np.empty_like(b)
        for k in places(b.shape[:-2]):
            lower = {"lower": True, "unit": True, "transpose": params["transpose"]}
            upper = {"lower": False, "unit": False, "transpose": params["transpose"]}
            if params["transpose"]:
                out[k][perm[k]] = triangle(lu[k], triangle(lu[k], b[k], upper), lower)
            else:
                out[k] = triangle(lu[k], triangle(lu[k], b[k][perm[k]], lower), upper)
        return [out]

    def moved(self, changes, x, params):
        da = changes[0]
        return [] if da is None else [matmul(swap(da) if params["transpose"] else da, x)]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs[1:], "lu_solve", dict(e.params))]


class Cholesky(Primitive):
    """The lower factor of a symmetric positive definite matrix; only the lower triangle is read."""

    name = "Cholesky"
    recompute = False

    def effect(self, params):
        return "fail"

    def type(self, types, params):
        return [types[0].strong()]

    def evaluate(self, args, params):
        return [np.linalg.cholesky(args[0])]

    def jvp(self, primals, tangents, params):
        (a,), (da,) = primals, tangents
        (l,) = bind(self, primals, params)
        if da is None:
            return [l], [None]
        # The function reads the lower triangle, so the change is that triangle made Hermitian.
        n = type_of(a).shape[-1]
        dtype = type_of(da).dtype
        low = np.tril(np.ones((n, n), dtype), -1)
        lower, own = e.mul(da, low), e.mul(da, np.eye(n, dtype=dtype))
        if dtype.kind == "c":
            own = e.complex(e.real(own), np.zeros((), real_dtype(dtype))[()])
        change = e.add(e.add(lower, conjugate_transpose(lower)), own)
        # P = L^-1 dA L^-H, dL = L * (lower half of P, its diagonal halved)
        p = triangular_solve(l, change, lower=True, transpose=False)
        p = triangular_solve(l, conjugate_transpose(p), lower=True, transpose=False)
        half = e.mul(conjugate_transpose(p), low + np.eye(n, dtype=dtype) / 2)
        return [l], [matmul(l, half)]

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True]

    def harmless(self, args, taken):
        return [where_taken(taken, args[0], identity_like(args[0]))]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "cholesky", {})]


def identity_like(a: Any) -> np.ndarray:
    t = type_of(a)
    return np.eye(t.shape[-1], dtype=t.dtype)


def conjugate_transpose(a: Any) -> Any:
    return e.conj(swap(a)) if type_of(a).dtype.kind == "c" else swap(a)


class TriangularSolve(System):
    """inputs (l, b): x with op(l) x = b, reading one triangle of l."""

    name = "TriangularSolve"

    def evaluate(self, args, params):
        l, b = map(np.asarray, args)
        out = np.empty_like(b)
        for k in places(b.shape[:-2]):
            out[k] = triangle(l[k], b[k], params)
        return [out]

    def moved(self, changes, x, params):
        (dl,) = changes
        if dl is None:
            return []
        n = type_of(dl).shape[-1]
        mask = np.tril(np.ones((n, n)), -int(params["unit"]))
        dl = e.mul(dl, (mask if params["lower"] else mask.T).astype(type_of(dl).dtype))
        return [matmul(swap(dl) if params["transpose"] else dl, x)]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "triangular_solve", dict(e.params))]

    def details(self, params):
        return " ".join(k for k, v in params.items() if v)


def triangle(l: np.ndarray, b: np.ndarray, params: dict) -> np.ndarray:
    """op(l) x = b by one triangle of l; as in native code a zero on the diagonal gives infinities."""
    if not b.size:
        return b
    # BLAS's arrays are in Fortran's order, in which l.T is not copied.
    lower, transpose = not params["lower"], not params["transpose"]
    return routine("trsm", l.dtype)(1.0, l.T, b, lower=lower, trans_a=transpose, diag=params["unit"])


@functools.lru_cache(maxsize=64)
def routine(name: str, dtype: np.dtype) -> Any:
    """A routine of BLAS or LAPACK for that dtype."""
    import scipy.linalg  # on first use: it takes longer to import than all the rest

    find = scipy.linalg.get_blas_funcs if name == "trsm" else scipy.linalg.get_lapack_funcs
    return find(name, dtype=dtype)


lu_, solve_, cholesky_, triangular_solve_ = LU(), Solve(), Cholesky(), TriangularSolve()


def stack(size: int, args: list, mapped: list[bool]) -> list:
    return [
        a if m else movement.broadcast(a, (size, *type_of(a).shape))
        for a, m in zip(args, mapped, strict=True)
    ]


def lu(a: Any, check: bool = True) -> list:
    """(lu, perm) of square matrices; a singular one raises where `check`."""
    return bind(lu_, [a], {"check": check})


def solve(a: Any, b: Any, check: bool = True) -> Any:
    """x with a x = b: a [..., n, n], b [..., n, k], equal leading shapes and dtypes."""
    return bind(solve_, [a, *lu(a, check), b], {"transpose": False})[0]


def cholesky(a: Any) -> Any:
    return bind(cholesky_, [a], {})[0]


def triangular_solve(l: Any, b: Any, lower: bool, transpose: bool, unit: bool = False) -> Any:
    return bind(triangular_solve_, [l, b], {"lower": lower, "transpose": transpose, "unit": unit})[0]
