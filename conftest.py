"""Pages and the spec as tests.

Every MyST page of `docs/` is collected as one test per code cell; `--promote` rewrites the output
blocks of the pages that were collected.  Every docstring of `spec/` that holds an example is a
doctest.  Both compare by `pages.agree`.
"""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from pages import Page, agree, bare

pytest_plugins = ["pytester"]  # tests/test_pages.py runs pytest on a page of its own

ROOT = Path(__file__).parent


def pytest_addoption(parser):
    parser.addoption(
        "--promote", action="store_true", help="rewrite the output blocks of the pages collected"
    )


def pytest_collect_file(file_path: Path, parent):
    if (
        file_path.suffix == ".md"
        and file_path.is_relative_to(ROOT / "docs")
        and "_build" not in file_path.parts
    ):
        return PageFile.from_parent(parent, path=file_path)
    if file_path.suffix == ".pyi" and file_path.is_relative_to(ROOT / "spec"):
        return SpecFile.from_parent(parent, path=file_path)
    return None


class PageFile(pytest.File):
    """A page; its items are its cells."""

    def collect(self):
        self.page = Page(self.path)
        for index, cell in enumerate(self.page.cells):
            yield PageCell.from_parent(self, name=f"line {cell.line}", index=index)


class PageCell(pytest.Item):
    def __init__(self, index: int, **kwargs):
        super().__init__(**kwargs)
        self.index = index

    def runtest(self):
        page = self.parent.page
        if self.config.getoption("promote"):
            if self.index == len(page.cells) - 1:
                page.path.write_text(page.promoted(), encoding="utf-8")
        elif wrong := page.check(self.index):
            raise Wrong(wrong)

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if excinfo.errisinstance(Wrong) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        line = self.parent.page.cells[self.index].line
        return self.path, line - 1, f"{self.path.name}:{line}"


class Wrong(Exception):
    """A page or an example says something else than its code; the message is the diff."""


class SpecFile(pytest.File):
    """A stub; its items are the docstrings with examples."""

    def collect(self):
        from rune._spec import docstrings

        parser = doctest.DocTestParser()
        for name, doc in docstrings(str(self.path)).items():
            namespace = {"np": np}
            test = parser.get_doctest(doc.text, namespace, name or "module", str(self.path), doc.line - 1)
            if test.examples:
                yield SpecExample.from_parent(self, name=test.name, test=test)


class SpecExample(pytest.Item):
    def __init__(self, test: doctest.DocTest, **kwargs):
        super().__init__(**kwargs)
        self.test = test

    def runtest(self):
        import rune

        self.test.globs["rune"] = rune
        out: list[str] = []
        runner = doctest.DocTestRunner(Checker(), optionflags=doctest.ELLIPSIS)
        if runner.run(self.test, out=out.append).failed:
            raise Wrong("".join(out))

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if excinfo.errisinstance(Wrong) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, self.test.lineno, f"{self.path.name}: {self.test.name}"


class Checker(doctest.OutputChecker):
    """Doctest's comparison, and where it says no, the one of the pages; an error goes by its bare name."""

    def check_output(self, want, got, optionflags):
        plain = want.replace(doctest.BLANKLINE_MARKER, "")
        return super().check_output(want, bare(got), optionflags) or agree(plain, got)
