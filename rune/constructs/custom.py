"""Rules of the user's: custom_jvp, custom_vjp and custom_transpose.

A rule returns a result and what its derivative is made of: a tangent map, or a pullback.

- On plain values the rule runs and its result is returned.
- Under differentiation the innermost one applies the rule: it runs on that level's primals, which
  are plain under one differentiation and values of the outer ones under several, so those
  differentiate the rule's own code.
- Under a trace or a map the rule is traced: its result becomes one program, its map or pullback
  another that reads values of the first (residuals), and both stand in one equation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rune import derive
from rune.arguments import array_leaves, callable_, finished, fitted, parted, raws, type_or_none
from rune.constructs.call import call
from rune.jvp import Forward, apart
from rune.level import Level, Value, beneath, bind, innermost_trace, opened, tracing
from rune.linear import Tangent
from rune.linearity import Kind, kind_of, of_program
from rune.primitives import movement
from rune.primitives.primitive import Primitive, instantiated, to_unknown, zeros
from rune.program import Type, type_of
from rune.structure import Tree, describe, flatten
from rune.trace import Trace, not_counted, passing, record
from rune.value import box

__all__ = ["custom_jvp", "custom_transpose", "custom_vjp", "highest"]


class Ruled(Primitive):
    """args -> (results, residuals, additions to totals) of a traced rule; `rule` is the program of its map
    or pullback.

    The map is a program linear in its first inputs, (tangents..., residuals...) -> tangents; the
    pullback is (cotangents..., residuals...) -> cotangents.
    """

    recompute = False

    def __init__(self, name: str, linear: Callable[[dict, list, list], list]):
        self.name = name
        self.linear = linear  # (params, tangents, residuals) -> tangents of the results

    def effect(self, params):
        return params["program"].effect

    def inlined(self, params):
        return params["program"]

    def type(self, types, params):
        return params["program"].output_types

    def evaluate(self, args, params):
        return bind(call, args, {"program": params["program"]})

    def jvp(self, primals, tangents, params):
        outs = bind(call, primals, {"program": params["program"]})
        results, others = outs[: params["results"]], outs[params["results"] :]
        n = params["arguments"]
        if any(t is not None for t in tangents[n:]):
            raise captures_moving(f"rune.{self.name}")
        pairs = zip(primals[:n], tangents[:n], strict=True)
        moving = with_zeros([(p, t) for p, t in pairs if type_of(p).inexact])
        changes = self.linear(params, moving, others[: params["residuals"]])
        given = iter(changes)
        moved = [next(given) if type_of(x).inexact else None for x in results]
        return outs, [*moved, *(None for _ in others)]

    def linearity(self, kinds, params):
        return of_program(params["program"], kinds)

    def batch(self, size, args, mapped, params):
        over = lambda p: derive.batch(p, (True,) * len(p.inputs), size, (True,) * len(p.outputs))[0]
        args = movement.all_in_lanes(args, mapped, size)
        outs = bind(
            self,
            args,
            {
                **params,
                "program": over(params["program"]),
                "rule": over(params["rule"]),
            },
        )
        return outs, [True] * len(outs)

    def guarded(self, args, params, taken):
        return [*args, taken], {**params, "program": derive.guarded(params["program"])}

    def show(self, e, name):
        return f"{self.name} ({', '.join(name(v) for v in e.inputs)})", []


class Pulled(Primitive):
    """(tangents..., residuals...) -> tangents of the results, known only by its transpose.

    `pull(cts, residuals)` gives the cotangents: the user's pullback, or its traced program.
    """

    name = "custom_vjp"
    recompute = False

    def type(self, types, params):
        return list(params["types"])

    def evaluate(self, args, params):
        raise no_forward()

    def jvp(self, primals, tangents, params):
        raise no_forward()

    def batch(self, size, args, mapped, params):
        program = params["rule"]
        if program is None:
            raise no_forward()
        over, _ = derive.batch(program, (True,) * len(program.inputs), size, (True,) * len(program.outputs))
        args = movement.all_in_lanes(args, mapped, size)
        types = tuple(Type(t.dtype, (size, *t.shape)) for t in params["types"])
        return bind(self, args, {**params, "rule": over, "types": types}), [True] * len(types)

    def linear_in(self, flags, params):
        return not any(flags[params["moving"] :])

    def transpose(self, cts, args, params):
        n = params["moving"]
        cts = instantiated(cts, params["types"])
        if params["rule"] is not None:
            found = bind(call, [*cts, *args[n:]], {"program": params["rule"]})
        else:
            found = params["pull"](cts)
        return to_unknown(found, args)


def captures_moving(name: str) -> TypeError:
    return TypeError(
        f"{name}: the rule captures a value that is differentiated, for which it states no derivative: "
        f"pass it as an argument, or capture rune.detach(x)"
    )


def no_forward() -> TypeError:
    return TypeError(
        "rune.jvp: a custom_vjp rule has no forward derivative: state a tangent map with rune.custom_jvp"
    )


def all_linear(moving: list, changes: list) -> list:
    """What a tangent map gave, where it was given tangents: tangents too, or zeros."""
    tangent = next((t for t in moving if isinstance(t, Tangent)), None)
    if tangent is not None and any(not isinstance(x, Tangent) and kind_of(x) is Kind.KNOWN for x in changes):
        raise TypeError(
            f"{tangent.level.name}: a custom_jvp tangent map returns a value that depends on no tangent and "
            f"is not known to be zero, which is not linear"
        )
    return changes


def with_zeros(pairs: list) -> list:
    """The tangents of (primal, tangent) pairs, zeros where there is none.

    Beside tangents that are recorded, zeros are recorded too: a map may scale one by what an outer
    differentiation follows, and what that gives is known to be zero by its derivation alone.
    """
    recorder = next((t.level for _, t in pairs if isinstance(t, Tangent)), None)
    zero = zeros if recorder is None else lambda t: recorder.lift(zeros(t))
    return [zero(type_of(p)) if t is None else t for p, t in pairs]


def map_program(params: dict, moving: list, residuals: list) -> list:
    return all_linear(moving, bind(call, [*moving, *residuals], {"program": params["rule"]}))


def pull_program(params: dict, moving: list, residuals: list) -> list:
    outs = params["program"].outputs[: params["results"]]
    types = tuple(v.type for v in outs if v.type.inexact)
    return pulled_back(moving, residuals, types, rule=params["rule"])


def pulled_back(moving: list, residuals: list, types: tuple, rule: Any = None, pull: Any = None) -> list:
    if not any(isinstance(t, Tangent) for t in moving):
        raise no_forward()
    params = {"types": types, "moving": len(moving), "rule": rule, "pull": pull}
    return bind(pulled, [*moving, *residuals], params)


ruled_jvp, ruled_vjp, pulled = Ruled("custom_jvp", map_program), Ruled("custom_vjp", pull_program), Pulled()


class Applied:
    """A rule applied to leaves: its results, and its map or pullback over flat lists.

    Lists hold the leaves that have derivatives only; the user's function sees whole structures, zeros
    where there is no derivative, and the bare structure for one argument.
    """

    def __init__(self, name: str, rule: Callable, args: Tree, leaves: list):
        self.name = name
        self.args = args
        self.types = [type_or_none(x) for x in leaves]
        self.moving = [t is not None and t.inexact for t in self.types]
        arguments = args.build([box(x) for x in leaves])
        result = rule(*arguments)
        if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):
            raise TypeError(f"{name}: the rule must return (result, a function), got {describe(result)}")
        self.map = result[1]
        found, self.tree = array_leaves(name, result[0])
        self.results = raws(found)
        kinds = [type_or_none(x) for x in self.results]
        self.result_types = [t and t.strong() for t in kinds]
        self.changing = [t is not None and t.inexact for t in kinds]

    def tangents(self, moving: list) -> list:
        """Tangents of the results by the user's map."""
        given = iter(moving)
        full = [next(given) if m else none_of(t) for t, m in zip(self.types, self.moving, strict=True)]
        result = self.map(*self.args.build([box(x) for x in full]))
        return self.only(
            fitted(self.name, result, self.tree, self.result_types, "returned by the tangent map"),
            self.changing,
        )

    def cotangents(self, cts: list) -> list:
        """Cotangents of the arguments by the user's pullback."""
        given = iter(cts)
        full = [
            next(given) if changes else x if t is None else zeros(t)
            for x, t, changes in zip(self.results, self.result_types, self.changing, strict=True)
        ]
        result = self.map(self.tree.build([box(x) for x in full]))
        return self.only(pulled_to(self.name, result, self.args, self.types, "pullback"), self.moving)

    def only(self, xs: list, flags: list[bool]) -> list:
        return [x for x, flag in zip(xs, flags, strict=True) if flag]


def pulled_to(name: str, result: Any, args: Tree, types: list, what: str) -> list:
    """What a pullback returned, as cotangents of all leaves of the arguments."""
    arguments = args.build(list(range(args.size)))
    if len(arguments) != 1:
        return fitted(name, result, args, types, f"returned by the {what}")
    return fitted(name, result, flatten(arguments[0])[1], types, f"returned by the {what}", "0")


def none_of(t: Type | None) -> Any:
    return 0 if t is None else zeros(t)


class RuleKind:
    """One of the two kinds of rule: how its derivative is applied at once, and how it is traced."""

    def __init__(self, name: str, primitive: Ruled, at_once: Callable, traced: Callable):
        self.name = name
        self.primitive = primitive
        self.at_once = at_once  # (run, tangents of the arguments) -> tangents of the inexact results
        self.traced = traced  # (trace, run) -> program of the map or pullback

    def function(self, rule: Callable) -> Callable:
        callable_(self.name, rule)

        @functools.wraps(rule, updated=())
        def function(*args: Any) -> Any:
            found, tree = array_leaves(self.name, args)
            leaves = raws(found)
            level = highest(leaves)
            if level is None:
                run = Applied(self.name, rule, tree, leaves)
                return finished(run.results, run.tree)
            recorded = tracing() and innermost_trace().depth > level.depth
            if isinstance(level, Forward) and not recorded:
                return self.differentiated(level, rule, tree, leaves)
            return self.staged(rule, tree, leaves)

        return function

    def differentiated(self, level: Forward, rule: Callable, tree: Tree, leaves: list) -> Any:
        pairs = [level.open(x) for x in leaves]
        with beneath(level):
            run = Applied(self.name, rule, tree, [p for p, _ in pairs])
        run.results = self.lowered(level, run.results)
        moving = [(p, t) for (p, t), m in zip(pairs, run.moving, strict=True) if m]
        if all(t is None for _, t in moving):
            given = iter([None] * sum(run.changing))
        else:
            tangents = with_zeros(moving)
            given = iter(all_linear(tangents, self.lowered(level, self.at_once(run, tangents))))
        return run.tree.build(
            [
                box(level.dual(x, next(given))) if changes else box(x)
                for x, changes in zip(run.results, run.changing, strict=True)
            ]
        )

    def lowered(self, level: Forward, xs: list) -> list:
        """What a rule gives, as values of the levels around: an array it wrote to belongs to `level`."""
        pairs = [level.open(x) for x in xs]
        if any(t is not None or (isinstance(p, Value) and p.level.depth >= level.depth) for p, t in pairs):
            raise captures_moving(self.name)
        return [p for p, _ in pairs]

    def staged(self, rule: Callable, tree: Tree, leaves: list) -> Any:
        """The rule traced: (results, residuals) as one program, its map or pullback as another."""
        dynamic = [type_or_none(x) is not None for x in leaves]
        level, inner = passing(self.name), passing(self.name)
        with opened(level):
            run = Applied(
                self.name,
                rule,
                tree,
                [level.input(type_of(x)) if d else x for x, d in zip(leaves, dynamic, strict=True)],
            )
            results = [level.lift(x) for x, t in zip(run.results, run.result_types, strict=True) if t]
            with opened(inner):
                second = self.traced(inner, run)
            if inner.additions:
                raise not_counted(self.name)
            first = level.close([*results, *inner.captures, *level.additions.values()], self.name)
        args = [x for x, d in zip(leaves, dynamic, strict=True) if d]
        params = {
            "program": first,
            "rule": second,
            "arguments": len(args),
            "results": len(results),
            "residuals": len(inner.captures),
        }
        outs = bind(self.primitive, [*args, *level.captures], params)
        for total, x in zip(level.additions, outs[len(results) + len(inner.captures) :], strict=True):
            total.add(box(x))
        given = iter(outs)
        return run.tree.build(
            [box(next(given)) if t else x for x, t in zip(run.results, run.result_types, strict=True)]
        )


def highest(leaves: list) -> Level | None:
    levels = [x.level for x in leaves if isinstance(x, Value)]
    return max(levels, key=lambda level: level.depth) if levels else None


def traced_map(level: Trace, run: Applied) -> Any:
    moving = [level.input(t.strong()) for t, m in zip(run.types, run.moving, strict=True) if m]
    return level.close(run.tangents(moving), f"{run.name}.map")


def traced_pullback(level: Trace, run: Applied) -> Any:
    cts = [level.input(t) for t, changes in zip(run.result_types, run.changing, strict=True) if changes]
    return level.close(run.cotangents(cts), f"{run.name}.pullback")


def pull_at_once(run: Applied, moving: list) -> list:
    types = tuple(t for t, changes in zip(run.result_types, run.changing, strict=True) if changes)
    return pulled_back(moving, [], types, pull=run.cotangents)


jvp_rule = RuleKind("rune.custom_jvp", ruled_jvp, lambda run, moving: run.tangents(moving), traced_map)
vjp_rule = RuleKind("rune.custom_vjp", ruled_vjp, pull_at_once, traced_pullback)


def custom_jvp(rule):
    return jvp_rule.function(rule)


def custom_vjp(rule):
    return vjp_rule.function(rule)


class Transposed(Primitive):
    """A linear function and its transpose, both as functions of flat leaves."""

    name = "custom_transpose"
    recompute = False

    def type(self, types, params):
        return list(params["types"])

    def evaluate(self, args, params):
        return params["apply"](args)

    def jvp(self, primals, tangents, params):
        outs = bind(self, primals, params)
        if all(t is None for t in tangents):
            return outs, [None] * len(outs)
        return outs, bind(self, instantiated(tangents, map(type_of, primals)), params)

    def linear_in(self, flags, params):
        return True

    def transpose(self, cts, args, params):
        cts = instantiated(cts, params["types"])
        found = params["back"](cts)
        return to_unknown(found, args)

    def inlined(self, params):
        return params["program"]

    def batch(self, size, args, mapped, params):
        args = movement.all_in_lanes(args, mapped, size)
        over = lambda p: derive.batch(p, (True,) * len(p.inputs), size, (True,) * len(p.outputs))[0]
        back = params.get("transposed") or record(self.name, list(params["types"]), params["back"])[0]
        outs = bind(self, args, programs(over(params["program"]), over(back)))
        return outs, [True] * len(outs)

    def show(self, e, name):
        return f"{self.name} ({', '.join(name(v) for v in e.inputs)})", []


transposed_ = Transposed()


def programs(forward: Any, back: Any) -> dict:
    """The parameters of a traced linear function: both directions as calls of programs."""
    return {
        "program": forward,
        "transposed": back,
        "types": tuple(forward.output_types),
        "apply": lambda args: bind(call, args, {"program": forward}),
        "back": lambda cts: bind(call, cts, {"program": back}),
    }


def custom_transpose(linear, transpose):
    name = "rune.custom_transpose"
    callable_(name, linear)
    callable_(name, transpose)

    @functools.wraps(linear, updated=())
    def function(*args: Any) -> Any:
        found, whole = array_leaves(name, args)
        leaves, tree = parted(name, args)
        level = highest(leaves)
        if level is None:
            return linear(*args)
        types = [type_or_none(x) for x in raws(found)]
        shape: dict = {}

        def alone(f):
            outs, additions = apart(name, f)
            if additions:
                raise not_counted(name)
            return outs

        def apply(values):
            def run():
                outs, shape["out"] = parted(name, linear(*tree.build([box(x) for x in values])))
                return outs

            return alone(run)

        def back(cts):
            def run():
                result = transpose(shape["out"].build([box(x) for x in cts]))
                pulled = zip(pulled_to(name, result, whole, types, "transpose"), types, strict=True)
                return [x if t.inexact else zeros(t) for x, t in pulled if t is not None]

            return alone(run)

        forward, captures = record(name, [type_of(x) for x in leaves], apply)
        if captures:
            raise ValueError(f"{name}: the linear function captures a traced value: pass it as an argument")
        if isinstance(level, Forward):
            params = {"types": tuple(forward.output_types), "apply": apply, "back": back, "program": forward}
        else:
            params = programs(forward, record(name, forward.output_types, back)[0])
        return shape["out"].build([box(x) for x in bind(transposed_, leaves, params)])

    return function
