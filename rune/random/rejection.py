"""Rejection: the first of a sequence of proposals that is accepted, element by element.

Turn t of element i reads the counters (t, i), so an element's draw does not depend on how many turns
its neighbours take: plain NumPy proposes again where it must, and a program proposes everywhere until
all have accepted, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.loops import iterate
from rune.random.keys import BLOCK, counters, threefry
from rune.value import Traced

__all__ = ["first_accepted"]

TURNS = 1000  # far more than any element takes: a turn accepts with probability 0.7 or more


def first_accepted(propose: Callable, key: Any, parameters: tuple, value: Any, done: Any) -> Any:
    """`value` where `done`, elsewhere the first proposal that is accepted.

    `propose(words, *parameters)` gives (proposal, accepted) of each element; `words` are two pairs of
    words.  All have one shape.
    """
    shape = np.shape(value)
    if any(isinstance(x, Traced) for x in (key, value, done, *parameters)):
        return looped(propose, key, shape, parameters, value, done)
    value, done, *parameters = (np.array(x).reshape(-1) for x in (value, done, *parameters))
    for start in range(0, value.size, BLOCK):
        open_ = start + np.flatnonzero(~done[start : start + BLOCK])
        for turn in range(TURNS):
            if not open_.size:
                break
            words = pairs(key, np.uint32(turn), open_.astype(np.uint32))
            proposal, accepted = propose(words, *(x[open_] for x in parameters))
            value[open_[accepted]] = proposal[accepted]
            open_ = open_[~accepted]
    return value.reshape(shape)


def looped(propose: Callable, key: Any, shape: tuple, parameters: tuple, value: Any, done: Any) -> Any:
    index = counters(shape)

    def step(carry):
        turn, value, done = carry
        proposal, accepted = propose(pairs(key, turn, index), *parameters)
        return turn + 1, np.where(done, value, proposal), done | accepted

    carry = (np.uint32(0), value, done)
    return iterate(step, carry, until=lambda c: np.all(c[2]), max_steps=TURNS)[1]


def pairs(key: Any, turn: Any, index: Any) -> tuple:
    with np.errstate(over="ignore"):
        return threefry(key[0], key[1], 2 * turn, index), threefry(key[0], key[1], 2 * turn + 1, index)
