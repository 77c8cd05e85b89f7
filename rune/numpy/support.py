"""Which of NumPy's functions work on traced values, and how they compile; `python -m rune.numpy.support`.

The answer is read off the tables and the code behind them.  A function is *known* where its result's
shape depends on values: it works under the derivatives, which know them, and raises under jit and
vmap.  What NumPy does not dispatch (`np.array`, `np.r_`) is not listed.
"""

from __future__ import annotations

import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import rune.numpy  # noqa: F401  (fills the tables)
from rune.numpy.needed import concrete
from rune.value import tables

__all__ = ["KINDS", "names", "support", "text"]

KINDS = {
    "native": "compile to native code",
    "known": "need known values: they work under the derivatives and raise under jit and vmap",
    "refused": "raise",
}
REFUSED = {
    "datetimes": "busday_count busday_offset is_busday datetime_as_string isnat",
    "files": "save savetxt savez savez_compressed",
    "a dtype that depends on values": "min_scalar_type",
}
KNOWN = {"real_if_close", "place"}
OTHERWISE = {"where", "ix_", "delete"}  # they need values for a case of their own


def names() -> Iterator[tuple[str, Any]]:
    """NumPy's functions that dispatch on their arguments, by name below numpy."""
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in sorted(dir(module)):
            f = getattr(module, name)
            if not name.startswith("_") and (
                isinstance(f, np.ufunc) or type(f).__name__ == "_ArrayFunctionDispatcher"
            ):
                yield prefix + name, f


def names_in(code: types.CodeType) -> set[str]:
    """The names that a code object reads, and those that the ones inside it read."""
    inside = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return {*code.co_names, *code.co_freevars}.union(*map(names_in, inside))


def reached(f: Callable, seen: set) -> set:
    """The functions that a definition reaches by name."""
    code = getattr(f, "__code__", None)
    if code is None or f in seen:
        return seen
    seen.add(f)
    scope = f.__globals__ | {
        name: cell.cell_contents for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True)
    }
    used = list(names_in(code))
    found = [scope.get(name) for name in used]
    modules = [m for m in found if isinstance(m, types.ModuleType) and m.__name__.startswith("rune.")]
    found += [getattr(m, name, None) for m in modules for name in used]
    for g in found:
        if isinstance(g, types.FunctionType) and g.__module__.startswith("rune."):
            reached(g, seen)
    return seen


def support() -> dict[str, dict[str, str]]:
    """Kind -> names of functions, with what there is to say about each."""
    table: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    reasons = {name: why for why, listed in REFUSED.items() for name in listed.split()}
    for name, f in names():
        answer = tables.ufuncs.get(f) if isinstance(f, np.ufunc) else tables.functions.get(f)
        if name in reasons:
            table["refused"][name] = reasons[name]
        elif answer is None:
            table["refused"][name] = "no rule"
        else:
            behind = reached(answer, set())
            kind = "known" if (concrete in behind or name in KNOWN) and name not in OTHERWISE else "native"
            table[kind][name] = ""
    return table


def text() -> str:
    found = support()
    total = sum(map(len, found.values()))
    lines = []
    for kind, listed in found.items():
        lines.append(f"{len(listed)} of {total} ({len(listed) / total:.0%}) {KINDS[kind]}:")
        notes: dict[str, list[str]] = {}
        for name, note in listed.items():
            notes.setdefault(note, []).append(name)
        for note, several in notes.items():
            body = ", ".join(several) + (f" ({note})" if note else "")
            lines.append(textwrap.fill(body, 100, initial_indent="  ", subsequent_indent="  "))
    return "\n".join(lines)


if __name__ == "__main__":
    print(text())
