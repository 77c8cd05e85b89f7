"""Derivatives as a user calls them: grad, vjp, jvp, linearize, Jacobians, Hessians.

Reverse mode runs the function in forward mode, whose tangents a recorder owns, and transposes the
record.  Every entry point here is a reading of one of two runs: `Reverse`, the function run once with a
record, or `jvp`, run with tangents that are there.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.arguments import array_leaves, callable_, finished, inexact, leaf_type, raws, type_or_none
from rune.batch import Batch, Lanes
from rune.derive import live
from rune.eager import Eager, Tape
from rune.jvp import Forward
from rune.level import bind, opened
from rune.linear import transpose
from rune.primitives import movement
from rune.primitives.primitive import instantiated, zeros
from rune.program import Type, type_of
from rune.snapshot import Snapshots
from rune.structure import Star, Tree, apart, describe, flatten
from rune.totals import arrive
from rune.value import Traced, box, raw

__all__ = [
    "grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp",
]  # fmt: skip


class Parameters:
    """The arguments at some positions, taken apart: which leaves have derivatives, and the way back."""

    def __init__(self, name: str, args: tuple, positions: tuple[int, ...]):
        self.name = name
        self.positions = positions
        self.leaves: list[list] = []
        self.trees: list[Tree] = []
        for k in positions:
            if not -len(args) <= k < len(args):
                raise ValueError(
                    f"{name}: argnums names argument {k}, and the function was called with {len(args)} by position: "
                    "keyword arguments are not differentiated"
                )
            if sum(k % len(args) == other % len(args) for other in positions) > 1:
                raise ValueError(f"{name}: argnums names argument {k % len(args)} more than once")
            found, tree = array_leaves(name, args[k], str(k))
            self.leaves.append(found)
            self.trees.append(tree)
        self.moving = [[inexact(x) for x in found] for found in self.leaves]
        if not any(m for flags in self.moving for m in flags):
            raise TypeError(f"{name}: the parameters hold no real or complex array{instead(self.leaves)}")
        # The leaves that have derivatives, in order, as values and plain arrays.
        self.values = [
            raw(x)
            for found, flags in zip(self.leaves, self.moving, strict=True)
            for x, m in zip(found, flags, strict=True)
            if m
        ]
        self.types: list[Type] = [type_of(x) for x in self.values]

    @property
    def paths(self) -> list[str]:
        rooted = zip(self.positions, self.trees, self.moving, strict=True)
        return [p for k, tree, flags in rooted for p, m in zip(tree.paths(str(k)), flags, strict=True) if m]

    def placed(self, args: tuple, moving: list) -> list:
        """The arguments with `moving` in the places of the leaves that have derivatives; others are copied, so
        that what the function writes into is its own, as it is under jit."""
        given, result = iter(moving), list(args)
        for k, found, tree, flags in zip(self.positions, self.leaves, self.trees, self.moving, strict=True):
            still = copied([None if m else x for x, m in zip(found, flags, strict=True)])
            result[k] = tree.build([box(next(given)) if m else x for x, m in zip(still, flags, strict=True)])
        return result

    def derivatives(self, found: list) -> tuple:
        """One tree of derivatives per position; a leaf without one has zeros of its dtype."""
        given, result = iter(found), []
        for leaves, tree, flags in zip(self.leaves, self.trees, self.moving, strict=True):
            parts = [next(given) if m else carried(x) for x, m in zip(leaves, flags, strict=True)]
            result.append(finished(parts, tree))
        return tuple(result)

    def tangents(self, trees: tuple) -> list:
        """Tangents of the moving leaves from trees like the parameters, checked leaf by leaf."""
        found = []
        for k, x, tree, leaves, flags in zip(
            self.positions, trees, self.trees, self.leaves, self.moving, strict=True
        ):
            given = matching(self.name, x, tree, str(k), "tangent", "primal")
            for t, p, m, path in zip(given, leaves, flags, tree.paths(str(k)), strict=True):
                if m:
                    found.append(checked(self.name, path, t, type_of(raw(p)), "tangent", "primal"))
        return found


def carried(x: Any) -> Any:
    """The derivative of a leaf that has none: zeros of an integer or boolean array, 0 of an int, statics."""
    t = leaf_type(x)
    if t is None or type(x) is bool:
        return x
    return 0 if type(x) is int else np.zeros(t.shape, t.dtype)


def matching(name: str, x: Any, tree: Tree, root: str, given: str, expected: str) -> list:
    """The leaves of `x`, which must have the structure `tree`."""
    found, own = flatten(x)
    if own != tree:
        whole = tree.build([Star("an array or number")] * tree.size)
        raise ValueError(f"{name}: {apart(x, whole, f'in the {given}', f'in the {expected}', root)}")
    return found


def checked(name: str, path: str, x: Any, t: Type, given: str, expected: str) -> Any:
    """A leaf that must have type `t`; a Python number may stand for a 0-d one."""
    own = leaf_type(x)
    where = f"{name}: {path}: " if path else f"{name}: "
    if own is None:
        raise ValueError(f"{where}{describe(x)} in the {given}, {t} in the {expected}")
    if own.shape != t.shape:
        raise ValueError(f"{where}shape {list(own.shape)} in the {given}, {list(t.shape)} in the {expected}")
    if type(x) in (float, int, complex):
        return t.dtype.type(x)
    if own.dtype != t.dtype:
        raise ValueError(f"{where}dtype {own.dtype} in the {given}, {t.dtype} in the {expected}")
    return raw(x)


class Reverse:
    """A function run once in forward mode with a record of the operations on tangents."""

    def __init__(
        self,
        name: str,
        f: Callable,
        args: tuple,
        keywords: dict,
        positions: tuple[int, ...],
        has_aux: bool = False,
        outlives: bool = False,  # the call: then the caller may write into the parameters meanwhile
    ):
        self.name = name
        self.parameters = parameters = Parameters(name, args, positions)
        self.snapshots = Snapshots(name)
        self.recorder = Tape(name)
        forward = Eager(name, self.snapshots, self.recorder)
        with opened(self.recorder, forward), np.errstate(all="ignore"):
            self.inputs = [self.recorder.input(t) for t in parameters.types]
            values = copied(parameters.values) if outlives else parameters.values
            duals = [forward.dual(p, t) for p, t in zip(values, self.inputs, strict=True)]
            result = f(*parameters.placed(args, duals), **keywords)
            self.aux = None
            if has_aux:
                result, aux = pair(name, result)
                found, tree = flatten(aux)
                self.aux = finished([forward.open(x)[0] for x in raws(found)], tree)
            found, self.tree = array_leaves(name, result)
            opened_ = [forward.open(x) for x in raws(found)]
        arrive([(total, forward.open(x)[0]) for total, x in forward.additions.items()])
        self.primals = [p for p, _ in opened_]
        self.tangents = [t for _, t in opened_]

    def value(self) -> Any:
        return finished(copied(self.primals), self.tree)

    def pull(self, cts: list, spend: bool = False) -> list:
        """Cotangents of the parameters from those of the results (None is a zero)."""
        self.snapshots.verify()
        with np.errstate(all="ignore"):
            found = transpose(self.recorder, self.inputs, self.tangents, cts, spend=spend)
            return instantiated(found, self.parameters.types)

    def push(self, tangents: list) -> list:
        """Tangents of the results from those of the parameters, by the record; None is a zero."""
        self.snapshots.verify()
        env = dict(zip(map(id, self.inputs), tangents, strict=True))
        here = lambda a: env[id(a)] if self.recorder.owns(a) else a
        with np.errstate(all="ignore"):
            for r in live(self.recorder, self.tangents):
                env.update(
                    zip(map(id, r.outs), bind(r.primitive, [here(a) for a in r.args], r.params), strict=True)
                )
        return [here(t) for t in self.tangents]

    def objective(self) -> Type:
        """The type of the result, which must be one real or complex scalar."""
        single = len(self.primals) == 1
        t = type_or_none(self.primals[0]) if single else None
        if t is None or t.shape or not t.inexact:
            got, advice = f"a structure of {len(self.primals)} leaves", ""
            if single:
                got = str(t) if t else describe(self.primals[0])
                advice = ": sum it, or take rune.jacrev" if t and t.inexact else ""
            elif self.primals:
                advice = ": rune.grad(f, has_aux=True) takes (objective, aux)"
            raise TypeError(
                f"{self.name}: the objective must return a real or complex scalar, got {got}{advice}"
            )
        return t

    def held(self, results: list[Type]) -> None:
        """Raise where the derivative of a complex result by a real parameter, which is complex, is asked of its dtype."""
        if any(t.dtype.kind == "c" for t in results):
            for path, t in zip(self.parameters.paths, self.parameters.types, strict=True):
                if t.dtype.kind != "c":
                    raise TypeError(
                        f"{self.name}: {path}: {t} holds no derivative of a complex result: "
                        "take np.real or np.imag of the result, or rune.jacfwd"
                    )


def copied(leaves: list) -> list:
    """Plain arrays that a record or an argument may share, copied."""
    return [np.array(x) if isinstance(x, np.ndarray) else x for x in leaves]


def pair(name: str, result: Any) -> tuple:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"{name}: with has_aux=True the function must return (result, aux), got {describe(result)}"
        )
    return result


def instead(parameters: list[list]) -> str:
    """What the first of these leaves is, none of which has a derivative, and what to pass for it."""
    first = next((x for leaves in parameters for x in leaves), None)
    if first is None:
        return ""
    if hasattr(first, "__array__") and not isinstance(first, (np.ndarray, np.generic, Traced)):
        return f", got {describe(first)}: pass np.asarray(x)"
    advice = ""
    if type_or_none(first) is not None:
        advice = ": pass x.astype(float), or 3.0 for 3"
    elif hasattr(first, "__dict__") and not callable(first) and not isinstance(first, enum.Enum):
        advice = ": make its class a dataclass, or register it with optree"
    return f", got {describe(first)}{advice}"


def positions_of(name: str, argnums: Any) -> tuple[int, ...]:
    if type(argnums) is int:
        return (argnums,)
    if isinstance(argnums, (tuple, list)) and all(type(k) is int for k in argnums):
        return tuple(argnums)
    call = f": write {name}(f)(x)" if isinstance(argnums, (np.ndarray, float)) else ""
    raise TypeError(f"{name}: argnums must be an int or a tuple of ints, got {argnums!r}{call}")


def one_or_all(argnums: Any, found: tuple) -> Any:
    return found[0] if type(argnums) is int else found


def gradient(name: str, f: Callable, argnums: Any, has_aux: bool) -> Callable:
    """value_and_grad under the name of the entry point that was called."""
    callable_(name, f)
    positions = positions_of(name, argnums)

    def run(*args: Any, **keywords: Any) -> tuple:
        reverse = Reverse(name, f, args, keywords, positions, has_aux)
        t = reverse.objective()
        reverse.held([t])
        found = reverse.pull([t.dtype.type(1)], spend=True)
        return reverse, one_or_all(argnums, reverse.parameters.derivatives(found))

    return run


def grad(f, argnums=0, *, has_aux=False):
    run = gradient("rune.grad", f, argnums, has_aux)

    @functools.wraps(f, updated=())
    def gradient_of(*args, **keywords):
        reverse, found = run(*args, **keywords)
        return (found, reverse.aux) if has_aux else found

    return gradient_of


def value_and_grad(f, argnums=0, *, has_aux=False):
    run = gradient("rune.value_and_grad", f, argnums, has_aux)

    @functools.wraps(f, updated=())
    def value_and_gradient_of(*args, **keywords):
        reverse, found = run(*args, **keywords)
        value = reverse.value()
        return ((value, reverse.aux), found) if has_aux else (value, found)

    return value_and_gradient_of


def vjp(f, *primals, has_aux=False):
    callable_("rune.vjp", f)
    reverse = Reverse("rune.vjp", f, primals, {}, tuple(range(len(primals))), has_aux, outlives=True)
    types = [type_or_none(x) for x in reverse.primals]

    def pullback(ct):
        given = matching("rune.vjp", ct, reverse.tree, "", "cotangent", "result")
        paths = reverse.tree.paths()
        cts = [
            checked("rune.vjp", path, x, t, "cotangent", "result") if t and t.inexact else None
            for path, x, t in zip(paths, given, types, strict=True)
        ]
        return reverse.parameters.derivatives(reverse.pull(cts))

    return (reverse.value(), pullback, reverse.aux) if has_aux else (reverse.value(), pullback)


def jvp(f, primals, tangents, *, has_aux=False):
    return pushed("rune.jvp", f, primals, tangents, has_aux)


def pushed(name: str, f: Callable, primals: Any, tangents: Any, has_aux: bool) -> tuple:
    """jvp under the name of the entry point that was called."""
    callable_(name, f)
    for what, x in (("primals", primals), ("tangents", tangents)):
        if not isinstance(x, (tuple, list)):
            raise TypeError(f"{name}: {what} must be a tuple with one entry per argument, got {describe(x)}")
    if len(primals) != len(tangents):
        raise ValueError(f"{name}: {len(tangents)} tangents for {len(primals)} primals")
    parameters = Parameters(name, tuple(primals), tuple(range(len(primals))))
    moving = parameters.tangents(tuple(tangents))
    forward = Forward(name)
    aux = None
    with opened(forward), np.errstate(all="ignore"):
        duals = [forward.dual(p, t) for p, t in zip(parameters.values, moving, strict=True)]
        result = f(*parameters.placed(tuple(primals), duals))
        if has_aux:
            result, aux = pair(name, result)
            found, tree = flatten(aux)
            aux = finished([forward.open(x)[0] for x in raws(found)], tree)
        found, tree = array_leaves(name, result)
        pairs = [forward.open(x) for x in raws(found)]
    arrive([(total, forward.open(x)[0]) for total, x in forward.additions.items()])
    changes = [change(p, t) for p, t in pairs]
    y, dy = finished(copied([p for p, _ in pairs]), tree), finished(copied(changes), tree)
    return (y, dy, aux) if has_aux else (y, dy)


def change(primal: Any, tangent: Any) -> Any:
    """A result's tangent as the user sees it: zeros where it has none."""
    if tangent is not None:
        return tangent
    t = type_or_none(primal)
    return primal if t is None else zeros(t)


def linearize(f, *primals):
    callable_("rune.linearize", f)
    reverse = Reverse("rune.linearize", f, primals, {}, tuple(range(len(primals))), outlives=True)

    def along(*tangents):
        if len(tangents) != len(primals):
            raise ValueError(f"rune.linearize: {len(tangents)} tangents for {len(primals)} primals")
        found = reverse.push(reverse.parameters.tangents(tangents))
        return finished(
            copied([change(p, t) for p, t in zip(reverse.primals, found, strict=True)]), reverse.tree
        )

    return reverse.value(), along


def basis(types: list[Type]) -> tuple[int, list]:
    """Unit tangents for every element of every leaf: their number, and one stack per leaf."""
    total, at, stacks = sum(t.size for t in types), 0, []
    for t in types:
        stack = np.zeros((total, t.size), t.dtype)
        stack[at : at + t.size] = np.eye(t.size, dtype=t.dtype)
        stacks.append(stack.reshape(total, *t.shape))
        at += t.size
    return total, stacks


def mapped(name: str, size: int, stacks: list, f: Callable) -> list:
    """`f` of every lane of the stacks, its results stacked along axis 0 (None stays)."""
    level = Batch(name, size)
    with opened(level):
        results = f([Lanes(level, s) for s in stacks])
        return [None if x is None else level.spread(x) for x in results]


def split_rows(x: Any, types: list[Type]) -> list:
    """The rows of a stack that belong to each leaf."""
    at, parts = 0, []
    for t in types:
        parts.append(movement.part(x, 0, at, at + t.size))
        at += t.size
    return parts


def differentiable(reverse: Reverse, types: list) -> None:
    """Raise where a result has no derivative to be had."""
    for path, x, t in zip(reverse.tree.paths(), reverse.primals, types, strict=True):
        if t is None or not t.inexact:
            where = f"{reverse.name}: {path}" if path else reverse.name
            raise TypeError(
                f"{where}: a result of {f'dtype {t.dtype}' if t else describe(x)} has no derivative"
            )


def jacobian_forward(name: str, f: Callable, argnums: Any) -> Callable:
    callable_(name, f)
    positions = positions_of(name, argnums)

    @functools.wraps(f, updated=())
    def jacobian_of(*args, **keywords):
        reverse = Reverse(name, f, args, keywords, positions)
        types = reverse.parameters.types
        size, stacks = basis(types)
        differentiable(reverse, [type_or_none(p) for p in reverse.primals])
        found = mapped(name, size, stacks, reverse.push)
        per_result = []
        for p, change_ in zip(reverse.primals, found, strict=True):
            y = type_or_none(p)
            if change_ is None:
                change_ = movement.full((size, *y.shape), np.zeros((), y.dtype))
            blocks = []
            for part, t in zip(split_rows(change_, types), types, strict=True):
                n = len(y.shape)
                turned = movement.permute(part, (*range(1, n + 1), 0))
                blocks.append(movement.reshape(turned, (*y.shape, *t.shape)))
            per_result.append(one_or_all(argnums, reverse.parameters.derivatives(blocks)))
        return reverse.tree.build(per_result)

    return jacobian_of


def jacfwd(f, argnums=0):
    return jacobian_forward("rune.jacfwd", f, argnums)


def jacrev(f, argnums=0):
    name = "rune.jacrev"
    callable_(name, f)
    positions = positions_of(name, argnums)

    @functools.wraps(f, updated=())
    def jacobian_of(*args, **keywords):
        reverse = Reverse(name, f, args, keywords, positions)
        types = [type_or_none(p) for p in reverse.primals]
        differentiable(reverse, types)
        reverse.held(types)
        size, stacks = basis(types)
        found = mapped(name, size, stacks, reverse.pull)
        rows = [split_rows(x, types) for x in found]
        per_result = []
        for k, y in enumerate(types):
            blocks = [
                movement.reshape(r[k], (*y.shape, *t.shape))
                for r, t in zip(rows, reverse.parameters.types, strict=True)
            ]
            per_result.append(one_or_all(argnums, reverse.parameters.derivatives(blocks)))
        return reverse.tree.build(per_result)

    return jacobian_of


def hessian(f, argnums=0):
    name = "rune.hessian"
    run = gradient(name, f, argnums, False)
    return jacobian_forward(
        name, functools.wraps(f, updated=())(lambda *args, **keywords: run(*args, **keywords)[1]), argnums
    )


def hvp(f):
    run = gradient("rune.hvp", f, 0, False)
    return lambda x, v: pushed("rune.hvp", lambda x: run(x)[1], (x,), (v,), False)[1]
