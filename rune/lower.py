"""From programs to native functions: lowering, variants, and running one.

Every equation lowers itself to forms of the loop language; an equation that calls a program is
expanded in place, with variables of its own.  A program compiles once per *variant*, the layout of
its arguments.  What native code does not read in place is copied first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rune import native
from rune.native import nest
from rune.program import Equation, Literal, Owner, Program, Var

__all__ = ["compiled", "execute", "lower"]


def lower(program: Program, name: str = "main") -> nest.Block:
    """The block that computes a program."""
    names: dict[int, Any] = {id(v): v for v in program.inputs}
    forms: list[nest.Form] = []
    expand(program, names, forms)
    return nest.Block(program.inputs, forms, [names[id(v)] for v in program.outputs], name)


def expand(program: Program, names: dict, forms: list) -> None:
    """The forms of a program's equations, with fresh variables (a program may be expanded twice)."""
    read = lambda v: v if isinstance(v, Literal) else names[id(v)]
    for e in program.equations:
        inputs = tuple(read(v) for v in e.inputs)
        called = e.primitive.inlined(e.params) if hasattr(e.primitive, "inlined") else None
        if called is not None:
            inner = dict(zip(map(id, called.inputs), inputs, strict=True))
            expand(called, inner, forms)
            names.update((id(v), inner[id(o)]) for v, o in zip(e.outputs, called.outputs, strict=True))
            continue
        outs = tuple(Var(v.type) for v in e.outputs)
        names.update((id(v), o) for v, o in zip(e.outputs, outs, strict=True))
        forms += e.primitive.lower(Equation(e.primitive, inputs, e.params, outs))


def compiled(program: Program, layouts: tuple[str, ...]) -> Any:
    """The native function of a program for the layouts of its arguments."""
    found = program.compiled.get(layouts)
    if found is None:
        owner = program.owner or Owner()
        found = native.compile(lower(program), layouts, program.name or "main", owner.threads)
        owner.stats.compiles += 1
        found = program.compiled.setdefault(layouts, found)
    return found


def execute(program: Program, args: list, consumed: tuple[int, ...] = ()) -> list:
    """The results of a program for plain arguments: fresh arrays; 0-d ones as NumPy scalars.

    Those of the consumed arguments that share their storage with nothing else may lose it to a result.
    """
    arrays, layouts = [], []
    for x, v in zip(args, program.inputs, strict=True):
        dtype = v.type.dtype
        if type(x) is not np.ndarray or x.dtype != dtype:
            x = np.asarray(x, dtype)
        layout = native.layout_of(x)
        if layout is None:
            x, layout = np.array(x, dtype, order="C"), "C"
        arrays.append(x)
        layouts.append(layout)
    for k in consumed:
        if native.consumable(arrays[k]) and not any(
            np.may_share_memory(arrays[k], x) for j, x in enumerate(arrays) if j != k
        ):
            layouts[k] = native.CONSUMED
    function = compiled(program, tuple(layouts))
    if captured := [k for k in consumed if function.captures(arrays[k])]:
        layouts = ["C" if k in captured else layout for k, layout in enumerate(layouts)]
        function = compiled(program, tuple(layouts))
    outs = function(arrays)
    return [plain(x, v) for x, v in zip(outs, program.outputs, strict=True)]


def plain(x: Any, v: Var) -> Any:
    if v.type.shape:
        return x
    return x.item() if v.type.weak else x[()]
