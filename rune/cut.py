"""What a backward pass keeps: the cheapest set of values from which the rest is computed again.

The linear half of a derivative reads values of the primal half.  Following them back through the
operations that may be repeated ends at values that are at hand there anyway (free), or at roots:
results of operations that are not repeated (a factorisation, a large product, a loop), and in a loop
the carry.  Every path from a root to a needed value must cross a value that is stored: a minimum
vertex cut, with bytes as capacities.  Of several cheapest cuts the one nearest the needed values is
taken, which repeats least.

The flow is found by shortest augmenting paths (Edmonds and Karp, 1972).  SciPy's `maximum_flow` does
the same, but importing it takes longer than a whole first call should.
"""

from __future__ import annotations

from collections import defaultdict, deque

from rune.program import Equation, Literal, Program, Var

__all__ = ["Plan", "plan"]

SOURCE, SINK = "source", "sink"
INFINITE = 1 << 62


class Plan:
    """Which values to store, and the equations that give the needed ones again, in order."""

    def __init__(self, stored: list[Var], repeated: list[Equation]):
        self.stored = stored
        self.repeated = repeated

    @property
    def bytes(self) -> int:
        return sum(v.type.bytes for v in self.stored)


def plan(program: Program, needed: list[Var], at_hand: set[int], store: bool = True) -> Plan:
    """What to store of `program` so that `needed` is known from it and from `at_hand` (ids).

    With `store` off nothing is: every operation is repeated from the inputs.
    """
    made = {id(v): e for e in program.equations for v in e.outputs}
    if not store:
        at_hand = {id(v) for v in program.inputs}
        return Plan([], repeats(program, needed, at_hand, made))
    repeatable = {id(e): e.primitive.recomputable(e) for e in program.equations}
    edges: dict = defaultdict(dict)
    variables: dict[int, Var] = {}

    def connect(a, b, capacity):
        edges[a][b] = capacity
        edges[b].setdefault(a, 0)

    waiting = list(needed)
    while waiting:
        v = waiting.pop()
        if id(v) in at_hand or id(v) in variables:
            continue
        variables[id(v)] = v
        connect(("in", id(v)), ("out", id(v)), max(1, v.type.bytes))
        e = made.get(id(v))
        if e is None or not repeatable[id(e)]:
            connect(SOURCE, ("in", id(v)), INFINITE)
            continue
        for u in e.inputs:
            if not isinstance(u, Literal) and id(u) not in at_hand:
                connect(("out", id(u)), ("in", id(v)), INFINITE)
                waiting.append(u)
    for v in needed:
        if id(v) not in at_hand:
            connect(("out", id(v)), SINK, INFINITE)

    flow = saturate(edges) if SOURCE in edges and SINK in edges else 0
    behind = reaching_sink(edges) if SINK in edges else set()
    stored = [v for k, v in variables.items() if ("in", k) not in behind and ("out", k) in behind]
    stored.sort(key=lambda v: position(program, v))
    if sum(max(1, v.type.bytes) for v in stored) != flow:
        raise AssertionError("the cut recovered from the residual graph does not equal the flow")
    return Plan(stored, repeats(program, needed, at_hand | {id(v) for v in stored}, made))


def position(program: Program, v: Var) -> int:
    for k, e in enumerate(program.equations):
        if any(v is o for o in e.outputs):
            return k
    return -1


def saturate(edges: dict) -> int:
    """Push flow from source to sink along shortest paths; `edges` becomes the residual graph."""
    total = 0
    while True:
        before = {SOURCE: None}
        queue = deque([SOURCE])
        while queue and SINK not in before:
            a = queue.popleft()
            for b, capacity in edges[a].items():
                if capacity > 0 and b not in before:
                    before[b] = a
                    queue.append(b)
        if SINK not in before:
            return total
        path, b = [], SINK
        while before[b] is not None:
            path.append((before[b], b))
            b = before[b]
        pushed = min(edges[a][b] for a, b in path)
        for a, b in path:
            edges[a][b] -= pushed
            edges[b][a] += pushed
        total += pushed


def reaching_sink(edges: dict) -> set:
    """The nodes from which the sink is reached in the residual graph."""
    found, queue = {SINK}, deque([SINK])
    while queue:
        b = queue.popleft()
        for a in edges[b]:
            if edges[a].get(b, 0) > 0 and a not in found:
                found.add(a)
                queue.append(a)
    return found


def repeats(program: Program, needed: list[Var], known: set[int], made: dict) -> list[Equation]:
    """The equations that give `needed` from `known`, in the program's order."""
    wanted: set[int] = set()
    waiting = [v for v in needed if id(v) not in known]
    while waiting:
        e = made[id(waiting.pop())]
        if id(e) not in wanted:
            wanted.add(id(e))
            waiting += [u for u in e.inputs if not isinstance(u, Literal) and id(u) not in known]
    return [e for e in program.equations if id(e) in wanted]
