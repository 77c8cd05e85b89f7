"""The host call: Python called from a program, with a result whose type was declared.

The host is never called while tracing.  Under a map it is called once per lane.  It has no derivative.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rune.arguments import callable_, finished, leaf_type, parted
from rune.level import Value, apply, bind
from rune.native import nest
from rune.primitives.primitive import Primitive, zeros
from rune.program import Type
from rune.structure import describe, flatten
from rune.value import box

__all__ = ["callback"]

NAME = "rune.callback"


class Host(Primitive):
    name = "host"

    def effect(self, params):
        return "host"

    def type(self, types, params):
        return list(params["types"])

    def evaluate(self, args, params):
        return params["call"](*args)

    def jvp(self, primals, tangents, params):
        raise TypeError(
            f"{NAME}: a call of the host has no derivative: pass rune.detach(x), or give a rule with rune.custom_vjp"
        )

    def batch(self, size, args, mapped, params):
        if size == 0:  # the host is called for no lane
            return [zeros(Type(t.dtype, (0, *t.shape))) for t in params["types"]], [True] * len(
                params["types"]
            )
        call = functools.partial(per_lane, params["call"], size, tuple(mapped))
        types = tuple(Type(t.dtype, (size, *t.shape)) for t in params["types"])
        outs = bind(self, args, {**params, "call": call, "types": types})
        return outs, [True] * len(outs)

    def lower(self, e):
        return [nest.Host(e.outputs, e.inputs, e.params["call"], e.params["name"])]

    def show(self, e, name):
        return f"host {e.params['name']} ({', '.join(name(v) for v in e.inputs)})", []


host_ = Host()


def per_lane(call: Any, size: int, mapped: tuple[bool, ...], *args: Any) -> list:
    """`call` for every lane, the results stacked."""
    lanes = [call(*(a[k] if m else a for a, m in zip(args, mapped, strict=True))) for k in range(size)]
    return [np.stack(column) for column in zip(*lanes, strict=True)]


class Checked:
    """The user's host function on a tree of arguments, its result checked against the declared types."""

    def __init__(self, f: Any, args: Any, out: Any, types: tuple[Type, ...]):
        self.f = f
        self.args = args
        self.out = out
        self.types = types

    def __call__(self, *leaves: Any) -> list:
        result = self.f(*self.args.build([np.array(x)[()] for x in leaves]))
        found, tree = flatten(result)
        if tree != self.out:
            raise ValueError(
                f"{NAME}: the host returned {describe(result)}, a structure other than that of `like`"
            )
        arrays = []
        for x, t, path in zip(found, self.types, tree.paths(), strict=True):
            own = leaf_type(x)
            where = f"{NAME}: {path}: " if path else f"{NAME}: "
            if own is None or own.shape != t.shape or not own.fits(t.dtype):
                raise ValueError(f"{where}{describe(x)} returned by the host, {t} in `like`")
            arrays.append(np.asarray(x, t.dtype))
        return arrays


def declared(x: Any, path: str) -> Type:
    """The type that a leaf of `like` declares: an array's, or that of anything with shape and dtype."""
    t = leaf_type(x)
    if t is None and not isinstance(x, type) and hasattr(x, "shape") and hasattr(x, "dtype"):
        t = Type(np.dtype(x.dtype), tuple(x.shape))
    if t is None:
        raise TypeError(
            f"{NAME}: {path or 'like'}: {describe(x)} has no shape and dtype: give an array, or np.float64(0) for a number"
        )
    return t.strong()


def callback(host, like, *args):
    callable_(NAME, host)
    shapes, out = flatten(like)
    types = tuple(declared(x, path) for x, path in zip(shapes, out.paths(), strict=True))
    values, tree = parted(NAME, args)
    call = Checked(host, tree, out, types)
    params = {"call": call, "types": types, "name": getattr(host, "__name__", "host")}
    outs = apply(host_, values, params)
    if any(isinstance(x, Value) for x in outs):
        return out.build([box(x) for x in outs])
    return finished(outs, out)
