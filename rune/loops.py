"""Loops as a user writes them.

Outside a trace the step runs once per row, on a copy of `init` and read-only rows, and each output is
copied when the step returns: a step that updates in place gives the same eagerly and compiled.  Inside
a trace the step is traced once and the loop recorded as one operation.
"""

from __future__ import annotations

import itertools
import operator
import threading
from typing import Any

import numpy as np

from rune.arguments import callable_, finished, of_list, parted, raws, read_only, type_or_none
from rune.branches import cond
from rune.constancy import settle, steps_from
from rune.constructs.host import callback
from rune.constructs.iterate import while_
from rune.constructs.remat import remat
from rune.constructs.scan import scan as scan_primitive
from rune.level import Value, apply, innermost, staging, tracing
from rune.primitives import movement
from rune.primitives.effects import check_
from rune.primitives.map import cast
from rune.primitives.primitive import zeros
from rune.primitives.scalar import e
from rune.program import Type, Var, type_of
from rune.structure import Star, Tree, apart, describe, flatten
from rune.totals import arrive, summed
from rune.trace import over_all_captures, record, run
from rune.value import box, tables

__all__ = ["iterate", "map", "scan"]

NAME = "rune.scan"


def scan(step, init, xs=None, *, length=None, reverse=False, checkpoint_every=None, progress=None):
    callable_(NAME, step)
    if not isinstance(reverse, (bool, np.bool_, int)):
        raise TypeError(f"{NAME}: reverse must be True or False, got {describe(reverse)}")
    if progress is not None:
        return watched(step, init, xs, length, reverse, checkpoint_every, progress)
    if checkpoint_every is not None:
        return segmented(step, init, xs, length, reverse, checkpoint_every)
    return looped(NAME, step, init, xs, length, bool(reverse))


def map(f, xs):
    name = "rune.map"
    callable_(name, f)
    return looped(name, lambda _, x: (None, f(x)), None, xs, None, False)[1]


def looped(name: str, step: Any, init: Any, xs: Any, length: Any, reverse: bool, **number: int) -> tuple:
    carry, carry_tree = started(name, init)
    rows, rows_tree = parted(name, xs, "xs")
    n = rows_in(name, rows, rows_tree, length)
    loop = Step(name, step, carry_tree, rows_tree, [type_of(x) for x in carry])
    if tracing() or n == 0:
        return recorded(loop, carry, rows, n, reverse, number)
    return stepped(loop, carry, rows, n, reverse)


def segmented(step: Any, init: Any, xs: Any, length: Any, reverse: bool, every: Any) -> Any:
    """The loop as a loop over segments, each computed again in the backward pass from its first carry."""
    every = size(NAME, "checkpoint_every", every, 1)
    leaves, tree = parted(NAME, xs, "xs")
    n = rows_in(NAME, leaves, tree, length)
    leaves = [box(x) for x in leaves]
    whole = n - n % every
    inner = remat(
        lambda carry, rows, k, first: looped(NAME, step, carry, rows, k, bool(reverse), first=first)
    )

    def main(carry):
        rows = [np.reshape(x[:whole], (n // every, every, *np.shape(x)[1:])) for x in leaves]
        step_over = lambda c, segment: inner(c, segment, every, 0)
        rows = tree.build(rows)
        carry, out = looped(NAME, step_over, carry, rows, n // every, bool(reverse), segment=every)
        found, shape = parted(NAME, out)
        found = [box(x) for x in found]
        return carry, shape.build([np.reshape(x, (whole, *np.shape(x)[2:])) for x in found])

    tail = lambda carry: inner(carry, tree.build([x[whole:] for x in leaves]), n - whole, whole)
    if n == whole:
        return main(init)
    if n < every:
        return tail(init)
    one, other = (tail, main) if reverse else (main, tail)
    carry, first = one(init)
    carry, second = other(carry)
    a, b = (second, first) if reverse else (first, second)
    (found, shape), (rest, _) = parted(NAME, a), parted(NAME, b)
    return carry, shape.build([np.concatenate([box(a), box(b)]) for a, b in zip(found, rest, strict=True)])


def watched(
    step: Any, init: Any, xs: Any, length: Any, reverse: bool, checkpoint_every: Any, label: Any
) -> Any:
    """The loop with a progress bar, drawn by the host about a hundred times in all."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(f"{NAME}: progress needs tqdm: pip install tqdm") from None
    if not isinstance(label, str):
        raise TypeError(f"{NAME}: progress must be a str, the bar's label, got {describe(label)}")
    n = rows_in(NAME, *parted(NAME, xs, "xs"), length)
    every = max(1, n // 100)
    bars: dict = {}  # of each thread that runs the loop

    def draw(k):
        thread, taken = threading.get_ident(), n - int(k) if reverse else int(k) + 1
        if taken <= every or thread not in bars:
            bars[thread] = tqdm(total=n, desc=label)
        bars[thread].update(taken - bars[thread].n)
        if taken == n:
            bars.pop(thread).close()
        return np.int64(0)

    def counted(carry, row):
        k, row = row
        taken = n - k if reverse else k + 1
        due = (taken % every == 0) | (taken == n)
        cond(due, lambda k: callback(draw, np.int64(0), k), lambda k: np.int64(0), k)
        return step(carry, row)

    return scan(counted, init, (np.arange(n), xs), reverse=reverse, checkpoint_every=checkpoint_every)


def started(name: str, init: Any) -> tuple[list, Tree]:
    """The carry at the first step: values of their own, a Python number as the NumPy scalar it means."""
    found, tree = parted(name, init)
    dtypes = [type_of(x).dtype for x in found]
    own = lambda x, t: cast(x, t) if isinstance(x, Value) else np.array(x, t)[()]
    return [own(x, t) for x, t in zip(found, dtypes, strict=True)], tree


def size(name: str, what: str, n: Any, least: int = 0) -> int:
    if not hasattr(type(n), "__index__"):
        raise TypeError(f"{name}: {what} must be an int, got {describe(n)}")
    if operator.index(n) < least:
        raise ValueError(f"{name}: {what} must be an int of at least {least}, got {n}")
    if operator.index(n) >= 1 << 63:
        raise ValueError(f"{name}: {what} must be an int below 2**63, got {n}")
    return operator.index(n)


def rows_in(name: str, rows: list, tree: Tree, length: Any) -> int:
    """The number of steps: the leading length that all of `xs` share, or `length`."""
    found = None if length is None else size(name, "length", length)
    if not rows and found is None:
        if tree.fixed:
            place, leaf = tree.fixed[0]
            path = Tree(tree.spec).paths("xs")[place]
            raise ValueError(
                f"{name}: {path}: {describe(leaf)} has no rows: give an array, as np.arange(n) for range(n)"
            )
        raise ValueError(f"{name}: give {'xs or length' if name == NAME else 'xs with rows'}")
    first = "length"
    for x, path in zip(rows, tree.paths("xs"), strict=True):
        t = type_of(x)
        if not t.shape:
            raise ValueError(f"{name}: {path}: {t} has no rows: xs needs a leading axis{of_list(path)}")
        if found is not None and t.shape[0] != found:
            raise ValueError(f"{name}: {path}: {t.shape[0]} rows, {first}: {found}")
        if found is None:
            found, first = t.shape[0], path
    return found


class Step:
    """The user's step, with the checks of what it returns."""

    def __init__(self, name: str, f: Any, carry: Tree, rows: Tree, types: list[Type]):
        self.name = name
        self.f = f
        self.carry = carry
        self.rows = rows
        self.types = types
        self.outputs: Tree | None = None

    def __call__(self, carry: list, row: list) -> tuple[list, list]:
        result = self.f(
            self.carry.build([box(x) for x in carry]), self.rows.build([read_only(x) for x in row])
        )
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"{self.name}: the step must return (carry, output), got {describe(result)}")
        found, tree = parted(self.name, result[0])
        if tree != self.carry:
            raise self.changed(found, tree)
        carry = [self.checked(x, t, path) for x, t, path in zip(found, self.types, tree.paths(), strict=True)]
        outputs, tree = parted(self.name, result[1], "output")
        if self.outputs is None:
            self.outputs = tree
        elif tree != self.outputs:
            raise ValueError(
                f"{self.name}: the step's output changed its structure, or a leaf that is no array, from one step "
                f"to the next"
            )
        return carry, outputs

    def changed(self, found: list, tree: Tree) -> ValueError:
        """The error of a carry whose structure, or a static leaf in it, is not that of the carry received."""
        here, there = "in the carry the step returned", "in the carry it received"
        one, other = shown(tree, [type_of(x) for x in found]), shown(self.carry, self.types)
        if tree.spec == self.carry.spec:
            static = {place for place, _ in (*tree.fixed, *self.carry.fixed)}
            pairs = enumerate(zip(Tree(tree.spec).paths(), flatten(one)[0], flatten(other)[0], strict=True))
            path, one, other = next(pair for place, pair in pairs if place in static and pair[1] != pair[2])
            return ValueError(f"{self.name}: {apart(one, other, here, there, path)}")
        return ValueError(f"{self.name}: {apart(one, other, here, there)}")

    def checked(self, x: Any, t: Type, path: str) -> Any:
        own = type_of(x)
        where = f"{self.name}: {path}: " if path else f"{self.name}: "
        if own.shape != t.shape:
            raise ValueError(
                f"{where}shape {list(own.shape)} in the carry the step returned, {list(t.shape)} in the carry it received"
            )
        if not own.fits(t.dtype):
            raise ValueError(
                f"{where}dtype {own.dtype} in the carry the step returned, {t.dtype} in the carry it received: cast with .astype, or start from that dtype"
            )
        return cast(x, t.dtype)


def shown(tree: Tree, types: list[Type]) -> Any:
    """A tree whose leaves show what they are: the types of those that hold numbers, the static ones themselves."""
    return tree.build([Star(str(t)) for t in types])


def stepped(loop: Step, carry: list, rows: list, n: int, reverse: bool) -> Any:
    """The loop run by Python, row by row."""
    outputs: list = [None] * n
    for k in reversed(range(n)) if reverse else range(n):
        row = [tables.getitem(x, k) if isinstance(x, Value) else np.asarray(x)[k] for x in rows]
        carry, found = loop([writeable(x) for x in carry], row)
        carry = [owned(x) for x in carry]
        outputs[k] = [owned(x) for x in found]
    paths = loop.outputs.paths("output")
    stacks = [stack(loop.name, path, [o[j] for o in outputs]) for j, path in enumerate(paths)]
    return finished(carry, loop.carry), finished(stacks, loop.outputs)


def owned(x: Any) -> Any:
    """A copy of a plain array, which the step may still write to."""
    return np.array(x) if isinstance(x, np.ndarray) else x


def writeable(x: Any) -> Any:
    """A carried array as a value of the running transformation: a step may write what it follows there."""
    level = innermost()
    return level.lift(x) if level is not None and isinstance(x, np.ndarray) else x


def stack(name: str, path: str, xs: list) -> Any:
    """What the steps gave for one leaf of the output, one row each."""
    shapes = list(dict.fromkeys(type_of(x).shape for x in xs))
    if len(shapes) > 1:
        one, other = (list(shape) for shape in shapes[:2])
        raise ValueError(
            f"{name}: {path}: shape {one} from one step, {other} from another: give all one shape"
        )
    if not any(isinstance(x, Value) for x in xs):
        return np.stack(xs)
    dtype = np.result_type(*(type_of(x).dtype for x in xs))
    return movement.concatenate([movement.reshape(cast(x, dtype), (1, *type_of(x).shape)) for x in xs], 0)


def recorded(loop: Step, carry: list, rows: list, n: int, reverse: bool, number: dict) -> Any:
    """The loop as one operation: its step traced once; `number` says how its steps are counted (`nest.Loop`)."""
    types = [type_of(x) for x in carry] + [row_type(type_of(x)) for x in rows]
    c = len(carry)

    def traced(inputs):
        steps_from(inputs, carry, rows)
        after, outputs = loop(inputs[:c], inputs[c:])
        settle(inputs, after)
        return [*after, *outputs]

    totals: list = []
    program, captures = record(loop.name, types, traced, totals)
    if n == 0:
        outputs = program.output_types[c : len(program.outputs) - len(totals)]
        empty = [zeros(Type(t.dtype, (0, *t.shape))) for t in outputs]
        return finished(carry, loop.carry), finished(empty, loop.outputs)
    params = {"step": program, "length": n, "reverse": reverse, "carries": c, "rows": len(rows), "kept": 0}
    args = [*carry, *rows, *captures]
    outs = apply(scan_primitive, args, {**params, **number})
    arrive([(total, summed(x)) for total, x in zip(totals, outs[len(outs) - len(totals) :], strict=True)])
    outs = outs[: len(outs) - len(totals)]
    return loop.carry.build([box(x) for x in outs[:c]]), loop.outputs.build([box(x) for x in outs[c:]])


def row_type(t: Type) -> Type:
    return Type(t.dtype, t.shape[1:])


UNFINISHED = "rune.iterate: until is still false after max_steps = {} steps"


def iterate(step, init, *, until, max_steps):
    name = "rune.iterate"
    callable_(name, step)
    callable_(name, until)
    max_steps = size(name, "max_steps", max_steps)
    carry, tree = started(name, init)
    loop = Step(
        name, lambda carry, _: (step(carry), None), tree, flatten(None)[1], [type_of(x) for x in carry]
    )
    stops = lambda values: predicate(name, until(tree.build([read_only(x) for x in values])))
    if staging():
        return iterated(loop, carry, stops, max_steps)
    for taken in itertools.count():
        if bool(box(stops(carry))):
            return finished(carry, tree)
        if taken == max_steps:
            raise ValueError(UNFINISHED.format(max_steps))
        carry = [owned(x) for x in loop(carry, [])[0]]


def predicate(name: str, result: Any) -> Any:
    """What `until` returned: one boolean."""
    (x,) = raws([result])
    t = type_or_none(x)
    if t is None or t.shape or t.dtype != bool:
        raise TypeError(f"{name}: until must return one boolean, got {describe(result) if t is None else t}")
    return x


def iterated(loop: Step, carry: list, stops: Any, max_steps: int) -> Any:
    """The loop as one operation, and the check that it stopped."""
    types, c = [type_of(x) for x in carry], len(carry)
    totals: list = []

    def traced(inputs):
        steps_from(inputs, carry, [])
        after = loop(inputs, [])[0]
        settle(inputs, after)
        return after

    both = [
        record(loop.name, types, traced, totals),
        record(loop.name, types, lambda inputs: [stops(inputs)]),
    ]
    (body, test), captures = over_all_captures(both, c)
    whole, tested, sums = summing(body, test, c)
    params = {"step": whole, "until": tested, "max_steps": max_steps, "carries": c + len(sums), "kept": 0}
    outs = apply(while_, [*carry, *sums, *captures], params)
    after = outs[:c]
    arrive(list(zip(totals, outs[c:-1], strict=True)))
    stopped = (run(test, [*after, *captures]))[0]
    apply(check_, [stopped], {"message": UNFINISHED.format(max_steps), "lanes": 0})
    return (
        loop.carry.build([box(x) for x in after])
        if any(isinstance(x, Value) for x in after)
        else finished(after, loop.carry)
    )


def summing(body: Any, test: Any, c: int) -> tuple[Any, Any, list]:
    """A loop's programs with sums in the carry of what its body gives behind it, and what those start from.

    Rows of additions would need room for `max_steps` of them.
    """
    sums = [summed(zeros(Type(t.dtype, (1, *t.shape)))) for t in body.output_types[c:]]
    if not sums:
        return body, test, sums
    types, n = [type_of(x).strong() for x in sums], c + len(sums)

    def f(inputs):
        outs = run(body, [*inputs[:c], *inputs[n:]])
        added = zip(inputs[c:n], outs[c:], types, strict=True)
        return [*outs[:c], *(e.add(total, cast(x, t.dtype)) for total, x, t in added)]

    whole, _ = record(body.name, [*body.input_types[:c], *types, *body.input_types[c:]], f)
    inputs = [*test.inputs[:c], *(Var(t) for t in types), *test.inputs[c:]]
    return whole, test.rearranged(inputs, test.outputs), sums
