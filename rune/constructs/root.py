"""Roots, differentiated implicitly.

`root(residual, solve)` takes what `solve()` returns as an x with residual(x) = 0.  With a the traced
values that `residual` captures, dx = -(d residual / dx)^-1 (d residual / da) da, by the implicit
function theorem; the solver is never differentiated.  The primitive holds the residual's program over
(x, a); its value is x itself, so that a derivative of the derivative sees x depend on a again.  The
linear system is one of `rune.constructs.solve`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from rune import derive
from rune.arguments import array_leaves, callable_, fitted, raws, type_or_none
from rune.constructs.solve import AtOnce, Dense, captures_moving, over_lanes, recorded, solve_
from rune.level import Value, apply, bind, staging
from rune.native import nest
from rune.primitives import effects, movement
from rune.primitives.map import cast
from rune.primitives.primitive import Primitive
from rune.primitives.scalar import e
from rune.program import Program, type_of
from rune.structure import Tree, describe
from rune.trace import record, run
from rune.value import box

__all__ = ["fixed_point", "root"]

NAME = "rune.root"


@dataclasses.dataclass(frozen=True)
class System:
    """The Jacobian J of the residual by its unknowns, as what a linear system needs to know of it.

    `at` is the program (x..., captures...) -> what J reads; `matvec` is (v..., what it reads...) -> J v.
    """

    at: Program
    matvec: Program
    solver: Any

    @staticmethod
    def of(residual: Program, n: int) -> tuple[Program, Program]:
        mask = (True,) * n + (False,) * (len(residual.inputs) - n)
        halves = derive.linearize(residual, mask, (True,) * n)
        reads = halves.values(halves.primal.inputs, halves.primal.outputs)
        at = halves.primal.rearranged(halves.primal.inputs, reads).pruned()
        inputs, k = halves.linear.inputs, len(reads)
        return at, halves.linear.rearranged([*inputs[k:], *inputs[:k]], halves.linear.outputs)


class Root(Primitive):
    """(x..., captures..., more...) -> x, a zero of the residual's program in x for these captures.

    `more` are what the solver of the linear system captured.
    """

    name = "root"
    recompute = False

    def type(self, types, params):
        return [t.strong() for t in types[: params["unknowns"]]]

    def evaluate(self, args, params):
        return list(args[: params["unknowns"]])

    def jvp(self, primals, tangents, params):
        residual, system, n = params["residual"], params["system"], params["unknowns"]
        m = len(residual.inputs)
        xs = bind(self, primals, params)
        if any(t is not None for t in tangents[m:]):
            raise captures_moving()
        mask = (*(False,) * n, *(t is not None for t in tangents[n:m]))
        if not any(mask):
            return xs, [None] * n
        at = [*xs, *primals[n:m]]
        program, _ = derive.jvp(residual, mask, (True,) * n)
        moved = run(program, [*at, *(t for t in tangents[n:m] if t is not None)])[n:]
        right = [e.neg(r) for r in moved]
        more = {"matvec": system.matvec, "unknowns": n, "solver": system.solver}
        return xs, bind(solve_, [*right, *run(system.at, at), *primals[m:]], more)

    def batch(self, size, args, mapped, params):
        residual, system, n = params["residual"], params["system"], params["unknowns"]
        m = len(residual.inputs)
        mask = tuple(k < n or flag for k, flag in enumerate(mapped))
        args = [*movement.all_in_lanes(args[:n], mapped[:n], size), *args[n:]]
        over, _ = derive.batch(residual, mask[:m], size, (True,) * n)
        at, reads = derive.batch(system.at, mask[:m], size)
        solve = {"matvec": system.matvec, "unknowns": n, "solver": system.solver}
        solve = over_lanes(solve, (*reads, *mask[m:]), size)
        lanes = System(at, solve["matvec"], solve["solver"])
        return bind(self, args, {**params, "residual": over, "system": lanes}), [True] * n

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


class UserSolve:
    """The user's `linear_solve(matvec, b)` on structures like x."""

    def __init__(self, name: str, f: Any, tree: Tree):
        self.name = name
        self.f = f
        self.tree = tree

    def __call__(self, matvec: Program, at: list, b: list) -> list:
        types = matvec.input_types[: len(b)]

        def product(v):
            given = fitted(self.name, v, self.tree, types, "given to matvec")
            return self.tree.build([box(x) for x in run(matvec, [*given, *at])])

        found = self.f(product, self.tree.build([box(x) for x in b]))
        return fitted(self.name, found, self.tree, types, "returned by linear_solve")


def root(residual, solve, linear_solve=None):
    callable_(NAME, residual)
    return implicit(NAME, lambda image, x: image, residual, "the residual", solve, linear_solve)


def fixed_point(f, solve, linear_solve=None):
    name = "rune.fixed_point"
    callable_(name, f)
    moved = lambda image, x: [e.sub(a, b) for a, b in zip(image, x, strict=True)]
    return implicit(name, moved, f, "f", solve, linear_solve)


def implicit(name: str, zero: Any, f: Any, what: str, solve: Any, linear_solve: Any) -> Any:
    """What `solve` gives, an x with zero(f(x), x) = 0."""
    callable_(name, solve, "second")
    if linear_solve is not None:
        callable_(name, linear_solve, "third")
    found, tree = array_leaves(name, solve())
    xs = []
    for x, path in zip(raws(found), tree.paths(), strict=True):
        t = type_or_none(x)
        if t is None or not t.inexact:
            raise TypeError(
                f"{name}: {path or 'the solution'}: {describe(x) if t is None else t} is no real or complex array"
            )
        xs.append(effects.detach(cast(x, t.dtype)))
    types = [type_of(x) for x in xs]

    def flat(inputs):
        image = f(tree.build([box(x) for x in inputs]))
        return zero(fitted(name, image, tree, types, f"returned by {what}"), inputs)

    program, captures = record(name, types, flat)
    if not captures:
        return tree.build([box(x) if isinstance(x, Value) else x for x in xs])
    at, matvec = System.of(program, len(xs))
    more: list = []
    if linear_solve is None:
        solver = Dense()
    elif staging():
        solver, more = recorded(UserSolve(name, linear_solve, tree), matvec, len(xs))
    else:
        solver = AtOnce(UserSolve(name, linear_solve, tree))
    params = {"residual": program, "unknowns": len(xs), "system": System(at, matvec, solver)}
    outs = apply(root_, [*xs, *captures, *more], params)
    return tree.build([box(x) if isinstance(x, Value) else x for x in outs])
