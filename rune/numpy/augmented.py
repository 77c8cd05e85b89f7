"""`plain += traced`: rebinding a plain array's name, where nothing is lost by it.

Python calls `plain.__iadd__(traced)`, which NumPy passes on as `np.add(plain, traced, out=(plain,))`.
A plain array cannot hold a traced value, so the result is a new array, and that is the same to the
program only if the result is stored (the calling instruction is an augmented assignment) and nothing
else holds the old array.  The first is read from the calling frame's bytecode, the second from the
array's reference count, compared with counts taken at import of arrays known to be unshared, one for
every kind of place (a variable, an attribute, an item) that an assignment stores into.
"""

from __future__ import annotations

import dis
import sys
from typing import Any

import numpy as np

from rune.level import Level, TracedValueError, Value
from rune.numpy import elementwise  # noqa: F401  (its ufuncs are what the counts below are taken with)
from rune.numpy.arguments import dtype_of, shape_of
from rune.primitives.map import cast
from rune.program import Type
from rune.value import Traced, box, tables, unbox

__all__ = ["augmented"]

IN_PLACE = {k for k, (_, symbol) in enumerate(dis._nb_ops) if symbol.endswith("=")}
BINARY_OP = dis.opmap["BINARY_OP"]
ARRANGING = {
    dis.opmap[name] for name in ("CACHE", "SWAP", "COPY", "NOP", "EXTENDED_ARG") if name in dis.opmap
}


def stored(frame: Any) -> str:
    """The instruction that stores the result of the augmented assignment `frame` stands at; "" if none."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] != BINARY_OP or code[at + 1] not in IN_PLACE:
        return ""
    at += 2
    while at < len(code) and code[at] in ARRANGING:
        at += 2
    return dis.opname[code[at]] if at < len(code) else ""


def kind_of_store(name: str) -> str:
    """Stores whose places hold an array alike count as one."""
    return name if name.startswith("STORE_") else ""


def augmented(box_: Traced, ufunc: np.ufunc, method: str, out: tuple, inputs: tuple, keywords: dict) -> Any:
    """The result of a ufunc asked to write into a plain array; called by `Traced.__array_ufunc__`."""
    if method == "__call__" and len(out) == 1 and inputs and inputs[0] is out[0] and not keywords:
        place = kind_of_store(stored(sys._getframe(2)))
        target = out[0]
        if place and sys.getrefcount(target) <= ALONE.get(place, 0) and owns(target):
            return rebound(ufunc, target, inputs)
    raise lost(box_, ufunc)


def owns(target: np.ndarray) -> bool:
    """Whether the array's elements are reached through it alone."""
    base = target.base
    return target.flags.writeable and (
        base is None or (type(base) is np.ndarray and base.base is None and sys.getrefcount(base) <= BASE)
    )


def rebound(ufunc: np.ufunc, target: np.ndarray, inputs: tuple) -> Any:
    new = tables.ufuncs[ufunc](*unbox(inputs))
    dtype = dtype_of(new)
    if not np.can_cast(dtype, target.dtype, "same_kind"):
        raise TypeError(
            f"Cannot cast ufunc '{ufunc.__name__}' output from {dtype!r} to {target.dtype!r} with casting rule 'same_kind'"
        )
    if shape_of(new) != target.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast shape {shape_of(new)}"
        )
    return box(cast(new, target.dtype))


def lost(box_: Traced, ufunc: np.ufunc) -> TracedValueError:
    return TracedValueError(
        f"numpy.{ufunc.__name__}: the value is traced by {box_._read().level.name}; a plain array cannot hold it: write y = y + x "
        f"instead of y += x where something else holds y, leave out= away, or start from rune.asarray(y) or np.zeros_like(x)"
    )


# What the reference count of an unshared array is, for each place, seen from `augmented`.


class Probe(Value):
    type = Type(np.dtype(np.float64), ())


def measured() -> tuple[dict, int]:
    counts: dict = {}
    bases = []

    def watch(box_, ufunc, method, out, inputs, keywords):
        target = out[0]
        counts[kind_of_store(stored(sys._getframe(2)))] = sys.getrefcount(target)
        base = target.base
        if base is not None:
            bases.append(sys.getrefcount(base))
        del base
        return target

    probe = Probe()
    probe.level = Level("rune")
    x = Traced(probe)
    before, tables.augmented = tables.augmented, watch
    try:
        scope = {"np": np, "x": x}
        exec(PLACES, scope)
        scope["run"]()
        exec("y = np.zeros(1)\ny += x", {"np": np, "x": x})
    finally:
        tables.augmented = before
    return counts, max(bases)


PLACES = """
class Place:
    pass

def run():
    y = np.zeros(1)
    y += x
    y = np.arange(2.0).reshape(1, 2)
    y += x
    a = Place()
    a.y = np.zeros(1)
    a.y += x
    d = {"y": np.zeros(1)}
    d["y"] += x
    c = np.zeros(1)
    def inside():
        nonlocal c
        c += x
    inside()
    global g
    g = np.zeros(1)
    g += x
"""


ALONE, BASE = measured()
tables.augmented = augmented
