"""Branches: one of several programs applied to the same operands, chosen by an index.

One branch runs.  A derivation derives every branch and chooses among the results with the same
index; what the linear halves read is returned by all, zeros from the branches that have none.  Where
the index has lanes all branches run for all lanes and each lane takes its own: derivatives then enter
a branch only through lanes that took it (`gate`), so a branch not taken never gives a NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune import derive
from rune.arguments import array_leaves, callable_, raws, type_or_none
from rune.level import Value, apply, bind, staging
from rune.linear import Tangent
from rune.lower import lower
from rune.native import nest
from rune.primitives import effects, indexing, movement
from rune.primitives.map import cast
from rune.primitives.primitive import Primitive, Unknown, zeros
from rune.primitives.scalar import e
from rune.program import Literal, Program, Type, Var, type_of
from rune.structure import Tree, describe
from rune.trace import record, run
from rune.value import box

__all__ = ["cond", "switch"]


class Cond(Primitive):
    name = "cond"
    recompute = False

    def effect(self, params):
        return next((b.effect for b in params["branch"] if b.effect), None)

    def type(self, types, params):
        return [t.strong() for t in params["branch"][0].output_types]

    def evaluate(self, args, params):
        return run(params["branch"][int(args[0])], args[1:])

    def jvp(self, primals, tangents, params):
        branches, (index, *operands) = params["branch"], primals
        mask = tuple(t is not None for t in tangents[1:])
        moving = [t for t in tangents[1:] if t is not None]
        if not moving:
            outs = bind(self, primals, params)
            return outs, [None] * len(outs)
        if any(isinstance(t, Tangent) for t in moving):
            return self.linearized(index, operands, moving, mask, branches)
        present = union([derive.jvp(b, mask)[1] for b in branches])
        both = tuple(derive.jvp(b, mask, present)[0] for b in branches)
        results = bind(self, [index, *operands, *moving], {"branch": both})
        n = len(present)
        changes = iter(results[n:])
        return results[:n], [next(changes) if p else None for p in present]

    def linearized(self, index, operands, moving, mask, branches):
        present = union([derive.linearize(b, mask).present for b in branches])
        halves = [derive.linearize(b, mask, present) for b in branches]
        n = len(present)
        stored = [h.primal.output_types[n:] for h in halves]
        primal = tuple(padded(h.primal, n, stored, k) for k, h in enumerate(halves))
        outs = bind(self, [index, *operands], {"branch": primal})
        results, stacks = outs[:n], outs[n:]
        reads, at = [], 0
        for h, own in zip(halves, stored, strict=True):
            reads.append(h.values(operands, [*results, *stacks[at : at + len(own)]]))
            at += len(own)
        linear = tuple(widened(h.linear, reads, k) for k, h in enumerate(halves))
        args = [index, *(x for values in reads for x in values), *moving]
        changes = iter(bind(self, args, {"branch": linear}))
        return results, [next(changes) if p else None for p in present]

    def linear_in(self, flags, params):
        return not flags[0] and all(b.linear for b in params["branch"])

    def transpose(self, cts, args, params):
        index, *operands = args
        linear = tuple(isinstance(a, Unknown) for a in operands)
        given = tuple(ct is not None for ct in cts)
        turned = tuple(derive.transpose(b, linear, given, force=True)[0] for b in params["branch"])
        known = [a for a in operands if not isinstance(a, Unknown)]
        found = iter(bind(self, [index, *known, *(ct for ct in cts if ct is not None)], {"branch": turned}))
        return [None, *(next(found) if m else None for m in linear)]

    def batch(self, size, args, mapped, params):
        branches, (index, *operands) = params["branch"], args
        mask = tuple(mapped[1:])
        if not mapped[0]:
            present = union([derive.batch(b, mask, size)[1] for b in branches])
            over = tuple(derive.batch(b, mask, size, present)[0] for b in branches)
            return bind(self, args, {"branch": over}), list(present)
        operands = [
            a if m else movement.broadcast(a, (size, *type_of(a).shape))
            for a, m in zip(operands, mask, strict=True)
        ]
        n = len(branches[0].outputs)
        chosen: list = []
        for k, b in enumerate(branches):
            taken = e.eq(index, k)
            over, _ = derive.batch(b, (True,) * len(operands), size, (True,) * n)
            with np.errstate(all="ignore"):  # also runs for lanes that take another branch
                outs = run_where(over, [effects.gate(taken, x) for x in operands], taken)
            if not chosen:
                chosen = outs
            else:
                wide = lambda x, taken=taken: movement.reshape(taken, (size,) + (1,) * (type_of(x).ndim - 1))
                chosen = [e.select(wide(x), x, before) for x, before in zip(outs, chosen, strict=True)]
        return chosen, [True] * n

    def lower(self, e):
        blocks = tuple(lower(b, f"branch{k}") for k, b in enumerate(e.params["branch"]))
        return [nest.Branch(e.outputs, e.inputs, blocks)]

    def show(self, e, name):
        index, *operands = e.inputs
        shown = lambda v: name(v) if isinstance(v, Var) else str(v)
        return (
            f"cond {shown(index)} of {len(e.params['branches'])}, operands ({', '.join(map(shown, operands))})",
            [],
        )


cond_ = Cond()


def union(masks: list) -> tuple[bool, ...]:
    return tuple(any(column) for column in zip(*masks, strict=True))


def padded(primal: Program, n: int, stored: list[list[Type]], k: int) -> Program:
    """A branch's primal half that returns every branch's stored values, zeros for the others'."""

    def build():
        def f(inputs):
            outs = run(primal, inputs)
            slots = [outs[n:] if j == k else [zeros(t) for t in types] for j, types in enumerate(stored)]
            return [*outs[:n], *(x for slot in slots for x in slot)]

        return record("rune.cond", primal.input_types, f)[0]

    return derive.kept(primal, ("padded", n, tuple(map(tuple, stored)), k), build)


def widened(linear: Program, reads: list[list], k: int) -> Program:
    """A branch's linear half over what all of them read; the others' values are not used."""

    def build():
        own, moving = linear.inputs[: len(reads[k])], linear.inputs[len(reads[k]) :]
        slots = [
            own if j == k else [Var(type_of(x).strong()) for x in values] for j, values in enumerate(reads)
        ]
        return linear.rearranged([*(v for slot in slots for v in slot), *moving], linear.outputs)

    key = ("widened", tuple(tuple(type_of(x).strong() for x in values) for values in reads), k)
    return derive.kept(linear, key, build)


def run_where(program: Program, args: list, taken: Any) -> list:
    """`run` for lanes of which some are not taken: what may fail is made harmless in those."""
    if program.effect is None:
        return run(program, args)
    env = dict(zip(map(id, program.inputs), args, strict=True))
    read = lambda v: v.value if isinstance(v, Literal) else env[id(v)]
    for eq in program.equations:
        inputs = [read(v) for v in eq.inputs]
        if eq.effect == "fail":
            inputs = eq.primitive.harmless(inputs, taken)
        env.update(zip(map(id, eq.outputs), bind(eq.primitive, inputs, eq.params), strict=True))
    return [read(v) for v in program.outputs]


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
    within = indexing.gather(np.arange(len(branches)), [np.int64(k) if type(k) is int else cast(k, np.int64)])
    return chosen(name, within, [(f"branches[{j}]", f) for j, f in enumerate(branches)], args)


def chosen(name: str, index: Any, branches: list, args: tuple) -> Any:
    if not isinstance(index, Value) and not staging():
        found, tree = array_leaves(name, args)
        return branches[int(index)][1](*tree.build([read_only(x) for x in found]))
    found, tree = array_leaves(name, args)
    dynamic = [type_or_none(x) is not None for x in raws(found)]
    values = [x for x, d in zip(raws(found), dynamic, strict=True) if d]
    outs_tree: list[Tree] = []
    traces = []
    for label, f in branches:

        def flat(inputs, f=f):
            given = iter(inputs)
            inside = tree.build([box(next(given)) if d else x for x, d in zip(found, dynamic, strict=True)])
            leaves, out = array_leaves(name, f(*inside))
            outs_tree.append(out)
            return raws(leaves)

        traces.append((label, *record(name, [type_of(x) for x in values], flat)))
    programs, captures = agreed(name, traces, outs_tree, len(values))
    operands = [index, *values, *captures]
    outs = apply(cond_, operands, {"branch": programs})
    return outs_tree[0].build([box(x) for x in outs])


def read_only(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return x


def agreed(name: str, traces: list, trees: list[Tree], n: int) -> tuple[tuple[Program, ...], list[Value]]:
    """The branches over one list of operands, with results of one structure and one list of types."""
    first_label, first, _ = traces[0]
    captures = list({id(x): x for _, _, found in traces for x in found}.values())
    types = [list(p.output_types) for _, p, _ in traces]
    for (label, program, _), tree in zip(traces, trees, strict=True):
        if tree != trees[0]:
            raise ValueError(f"{name}: the results of {label} and {first_label} have different structures")
        for path, t, u in zip(tree.paths(), program.output_types, first.output_types, strict=True):
            if t.shape != u.shape or (t.dtype != u.dtype and not (t.weak or u.weak)):
                where = f"{name}: {path}: " if path else f"{name}: "
                raise ValueError(f"{where}{t} from {label}, {u} from {first_label}")
    common = []
    for column in zip(*types, strict=True):
        strong = [t.dtype for t in column if not t.weak]
        common.append(np.result_type(*strong) if strong else column[0].dtype)
    programs = []
    for _, program, own in traces:
        place = {id(x): v for x, v in zip(own, program.inputs[n:], strict=True)}
        inputs = [*program.inputs[:n], *(place.get(id(x)) or Var(x.type) for x in captures)]
        program = program.rearranged(inputs, program.outputs)
        if [t.dtype for t in program.output_types] != common or any(t.weak for t in program.output_types):
            f = lambda xs, p=program: [cast(y, d) for y, d in zip(run(p, xs), common, strict=True)]
            program, _ = record(name, program.input_types, f)
        programs.append(program)
    return tuple(programs), captures
