"""Tracing: a level that records every operation as an equation of a program.

Equations are shared as they are recorded: an operation that was recorded with the same arguments is
not recorded again, unless it has an effect.  A plain array becomes a constant, as it was when it was
used (`rune.snapshot`); a one-element array a literal; an array of one repeated element (no strides) a
broadcast literal.  A value of an enclosing transformation becomes an extra input, listed in `captures`.

`run` is the inverse: it applies a program's equations to arguments, under whatever levels they have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import Level, Value, apply, bind, opened, running
from rune.native import nest
from rune.primitives.map import map_
from rune.primitives.movement import broadcast_
from rune.primitives.primitive import Primitive
from rune.program import Equation, Literal, Owner, Program, Type, Var, type_of
from rune.snapshot import Snapshots

__all__ = ["Staged", "Trace", "constant", "not_counted", "over_all_captures", "passing", "record", "run"]


class Constant(Primitive):
    """A captured plain array, or one element."""

    name = "Constant"

    def type(self, types, params):
        return [type_of(params["value"])]

    def evaluate(self, args, params):
        return [params["value"]]

    def jvp(self, primals, tangents, params):
        return [params["value"]], [None]

    def lower(self, e):
        return [nest.Constant(e.outputs, (), e.params["value"])]

    def show(self, e, name):
        value = e.params["value"]
        if value.ndim == 0:
            return f"Map [{Literal(value)}] at CPU", []
        return "Constant at CPU", []


constant = Constant()


class Staged(Value):
    """A value of a trace: a variable of its program."""

    __slots__ = ("var",)

    def __init__(self, level: Trace, var: Var):
        self.level = level
        self.var = var

    @property
    def type(self) -> Type:
        return self.var.type

    def constant(self) -> Any:
        """The plain value that this is, where it is one: an array, or one repeated element."""
        made = self.level.made.get(id(self.var))
        if made is not None and made.primitive is broadcast_:
            made = self.level.made.get(id(made.inputs[0]))
        if made is None or made.primitive is not constant:
            return None
        return np.broadcast_to(made.params["value"], self.type.shape)


class Trace(Level):
    traces = True

    def __init__(self, name: str):
        super().__init__(name)
        self.inputs: list[Var] = []
        self.equations: list[Equation] = []
        self.shared: dict = {}  # (primitive, atoms, parameters) -> results
        self.made: dict[int, Equation] = {}  # variable -> the equation that defines it
        self.constants: dict[int, tuple] = {}  # id(array) -> (array, variable); the array stays alive
        self.snapshots = Snapshots(name)
        self.captured: dict[int, tuple] = {}  # id(value) -> (value, variable)
        self.once = False  # whether the program runs now and is no part of one that is kept
        self.constant_inputs: dict[int, set[int]] = {}  # by their ids, and the carries they are made of
        self.carried: set[int] = set()  # ids of those that start so in a loop (`rune.constancy`)
        self.waiting: list = []  # what is reported where such ones stay so

    def input(self, type: Type) -> Staged:
        self.inputs.append(Var(type))
        return Staged(self, self.inputs[-1])

    def process(self, primitive, args, params):
        atoms = self.atoms(primitive, args)
        known = simplified(primitive, atoms, params, self.made)
        if known is not None:
            if isinstance(known, Var):
                return [Staged(self, known)]
            atoms, params = known
        return [Staged(self, v) for v in self.equation(primitive, atoms, params)]

    def atoms(self, primitive, args) -> tuple:
        if primitive is not map_:
            return tuple(self.variable(a) for a in args)
        # A literal has no axes: where a repeated element alone gives the result its shape, it is broadcast.
        shape = np.broadcast_shapes(*(type_of(a).shape for a in args))
        others = [type_of(a).shape for a in args if isinstance(a, Value) or repeated(a) is None]
        enough = not others or np.broadcast_shapes(*others) == shape
        return tuple(self.atom(a, enough or type_of(a).shape == ()) for a in args)

    def atom(self, x: Any, literal: bool) -> Any:
        if literal and not isinstance(x, Value):
            one = repeated(x)
            if one is not None:
                return Literal(one, Type(type_of(x).dtype, (), type_of(x).weak))
        return self.variable(x)

    def variable(self, x: Any) -> Var:
        if isinstance(x, Staged) and x.level is self:
            return x.var
        if isinstance(x, Staged) and (known := x.constant()) is not None and repeated(known) is not None:
            return self.constant(known)
        if isinstance(x, Value):
            found = self.captured.get(id(x))
            if found is None:
                found = self.captured[id(x)] = (x, Var(x.type))
            return found[1]
        if repeated(x) is not None:
            return self.constant(x)
        x = self.snapshots.keep(x)
        found = self.constants.get(id(x))
        if found is None:
            found = self.constants[id(x)] = (x, self.constant(x))
        return found[1]

    def constant(self, x: Any) -> Var:
        one = repeated(x)
        if one is None:
            return self.equation(constant, (), {"value": x})[0]
        literal = Literal(one, Type(type_of(x).dtype, ()))
        key = ("constant", literal.key)
        if key not in self.shared:
            self.shared[key] = self.equation(constant, (), {"value": np.asarray(literal.value)})
        (var,) = self.shared[key]
        shape = type_of(x).shape
        return self.equation(broadcast_, (var,), {"shape": shape})[0] if shape else var

    def equation(self, primitive, atoms: tuple, params: dict) -> tuple[Var, ...]:
        key = (primitive, atoms, tuple(params.items())) if primitive is not constant else None
        if primitive.effect(params):
            key = None
        outs = self.shared.get(key) if key else None
        if outs is None:
            outs = tuple(Var(t) for t in primitive.type([a.type for a in atoms], params))
            e = Equation(primitive, atoms, params, outs)
            self.equations.append(e)
            for v in outs:
                self.made[id(v)] = e
            if key:
                self.shared[key] = outs
        return outs

    def lift(self, x):
        return x if isinstance(x, Staged) and x.level is self else Staged(self, self.variable(x))

    def close(self, outputs: list, name: str = "", owner: Owner | None = None) -> Program:
        """The program that gives `outputs`; captured values are its last inputs."""
        found = [self.variable(x) for x in outputs]
        self.snapshots.verify()
        inputs = [*self.inputs, *(v for _, v in self.captured.values())]
        return Program(inputs, self.equations, found, name, owner).pruned()

    @property
    def captures(self) -> list[Value]:
        return [x for x, _ in self.captured.values()]


def repeated(x: Any) -> Any:
    """The element of a plain array that holds one element, once or by having no strides; else None."""
    if type(x) is not np.ndarray:
        return x
    if x.ndim == 0:
        return x[()]
    if x.size and not any(x.strides):
        return x[(0,) * x.ndim]
    return None


IDENTITIES = {("mul", 1.0), ("div", 1.0), ("sub", 0.0)}  # exact for every x, -0.0 and NaN included


def simplified(primitive: Any, atoms: tuple, params: dict, made: dict) -> Any:
    """An earlier variable that equals the operation, or an equal (atoms, params), or None."""
    if primitive is map_:
        return unchanged(params["op"], atoms) if len(atoms) == 2 else None
    compose = getattr(primitive, "compose", None)
    if compose is None:
        return None
    inner = made.get(id(atoms[0]))
    if inner is None or inner.primitive is not primitive:
        return None
    together = compose(inner.params, params)
    if together is None:
        return None
    (source,) = inner.inputs
    return (
        source
        if primitive.type([source.type], together)[0] == source.type and primitive.idle(together, source.type)
        else (inner.inputs, together)
    )


def unchanged(op: str, atoms: tuple) -> Var | None:
    """The operand that an operation with a neutral literal gives back."""
    for k, (x, literal) in enumerate((atoms, atoms[::-1])):
        if isinstance(x, Literal) or not isinstance(literal, Literal) or (k == 1 and op != "mul"):
            continue
        if (op, literal.value) in IDENTITIES and not np.signbit(literal.value.real) and not x.type.weak:
            return x
    return None


def record(
    name: str, types: list[Type], f: Callable[[list], list], totals: list | None = None
) -> tuple[Program, list]:
    """The program of `f` over values of `types`, and the values of enclosing levels it captured.

    What `f` adds to totals becomes further results of the program, in the order of `totals`.
    """
    level = passing(name)
    with opened(level):
        outs = f([level.input(t) for t in types])
        if level.additions:
            if totals is None:
                raise not_counted(name)
            totals += level.additions
            outs = [*outs, *level.additions.values()]
        program = level.close(outs, name)
    return program, level.captures


def over_all_captures(recorded: list[tuple[Program, list]], n: int) -> tuple[list[Program], list]:
    """Programs of n inputs and their own captures, as programs of those inputs and of all captures; and these."""
    captures = list({id(x): x for _, own in recorded for x in own}.values())

    def over_all(program: Program, own: list) -> Program:
        place = {id(x): v for x, v in zip(own, program.inputs[n:], strict=True)}
        inputs = [*program.inputs[:n], *(place.get(id(x)) or Var(x.type) for x in captures)]
        return program.rearranged(inputs, program.outputs)

    return [over_all(program, own) for program, own in recorded], captures


def passing(name: str) -> Trace:
    """A trace of what runs now, or of a part of the program that is being recorded around it."""
    level = Trace(name)
    level.once = not any(outer.traces and not outer.once for outer in running())
    return level


def not_counted(name: str) -> ValueError:
    return ValueError(f"{name}: a total cannot be added to here: add in the function around it")


def run(program: Program, args: list) -> list:
    """The outputs of a program for arguments of any level."""
    env = dict(zip(map(id, program.inputs), args, strict=True))
    read = lambda v: v.value if isinstance(v, Literal) else env[id(v)]
    for e in program.equations:
        binding = apply if e.effect else bind  # what has an effect happens where it stands
        outs = binding(e.primitive, [read(v) for v in e.inputs], e.params)
        env.update(zip(map(id, e.outputs), outs, strict=True))
    return [read(v) for v in program.outputs]
