"""Maps: a function of one element applied to every lane of an axis at once."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from rune.arguments import array_leaves, callable_, fresh, of_list, raws, type_or_none
from rune.batch import Axis, Batch, Lanes, Same
from rune.constructs.lanes import all_lanes
from rune.level import Value, apply, opened, running
from rune.primitives import movement
from rune.program import type_of
from rune.structure import children, describe, flatten
from rune.totals import arrive, summed
from rune.value import box

__all__ = ["lane_index", "lanes", "vmap"]

NAME = "rune.vmap"


def vmap(f, in_axes=0, out_axes=0, *, axis_name=None, axis_size=None):
    callable_(NAME, f)
    lanes = None if axis_size is None else length("axis_size", axis_size)

    @functools.wraps(f, updated=())
    def mapped(*args, **keywords):
        given, tree = array_leaves(NAME, args)
        more, keyword_tree = array_leaves(NAME, keywords)
        leaves, paths = [*given, *more], [*tree.paths(), *keyword_tree.paths()]
        axes = [*axes_of("in_axes", in_axes, args), *map(first_axis, raws(more))]
        moved, size = fronted(leaves, paths, axes, lanes)
        level = Batch(NAME, Axis(size, axis_name))
        with opened(level):
            inside = [
                box(x if axis is None else Lanes(level, x)) for x, axis in zip(moved, axes, strict=True)
            ]
            result = f(*tree.build(inside[: len(given)]), **keyword_tree.build(inside[len(given) :]))
            found, out_tree = array_leaves(NAME, result)
            outs = axes_of("out_axes", out_axes, result)
            places = zip(raws(found), outs, out_tree.paths("result"), strict=True)
            results = [placed(level, x, axis, path) for x, axis, path in places]
            additions = [(total, summed(level.spread(x))) for total, x in level.additions.items()]
        arrive(additions)
        finished = [fresh(x) for x in results]
        return out_tree.build([box(x) if isinstance(x, Value) else x for x in finished])

    return mapped


def length(what: str, n: Any) -> int:
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"{NAME}: {what} must be an int, got {describe(n)}") from None
    if n < 0:
        raise ValueError(f"{NAME}: {what} must be at least 0, got {n}")
    return n


def first_axis(x: Any) -> int | None:
    """The axis of a keyword's leaf, as in JAX the first; None where it has none."""
    t = type_or_none(x)
    return 0 if t is not None and t.shape else None


def axes_of(what: str, axes: Any, tree: Any) -> list:
    """One axis (or None) per leaf of `tree`: `axes` is one for all, or a tree that stands over it."""
    here = children(axes)
    if here is None:
        if type(axes) is bool or not (axes is None or hasattr(type(axes), "__index__")):
            raise TypeError(f"{NAME}: {what}: an axis is an int or None, got {describe(axes)}")
        return [axes if axes is None else operator.index(axes)] * len(flatten(tree)[0])
    there = children(tree)
    if there is None or here.keys() != there.keys():
        asked = f"axes for {listed(here)}"
        found = (
            f"is {describe(tree)}"
            if there is None
            else f"{'are' if len(there) > 1 else 'is'} {listed(there)}"
        )
        raise ValueError(
            f"{NAME}: {what}: {asked}, where there {found}: give an int, None, or the same structure"
        )
    return [axis for name, x in there.items() for axis in axes_of(f"{what}.{name}", here[name], x)]


def listed(names: dict) -> str:
    """What a tree holds one level down: names, or the number of entries that have none."""
    if not names or any(type(n) is not int for n in names):
        return ", ".join(map(str, names)) or "nothing"
    return f"{len(names)} {'entries' if len(names) > 1 else 'entry'}"


def fronted(leaves: list, paths: list[str], axes: list, size: int | None) -> tuple[list, int]:
    """The mapped leaves with their axis in front, and the number of lanes, which all share."""
    first, moved = None, []
    for x, path, axis in zip(raws(leaves), paths, axes, strict=True):
        if axis is None:
            moved.append(x)
            continue
        t = type_or_none(x)
        if t is None or not -t.ndim <= axis < t.ndim:
            raise ValueError(
                f"{NAME}: {path}: {describe(x) if t is None else t} has no axis {axis} to map over: give None for it in in_axes{of_list(path)}"
            )
        axis %= t.ndim
        rows = t.shape[axis]
        if size is None:
            size, first = rows, path
        elif rows != size:
            other = f"{first}: {size}" if first is not None else f"axis_size: {size}"
            raise ValueError(f"{NAME}: {path}: {rows} rows along axis {axis}, {other}")
        moved.append(movement.permute(x, (axis, *(k for k in range(t.ndim) if k != axis))))
    if size is None:
        raise ValueError(f"{NAME}: no argument is mapped: give an axis in in_axes, or axis_size")
    return moved, size


def placed(level: Batch, x: Any, axis: int | None, path: str) -> Any:
    """A result with its lanes at `axis`; one that depends on no lane is broadcast to them."""
    if type_or_none(x) is None:
        return x  # a static leaf comes back as it is
    if axis is None:
        if level.owns(x):
            raise ValueError(
                f"{NAME}: {path}: out_axes is None for what differs from lane to lane: give it an axis"
            )
        return level.common(x)
    stacked = level.spread(x)
    n = type_of(stacked).ndim
    if not -n <= axis < n:
        raise ValueError(f"{NAME}: {path}: out_axes has axis {axis}, of {n} with the mapped one")
    axis %= n
    order = [*range(1, n)]
    order.insert(axis, 0)
    return movement.permute(stacked, tuple(order))


def named(entry: str, axis_name: Any) -> Batch:
    """The innermost running map of that name."""
    maps = (m for m in reversed(running()) if isinstance(m, Batch) and m.size.name == axis_name)
    level = None if axis_name is None else next(maps, None)
    if level is None:
        raise NameError(f"{entry}: no running map is named {axis_name!r}: give it to rune.vmap as axis_name")
    return level


def lanes(x, axis_name):
    level = named("rune.lanes", axis_name)
    found, tree = array_leaves("rune.lanes", x)
    params = {"axis": axis_name, "size": level.size}

    def stacked(value):
        if type_or_none(value) is None:
            return value  # a static leaf is what it is
        (x,) = apply(all_lanes, [value], params)
        return box(x if above(level, x) else Same(level, x))

    return tree.build([stacked(value) for value in raws(found)])


def above(level: Batch, x: Any) -> bool:
    """Whether a transformation inside the map owns `x`."""
    return isinstance(x, Value) and x.level.depth > level.depth


def lane_index(axis_name):
    level = named("rune.lane_index", axis_name)
    return box(Lanes(level, np.arange(level.size)))
