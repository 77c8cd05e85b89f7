"""The loop language: what every primitive lowers to, and all that fusion and buffers know.

A *block* is a list of *forms* over variables (`rune.program.Var`, with dtype and shape), in single
assignment.  A form says what an array is, not where it lives or in which loop it is computed:
fusion decides which values are computed where they are read and which get a buffer.

Index arithmetic is written as functions.  `at(read, i)` receives the index of an element of the
result, a tuple of `Idx` (Python's integer operators work on them, and constants fold), and gives
the element of an input by `read(k, index)` (k counts the form's inputs).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from rune.program import Literal, Var


@dataclasses.dataclass(eq=False)
class Form:
    """What every form has: the variables it defines and the atoms it reads."""

    outs: tuple[Var, ...]
    inputs: tuple[Var | Literal, ...]


@dataclasses.dataclass(eq=False)
class Elementwise(Form):
    """`out[i] = op(inputs[i]...)`, the inputs broadcast to the result by NumPy's rule.

    `op` names a row of `native.math`: the operand dtypes are those of the inputs and already the
    ones the operation computes in; the result's dtype is that of `out`.
    """

    op: str


@dataclasses.dataclass(eq=False)
class Index(Form):
    """`out[i] = at(read, i)`: a movement (affine) or a gather (an index that is read).

    An index that is read is made safe first: `read.bounded(value, size, axis)` wraps a negative one and
    returns a clamped `Idx`.  Where the form has an `error`, one out of range fails the call with what
    `error(axis, value, lane, steps)` makes: the lane is what `at` says of it, the steps those of the loops
    around, outermost first.  Without, it was found right before, and is out of range only where nothing
    reads the result (in a lane that does not take the branch).
    """

    at: Callable[[Any, tuple], Any]
    error: Callable[[int, int, int, tuple[int, ...]], Exception] | None = None


@dataclasses.dataclass(eq=False)
class Reduce(Form):
    """The first input reduced over `axes` by `op`: sum, prod, max, min, any, all, argmax, argmin.

    A NaN wins max and min.  argmax and argmin (over one axis) give int64, the first NaN or extreme.
    """

    op: str
    axes: tuple[int, ...]


@dataclasses.dataclass(eq=False)
class Contract(Form):
    """`sum(a * b)` over pairs of axes; result axes: batch, the rest of a, the rest of b."""

    contracting: tuple[tuple[int, ...], tuple[int, ...]]
    batch: tuple[tuple[int, ...], tuple[int, ...]]


@dataclasses.dataclass(eq=False)
class Accumulate(Form):
    """Running `op` (sum, prod, max, min) along `axis`, from the last element where `reverse`."""

    op: str
    axis: int
    reverse: bool


@dataclasses.dataclass(eq=False)
class Concatenate(Form):
    """The inputs behind one another along `axis`."""

    axis: int


@dataclasses.dataclass(eq=False)
class Update(Form):
    """inputs (target, updates): the target with `target[starts + steps * k] op= updates[k]`.

    `op` is "set" or "add"; steps are positive.  In place where nothing reads the target later.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    op: str


@dataclasses.dataclass(eq=False)
class Scatter(Form):
    """inputs (target, updates, index arrays...): the target with `target[index] op= updates`.

    The n index arrays share one shape K and index the target's first n axes; updates have shape
    K + target.shape[n:].  "set": where an index repeats the last in C order wins; "add": all add.
    Indices are bounded as `Index` says; `lane` gives the lane at a position of K.  In place where nothing
    reads the target later.
    """

    op: str
    error: Callable[[int, int, int, tuple[int, ...]], Exception] | None = None
    lane: Callable[[tuple], Any] = lambda k: 0


@dataclasses.dataclass(eq=False)
class Loop(Form):
    """inputs (init..., rows..., captures...) -> outs (final carry..., stacked outputs...).

    `step` is a block from (carry..., one row each..., captures...) to (carry..., outputs...).  It runs
    `length` times, from the last row to the first where `reverse`.  The last `kept` stacked outputs
    are residuals that the loop keeps for its backward pass.

    A `counted` loop has one more input, the last: an int64 scalar between 0 and `length`.  It takes the
    first that many rows only (from the last of them to the first where `reverse`); the others' outputs
    are zeros.  A loop with `until`, a block from (carry..., captures...) to one boolean scalar, tests it
    before each step and stops where it holds; it has one more result, the last: the int64 number of
    steps taken.  Outputs of steps not taken are zeros.

    A failure names its step by the number of the row, counted from `first`.  Where a step of this loop is
    a `segment` of so many steps, which the loop inside it takes, the two loops name one step.
    """

    step: Block
    carries: int
    rows: int
    length: int
    reverse: bool
    kept: int = 0
    counted: bool = False
    until: Block | None = None
    first: int = 0
    segment: int | None = None


@dataclasses.dataclass(eq=False)
class Branch(Form):
    """inputs (index, operands...): the block that an int64 scalar counts, applied to the operands.

    Every block has the operands as inputs and gives the same types.  The index is in range.
    """

    blocks: tuple[Block, ...]


@dataclasses.dataclass(eq=False)
class Check(Form):
    """inputs (ok), a boolean array; no results: where an element is false the call fails.

    `error(flat, steps)` makes the exception: the flat position of the first false element, and the
    steps of the enclosing loops, outermost first.
    """

    error: Callable[[int, tuple[int, ...]], Exception]


@dataclasses.dataclass(eq=False)
class Library(Form):
    """A routine by name (a row of `native.library`), inlined when small, else LAPACK's."""

    name: str
    params: dict


@dataclasses.dataclass(eq=False)
class Host(Form):
    """`call(*arrays) -> sequence of arrays` in Python, each checked against `outs`."""

    call: Callable
    name: str


@dataclasses.dataclass(eq=False)
class Constant(Form):
    """A captured array: bound by reference at the call, never part of the code."""

    value: Any


@dataclasses.dataclass(eq=False)
class Block:
    """Forms from `inputs` to `outputs`; an output may be an input or stand twice."""

    inputs: list[Var]
    forms: list[Form]
    outputs: list[Var]
    name: str = "main"
