"""What entry points share: checking a function and its arguments, leaves and their kinds, fresh results.

A leaf of an argument is *dynamic* (an array, a NumPy scalar, a traced value, a Python float or complex)
or *static* (everything else).  Errors start with the entry point's name and the leaf's path.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from rune.level import Value
from rune.native.consume import GONE
from rune.primitives.map import cast
from rune.program import Type, type_of
from rune.structure import Star, Tree, apart, describe, flatten
from rune.value import Traced, box, raw

__all__ = [
    "array_leaves", "callable_", "finished", "fitted", "fresh", "inexact", "is_dynamic", "leaf_type",
    "of_list", "parted", "raws", "read_only", "refuse", "strong", "type_or_none", "unusual",
]  # fmt: skip

ARRAYS = "an array, a number, or a tuple, list, dict, named tuple or dataclass of them"


def callable_(name: str, f: Any, which: str = "first") -> Callable:
    if not callable(f):
        raise TypeError(f"{name}: the {which} argument must be a function, got {describe(f)}")
    return f


def of_list(path: str) -> str:
    """What a scalar at this path may have been meant for, where it is an element of a sequence."""
    _, dot, place = path.rpartition(".")
    return (
        "; a list of numbers is a tree of them, and one array as np.array(x)"
        if dot and place.isdigit()
        else ""
    )


def refuse(name: str, path: str, x: Any) -> None:
    """Raise for arrays that are no plain numeric arrays."""
    where = f"{name}: {path}: " if path else f"{name}: "
    if hasattr(type(x), "refused"):
        raise x.refused("returned from a function")
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{where}masked arrays have no derivative rules: pass x.filled(value) and the mask as two arrays"
        )
    if isinstance(x, np.matrix):
        raise TypeError(f"{where}np.matrix is not supported: pass np.asarray(x)")
    if not isinstance(x, (np.ndarray, np.generic)):
        return
    if x.dtype == GONE:
        raise ValueError(
            f"{where}the array was consumed by an earlier call, and has no elements any more: use that "
            f"call's result, or give it a copy"
        )
    if x.dtype.kind not in "biufc" or x.dtype.itemsize > (16 if x.dtype.kind == "c" else 8):
        raise TypeError(
            f"{where}dtype {x.dtype} is not supported: booleans, integers, float16 to float64, complex64 and complex128 are"
        )


def is_dynamic(x: Any) -> bool:
    return isinstance(x, (Traced, np.ndarray, np.generic)) or type(x) in (float, complex)


def leaf_type(x: Any) -> Type | None:
    """The type of a leaf that holds numbers (Python ints and booleans too), else None."""
    if type(x) is Traced:
        return x._type
    if isinstance(x, (np.ndarray, np.generic)) or type(x) in (float, int, complex, bool):
        return type_of(x)
    return None


def type_or_none(x: Any) -> Type | None:
    """The type of a raw leaf: a value, a plain array or a number; None for a static one."""
    return x.type if isinstance(x, Value) else leaf_type(x)


def inexact(x: Any) -> bool:
    t = leaf_type(x)
    return t is not None and t.inexact


def array_leaves(name: str, x: Any, root: str = "") -> tuple[list, Tree]:
    """The leaves of a tree (raw values), each checked to be a plain numeric array or a number."""
    found, tree = flatten(x)
    for k, leaf in enumerate(found):
        if unusual(leaf):
            refuse(name, tree.paths(root)[k], leaf)
    return found, tree


def parted(name: str, x: Any, root: str = "") -> tuple[list, Tree]:
    """The leaves of a tree that hold numbers, as raw values, and its structure with the static ones fixed."""
    found, tree = array_leaves(name, x, root)
    fixed = tuple((place, leaf) for place, leaf in enumerate(found) if leaf_type(leaf) is None)
    for place, leaf in fixed:
        try:
            hash(leaf)
        except TypeError:
            path = tree.paths(root)[place]
            raise TypeError(
                f"{name}: {path}: {describe(leaf)} is neither array, number nor hashable"
            ) from None
    return raws([x for x in found if leaf_type(x) is not None]), Tree(tree.spec, fixed) if fixed else tree


def unusual(x: Any) -> bool:
    """Whether a leaf might be an array that is refused."""
    if isinstance(x, (np.ndarray, np.generic)):
        return type(x) is not np.ndarray or x.dtype.char not in "dfliqD?"
    return hasattr(type(x), "refused")  # what a mask that is not known selects


def references(xs: list) -> list[int]:
    """How many references a function that is handed an element of a list sees to it."""
    return [count(x) for x in xs]


def count(x: Any) -> int:
    return sys.getrefcount(x)


UNSHARED = references([np.zeros(1)])[0]  # seen where only the list and its caller's variable hold it


def fresh(x: Any) -> Any:
    """A result of the user's own: C order, the machine's byte order, sharing nothing; 0-d arrays as scalars.

    An array that nothing else holds, as native code and most NumPy operations give it, is not copied.
    """
    if isinstance(x, np.ndarray):
        if x.ndim == 0:
            return x[()]
        if (
            x.base is None
            and x.flags.owndata
            and x.flags.c_contiguous
            and x.flags.writeable
            and x.dtype.isnative
            and sys.getrefcount(x) <= UNSHARED
        ):
            return x
        return np.array(x, type_of(x).dtype, order="C")
    if type(x) in (float, complex):
        return np.asarray(x)[()]
    return x


def finished(leaves: list, tree: Tree) -> Any:
    """A tree of results: values boxed, arrays fresh, Python numbers as NumPy scalars, statics as they are."""
    results = [fresh(x) for x in leaves]
    return tree.build([box(x) if isinstance(x, Value) else x for x in results])


def raws(leaves: list) -> list:
    return [raw(x) for x in leaves]


def fitted(name: str, x: Any, tree: Tree, types: list[Type | None], what: str, root: str = "") -> list:
    """The leaves of what a user's function returned or was given, each cast to its type.

    A leaf that has no derivative (no type, or a type of integers) is not looked at.
    """
    found, own_tree = flatten(x)
    if own_tree != tree:
        whole = tree.build([Star("an array or number")] * tree.size)
        raise ValueError(f"{name}: {apart(x, whole, what, 'expected', root)}")
    leaves = raws(found)
    for k, (leaf, t, path) in enumerate(zip(leaves, types, tree.paths(root), strict=True)):
        if t is None or not t.inexact:
            continue
        refuse(name, path, leaf)
        own = type_or_none(leaf)
        if own is None or own.shape != t.shape or not np.can_cast(own.dtype, t.dtype, "same_kind"):
            where = f"{name}: {path}: " if path else f"{name}: "
            raise ValueError(f"{where}{own or describe(leaf)} {what}, {t} expected")
        leaves[k] = cast(leaf, t.dtype)
    return leaves


def strong(x: Any) -> Any:
    """A raw leaf as a value: a Python number as the NumPy scalar it means, a static one as it is."""
    t = type_or_none(x)
    if t is None or not (t.weak or type(x) is bool):
        return x
    return cast(x, t.dtype) if isinstance(x, Value) else np.asarray(x, t.dtype)[()]


def read_only(x: Any) -> Any:
    """A raw leaf for a function that must not write it: a box, or a view of a plain array."""
    if isinstance(x, Value):
        return Traced(x, writeable=False)
    if isinstance(x, np.ndarray) and x.ndim:
        x = x.view()
        x.flags.writeable = False
    return x
