"""Why a compiled function is traced again: reports for the logger `rune`, and a warning."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from rune.arguments import is_dynamic, leaf_type
from rune.structure import Tree, describe

__all__ = ["Retraces", "argument_path"]

logger = logging.getLogger("rune")


class Retraces:
    """Says why a function is traced again, and warns of one that is traced for every value of an int."""

    SEVERAL = 5  # retraces in a row that differ in one int and nothing else

    def __init__(self, name: str, label: str):
        self.name = name
        self.label = label
        self.previous: dict | None = None
        self.run: tuple[str, int] = ("", 0)  # the argument that the last retraces differed in, and how many

    def report(self, key: tuple, leaves: list, tree: Tree) -> None:
        now = {argument_path(tree, k): described(x) for k, x in enumerate(leaves)}
        before, self.previous = self.previous, now
        if before is None:
            return
        changed = [p for p in now if now[p] != before.get(p)] + [p for p in before if p not in now]
        if not changed:
            logger.debug("%s: retrace: the same arguments in another setting", self.name)
            return
        path = changed[0]
        here, there = now.get(path, "absent"), before.get(path, "absent")
        logger.debug("%s: retrace: %s: %s here, %s in the previous key", self.name, path, here, there)
        one_int = len(changed) == 1 and here.startswith("int ") and there.startswith("int ")
        count = self.run[1] + 1 if one_int and self.run[0] == path else int(one_int)
        self.run = (path if one_int else "", count)
        if count == self.SEVERAL:
            warnings.warn(
                f"{self.name}: {self.label} was traced {count + 1} times for values of the int {path}: "
                f"pass a NumPy integer or a float where the value need not be known to the trace",
                stacklevel=6,
            )


def described(x: Any) -> str:
    t = leaf_type(x) if is_dynamic(x) else None
    if t is None:
        return describe(x) if x is None or isinstance(x, (str, int, float)) else repr(x)
    return f"{'Python ' if t.weak else ''}{t}"


def argument_path(tree: Tree, k: int) -> str:
    """The path of leaf k of (args, keywords): the argument's position or name, then the path inside."""
    return tree.paths()[k].partition(".")[2]
