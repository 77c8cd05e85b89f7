"""Linear systems whose solution is stated: A y = b, solved by whatever gives y.

A is a program (v..., at...) -> A v, linear in v.  The solution is linear in b whatever the solver does,
and its derivatives follow from A alone: dy = A^-1 (db - dA y), and the transpose solves with the
transposed program.  A *solver* gives y from (b..., at..., more...):

- `Dense` builds the matrix column by column;
- `AtOnce` calls a function of the user's on values, lane by lane under a map;
- `Untraceable` is one that a trace could not follow;
- `Recorded` holds the programs of one, for A and for its transpose, as a trace or a map needs them;
  `more` are the values that they captured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from rune import derive
from rune.jvp import apart
from rune.level import TracedValueError, Value, bind, tracing
from rune.primitives import linalg, movement
from rune.primitives.map import cast
from rune.primitives.primitive import Primitive, instantiated, to_unknown
from rune.primitives.scalar import e
from rune.program import Program, Type, real_dtype, type_of
from rune.trace import not_counted, over_all_captures, record, run

__all__ = ["AtOnce", "Dense", "captures_moving", "over_lanes", "recorded", "solve_"]

NAME = "rune.root"


class LinearSolve(Primitive):
    """(b..., at..., more...) -> y with A(at) y = b."""

    name = "linear_solve"
    recompute = False

    def effect(self, params):
        return self.inlined(params).effect

    def inlined(self, params):
        return params["solver"].program(params["matvec"], params["unknowns"])

    def type(self, types, params):
        return [t.strong() for t in types[: params["unknowns"]]]

    def evaluate(self, args, params):
        return params["solver"].solve(params["matvec"], params["unknowns"], args)

    def jvp(self, primals, tangents, params):
        matvec, n, m = params["matvec"], params["unknowns"], len(params["matvec"].inputs)
        ys = bind(self, primals, params)
        if any(t is not None for t in tangents[m:]):
            raise captures_moving()
        if all(t is None for t in tangents):
            return ys, [None] * n
        right = list(tangents[:n])
        moving = [t for t in tangents[n:m] if t is not None]
        if moving:
            mask = (*(False,) * n, *(t is not None for t in tangents[n:m]))
            program, _ = derive.jvp(matvec, mask, (True,) * n)
            moved = run(program, [*ys, *primals[n:m], *moving])[n:]
            right = [e.neg(r) if b is None else e.sub(b, r) for b, r in zip(right, moved, strict=True)]
        right = instantiated(right, map(type_of, ys))
        return ys, bind(self, [*right, *primals[n:]], params)

    def linear_in(self, flags, params):
        return not any(flags[params["unknowns"] :])

    def transpose(self, cts, args, params):
        n = params["unknowns"]
        cts = instantiated(cts, map(type_of, args[:n]))
        back = {
            "matvec": turned(params["matvec"], n),
            "unknowns": n,
            "solver": params["solver"].turned(),
        }
        found = bind(self, [*cts, *args[n:]], back)
        return to_unknown(found, args)

    def batch(self, size, args, mapped, params):
        n = params["unknowns"]
        if isinstance(params["solver"], AtOnce) and not tracing():
            lanes = [
                bind(self, [lane(a, k) if m else a for a, m in zip(args, mapped, strict=True)], params)
                for k in range(size)
            ]
            return [stacked(column) for column in zip(*lanes, strict=True)], [True] * n
        args = [*movement.all_in_lanes(args[:n], mapped[:n], size), *args[n:]]
        return bind(self, args, over_lanes(params, tuple(mapped[n:]), size)), [True] * n

    def guarded(self, args, params, taken):
        solver = params["solver"].recorded(params["matvec"], params["unknowns"])
        return [*args, taken], {**params, "solver": solver.changed(derive.guarded)}

    def show(self, e, name):
        return f"{self.name} ({', '.join(name(v) for v in e.inputs)})", []


solve_ = LinearSolve()


def captures_moving() -> TypeError:
    return TypeError(
        f"{NAME}: linear_solve captures a value that is differentiated, for which it states no derivative: "
        f"capture rune.detach(x)"
    )


def turned(matvec: Program, n: int) -> Program:
    """The program of the transposed matrix; turned twice, a program is itself."""

    def build():
        k = len(matvec.inputs) - n
        back, _ = derive.transpose(matvec, (True,) * n + (False,) * k, (True,) * n, force=True)
        back = back.rearranged([*back.inputs[k:], *back.inputs[:k]], back.outputs)
        back.derived["turned", n] = matvec
        return back

    return derive.kept(matvec, ("turned", n), build)


def over_lanes(params: dict, mapped: tuple[bool, ...], size: int) -> dict:
    """The parameters over lanes that all right-hand sides have, and the flagged ones of what follows."""
    matvec, n = params["matvec"], params["unknowns"]
    every = (True,) * n
    over = lambda p, mask: derive.batch(p, (*every, *mask), size, every)[0]
    solver = params["solver"].recorded(matvec, n).changed(lambda p: over(p, mapped))
    return {**params, "matvec": over(matvec, mapped[: len(matvec.inputs) - n]), "solver": solver}


def lane(x: Any, k: int) -> Any:
    t = type_of(x)
    return movement.reshape(movement.part(x, 0, k, k + 1), t.shape[1:])


def stacked(column: tuple) -> Any:
    return movement.concatenate([movement.reshape(x, (1, *type_of(x).shape)) for x in column], 0)


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A solver's programs (b..., at..., more...) -> y, for the matrix and for its transpose."""

    forward: Program
    back: Program

    def program(self, matvec: Program, n: int) -> Program:
        return self.forward

    def recorded(self, matvec: Program, n: int) -> Recorded:
        return self

    def changed(self, change: Callable[[Program], Program]) -> Recorded:
        return Recorded(change(self.forward), change(self.back))

    def solve(self, matvec: Program, n: int, args: list) -> list:
        return run(self.forward, args)

    def turned(self) -> Recorded:
        return Recorded(self.back, self.forward)


@dataclasses.dataclass(frozen=True)
class Function:
    """A solver that is a function (matvec, at, b) -> y of flat leaves."""

    f: Callable[[Program, list, list], list]

    def program(self, matvec: Program, n: int) -> Program:
        return derive.kept(matvec, ("solver", self.f, n), lambda: self.traced(matvec, n))

    def traced(self, matvec: Program, n: int) -> Program:
        program, captures = record_solver(self.f, matvec, n)
        if captures:
            raise captures_moving()
        return program

    def recorded(self, matvec: Program, n: int) -> Recorded:
        return Recorded(self.program(matvec, n), self.program(turned(matvec, n), n))

    def turned(self) -> Function:
        return self


class Dense(Function):
    """The matrix column by column."""

    def __init__(self):
        super().__init__(dense)

    def solve(self, matvec: Program, n: int, args: list) -> list:
        return dense(matvec, args[n:], args[:n])


class AtOnce(Function):
    """A function of the user's, which may read the values it is given."""

    def solve(self, matvec: Program, n: int, args: list) -> list:
        try:
            found, additions = apart(NAME, lambda: self.f(matvec, args[n:], args[:n]))
        except TracedValueError as error:
            error.add_note(f"{NAME}: linear_solve also runs in the backward pass: capture rune.detach(x)")
            raise
        if any(isinstance(x, Value) for x in found):
            raise captures_moving()
        if additions:
            raise not_counted(NAME)
        return found


def record_solver(f: Callable, matvec: Program, n: int) -> tuple[Program, list[Value]]:
    """The program of a solver over (b..., at...), and the values it captured."""
    return record(NAME, matvec.input_types, lambda inputs: f(matvec, inputs[n:], inputs[:n]))


@dataclasses.dataclass(frozen=True)
class Untraceable:
    """A solver that reads values where there are none: an error where a derivative asks for it."""

    message: str

    def program(self, matvec: Program, n: int) -> Program:
        raise TracedValueError(self.message)

    def solve(self, matvec: Program, n: int, args: list) -> list:
        raise TracedValueError(self.message)

    def recorded(self, matvec: Program, n: int) -> Untraceable:
        return self

    def changed(self, change: Callable[[Program], Program]) -> Untraceable:
        return self

    def turned(self) -> Untraceable:
        return self


def recorded(f: Callable, matvec: Program, n: int) -> tuple[Recorded | Untraceable, list[Value]]:
    """A solver's programs for the matrix and its transpose, over all that either of them captured."""
    try:
        both = [record_solver(f, matvec, n), record_solver(f, turned(matvec, n), n)]
    except TracedValueError as error:
        return Untraceable(str(error)), []
    programs, captures = over_all_captures(both, len(matvec.inputs))
    return Recorded(*programs), captures


def dense(matvec: Program, at: list, b: list) -> list:
    """y by the matrix, column by column.

    A complex unknown is two real ones, for a residual need not be holomorphic.
    """
    n = len(b)
    types = matvec.input_types[:n]
    dtype = np.result_type(np.float32, *(real_dtype(t.dtype) for t in types))
    vectors, total = basis(types)
    over, _ = derive.batch(matvec, (True,) * n + (False,) * len(at), total, (True,) * n)
    columns = flat(run(over, [*vectors, *at]), dtype, (total,))
    right = movement.reshape(flat(b, dtype, ()), (total, 1))
    y = movement.reshape(linalg.solve(movement.permute(columns, (1, 0)), right), (total,))
    found, start = [], 0

    def following(t: Type) -> Any:
        nonlocal start
        start += t.size
        return movement.reshape(movement.part(y, 0, start - t.size, start), t.shape)

    for t in types:
        part = following(t)
        found.append(cast(e.complex(part, following(t)) if t.dtype.kind == "c" else part, t.dtype))
    return found


def flat(xs: list, dtype: np.dtype, lanes: tuple[int, ...]) -> Any:
    """Arrays as one real array of their elements, after the axes of the lanes."""
    parts = []
    for x in xs:
        for part in (e.real(x), e.imag(x)) if type_of(x).dtype.kind == "c" else (x,):
            size = int(np.prod(type_of(part).shape[len(lanes) :], dtype=int))
            parts.append(cast(movement.reshape(part, (*lanes, size)), dtype))
    return movement.concatenate(parts, len(lanes))


def basis(types: list[Type]) -> tuple[list, int]:
    """Every unit vector of the unknowns, as lanes, and how many there are."""
    units = [(k, unit) for k, t in enumerate(types) for unit in ((1, 1j) if t.dtype.kind == "c" else (1,))]
    total = sum(types[k].size for k, _ in units)
    blocks = [np.zeros((total, t.size), t.dtype) for t in types]
    start = 0
    for k, unit in units:
        stop = start + types[k].size
        blocks[k][start:stop] = unit * np.eye(types[k].size)
        start = stop
    return [block.reshape(total, *t.shape) for block, t in zip(blocks, types, strict=True)], total
