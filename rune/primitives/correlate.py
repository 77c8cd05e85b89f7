"""Correlation of two rows: what convolutions are made of.

correlate(a, v, before, after): y[k] = sum over j of a[k + j - before] v[j] along the last axis, for rows of
`before` elements before a and `after` beyond it.  These are no part of a sum (a zero there would be NaN times
an infinite v).  The sum is linear in each operand, and the transposes by both are correlations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import movement
from rune.primitives.contract import Bilinear
from rune.primitives.primitive import Unknown
from rune.program import Literal, Type, Var, type_of

__all__ = ["correlate"]


class Correlate(Bilinear):
    """a [..., n], v [..., m] -> [..., n + before + after - m + 1], for one leading shape."""

    name = "Correlate"

    def type(self, types, params):
        a, v = types
        return [Type(a.dtype, (*a.shape[:-1], a.shape[-1] + sum(params["beyond"]) - v.shape[-1] + 1))]

    def evaluate(self, args, params):
        a, v = map(np.asarray, args)
        beyond = params["beyond"]
        padded = np.pad(a, [(0, 0)] * (a.ndim - 1) + [beyond])
        if any(beyond) and not np.all(np.isfinite(v)):
            seen = windows(padded, v.shape[-1])
            inside, terms = windows(within(a.shape[-1], beyond), v.shape[-1]), np.zeros(seen.shape, a.dtype)
            return [np.sum(np.multiply(seen, v[..., None, :], out=terms, where=inside), axis=-1)]
        if a.ndim == 1:
            return [np.correlate(padded, np.conj(v), "valid")]
        return [np.einsum("...kj,...j->...k", windows(padded, v.shape[-1]), v)]

    def transpose(self, cts, args, params):
        (ct,), (a, v) = cts, args
        before, after = params["beyond"]
        if isinstance(v, Unknown):
            return [None, correlate(a, ct, before, after)]
        m = type_of(v).shape[-1]
        return [correlate(ct, movement.flip(v, (type_of(v).ndim - 1,)), m - 1 - before, m - 1 - after), None]

    def batch(self, size, args, mapped, params):
        lanes = [
            x if m else movement.broadcast(x, (size, *type_of(x).shape))
            for x, m in zip(args, mapped, strict=True)
        ]
        return bind(self, lanes, params), [True]

    def lower(self, e):
        (a, v), (out,), beyond = e.inputs, e.outputs, e.params["beyond"]
        lead, dtype, m = a.type.shape[:-1], a.type.dtype, v.type.shape[-1]
        terms = (*out.type.shape, m)
        new = lambda shape, dtype=dtype: Var(Type(np.dtype(dtype), shape))
        zero = Literal(dtype.type(0))
        seen, weights, products = new(terms), new(terms), new(terms)
        forms: list[nest.Form] = []
        if any(beyond):
            ends = [new((*lead, n)) for n in beyond]
            padded = new((*lead, a.type.shape[-1] + sum(beyond)))
            forms += [nest.Index((x,), (zero,), lambda read, i: read(0, ())) for x in ends]
            forms.append(nest.Concatenate((padded,), (ends[0], a, ends[1]), len(lead)))
            a, n = padded, a.type.shape[-1]
        forms += [
            nest.Index((seen,), (a,), lambda read, i: read(0, (*i[:-2], i[-2] + i[-1]))),
            nest.Index((weights,), (v,), lambda read, i: read(0, (*i[:-2], i[-1]))),
            nest.Elementwise((products,), (seen, weights), "mul"),
        ]
        if any(beyond) and dtype.kind in "fc":
            row = within(n, beyond)
            inside, here, chosen = new(row.shape, bool), new(terms, bool), new(terms)
            forms += [
                nest.Constant((inside,), (), row),
                nest.Index((here,), (inside,), lambda read, i: read(0, (i[-2] + i[-1],))),
                nest.Elementwise((chosen,), (here, products, zero), "select"),
            ]
            products = chosen
        return [*forms, nest.Reduce((out,), (products,), "sum", (len(lead) + 1,))]

    def details(self, params):
        return "with {} before and {} after".format(*params["beyond"])


correlate_ = Correlate()


def windows(x: Any, width: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, width, axis=-1)


def within(n: int, beyond: tuple[int, int]) -> Any:
    """Which elements of a padded row are the row's own."""
    before, after = beyond
    return np.repeat([False, True, False], [before, n, after])


def correlate(a: Any, v: Any, before: int, after: int) -> Any:
    return bind(correlate_, [a, v], {"beyond": (before, after)})[0]
