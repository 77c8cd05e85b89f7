"""Maps: a function of one element applied to every lane of an axis at once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rune.arguments import array_leaves, callable_, fresh, of_list, raws, type_or_none
from rune.batch import Axis, Batch, Lanes
from rune.constructs.lanes import all_lanes
from rune.level import Value, apply, opened, running
from rune.primitives import movement
from rune.program import type_of
from rune.structure import describe, flatten
from rune.totals import arrive, summed
from rune.value import box

__all__ = ["lane_index", "lanes", "vmap"]

NAME = "rune.vmap"


def vmap(f, in_axes=0, out_axes=0, *, axis_name=None, axis_size=None):
    callable_(NAME, f)

    @functools.wraps(f, updated=())
    def mapped(*args, **keywords):
        leaves, tree = array_leaves(NAME, args)
        paths = tree.paths()
        axes = axes_of(in_axes, args, len(leaves))
        moved, size = fronted(leaves, paths, axes, axis_size)
        level = Batch(NAME, Axis(size, axis_name))
        with opened(level):
            inside = [
                box(x if axis is None else Lanes(level, x)) for x, axis in zip(moved, axes, strict=True)
            ]
            result = f(*tree.build(inside), **keywords)
            found, out_tree = array_leaves(NAME, result)
            outs = axes_of(out_axes, result, len(found), "out_axes")
            results = [placed(level, x, axis) for x, axis in zip(raws(found), outs, strict=True)]
            additions = [(total, summed(level.spread(x))) for total, x in level.additions.items()]
        arrive(additions)
        finished = [fresh(x) for x in results]
        return out_tree.build([box(x) if isinstance(x, Value) else x for x in finished])

    return mapped


def axes_of(axes: Any, tree: Any, count: int, what: str = "in_axes") -> list:
    """One axis (or None) per leaf: `axes` is one for all, or a tree that stands over the arguments."""
    if axes is None or type(axes) is int:
        return [axes] * count
    found: list = []

    def walk(a, x, path):
        if a is None or type(a) is int:
            found.extend([a] * len(flatten(x)[0]))
        elif isinstance(a, dict) and isinstance(x, dict) and a.keys() == x.keys():
            for k in sorted(a, key=str):
                walk(a[k], x[k], f"{path}.{k}")
        elif isinstance(a, (tuple, list)) and isinstance(x, (tuple, list)) and len(a) == len(x):
            for k, (i, j) in enumerate(zip(a, x, strict=True)):
                walk(i, j, f"{path}.{k}")
        else:
            raise ValueError(
                f"{NAME}: {what}{path}: {describe(a)} does not fit the structure there: give an int, None, or the same structure"
            )

    walk(axes, tree, "")
    return found


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


def placed(level: Batch, x: Any, axis: int | None) -> Any:
    """A result with its lanes at `axis`; one that depends on no lane is broadcast to them."""
    if type_or_none(x) is None:
        return x  # a static leaf comes back as it is
    if axis is None:
        if level.owns(x):
            raise ValueError(
                f"{NAME}: out_axes is None for a result that differs from lane to lane: give it an axis"
            )
        return x
    stacked = level.spread(x)
    n = type_of(stacked).ndim
    if not -n <= axis < n:
        raise ValueError(f"{NAME}: out_axes: axis {axis} of a result of {n} axes with the mapped one")
    axis %= n
    order = [*range(1, n)]
    order.insert(axis, 0)
    return movement.permute(stacked, tuple(order))


def named(entry: str, axis_name: Any) -> Batch:
    """The innermost running map of that name."""
    level = next((m for m in reversed(running()) if isinstance(m, Batch) and m.size.name == axis_name), None)
    if level is None:
        raise NameError(f"{entry}: no running map is named {axis_name!r}: give it to rune.vmap as axis_name")
    return level


def lanes(x, axis_name):
    level = named("rune.lanes", axis_name)
    found, tree = array_leaves("rune.lanes", x)
    params = {"axis": axis_name, "size": level.size}
    return tree.build([box(apply(all_lanes, [value], params)[0]) for value in raws(found)])


def lane_index(axis_name):
    level = named("rune.lane_index", axis_name)
    return box(Lanes(level, np.arange(level.size)))
