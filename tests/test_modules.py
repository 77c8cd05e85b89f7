"""A module's `__all__` is what others take from it: the reader of one file sees what the rest relies on."""

import ast
import importlib
from pathlib import Path

import pytest

import rune

ROOT = Path(rune.__file__).parent
FILES = {
    ".".join(("rune", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


def taken():
    """Module -> the names that other modules import from it, or read as its attributes."""
    found = {name: set() for name in FILES}
    for path in FILES.values():
        tree = ast.parse(path.read_text())
        here = {}  # names that stand for modules
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in FILES and not node.level:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    if inner in FILES:
                        here[alias.asname or alias.name] = inner
                    else:
                        found[node.module].add(alias.name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in here:
                found[here[node.value.id]].add(node.attr)
    return found


TAKEN = taken()


@pytest.mark.parametrize("name", [name for name, path in FILES.items() if "\n__all__" in path.read_text()])
def test_what_others_take_is_listed(name):
    module = importlib.import_module(name)
    own = {k for k in TAKEN[name] if getattr(getattr(module, k, None), "__module__", name) == name}
    assert own <= set(module.__all__)
    assert all(hasattr(module, k) for k in module.__all__)
