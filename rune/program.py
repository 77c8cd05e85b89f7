"""Typed programs: what a trace records, a derivation rewrites and a backend compiles.

A *program* is a list of equations in single assignment.  Each equation applies a primitive to
atoms (variables, or one-element literals) and defines variables; a primitive is known here only by
the methods it answers (`show`, `effect`), so this module stands below all of them.  A program is
never changed after it was built: a derivation builds another, and `derived` keeps it.

The text of a program is a pure function of the program: its own values are numbered first, in
order, then those of the programs inside it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

__all__ = ["Equation", "Literal", "Owner", "Program", "Stats", "Type", "Var", "real_dtype", "type_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class Type:
    """The type of an array: dtype, shape, and whether it stands for a Python number (NEP 50)."""

    dtype: np.dtype
    shape: tuple[int, ...]
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def inexact(self) -> bool:
        """Whether values of this type have derivatives."""
        return self.dtype.kind in "fc"

    def fits(self, dtype: np.dtype) -> bool:
        """Whether a value stands where `dtype` is asked for: it has it, or as a Python number takes it on."""
        return self.dtype == dtype or (self.weak and RANK[self.dtype.kind] <= RANK[dtype.kind])

    def strong(self) -> Type:
        return Type(self.dtype, self.shape) if self.weak else self


RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}  # of kinds: a Python number takes on any from its own up
WEAK = {
    float: Type(np.dtype(np.float64), (), True),
    int: Type(np.dtype(np.int64), (), True),
    complex: Type(np.dtype(np.complex128), (), True),
    bool: Type(np.dtype(np.bool_), ()),
}


SCALARS = WEAK | {np.dtype(c).type: Type(np.dtype(c), ()) for c in "?bhilqBHILQefdFD"}


def type_of(x: Any) -> Type:
    """The type of a plain array, NumPy scalar, Python number, or anything that has a `type`."""
    kind = type(x)
    if kind is np.ndarray:
        return of_array(x.dtype, x.shape)
    known = SCALARS.get(kind)
    if known is not None:
        return known
    try:
        return x.type
    except AttributeError:  # a subclass of an array
        return of_array(x.dtype, x.shape)


@functools.lru_cache(maxsize=1 << 14)
def of_array(dtype: np.dtype, shape: tuple[int, ...]) -> Type:
    """The type of the plain arrays of that dtype and shape: one object, found faster than it is made."""
    return Type(dtype if dtype.isnative else dtype.newbyteorder("="), shape)


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of complex numbers; another stays."""
    return np.zeros((), dtype).real.dtype


class Var:
    """A variable: one value of a program.  Its identity is its name."""

    __slots__ = ("type",)

    def __init__(self, type: Type):
        self.type = type


class Literal:
    """A one-element constant that stands in an equation as itself."""

    __slots__ = ("type", "value")

    def __init__(self, value: Any, type: Type | None = None):
        self.type = type or type_of(value)
        self.value = np.asarray(value, self.type.dtype)[()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple:
        """Bits, not values: 0.0 and -0.0 differ, and NaN equals itself."""
        return (self.type, self.value.tobytes())

    def __str__(self) -> str:
        """The value with its bits, as in `float64:0x3ff0000000000000`."""
        if self.type.dtype == bool:
            return f"bool:{str(bool(self.value)).lower()}"
        if self.type.dtype.kind in "iu":
            return f"{self.type.dtype}:{int(self.value)}"
        bits = np.asarray(self.value).astype(self.type.dtype.newbyteorder(">")).tobytes()
        return f"{self.type.dtype}:0x{bits.hex()}"


class Equation:
    """`outputs = primitive(inputs; params)`."""

    __slots__ = ("inputs", "outputs", "params", "primitive")

    def __init__(self, primitive: Any, inputs: tuple, params: dict, outputs: tuple[Var, ...]):
        self.primitive = primitive
        self.inputs = inputs
        self.params = params
        self.outputs = outputs

    @property
    def programs(self) -> list[Program]:
        return [p for _, p in self.named_programs()]

    def named_programs(self) -> list[tuple[str, Program]]:
        """The programs inside, each with the name under which its text is printed."""
        found = []
        for key, x in self.params.items():
            if isinstance(x, Program):
                found.append((key, x))
            elif isinstance(x, tuple):
                found += [(f"{key} {k}", p) for k, p in enumerate(x) if isinstance(p, Program)]
        return found

    @property
    def effect(self) -> str | None:
        """None, or "fail", "count" or "host": what else happens when the equation runs."""
        return self.primitive.effect(self.params)


@dataclasses.dataclass
class Stats:
    """How often a compiled function was traced, derived and compiled."""

    traces: int = 0
    derivations: int = 0
    compiles: int = 0


@dataclasses.dataclass
class Owner:
    """The compiled function to which a program, and whatever is derived from it, belongs."""

    stats: Stats = dataclasses.field(default_factory=Stats)
    threads: int | None = None  # that its native code may run on; None for as many as there are


class Program:
    """Inputs, equations, outputs (atoms), and what was derived and compiled from them."""

    __slots__ = (
        "__weakref__",
        "compiled",
        "derived",
        "equations",
        "inputs",
        "linear",
        "name",
        "outputs",
        "owner",
    )

    def __init__(
        self, inputs, equations, outputs, name: str = "", owner: Owner | None = None, linear: bool = False
    ):
        self.inputs: list[Var] = list(inputs)
        self.equations: list[Equation] = list(equations)
        self.outputs: list[Var] = list(outputs)
        self.name = name
        self.owner = owner
        self.linear = linear  # whether it is the linear half of a derivative
        self.derived: dict = {}  # (kind, details) -> whatever that kind of derivation returns
        self.compiled: dict = {}  # layout of the arguments -> native function

    @property
    def input_types(self) -> list[Type]:
        return [v.type for v in self.inputs]

    @property
    def output_types(self) -> list[Type]:
        return [v.type for v in self.outputs]

    @property
    def effect(self) -> str | None:
        return next((e.effect for e in self.equations if e.effect), None)

    def rearranged(self, inputs, outputs) -> Program:
        """The same equations with other inputs and outputs (a permutation or a selection)."""
        return Program(inputs, self.equations, outputs, self.name, self.owner, self.linear)

    def pruned(self) -> Program:
        """Without the equations that nothing reads; one with an effect stays."""
        live = {id(v) for v in self.outputs}
        kept = []
        for e in reversed(self.equations):
            if e.effect or any(id(v) in live for v in e.outputs):
                kept.append(e)
                live.update(id(v) for v in e.inputs)
        return Program(self.inputs, kept[::-1], self.outputs, self.name, self.owner, self.linear)

    def __str__(self) -> str:
        return Printer().program(self, "")


class Printer:
    """The text of a program.  `names` grows program by program, outer ones first."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def name(self, v: Var) -> str:
        return self.names.setdefault(id(v), f"%{len(self.names)}")

    def program(self, p: Program, indent: str) -> str:
        for v in p.inputs:
            self.name(v)
        for e in p.equations:
            for v in e.outputs:
                self.name(v)
        lines = [f"{indent}program ({', '.join(map(self.name, p.inputs))})"]
        for e in p.equations:
            lines += self.equation(e, indent + "  ")
        lines.append(f"{indent}  return {', '.join(map(self.name, p.outputs))}")
        return "\n".join(lines)

    def equation(self, e: Equation, indent: str) -> list[str]:
        outs = ", ".join(f"{self.name(v)} : {v.type} at CPU" for v in e.outputs)
        text, details = e.primitive.show(e, self.name)
        first = f"{outs} = {text}" if outs else text
        lines = [indent + first, *(f"{indent}  {line}" for line in details)]
        for key, inner in e.named_programs():
            lines += [f"{indent}  {key}", self.program(inner, indent + "    ")]
        return lines
