"""Compiled functions: a program per key, a native function per variant.

A call's *key* is the structure of its arguments, the types of its dynamic leaves and the values of its
static ones.  A key that was not seen traces the function, whose Python runs once.  The program is
applied as one operation (`constructs.call`), so every transformation around a compiled function
derives from the program and never runs the Python again.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from rune import native
from rune.arguments import callable_, is_dynamic, leaf_type, refuse, unusual
from rune.constructs.call import call
from rune.level import Value, bind, opened, running, tracing
from rune.program import Owner, Program, Stats
from rune.retraces import Retraces, argument_path
from rune.structure import Tree, describe, flatten, static_key
from rune.totals import arrive, collecting, open_totals
from rune.trace import Trace
from rune.value import box, raw

__all__ = ["Compiled", "Entry", "jit", "traced"]

NAME = "rune.jit"


class Entry:
    """What a key leads to: its program, and how its results are put together."""

    __slots__ = ("captures", "consumed", "natives", "program", "statics", "totals", "tree")

    def __init__(self, program: Program, tree: Tree, statics: list, captures: list, totals: list):
        self.program = program
        self.tree = tree
        self.statics = statics  # per leaf of the result: (value,) where static, None where computed
        self.captures = captures
        self.natives: dict = {}  # layouts -> the native call of the program
        self.totals = totals  # to which the last results of the program are added
        self.consumed: tuple[int, ...] = ()  # the arguments whose storage a result may have

    def apply(self, values: list) -> Any:
        params: dict = {"program": self.program}
        if self.consumed and not running():  # inside a transformation the arguments are read again
            params["consumed"] = self.consumed
        outs = iter(bind(call, [*values, *self.captures], params))
        leaves = [next(outs) if s is None else s[0] for s in self.statics]
        if self.totals:
            arrive(list(zip(self.totals, outs, strict=True)))
        return self.tree.build([result(x) for x in leaves])


def native_call(entry: Entry, values: list, python: Any) -> Any:
    """The entry's program as a builtin for plain positional arguments, or None where only Python can."""
    single = entry.tree.spec is None
    flat = single or entry.tree == flatten((0.0,) * len(entry.statics))[1]
    if (
        entry.captures
        or entry.totals
        or entry.consumed
        or not flat
        or any(s is not None for s in entry.statics)
    ):
        return None
    layouts = tuple("C" if type(x) is float else native.layout_of(x) for x in values)
    executable = entry.program.compiled.get(layouts)
    if executable is None:
        return None
    if layouts not in entry.natives:
        numbers = tuple(k for k, x in enumerate(values) if type(x) is float)
        entry.natives[layouts] = native.direct(executable, lambda *args: python()(*args), single, numbers)
    return entry.natives[layouts]


def result(x: Any) -> Any:
    if isinstance(x, Value):
        return box(x)
    return np.asarray(x)[()] if type(x) in (float, complex) else x


def traced(name: str, f: Any, leaves: list, tree: Tree, label: str, owner: Owner | None) -> Entry:
    """Trace `f` over stand-ins for the dynamic leaves of its (args, keywords)."""
    level = Trace(name)
    with opened(level):
        inside = [box(level.input(leaf_type(x))) if is_dynamic(x) else x for x in leaves]
        args, keywords = tree.build(inside)
        found, out_tree = flatten(f(*args, **keywords))
        statics: list = []
        computed = []
        for x in found:
            refuse(name, "", x)
            if leaf_type(x) is None or type(x) in (int, bool):
                statics.append((x,))
            else:
                statics.append(None)
                computed.append(raw(x))
        program = level.close([*computed, *level.additions.values()], label, owner)
    return Entry(program, out_tree, statics, level.captures, list(level.additions))


class Compiled:
    """A function that compiles what it computes.  Made by `jit`."""

    def __init__(self, f: Any, static: tuple[str, ...], consumed: tuple[str, ...], threads: int | None):
        functools.update_wrapper(self, f, updated=())
        self._f = f
        self._static, self._consumed = static, consumed
        self._signature = inspect.signature(f) if static or consumed else None
        self._entries: dict = {}
        self._pending: dict = {}
        self._owner = Owner(threads=threads)
        self._retraces = Retraces(NAME, self._label)
        self._direct: Any = None  # a native call for arguments like those of the last call

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        direct = self._direct
        if direct is not None and not keywords and not collecting():
            return direct(*args)
        return self._call(*args, **keywords)

    def _call(self, *args: Any, **keywords: Any) -> Any:
        """The call by Python: right for every argument.  It leaves a native one for the next call like it."""
        entry, values = self._lookup(args, keywords)
        result = entry.apply(values)
        if not keywords and all(type(x) in (np.ndarray, float) for x in args):
            self._direct = native_call(entry, values, weakref.WeakMethod(self._call))
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self):
        """By its own qualified name where that is how it is found (a decorated function), else by its function."""
        module, name = getattr(self, "__module__", None), getattr(self, "__qualname__", "")
        found = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return found_by_name, (module, name)
        return jitted, (self._f, self._static, self._consumed, self._owner.threads)

    def __deepcopy__(self, memo: dict) -> Compiled:
        return self

    def __repr__(self) -> str:
        return f"<rune.jit of {getattr(self, '__qualname__', self._f)!s}>"

    def stats(self) -> Stats:
        return dataclasses.replace(self._owner.stats)

    def clear(self) -> None:
        self._entries = {}
        self._direct = None

    def programs(self) -> list[Program]:
        """The programs kept: each key's own, and what was derived from it."""
        found: list[Program] = []

        def add(x):
            if isinstance(x, Program):
                if not any(x is p for p in found):
                    found.append(x)
                    for derived in list(x.derived.values()):
                        add(derived)
            elif isinstance(x, tuple):
                for part in x:
                    add(part)
            elif hasattr(x, "primal"):
                add(x.primal)
                add(x.linear)

        for entry in list(self._entries.values()):
            add(entry.program)
        return found

    def _lookup(self, args: tuple, keywords: dict) -> tuple[Entry, list]:
        f = self._f
        if self._static:
            f, args, keywords, fixed = self._without_static(args, keywords)
        else:
            fixed = ()
        leaves, tree = flatten((args, keywords))
        key = [fixed, tree.spec, *surroundings()]
        values = []
        for k, x in enumerate(leaves):
            if is_dynamic(x):
                if unusual(x):
                    refuse(NAME, argument_path(tree, k), x)
                key.append(leaf_type(x))
                values.append(raw(x))
            else:
                try:
                    key.append(static_key(x))
                except TypeError:
                    path = argument_path(tree, k)
                    advice = "register its class with optree, or pass something hashable, as a tuple or a frozenset"
                    if hasattr(x, "__array__"):
                        advice = "pass np.asarray(x)"
                    raise TypeError(
                        f"{NAME}: {path}: {describe(x)} is neither an array, a number nor hashable: {advice}"
                    ) from None
        key_ = tuple(key)
        entry = self._entries.get(key_)
        if entry is None:
            entry = self._trace(key_, f, leaves, tree)
        return entry, values

    def _trace(self, key: tuple, f: Any, leaves: list, tree: Tree) -> Entry:
        """Trace a new key; a thread that is not tracing itself waits for one that traces the same key."""
        place = os.getpid(), key  # no thread of its parent goes on in a forked child
        mine = threading.Event()
        event = self._pending.setdefault(place, mine)
        if event is not mine and not tracing():
            event.wait()
            entry = self._entries.get(key)
            if entry is not None:
                return entry
        try:
            self._retraces.report(key, leaves, tree)
            entry = traced(NAME, f, leaves, tree, self._label, self._owner)
            self._owner.stats.traces += 1
            entry.consumed = self._consumed_places(leaves, tree)
            return entry if entry.captures else self._entries.setdefault(key, entry)
        finally:
            if event is mine:
                del self._pending[place]
                mine.set()

    def _consumed_places(self, leaves: list, tree: Tree) -> tuple[int, ...]:
        """Which of the dynamic leaves of (args, keywords) belong to arguments that are consumed."""
        if not self._consumed:
            return ()
        dynamic = [k for k, x in enumerate(leaves) if is_dynamic(x)]
        roots = [argument_path(tree, k).split(".") for k in dynamic]
        if self._static:  # one dict of all the others
            roots = [root[1:] for root in roots]
        named = [parameter(self._signature, root[0]) in self._consumed for root in roots]
        return tuple(place for place, yes in enumerate(named) if yes)

    @property
    def _label(self) -> str:
        name = getattr(self._f, "__name__", "f")
        return "f" if name == "<lambda>" else name

    def _without_static(self, args: tuple, keywords: dict) -> tuple:
        """The function with its static arguments bound, and the rest of the arguments."""
        bound = self._signature.bind(*args, **keywords)
        bound.apply_defaults()
        fixed = {n: bound.arguments[n] for n in self._static}
        key = tuple((n, key_of_static(n, x)) for n, x in fixed.items())
        names = [n for n in bound.arguments if n not in fixed]
        signature, f = self._signature, self._f

        def rest(values):
            call_with = signature.bind_partial()
            call_with.arguments = {
                n: fixed[n] if n in fixed else values[n]
                for n in signature.parameters
                if n in fixed or n in values
            }
            return f(*call_with.args, **call_with.kwargs)

        return rest, ({n: bound.arguments[n] for n in names},), {}, key


def key_of_static(name: str, x: Any) -> tuple:
    """The part of a key that the static argument of that name is."""
    try:
        return static_key(x)
    except TypeError:
        instead = "leave it out of static_argnames" if is_dynamic(x) else "pass a tuple or a frozenset"
        raise TypeError(
            f"{NAME}: {name}: a static argument must be hashable, got {describe(x)}: {instead}"
        ) from None


def found_by_name(module: str, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def jitted(f: Any, static: tuple, consumed: tuple, threads: int | None) -> Compiled:
    return jit(f, static_argnames=static, consumes=consumed, threads=threads)


def parameter(signature: inspect.Signature, root: str) -> str:
    """The name of the parameter that takes an argument, given the argument's position or keyword."""
    parameters = signature.parameters.values()
    if not root.isdigit():
        keywords = [p.name for p in parameters if p.kind is p.VAR_KEYWORD]
        return root if root in signature.parameters else keywords[0]
    rest = [k for k, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL]
    return list(parameters)[min(int(root), *rest)].name if rest else list(parameters)[int(root)].name


def argument_names(option: str, f: Any, names: Any) -> tuple[str, ...]:
    """The names that an option of `jit` gives of arguments of `f`."""
    if not isinstance(names, (str, Iterable)):
        raise TypeError(f"{NAME}: {option} takes names of arguments, not {describe(names)}")
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names:
        return ()
    for n in names:
        if not isinstance(n, str):
            raise TypeError(f"{NAME}: {option} takes names of arguments, not {describe(n)}")
        if n not in inspect.signature(f).parameters:
            label = getattr(f, "__name__", "the function")
            raise ValueError(f"{NAME}: {option} names {n!r}, which is no argument of {label}")
    return names


def surroundings() -> tuple:
    """What a trace may read besides its arguments: the totals being collected, and the named maps."""
    maps = tuple((m.size.name, int(m.size)) for m in running() if m.maps and m.size.name is not None)
    return open_totals(), maps


DECORATOR = object()  # stands for the function where `jit` is given options alone


def jit(f=DECORATOR, *, static_argnames=(), consumes=(), threads=None):
    if f is DECORATOR:
        return functools.partial(jit, static_argnames=static_argnames, consumes=consumes, threads=threads)
    callable_(NAME, f)
    static, consumed = (
        argument_names("static_argnames", f, static_argnames),
        argument_names("consumes", f, consumes),
    )
    for n in consumed:
        if n in static:
            raise ValueError(
                f"{NAME}: {n!r} is in static_argnames and in consumes: a static argument has no storage"
            )
    if threads is not None:
        if type(threads) is not int:
            raise TypeError(f"{NAME}: threads takes an int or None, not {describe(threads)}")
        if threads < 1:
            raise ValueError(f"{NAME}: threads must be 1 or more, not {threads}")
    return Compiled(f, static, consumed, threads)
