"""Branches as a user writes them: cond and switch.

Outside traces and maps the branch that the index names simply runs.  Inside, every branch is traced
over the same operands, and the choice is one operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.arguments import array_leaves, callable_, finished, raws, read_only, strong, type_or_none
from rune.constructs.cond import cond_
from rune.level import Value, apply, staging
from rune.primitives.effects import check_
from rune.primitives.map import cast
from rune.primitives.primitive import zeros
from rune.primitives.scalar import e
from rune.program import Program, Type, type_of
from rune.structure import Star, Tree, apart, describe
from rune.totals import Total, arrive
from rune.trace import over_all_captures, record, run
from rune.value import box

__all__ = ["cond", "switch"]


def cond(pred, on_true, on_false, *args):
    name = "rune.cond"
    callable_(name, on_true)
    callable_(name, on_false)
    p = raws([pred])[0]
    t = type_or_none(p)
    if t is None or t.shape:
        raise TypeError(
            f"{name}: the predicate must be one boolean, got {describe(pred) if t is None else t}"
        )
    index = cast(e.ne(p, 0) if t.dtype != bool else p, np.int64)
    return chosen(name, index, [("on_false", on_false), ("on_true", on_true)], args)


def switch(index, branches, *args):
    name = "rune.switch"
    if not isinstance(branches, (list, tuple)) or not branches:
        raise TypeError(f"{name}: branches must be a list of functions, got {describe(branches)}")
    for f in branches:
        callable_(name, f)
    k = raws([index])[0]
    t = type_or_none(k)
    if t is None or t.shape or t.dtype.kind not in "iu":
        raise TypeError(f"{name}: the index must be one integer, got {describe(index) if t is None else t}")
    return chosen(
        name, within(name, k, len(branches)), [(f"branches[{j}]", f) for j, f in enumerate(branches)], args
    )


def within(name: str, k: Any, n: int) -> Any:
    """The number of a branch, from an index that counts from either end; one that names none fails."""
    k = np.asarray(k) if type(k) is int else k
    wide = k if type_of(k).dtype == np.uint64 else cast(k, np.int64)
    wraps = type_of(wide).dtype.kind == "i"
    inside = e.logical_and(e.ge(wide, -n), e.lt(wide, n)) if wraps else e.lt(wide, n)
    message = f"{name}: the index is out of range for {n} branches"
    apply(check_, [inside], {"message": message, "lanes": 0, "error": IndexError})
    k = cast(wide, np.int64)
    return e.select(e.lt(k, 0), e.add(k, n), k) if wraps else k


def chosen(name: str, index: Any, branches: list, args: tuple) -> Any:
    given, tree = array_leaves(name, args)
    found = [strong(x) for x in raws(given)]
    if not isinstance(index, Value) and not staging():
        operands = tree.build([read_only(x) for x in found])
        leaves, out = array_leaves(name, branches[int(index)][1](*operands))
        return finished([strong(x) for x in raws(leaves)], out)
    dynamic = [type_or_none(x) is not None for x in found]
    values = [x for x, d in zip(found, dynamic, strict=True) if d]
    outs_tree: list[Tree] = []
    totals: list[list] = []
    types: list[list] = []
    results: list[list] = []
    traces = []
    for label, f in branches:

        def flat(inputs, f=f):
            given = iter(inputs)
            inside = tree.build(
                [read_only(next(given)) if d else x for x, d in zip(found, dynamic, strict=True)]
            )
            leaves, out = array_leaves(name, f(*inside))
            outs_tree.append(out)
            results.append(raws(leaves))
            types.append([type_or_none(x) for x in results[-1]])
            return [x for x, t in zip(results[-1], types[-1], strict=True) if t is not None]

        own: list = []
        traces.append((label, *record(name, [type_of(x) for x in values], flat, own)))
        totals.append(own)
    together = list(dict.fromkeys(total for own in totals for total in own))
    traces = with_totals(traces, totals, together)
    programs, captures = agreed(name, traces, outs_tree, types, results, len(values))
    operands = [index, *values, *captures]
    outs = apply(cond_, operands, {"branch": programs})
    n = sum(t is not None for t in types[0])
    arrive(list(zip(together, outs[n:], strict=True)))
    given = iter(outs)
    static = zip(results[0], types[0], strict=True)
    return outs_tree[0].build([x if t is None else box(next(given)) for x, t in static])


def agreed(
    name: str, traces: list, trees: list[Tree], types: list[list], results: list[list], n: int
) -> tuple[tuple[Program, ...], list[Value]]:
    """The branches over one list of operands, with results of one structure and one list of types.

    `types` are the results' own: a Python number takes the dtype of the other branches.  A leaf without
    a type is static, and the same from every branch.
    """
    labels = [label for label, _, _ in traces]
    whole = [tree.build([Star("an array or number")] * tree.size) for tree in trees]
    for label, tree, shown in zip(labels, trees, whole, strict=True):
        if tree != trees[0]:
            raise ValueError(f"{name}: {apart(shown, whole[0], f'from {label}', f'from {labels[0]}')}")
    common = []
    for k, (path, column) in enumerate(zip(trees[0].paths(), zip(*types, strict=True), strict=True)):
        where = f"{name}: {path}: " if path else f"{name}: "
        if None in column:
            static = [found[k] for found in results]
            for label, t, x in zip(labels, column, static, strict=True):
                if t is not None or type(x) is not type(static[0]) or x != static[0]:
                    raise ValueError(
                        f"{where}{t or describe(x)} from {label}, {column[0] or describe(static[0])} from {labels[0]}: "
                        "what is no array must be the same from every branch"
                    )
            continue
        first = next((j for j, t in enumerate(column) if not t.weak), 0)
        dtype = column[first].dtype
        if column[first].weak:
            dtype = np.result_type(*(t.dtype for t in column))
        for label, t in zip(labels, column, strict=True):
            if t.shape != column[first].shape or not t.fits(dtype):
                raise ValueError(f"{where}{t} from {label}, {column[first]} from {labels[first]}")
        common.append(dtype)
    common += [t.dtype for t in traces[0][1].output_types[len(common) :]]  # of additions to totals
    programs = []
    alike, captures = over_all_captures([(program, own) for _, program, own in traces], n)
    for program in alike:
        if [t.dtype for t in program.output_types] != common or any(t.weak for t in program.output_types):
            f = lambda xs, p=program: [cast(y, d) for y, d in zip(run(p, xs), common, strict=True)]
            program, _ = record(name, program.input_types, f)
        programs.append(program)
    return tuple(programs), captures


def with_totals(traces: list, totals: list[list[Total]], together: list[Total]) -> list:
    """The branches with the additions of all of them as results, zeros from one that adds nothing."""
    types: dict[Total, Type] = {}
    for (_, program, _), own in zip(traces, totals, strict=True):
        types.update(zip(own, program.output_types[len(program.outputs) - len(own) :], strict=True))
    found = []
    for (label, program, captures), own in zip(traces, totals, strict=True):
        if own != together:

            def f(inputs, program=program, own=own):
                outs = run(program, inputs)
                n = len(outs) - len(own)
                given = dict(zip(own, outs[n:], strict=True))
                return [*outs[:n], *(given.get(total, zeros(types[total])) for total in together)]

            program, _ = record(program.name, program.input_types, f)
        found.append((label, program, captures))
    return found
