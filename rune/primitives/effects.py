"""Operations that are about derivatives and failures, not about numbers: detach and check.

`detach` is the identity with a zero derivative.  `check` has no result: where an element of its
operand is false, the call fails with the user's message, the step of the loop and the lane of the map.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import bind
from rune.native import nest
from rune.primitives import movement
from rune.primitives.primitive import Primitive, where_taken
from rune.primitives.scalar import e
from rune.program import type_of

__all__ = ["check_", "detach", "gate", "located"]


class Detach(Primitive):
    name = "Detach"

    def type(self, types, params):
        return list(types)

    def evaluate(self, args, params):
        return list(args)

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), [None]

    def linear_in(self, flags, params):
        return True  # among linear operations it is the zero, which `gate` adds to what passes

    def transpose(self, cts, args, params):
        return [None]

    def batch(self, size, args, mapped, params):
        return bind(self, args, params), [True]

    def lower(self, e):
        return [nest.Index(e.outputs, e.inputs, lambda read, i: read(0, i))]


class Check(Primitive):
    """inputs (ok): a boolean array whose first `lanes` axes are the lanes of maps; `error` is what it raises."""

    name = "Check"
    recompute = False

    def effect(self, params):
        return "fail"

    def type(self, types, params):
        return []

    def evaluate(self, args, params):
        ok = np.asarray(args[0])
        if not ok.all():
            raise failure(params, ok.shape, ok.size, int(np.argmin(ok.ravel())), ())
        return []

    def jvp(self, primals, tangents, params):
        return bind(self, primals, params), []

    def batch(self, size, args, mapped, params):
        return bind(self, args, {**params, "lanes": params["lanes"] + 1}), []

    def lower(self, e):
        t = e.inputs[0].type
        error = lambda flat, steps: failure(e.params, t.shape, t.size, flat, steps)
        return [nest.Check((), e.inputs, error)]

    def harmless(self, args, taken):
        return [where_taken(taken, args[0], np.bool_(True))]

    def details(self, params):
        return repr(params["message"])


detach_, check_ = Detach(), Check()


def failure(params: dict, shape: tuple[int, ...], size: int, flat: int, steps: tuple[int, ...]) -> Exception:
    """The error of a failed check, with the step and the lane in which it failed."""
    lanes = shape[: params["lanes"]]
    lane = flat // (size // int(np.prod(lanes))) if lanes else 0
    return params.get("error", ValueError)(params["message"] + located(steps, lane, lanes))


def located(steps: tuple[int, ...], lane: int, lanes: tuple[int, ...]) -> str:
    """Where something failed, as in ` (in step 3, lane 1)`: the steps of the loops around, and a lane of maps."""
    where = [f"step {k}" for k in steps]
    if lanes:
        where += [f"lane {', '.join(str(int(k)) for k in np.unravel_index(lane, lanes))}"]
    return f" (in {', '.join(where)})" if where else ""


def detach(x: Any) -> Any:
    return bind(detach_, [x], {})[0]


def gate(open: Any, x: Any) -> Any:
    """`x`, through which a derivative passes only where `open` holds (lanes of a branch not taken)."""
    t = type_of(x)
    if not t.inexact:
        return x
    flag = type_of(open)
    return e.select(movement.reshape(open, flag.shape + (1,) * (t.ndim - flag.ndim)), x, detach(x))
