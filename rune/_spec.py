"""The spec at run time: `help(rune.grad)` shows what `spec/rune/__init__.pyi` says.

The stubs in `spec/` are the one source of the docstrings of public names.  In a wheel they stand
beside the code, in a checkout under `spec/`.  Parsing one takes about a millisecond, so the package
does it once, on import.
"""

from __future__ import annotations

import ast
import os.path  # pathlib would take longer to import than the rest of this module
from typing import Any, NamedTuple

__all__ = ["Doc", "docstrings", "document", "stub"]

_HERE = os.path.dirname(os.path.abspath(__file__))


class Doc(NamedTuple):
    """A docstring as it stands in a stub, and the line on which it opens."""

    text: str
    line: int


def stub(module: str = "rune") -> str | None:
    """The file of a public module's stub, or None where the package was copied without its stubs."""
    inner = module.split(".")[1:]
    for root in (_HERE, os.path.join(_HERE, "..", "spec", "rune")):
        for path in (os.path.join(root, *inner, "__init__.pyi"), os.path.join(root, *inner) + ".pyi"):
            if os.path.exists(path):
                return path
    return None


def docstrings(path: str) -> dict[str, Doc]:
    """The docstrings of a stub by name; methods as `Class.method`, the module's own as the empty name."""
    found: dict[str, Doc] = {}

    def visit(node: Any, name: str) -> None:
        text = ast.get_docstring(node, clean=False)
        if text is not None and name not in found:  # of overloads, the first that has one
            found[name] = Doc(text, node.body[0].lineno)
        for child in node.body:
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                visit(child, f"{name}.{child.name}" if name else child.name)

    with open(path, encoding="utf-8") as file:
        visit(ast.parse(file.read()), "")
    return found


def document(namespace: dict[str, Any]) -> None:
    """Give a module and its public functions, classes and methods the docstrings of its stub."""
    path = stub(namespace["__name__"])
    if path is None:
        return
    for name, doc in docstrings(path).items():
        first, _, rest = name.partition(".")
        if not first:
            namespace["__doc__"] = doc.text
        elif (target := namespace.get(first)) is not None:
            for part in filter(None, rest.split(".")):
                target = vars(target)[part]
            target.__doc__ = doc.text
