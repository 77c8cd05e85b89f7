"""Sylvester equations a x + x b = q, by Schur factors of both matrices (Bartels and Stewart, 1972).

As for other systems, the factors serve the derivative dx = sylvester(a, b, dq - da x - x db) and the
transpose, and are never differentiated: the matrices say all there is of a derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import linalg
from rune.primitives.contract import matmul, swap
from rune.primitives.linalg import identity_like
from rune.primitives.primitive import Primitive, where_taken

__all__ = ["sylvester"]


class Schur(Primitive):
    """a -> (t, z) with a = z t z^H, z unitary; t upper triangular, with blocks of two rows where a is real."""

    name = "Schur"
    recompute = False

    def effect(self, params):
        return "fail"

    def type(self, types, params):
        return [types[0].strong()] * 2

    def evaluate(self, args, params):
        import scipy.linalg  # on first use: it takes longer to import than all the rest

        a = np.asarray(args[0])
        if not np.isfinite(a).all():
            raise np.linalg.LinAlgError("Array must not contain infs or NaNs")
        t, z = np.empty_like(a), np.empty_like(a)
        for k in np.ndindex(*a.shape[:-2] if a.size else (0,)):
            t[k], z[k] = scipy.linalg.schur(a[k], "complex" if a.dtype.kind == "c" else "real")
        return [t, z]

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), [None, None]  # see `sylvester`: a carries the derivative

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True, True]

    def harmless(self, args, taken):
        return [where_taken(taken, args[0], identity_like(args[0]))]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs, "schur", {"check": True})]


class Sylvester(linalg.System):
    """inputs (a, b, ta, za, tb, zb, q): x with a x + x b = q, or a^T x + x b^T = q where `transpose`."""

    name = "Sylvester"

    def evaluate(self, args, params):
        import scipy.linalg

        *factors, q = map(np.asarray, args[2:])
        turned = "C" if params["transpose"] else "N"
        over = np.conj if params["transpose"] else np.asarray
        trsyl = scipy.linalg.get_lapack_funcs("trsyl", (q,))
        out = np.empty_like(q)
        for k in np.ndindex(*q.shape[:-2] if q.size else (0,)):
            ta, za, tb, zb = (f[k] for f in factors)
            y, scale, _ = trsyl(ta, tb, za.conj().T @ over(q[k]) @ zb, trana=turned, tranb=turned)
            out[k] = over(za @ (y / scale) @ zb.conj().T)
        return [out]

    def moved(self, changes, x, params):
        da, db, *_ = changes
        turn = swap if params["transpose"] else lambda m: m
        left = [] if da is None else [matmul(turn(da), x)]
        return left if db is None else [*left, matmul(x, turn(db))]

    def lower(self, e):
        return [nest.Library(e.outputs, e.inputs[2:], "sylvester", dict(e.params))]


schur_, sylvester_ = Schur(), Sylvester()


def sylvester(a: Any, b: Any, q: Any) -> Any:
    """x with a x + x b = q: a [..., m, m], b [..., n, n], q [..., m, n], equal leading shapes and dtypes."""
    factors = [*bind(schur_, [a], {}), *bind(schur_, [b], {})]
    return bind(sylvester_, [a, b, *factors, q], {"transpose": False})[0]
