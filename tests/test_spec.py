"""The spec is whole, and is what `help` shows."""

import inspect
import operator
import subprocess
import sys
from types import ModuleType

import pytest

import rune
from rune._spec import docstrings, stub

DOCS = docstrings(stub())


def modules():
    """The public modules: the package, and the modules among its public names."""
    return [rune, *(m for m in map(vars(rune).get, rune.__all__) if isinstance(m, ModuleType))]


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.__name__)
def test_every_public_module_has_a_stub_with_every_public_name(module):
    path = stub(module.__name__)
    assert path is not None
    written = {name for name in docstrings(path) if "." not in name and not name.startswith("_")}
    assert written - {""} == {n for n in module.__all__ if not isinstance(vars(module)[n], ModuleType)}


def test_the_package_offers_its_public_names_and_no_other():
    assert rune.__all__ == sorted(rune.__all__)
    assert set(dir(rune)) >= set(rune.__all__)


@pytest.mark.parametrize("name", [n for n in DOCS if n and not n.startswith("_")])
def test_help_shows_the_spec(name):
    assert inspect.getdoc(operator.attrgetter(name)(rune)) == inspect.cleandoc(DOCS[name].text)


def test_help_on_the_package_shows_the_preamble():
    assert rune.__doc__ == DOCS[""].text


@pytest.mark.parametrize("name", [n for n in DOCS if n.isidentifier() and not n.startswith("_")])
def test_an_entry_point_shows_an_example(name):
    assert ">>> " in DOCS[name].text


def test_importing_rune_loads_no_compiler_and_no_scipy():
    code = "import sys, rune; print([m for m in ('llvmlite', 'scipy') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
