"""Moving a value between levels by hand: into the innermost transformation, and out of differentiation."""

from __future__ import annotations

import numpy as np

from rune.jvp import Forward
from rune.level import Value, innermost
from rune.numpy.arguments import operand
from rune.numpy.making import array
from rune.primitives import effects
from rune.structure import flatten
from rune.value import Traced, box, raw, unbox

__all__ = ["asarray", "detach"]


def asarray(x):
    level = innermost()
    if level is None:
        return np.asarray(x)
    try:
        plain = operand(unbox(x))
    except TypeError as error:
        raise TypeError(f"rune.asarray: {error}") from None
    return box(level.lift(array(plain)))


def detach(x):
    found, tree = flatten(x)
    if not any(isinstance(leaf, Traced) for leaf in found):
        return x

    def stripped(leaf):
        value = raw(leaf)
        while isinstance(value, Value) and isinstance(value.level, Forward):
            value = value.primal
        # What is left is a value of a trace or a map, whose program may be differentiated later.
        return box(effects.detach(value) if isinstance(value, Value) else value)

    return tree.build([stripped(leaf) for leaf in found])
