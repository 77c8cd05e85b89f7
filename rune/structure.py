"""Trees of values, with paths: tuples, lists, dicts, named tuples, dataclasses, on optree.

A *leaf* is an array, a number, a traced value, or anything else (a *static* leaf).  Every leaf has
a path, `0.layers.1.w`, by which errors name it.  Dataclasses are registered on first sight, in a
namespace of rune's own, and rebuilt without running `__init__`.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np
import optree

NAMESPACE = "rune"
_registered: set[type] = set()

__all__ = [
    "Star",
    "Tree",
    "apart",
    "children",
    "describe",
    "flatten",
    "is_number",
    "join",
    "leaves",
    "static_key",
]


def _register(cls: type) -> None:
    names = tuple(f.name for f in dataclasses.fields(cls))

    def flatten_instance(x):
        present = tuple(n for n in names if hasattr(x, n))
        return tuple(getattr(x, n) for n in present), present, present

    def unflatten(present, children):
        x = object.__new__(cls)
        for n, child in zip(present, children, strict=True):
            object.__setattr__(x, n, child)
        return x

    _registered.add(cls)
    optree.register_pytree_node(cls, flatten_instance, unflatten, namespace=NAMESPACE)


def _unregistered(x: Any) -> bool:
    cls = type(x)
    return dataclasses.is_dataclass(cls) and cls not in _registered and not isinstance(x, type)


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """A structure without its leaves, but for those that are fixed."""

    spec: Any  # an optree.PyTreeSpec, or None for a single leaf
    fixed: tuple[tuple[int, Any], ...] = ()  # static leaves that every tree of it has, by their place

    def build(self, leaves: list) -> Any:
        if self.fixed:
            leaves = list(leaves)
            for place, leaf in self.fixed:
                leaves.insert(place, leaf)
        if self.spec is None:
            (leaf,) = leaves
            return leaf
        return optree.tree_unflatten(self.spec, leaves)

    def paths(self, root: str = "") -> list[str]:
        """The paths of the leaves that are not fixed, each behind `root`."""
        fixed = dict(self.fixed)
        paths = [()] if self.spec is None else self.spec.paths()
        return [join(root, *path) for place, path in enumerate(paths) if place not in fixed]

    def __str__(self) -> str:
        """The structure as it is written down, with a star for every leaf."""
        return repr(self.build([STAR] * self.size))

    @property
    def size(self) -> int:
        return (1 if self.spec is None else self.spec.num_leaves) - len(self.fixed)


class Star:
    """Stands for a leaf where a structure is shown."""

    def __init__(self, text: str = "*"):
        self.text = text

    def __repr__(self) -> str:
        return self.text


LEAF, STAR = Tree(None), Star()


def join(*parts: Any) -> str:
    return ".".join(str(p) for p in parts if p != "")


def flatten(x: Any) -> tuple[list, Tree]:
    """The leaves of a tree, in order, and its structure."""
    if type(x) is np.ndarray:
        return [x], LEAF
    found, spec = optree.tree_flatten(x, namespace=NAMESPACE)
    new = [leaf for leaf in found if _unregistered(leaf)]
    if new:
        for leaf in new:
            if _unregistered(leaf):
                _register(type(leaf))
        return flatten(x)
    return found, LEAF if spec.is_leaf() else Tree(spec)


def children(x: Any) -> dict | None:
    """What a tree holds one level down, by the names it has there; None for a leaf, and for `None`."""
    if _unregistered(x):
        _register(type(x))
    if x is None or optree.tree_is_leaf(x, namespace=NAMESPACE):
        return None
    found, _, entries, _ = optree.tree_flatten_one_level(x, namespace=NAMESPACE)
    return dict(zip(entries, found, strict=True))


def apart(one: Any, other: Any, here: str, there: str, path: str = "") -> str:
    """What an error says of two trees whose structures differ: the first place, and what each has there.

    `here` and `there` say where each tree is: "in the tangent".
    """
    ours, theirs = children(one), children(other)
    where = f"{path}: " if path else ""
    if ours is None or theirs is None or type(one) is not type(other):
        return f"{where}{describe(one)} {here}, {describe(other)} {there}"
    for name in {**ours, **theirs}:
        inside = join(path, name)
        if name not in theirs:
            return f"{inside}: {here}, not {there}"
        if name not in ours:
            return f"{inside}: {there}, not {here}"
        if flatten(ours[name])[1] != flatten(theirs[name])[1]:
            return apart(ours[name], theirs[name], here, there, inside)
    one, other = flatten(one)[1], flatten(other)[1]  # of one class, and differing in what is no child
    return f"{where}{one} {here}, {other} {there}"


def leaves(x: Any) -> list:
    return flatten(x)[0]


def is_number(x: Any) -> bool:
    """A Python number by its exact type (np.float64 is a subclass of float)."""
    return type(x) in (float, int, complex, bool)


def static_key(x: Any) -> tuple:
    """A key for a static leaf; its type is part of it (2, 2.0 and True differ).  Raises TypeError."""
    if type(x) is slice:  # Python 3.11 gives it no hash
        return (slice, static_key(x.start), static_key(x.stop), static_key(x.step))
    hash(x)
    return (type(x), x)


def describe(x: Any) -> str:
    """How an error names a leaf: dtype and shape, or the type."""
    if x is None or isinstance(x, Star):
        return str(x)
    if isinstance(x, type):  # NumPy's have descriptors for a dtype and a shape
        return f"type {x.__name__}"
    dtype, shape = getattr(x, "dtype", None), getattr(x, "shape", None)
    if dtype is not None and shape is not None:
        return f"{dtype} [{', '.join(map(str, shape))}]"
    if isinstance(x, (str, enum.Enum)) or is_number(x):
        return f"{type(x).__name__} {x!r}"
    return type(x).__name__
