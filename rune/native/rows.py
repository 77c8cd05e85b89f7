"""Nests that share their outer loops.

A softmax is three nests: the maximum, the sum, the quotient.  Each row of one needs the same row of
the others only.  Joined, they run row by row: a row stays in cache from the first nest to the last,
and what only they read needs the memory of one row.
"""

from __future__ import annotations

import math

from rune.program import Var

from . import nest
from .view import view_of


def size(shape) -> int:
    return math.prod(shape)


def in_rows(plan, stages: list, make) -> list:
    """The stages, neighbouring nests joined where they fit (`make` is the class of a stage)."""
    out: list = []
    group: list = []
    q = 0

    def close():
        if len(group) > 1:
            space = max((s.space for s in group), key=size)
            forms = [f for s in group for f in s.forms]
            reads = set().union(*(s.reads for s in group))
            out.append(make("rows", forms, space, reads, nests=list(group), outer=q))
        else:
            out.extend(group)
        group.clear()

    for stage in stages:
        if stage.kind != "nest" or not fits_rows(plan, stage):
            close()
            out.append(stage)
            continue
        if group:
            both = outer_axes(plan, [*group, stage])
            if both and (len(group) == 1 or both == q):
                group.append(stage)
                q = both
                continue
            close()
        group.append(stage)
    close()
    return out


def fits_rows(plan, stage) -> bool:
    """Whether the sinks of a nest reduce over their last axes only."""
    for f in stage.forms:
        if plan.folds(f):
            n = len(f.inputs[0].type.shape)
            if sorted(f.axes) != list(range(n - len(f.axes), n)) or len(f.axes) == n:
                return False
    return size(stage.space) > 0


def outer_axes(plan, group) -> int:
    """The most leading axes that nests can share, or 0."""
    spaces = [s.space for s in group]
    if max(map(size, spaces)) < 4096:
        return 0
    inside = {f.outs[0] for s in group for f in s.forms}
    if not any(s.reads & inside for s in group):
        return 0
    most = min(len(s) for s in spaces)
    for s in group:
        for f in s.forms:
            if plan.folds(f):
                most = min(most, len(f.outs[0].type.shape))
    for q in range(most, 0, -1):
        rows = size(spaces[0][:q])
        if (
            any(s[:q] != spaces[0][:q] for s in spaces)
            or not 32 <= max(map(size, spaces)) // rows <= 1 << 15
            or rows < 8
        ):
            continue
        if all(row_local(plan, f, q, inside) for s in group for f in s.forms):
            return q
    return 0


def keeps_row(f, k: int, q: int) -> bool:
    """Whether a form reads its input k at the first q components of its own index."""
    x, out = f.inputs[k].type.shape, f.outs[0].type.shape
    if isinstance(f, nest.Elementwise):
        return len(x) == len(out) and x[:q] == out[:q]
    if isinstance(f, nest.Reduce):
        return all(d >= q for d in f.axes)
    if isinstance(f, nest.Index):
        view = view_of(f)
        if view is None or len(x) < q or x[:q] != out[:q] or any(view[1][:q]):
            return False
        steps = view[2]
        return all(row[e] == int(d == e) or out[d] == 1 for e in range(q) for d, row in enumerate(steps))
    if isinstance(f, nest.Concatenate):
        return f.axis >= q
    if isinstance(f, nest.Update):
        return k == 0 or (not any(f.starts[:q]) and x[:q] == out[:q])
    if isinstance(f, nest.Contract):
        return f.batch[min(k, 1)][:q] == tuple(range(q))
    return False


def row_local(plan, f, q: int, inside: set) -> bool:
    """Whether a sink reads what the group computes at its own row only."""
    stack = [(x, plan.folds(f) or keeps_row(f, k, q)) for k, x in enumerate(f.inputs) if isinstance(x, Var)]
    seen = set()
    while stack:
        x, same = stack.pop()
        if (x, same) in seen:
            continue
        seen.add((x, same))
        if plan.role.get(x) == "inline":
            g = plan.form_of[x]
            stack.extend(
                (y, same and keeps_row(g, k, q)) for k, y in enumerate(g.inputs) if isinstance(y, Var)
            )
        elif x in inside and not same:
            return False
    return True
