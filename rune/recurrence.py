"""Associative recurrences, computed in about log n passes over all rows at once.

y[k] = f(y[k-1], x[k]) for an associative f: pairs are combined, the recurrence of the pairs is solved,
and the rows between are filled in (Blelloch, 1990).  Every pass is elementwise over the rows, so it
vectorises where a loop would wait for its carry.
"""

from __future__ import annotations

import numpy as np

from rune.arguments import array_leaves, callable_, raws, type_or_none
from rune.structure import describe

__all__ = ["associative_scan"]

NAME = "rune.associative_scan"


def associative_scan(f, xs, *, reverse=False):
    callable_(NAME, f)
    leaves, tree = array_leaves(NAME, xs)
    first = None
    for x, path in zip(leaves, tree.paths(), strict=True):
        t = type_or_none(raws([x])[0])
        where = f"{NAME}: {path}: " if path else f"{NAME}: "
        if t is None or not t.shape:
            raise ValueError(f"{where}{describe(x)} has no rows: every leaf needs a leading axis")
        if first is None:
            first = (t.shape[0], path)
        elif t.shape[0] != first[0]:
            raise ValueError(f"{where}{t.shape[0]} rows, {first[1]}: {first[0]}")

    def combine(a: list, b: list) -> list:
        found, own = array_leaves(NAME, f(tree.build(a), tree.build(b)))
        if own != tree:
            raise ValueError(f"{NAME}: f returned a structure other than that of its arguments")
        return found

    rows = [np.flip(x, 0) for x in leaves] if reverse else leaves
    done = prefix(combine, rows)
    return tree.build([np.flip(x, 0) for x in done] if reverse else done)


def prefix(combine, rows: list) -> list:
    n = len(rows[0])
    if n < 2:
        return rows
    even, odd = [x[0 : n - 1 : 2] for x in rows], [x[1::2] for x in rows]
    pairs = prefix(combine, combine(even, odd))  # y at the odd places
    rest = [x[2::2] for x in rows]
    filled = combine(
        [x[: len(r)] for x, r in zip(pairs, rest, strict=True)], rest
    )  # y at the even places from 2
    return [woven(np.concatenate([x[:1], e]), o) for x, e, o in zip(rows, filled, pairs, strict=True)]


def woven(even, odd):
    """even[0], odd[0], even[1], odd[1], ...; `even` may have one row more."""
    k = len(odd)
    both = np.reshape(np.stack([even[:k], odd], 1), (2 * k, *np.shape(odd)[1:]))
    return both if len(even) == k else np.concatenate([both, even[k:]])
