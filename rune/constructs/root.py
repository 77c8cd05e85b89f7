"""Roots, differentiated implicitly.

`root(residual, solve)` takes what `solve()` returns as an x with residual(x) = 0.  With a the traced
values that `residual` captures, dx = -(d residual / dx)^-1 (d residual / da) da, by the implicit
function theorem; the solver is never differentiated.  The primitive holds the residual's program over
(x, a); its value is x itself, so that a derivative of the derivative sees x depend on a again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune import derive
from rune.arguments import array_leaves, callable_, raws, type_or_none
from rune.batch import Batch, Lanes
from rune.level import Value, apply, bind, opened
from rune.native import nest
from rune.primitives import effects, linalg, movement
from rune.primitives.map import cast
from rune.primitives.primitive import Primitive
from rune.primitives.scalar import e
from rune.program import Program, Type, type_of
from rune.structure import Tree, describe
from rune.trace import record, run
from rune.value import box

__all__ = ["fixed_point", "root"]

NAME = "rune.root"


class Root(Primitive):
    """(x..., captures...) -> x, a zero of the residual's program in x for these captures."""

    name = "root"
    recompute = False

    def type(self, types, params):
        return [t.strong() for t in types[: params["unknowns"]]]

    def evaluate(self, args, params):
        return list(args[: params["unknowns"]])

    def jvp(self, primals, tangents, params):
        residual, n = params["residual"], params["unknowns"]
        xs = bind(self, primals, params)
        mask = (*(False,) * n, *(t is not None for t in tangents[n:]))
        if not any(mask):
            return xs, [None] * n
        at = [*xs, *primals[n:]]
        force = (True,) * n
        program, _ = derive.jvp(residual, mask, force)
        moved = run(program, [*at, *(t for t in tangents[n:] if t is not None)])[n:]
        found = params["linear_solve"](residual, at, [e.neg(r) for r in moved])
        return xs, found

    def batch(self, size, args, mapped, params):
        n = params["unknowns"]
        mask = tuple(k < n or m for k, m in enumerate(mapped))
        args = [
            a if m or k >= n else movement.broadcast(a, (size, *type_of(a).shape))
            for k, (a, m) in enumerate(zip(args, mapped, strict=True))
        ]
        over, _ = derive.batch(params["residual"], mask, size, (True,) * n)
        solver = Lanewise(params["linear_solve"], params["residual"], mask, size)
        return bind(self, args, {**params, "residual": over, "linear_solve": solver}), [True] * n

    def lower(self, eq):
        n = eq.params["unknowns"]
        return [
            f
            for v, x in zip(eq.outputs, eq.inputs[:n], strict=True)
            for f in [nest.Index((v,), (x,), lambda read, i: read(0, i))]
        ]

    def show(self, e, name):
        n = e.params["unknowns"]
        listed = lambda vs: "(" + ", ".join(map(name, vs)) + ")"
        return f"root {listed(e.inputs[:n])}, captures {listed(e.inputs[n:])}", []


root_ = Root()


def dense(residual: Program, at: list, b: list) -> list:
    """J y = b for the Jacobian J of the residual by its unknowns, column by column as one matrix."""
    n = len(b)
    types = residual.input_types[:n]
    sizes = [t.size for t in types]
    total = sum(sizes)
    mask = (*(True,) * n, *(False,) * (len(at) - n))
    program, _ = derive.jvp(residual, mask, (True,) * n)
    lanes = (*(False,) * len(at), *(True,) * n)
    over, _ = derive.batch(program, lanes, total, (True,) * len(program.outputs))
    columns = run(over, [*at, *basis(types, total)])[n:]
    rows = [
        movement.permute(movement.reshape(c, (total, t.size)), (1, 0))
        for c, t in zip(columns, types, strict=True)
    ]
    matrix = movement.concatenate(rows, 0)
    right = movement.concatenate(
        [movement.reshape(x, (size, 1)) for x, size in zip(b, sizes, strict=True)], 0
    )
    y = linalg.solve(matrix, right)
    parts, start = [], 0
    for t in types:
        parts.append(movement.reshape(movement.part(y, 0, start, start + t.size), t.shape))
        start += t.size
    return parts


def basis(types: list[Type], total: int) -> list:
    stacks, at = [], 0
    for t in types:
        block = np.zeros((total, t.size), t.dtype)
        block[at : at + t.size] = np.eye(t.size, dtype=t.dtype)
        stacks.append(block.reshape(total, *t.shape))
        at += t.size
    return stacks


class Lanewise:
    """A linear solve applied to every lane, for a residual that was batched."""

    def __init__(self, solve: Any, residual: Program, mask: tuple, size: int):
        self.solve, self.residual, self.mask, self.size = solve, residual, mask, size

    def __call__(self, _: Program, at: list, b: list) -> list:
        level = Batch(NAME, self.size)
        with opened(level):
            inside = [Lanes(level, x) if m else x for x, m in zip(at, self.mask, strict=True)]
            found = self.solve(self.residual, inside, [Lanes(level, x) for x in b])
            return [level.spread(x) for x in found]


class UserSolve:
    """The user's `linear_solve(matvec, b)` on structures like x."""

    def __init__(self, f: Any, tree: Tree):
        self.f = f
        self.tree = tree

    def __call__(self, residual: Program, at: list, b: list) -> list:
        n = len(b)
        mask = (*(True,) * n, *(False,) * (len(at) - n))
        program, _ = derive.jvp(residual, mask, (True,) * n)

        def matvec(v):
            return self.tree.build([box(x) for x in run(program, [*at, *raws(array_leaves(NAME, v)[0])])[n:]])

        found, tree = array_leaves(NAME, self.f(matvec, self.tree.build([box(x) for x in b])))
        if tree != self.tree:
            raise ValueError(
                f"{NAME}: linear_solve returned a structure other than that of its right-hand side"
            )
        return raws(found)


def root(residual, solve, linear_solve=None):
    callable_(NAME, residual)
    callable_(NAME, solve, "second")
    if linear_solve is not None:
        callable_(NAME, linear_solve, "third")
    found, tree = array_leaves(NAME, solve())
    xs = []
    for x, path in zip(raws(found), tree.paths(), strict=True):
        t = type_or_none(x)
        if t is None or not t.inexact:
            raise TypeError(
                f"{NAME}: {path or 'the solution'}: {describe(x) if t is None else t} is no real or complex array"
            )
        xs.append(effects.detach(cast(x, t.dtype)))

    def flat(inputs):
        result, out = array_leaves(NAME, residual(tree.build([box(x) for x in inputs])))
        if out != tree:
            raise ValueError(f"{NAME}: the residual has another structure than the solution")
        outs = raws(result)
        for r, x, path in zip(outs, inputs, tree.paths(), strict=True):
            if type_of(r).shape != type_of(x).shape:
                where = f"{NAME}: {path}: " if path else f"{NAME}: "
                raise ValueError(f"{where}{type_of(r)} in the residual, {type_of(x)} in the solution")
        return [cast(r, type_of(x).dtype) for r, x in zip(outs, inputs, strict=True)]

    program, captures = record(NAME, [type_of(x) for x in xs], flat)
    solver = dense if linear_solve is None else UserSolve(linear_solve, tree)
    outs = apply(root_, [*xs, *captures], {"residual": program, "unknowns": len(xs), "linear_solve": solver})
    return tree.build([box(x) if isinstance(x, Value) else x for x in outs])


def fixed_point(f, solve, linear_solve=None):
    callable_("rune.fixed_point", f)
    callable_("rune.fixed_point", solve, "second")

    def residual(x):
        found, tree = array_leaves("rune.fixed_point", x)
        image, out = array_leaves("rune.fixed_point", f(x))
        if out != tree:
            raise ValueError("rune.fixed_point: f(x) has another structure than x")
        return tree.build([box(e.sub(a, b)) for a, b in zip(raws(image), raws(found), strict=True)])

    return root(residual, solve, linear_solve)
