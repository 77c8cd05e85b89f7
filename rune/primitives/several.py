"""scipy.special's ufuncs of several results, by one row each; compiled code calls the loop of their ufunc."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.primitive import Primitive
from rune.primitives.scalar import e
from rune.primitives.special import no_derivative, over, ufunc_of
from rune.program import Type, type_of

__all__ = ["SLOPES", "results"]


def quarter_turns(x: Any) -> Any:
    return e.mul(math.pi / 2, e.square(x))


def elliptic(u: Any, m: Any, sn: Any, cn: Any, dn: Any, ph: Any) -> tuple:
    return e.mul(cn, dn), e.neg(e.mul(sn, dn)), e.neg(e.mul(m, e.mul(sn, cn))), dn


SLOPES: dict[str, tuple[Callable, ...]] = {  # by each operand: the derivatives of all results
    "sici": (lambda x, *o: (over(x, e.sin(x), 1.0), e.div(e.cos(x), x)),),
    "shichi": (lambda x, *o: (over(x, e.sinh(x), 1.0), e.div(e.cosh(x), x)),),
    "fresnel": (lambda x, *o: (e.sin(quarter_turns(x)), e.cos(quarter_turns(x))),),
    "airy": (lambda x, ai, aip, bi, bip: (aip, e.mul(x, ai), bip, e.mul(x, bi)),),
    "ellipj": (elliptic, no_derivative("ellipj", "m")),
    "itj0y0": (lambda x, *o: (e.j0(x), e.y0(x)),),
    "iti0k0": (lambda x, *o: (e.i0(x), e.k0(x)),),
}


class Several(Primitive):
    """params: name; operands of one shape, in the dtypes of a loop"""

    name = "Several"

    def type(self, types, params):
        ufunc = ufunc_of(params["name"])
        dtypes = ufunc.resolve_dtypes((*(t.dtype for t in types), *(None,) * ufunc.nout))
        return [Type(d, types[0].shape) for d in dtypes[ufunc.nin :]]

    def evaluate(self, args, params):
        return list(ufunc_of(params["name"])(*args))

    def jvp(self, primals, tangents, params):
        outs = bind(self, primals, params)
        totals: list = [None] * len(outs)
        for slopes, t in zip(SLOPES[params["name"]], tangents, strict=True):
            if t is not None:
                moved = [e.mul(t, slope) for slope in slopes(*primals, *outs)]
                totals = [m if s is None else e.add(s, m) for s, m in zip(totals, moved, strict=True)]
        return outs, totals

    def batch(self, size, args, mapped, params):
        args = movement.all_in_lanes(args, mapped, size)
        return bind(self, args, params), [True] * ufunc_of(params["name"]).nout

    def lower(self, e):
        name = e.params["name"]
        return [nest.Library(e.outputs, e.inputs, name, {"ufunc": ufunc_of(name)})]

    def details(self, params):
        return params["name"]


several_ = Several()


def results(name: str, args: list) -> tuple:
    """The results for operands of any shapes and dtypes."""
    ufunc = ufunc_of(name)
    types = [type_of(a) for a in args]
    kinds = [{"f": float, "c": complex, "i": int}[t.dtype.kind] if t.weak else t.dtype for t in types]
    dtypes = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))[: ufunc.nin]
    shape = np.broadcast_shapes(*(t.shape for t in types))
    args = [movement.broadcast(cast(a, d), shape) for a, d in zip(args, dtypes, strict=True)]
    return tuple(bind(several_, args, {"name": name}))
