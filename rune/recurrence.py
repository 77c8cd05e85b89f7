"""Associative recurrences, computed in about log n passes over all rows at once.

y[k] = f(y[k-1], x[k]) for an associative f: pairs are combined, the recurrence of the pairs is solved,
and the rows between are filled in (Blelloch, 1990).  Every pass is elementwise over the rows, so it
vectorises where a loop would wait for its carry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.arguments import array_leaves, callable_, raws, type_or_none
from rune.structure import describe

__all__ = ["associative_scan"]

NAME = "rune.associative_scan"


def associative_scan(f, xs, *, reverse=False, axis=0):
    callable_(NAME, f)
    leaves, tree = array_leaves(NAME, xs)
    paths = tree.paths()
    rows = [fronted(x, path, axis) for x, path in zip(leaves, paths, strict=True)]
    if not rows:
        raise ValueError(f"{NAME}: give xs with rows")
    for x, path in zip(rows, paths, strict=True):
        if len(x) != len(rows[0]):
            raise ValueError(f"{NAME}: {path}: {len(x)} rows, {paths[0]}: {len(rows[0])}")

    def combine(a: list, b: list) -> list:
        found, own = array_leaves(NAME, f(tree.build(a), tree.build(b)))
        if own != tree:
            raise ValueError(
                f"{NAME}: f returned a structure other than that of its arguments: {own}, not {tree}"
            )
        for x, y, path in zip(found, b, paths, strict=True):
            if np.shape(x) != np.shape(y):
                raise ValueError(
                    f"{NAME}: {at(path)}shape {list(np.shape(x))} in what f returned, {list(np.shape(y))} in its arguments: f takes any number of rows at once"
                )
        return found

    if reverse:
        rows = [np.flip(x, 0) for x in rows]
    done = prefix(combine, rows) if len(rows[0]) > 1 else [np.copy(x) for x in rows]
    if reverse:
        done = [np.flip(x, 0) for x in done]
    return tree.build([np.moveaxis(x, 0, axis) for x in done])


def fronted(x: Any, path: str, axis: Any) -> Any:
    """A leaf with its rows in front."""
    t = type_or_none(raws([x])[0])
    if t is None or not t.shape:
        raise ValueError(f"{NAME}: {at(path)}{describe(x)} has no rows: every leaf needs an axis of them")
    if not hasattr(type(axis), "__index__"):
        raise TypeError(f"{NAME}: axis must be an int, got {describe(axis)}")
    if not -t.ndim <= axis < t.ndim:
        raise ValueError(f"{NAME}: {at(path)}{describe(x)} has no axis {axis}")
    return np.moveaxis(x, axis, 0)


def at(path: str) -> str:
    return f"{path}: " if path else ""


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
