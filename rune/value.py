"""The traced value: a box that answers NumPy's protocols.

A box holds a `Value` of some level (what the interpreters compute with, immutable), or is a *view*:
a base box with the movement that leads to it.  Writing replaces what the base holds, so every name
and every view of it sees the write, as NumPy's arrays do; reading a view moves what its base holds
now.  A movement is a function of an array, so the places a view writes to are found by moving an
array of positions.  A view may be of a *part*: the real or the imaginary part of each element.

This module knows no operation.  `tables` is filled by `rune.numpy`, one file per family: ufuncs,
functions and methods, each a function of unboxed arguments.  The operators are methods that
`rune.numpy.operators` adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import TracedValueError, Value, escaped, stack
from rune.program import Type
from rune.refusals import NUMBERS, unanswered, unheld, unread

__all__ = ["Traced", "box", "first_traced", "raw", "tables", "unbox", "view"]


class Tables:
    """What NumPy calls become.  Every function takes and gives plain arrays and values."""

    def __init__(self) -> None:
        self.ufuncs: dict = {}  # np.ufunc -> f(*operands, **keywords)
        self.ufunc_methods: dict = {}  # "reduce"... -> f(ufunc, *args, **keywords)
        self.functions: dict = {}  # NumPy function -> f(*args, **keywords)
        self.methods: dict = {}  # name -> f(x, *args, **keywords)
        self.attributes: dict = {}  # name -> f(x)
        self.rows: dict = {}  # np.ufunc -> the row for which a level may have a short way
        self.views: set = set()  # functions that give a view of their first argument, or that itself
        self.boxed: set = set()  # functions that take and give boxes
        self.read_only: set = set()  # those of them that may not be written
        self.writes: set = set()  # functions that give what their first argument holds afterwards
        self.outs: dict = {}  # function -> the position of its parameter `out`
        self.converts: set = set()  # functions whose result `out` takes by any cast
        self.parts: dict = {}  # function -> (z, part) -> z with that part
        self.getitem: Any = None  # (x, index) -> value
        self.basic: Any = None  # whether an index makes a view
        self.setitem: Any = None  # (target, index, v) -> the target's new value
        self.scatter_flat: Any = None  # (target, places of a view, index, v) -> its new value
        self.late: Any = None  # a ufunc the table does not have -> its function, or None
        # (box, ufunc, method, out, inputs, keywords) with a plain array in `out` -> the result, or raises
        self.augmented: Any = None


tables = Tables()


class Traced:
    """An array of a running transformation."""

    __slots__ = (
        "__weakref__", "_base", "_copies", "_link", "_made", "_move", "_origin", "_part", "_places", "_seen",
        "_value", "_writeable",
    )  # fmt: skip
    __array_priority__ = 1000.0
    __hash__ = None  # as an array's

    def __init__(
        self,
        value: Value,
        base: Traced | None = None,
        move: Callable | None = None,
        writeable: bool = True,
        part: Callable | None = None,
    ):
        self._value = value
        self._base = base
        self._writeable = writeable
        self._origin = None
        levels = stack.levels
        self._made = levels[-1] if levels else None
        if base is not None:  # the rest is a view's
            self._move = move
            self._seen = base._value
            self._part = part
            self._link = self._places = None
            self._copies = False  # whether indexing copies: x.flat

    # What it holds

    def _read(self) -> Value:
        base = self._base
        if base is not None and self._seen is not base._value and self._linked():
            value = self._move(base._value)
            self._value = value if self._part is None else self._part(value)
            self._seen = base._value
        return self._value

    def _linked(self) -> bool:
        """Whether this is a view in NumPy too: some movements copy (a reshaped transpose).

        It is asked when a write first makes a difference, and found by moving a real array.
        """
        if self._link is None:
            t = self._base._type
            blank = np.empty(t.shape, np.intp if self._part is None else np.complex128)
            blank = blank if self._part is None else blank.real
            self._link = not t.size or self._copies or np.may_share_memory(self._move(blank), blank)
            if not self._link:
                self._base = self._move = None
                self._writeable = True
        return bool(self._link)

    def _positions(self) -> np.ndarray:
        """Where in its base, laid flat, the elements of a view stand."""
        if self._places is None:
            t = self._base._type
            self._places = self._move(np.arange(t.size).reshape(t.shape))
        return self._places

    @property
    def _type(self) -> Type:
        return self._value.type

    dtype = property(lambda self: self._value.type.dtype)
    shape = property(lambda self: self._value.type.shape, lambda self, x: self._fixed())
    real = property(lambda self: self.__getattr__("real"), lambda self, x: self._fill("real", x))
    imag = property(lambda self: self.__getattr__("imag"), lambda self, x: self._fill("imag", x))
    flat = property(lambda self: self.__getattr__("flat"), lambda self, x: self._fill_flat(x))
    ndim = property(lambda self: len(self._value.type.shape))
    size = property(lambda self: self._value.type.size)
    itemsize = property(lambda self: self._value.type.dtype.itemsize)
    nbytes = property(lambda self: self._value.type.bytes)

    def _concrete(self, what: str) -> Any:
        value = self._read()
        level = value.level
        if not level.alive:
            raise escaped(level)
        try:
            return level.concrete(value)
        except TracedValueError as error:
            raise unread(what, error) from None

    def _refuse(self, what: str) -> TracedValueError:
        level = self._read().level
        if not level.alive:
            return escaped(level)
        return unheld(what, level, known=what in NUMBERS and self._known())

    def _known(self) -> bool:
        try:
            self._concrete("item")
        except TracedValueError:
            return False
        return True

    # Reading

    def __bool__(self) -> bool:
        return bool(self._concrete("bool"))

    def item(self, *index: Any) -> Any:
        if len(index) == 1 and not isinstance(index[0], tuple):
            x = self.ravel()[index[0]]  # by its place in C order
        else:
            x = self[index[0] if len(index) == 1 else index] if index else self
        return np.asarray(x._concrete("item") if isinstance(x, Traced) else x).item()

    def tolist(self) -> Any:
        return np.asarray(self._concrete("tolist")).tolist()

    def __float__(self) -> float:
        raise self._refuse("float")

    def __int__(self) -> int:
        raise self._refuse("int")

    def __complex__(self) -> complex:
        raise self._refuse("complex")

    def __index__(self) -> int:
        raise self._refuse("index")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise self._refuse("asarray")

    def __repr__(self) -> str:
        value = self._value
        if not value.level.alive:
            return f"<{value.type} of {value.level.name}, used outside>"
        try:
            return str(value.level.concrete(self._read()))
        except TracedValueError:
            return f"<{value.type} traced by {value.level.name}>"

    def __format__(self, spec: str) -> str:
        return format(np.asarray(self._concrete("format")).item(), spec) if spec else repr(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(self.shape[0]))

    def __contains__(self, x: Any) -> bool:
        return bool((self == x).any())

    def __copy__(self) -> Traced:
        return Traced(self._read())

    def __reduce__(self):
        raise self._refuse("pickle")

    # NumPy's protocols

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **keywords):
        row = tables.rows.get(ufunc)
        if row is not None and out is None and method == "__call__" and not keywords:
            level, x = self._value.level, raw(inputs[0])
            found = level.scalar(row, x) if len(inputs) == 1 else level.scalar(row, x, raw(inputs[1]))
            if found is not None:
                return Traced(found) if isinstance(found, Value) else found
        if method == "at":
            target, index, *more = inputs
            if not isinstance(target, Traced):
                raise self._refuse("asarray")
            new = tables.ufunc_methods["at"](ufunc, unbox(target), unbox(index), *unbox(more))
            target._replace(new)
            return None
        f = tables.ufuncs.get(ufunc) or tables.late(ufunc)
        if f is None:
            raise unanswered(self._read().level, ufunc)
        targets = () if out is None else out
        if any(t is not None and not isinstance(t, Traced) for t in targets):
            return tables.augmented(self, ufunc, method, targets, inputs, keywords)
        if method == "__call__":
            result = box(f(*unbox(inputs), **unbox(keywords)))
            if isinstance(result, tuple):
                for target, part in zip(targets, result, strict=False):
                    if target is not None:
                        target._assign(masked(part, target, keywords), ufunc.__name__)
                return tuple(
                    part if t is None else t
                    for t, part in zip(targets or (None,) * len(result), result, strict=True)
                )
            if targets and targets[0] is not None:
                result = masked(result, targets[0], keywords)
        else:
            result = box(tables.ufunc_methods[method](ufunc, *unbox(inputs), **unbox(keywords)))
            if targets and method != "outer":
                fitting(targets[0], result)
        if targets and targets[0] is not None:
            casting = "same_kind" if method in ("__call__", "outer") else "unsafe"
            targets[0]._assign(result, ufunc.__name__, casting)
            return targets[0]
        return result

    def __array_function__(self, function, types, args, keywords):
        f = tables.functions.get(function)
        if f is None:
            name = f"{function.__module__}.{function.__name__}"
            raise TypeError(f"{self._read().level.name}: {name} has no rule for traced values")
        return call(f, args, keywords)

    def __getattr__(self, name: str) -> Any:
        f = tables.attributes.get(name)
        if f is not None:
            result = call(f, (self,), {})
            if name == "flat":
                result._copies = True
            return result
        f = tables.methods.get(name)
        if f is None:
            raise AttributeError(f"'{name}' is no attribute of a traced array")
        return lambda *args, **keywords: call(f, (self, *args), keywords)

    def _fixed(self) -> None:
        raise AttributeError("a traced array's shape is fixed: write x = x.reshape(shape)")

    def _fill(self, name: str, x: Any) -> None:
        if name == "imag" and self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        getattr(self, name)[...] = x

    def _fill_flat(self, x: Any) -> None:
        """`y.flat = x`: repeated as often as it takes."""
        self.put(np.arange(self.size), x)

    # Indexing and writing

    def __getitem__(self, index: Any) -> Any:
        index = unbox(index)
        value = tables.getitem(self._read(), index)
        if isinstance(value, Value) and tables.basic(index) and self._viewed(value, index):
            result = view(self, value, lambda v: tables.getitem(v, index))
            result._origin = (self, index)
            return result
        return box(value)

    def _viewed(self, value: Value, index: Any) -> bool:
        """Whether `value`, at a basic index, is a view: a place picked by integers alone is a scalar."""
        if self._base is not None and self._copies:
            return False
        return bool(value.type.shape) or (
            bool(self.shape) and isinstance(index, tuple) and any(i is Ellipsis for i in index)
        )

    def __setitem__(self, index: Any, x: Any) -> None:
        if not self._writeable and (self._base is None or self._linked()):
            raise ValueError("assignment destination is read-only")
        index = unbox(index)
        if (
            type(x) is Traced
            and x._origin is not None
            and x._origin[0] is self
            and x._base is not None
            and same_index(x._origin[1], index)
        ):
            return  # `y[i] += x` has written the view y[i] and stores it where it is
        x = unbox(x)
        base = self._base
        if base is None or not self._linked():
            self._store(tables.setitem(self._value, index, x))
        elif self._part is not None:
            part = tables.scatter_flat(self._part(base._value), self._positions(), index, x)
            base._store(tables.parts[self._part](base._value, part))
        else:
            base._store(tables.scatter_flat(base._value, self._positions(), index, x))

    def _replace(self, new: Any) -> None:
        """Hold `new`, of the same shape and dtype, instead of all it holds."""
        if self._base is None and self._writeable:
            self._store(new)
            return
        if (
            self._writeable
            and self._base is not None
            and self._linked()
            and np.bincount(self._positions().ravel()).max(initial=0) > 1
        ):
            raise ValueError(
                "a view in which elements stand twice is written by an index: write v[i] = x, or write into its base"
            )
        self[...] = box(new)

    def _assign(self, x: Any, name: str = "", casting: str = "same_kind") -> None:
        """Write all of `x`, the result of the ufunc of that name, under NumPy's casting rule for `out`."""
        dtype = x.dtype if isinstance(x, Traced) else np.asarray(x).dtype
        if not np.can_cast(dtype, self.dtype, casting):
            of = f"ufunc {name!r}" if name else "ufunc"
            raise TypeError(
                f"Cannot cast {of} output from {dtype!r} to {self.dtype!r} with casting rule '{casting}'"
            )
        self[...] = x

    def _store(self, new: Any) -> None:
        """Replace what the box holds, by a value of its level or of one that was running when it was made."""
        level, made = self._value.level, self._made
        depth = made.depth if made is not None and made.alive else level.depth
        inner = new.level if isinstance(new, Value) and new.level is not level else None
        if inner is None or inner.depth <= depth:
            # A step, a branch or a lane is traced once: what it writes around it would be written once.
            depth = max(depth, level.depth)
            inside = (at for at in reversed(stack.levels) if at.depth > depth and (at.traces or at.maps))
            inner = next(inside, None)
        if inner is not None:
            raise TracedValueError(
                f"{inner.name}: an array of {level.name} is written inside {inner.name}: "
                f"return the new array from the function instead"
            )
        self._value = new


def same_index(a: Any, b: Any) -> bool:
    """Whether two basic indices are one."""
    a, b = (i if isinstance(i, tuple) else (i,) for i in (a, b))
    return len(a) == len(b) and all(
        type(x) is type(y) and (x is y or bool(x == y)) for x, y in zip(a, b, strict=True)
    )


def view(
    of: Traced, value: Value, move: Callable, writeable: bool = True, part: Callable | None = None
) -> Traced:
    """A box that reads and writes the box `of` (or its base) through a movement, or a part of it."""
    if of._base is None or not of._linked():
        return Traced(value, of, move, writeable and of._writeable, part)
    before = of._move
    return Traced(value, of._base, lambda v: move(before(v)), writeable and of._writeable, part or of._part)


def call(f: Callable, args: tuple, keywords: dict) -> Any:
    """A table's function on boxes: unboxed, applied, boxed, as a view where it makes one."""
    out, place = keywords.get("out"), tables.outs.get(f)
    if place is not None and len(args) > place and args[place] is not None:
        out, args = args[place], (*args[:place], None, *args[place + 1 :])
    if out is not None:
        return written(out, f, args, {k: v for k, v in keywords.items() if k != "out"})
    if f in tables.boxed:
        return f(*args, **keywords)
    of = args[0] if args and isinstance(args[0], Traced) else None
    if f in tables.writes and of is None:
        raise lost(args, keywords)
    plain, named = unbox(args), unbox(keywords)
    result = f(*plain, **named)
    if f in tables.writes:
        of._replace(result)
        return None
    if f in tables.views and of is not None and not named.get("copy"):
        result = viewed(f, of, result, plain[1:], named)
        is_view = isinstance(result, Traced) and result._base is not None
        if named.get("copy") is False and is_view and not result._linked():
            raise ValueError("Unable to avoid creating a copy: write copy=None, which copies where it must")
        return result
    return box(result)


def viewed(f: Callable, of: Traced, result: Any, more: tuple, named: dict) -> Any:
    """What a function that makes views gave for what `of` holds, as views of `of`."""
    writeable = f not in tables.read_only or named.get("writeable", False)
    if isinstance(result, (list, tuple)):
        along = lambda k: lambda v: f(v, *more, **named)[k]
        return type(result)(
            view(of, r, along(k), writeable) if isinstance(r, Value) else r for k, r in enumerate(result)
        )
    if not isinstance(result, Value) or not (result.type.shape or of.shape or of._base is not None):
        return box(result)
    if f in tables.parts and of._type.dtype.kind == "c":
        return view(of, result, lambda v: v, part=f)
    if f in tables.parts and result is not of._value:
        return Traced(result, writeable=False)  # the imaginary part of a real array
    return view(of, result, lambda v: f(v, *more, **named), writeable)


def written(out: Any, f: Callable, args: tuple, keywords: dict) -> Any:
    """The result of a function, written into `out`."""
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not isinstance(target, Traced):
        raise lost(args, keywords)
    result = call(f, args, keywords)
    fitting(target, result)
    target._assign(result, casting="unsafe" if f in tables.converts else "same_kind")
    return target


def masked(result: Any, target: Traced, keywords: dict) -> Any:
    """A ufunc's result with what `target` holds where the mask `where` leaves places out."""
    if "where" not in keywords:
        return result
    return call(tables.functions[np.where], (keywords["where"], result, target), {})


def fitting(target: Traced, result: Any) -> None:
    shape = np.shape(result) if not isinstance(result, Traced) else result.shape
    if shape != target.shape:
        raise ValueError(f"output parameter has shape {target.shape}, the result has shape {shape}")


def lost(args: tuple, keywords: dict) -> TracedValueError:
    """What a write of traced values into a plain array raises."""
    found = first_traced((*args, *keywords.values()))
    if found is None:
        return TracedValueError("out: a plain array is written by an operation on traced values")
    return found._refuse("asarray")


def first_traced(x: Any) -> Traced | None:
    if isinstance(x, Traced):
        return x
    if isinstance(x, (tuple, list)):
        return next((t for t in map(first_traced, x) if t is not None), None)
    return None


def box(x: Any) -> Any:
    """Values boxed, also inside tuples and lists; 0-d arrays as NumPy scalars."""
    if isinstance(x, Value):
        return Traced(x)
    if type(x) is np.ndarray:
        return x if x.ndim else x[()]
    if isinstance(x, tuple):
        parts = [box(v) for v in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if isinstance(x, list):
        return [box(v) for v in x]
    return x


def raw(x: Any) -> Any:
    """What a box holds now; anything else as it is."""
    if type(x) is not Traced:
        return x
    return x._value if x._base is None else x._read()


def unbox(x: Any) -> Any:
    """Boxes replaced by what they hold, also inside tuples, lists, dicts and slices."""
    kind = type(x)
    if kind is Traced:
        return x._read()
    if kind is tuple or kind is list:
        return kind([unbox(v) for v in x])
    if kind is dict:
        return {k: unbox(v) for k, v in x.items()}
    return x
