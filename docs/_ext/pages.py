"""What a page says, against what its code prints: the one comparison of pages and doctests.

A *page* is a MyST notebook.  Its *cells* are the fenced blocks ```` ```{code-cell} ````, which run
in order in one namespace.  Below a cell that prints stands a block ```` ```output ```` with the exact
text; a cell tagged `raises-exception` prints its exception's last line.  `pytest` runs the cells
through `Page`, and the site's build compares the same blocks with what myst-nb executed
(`site_check`), so a page that says something else than its code fails in both.

Text must agree character for character.  Numbers with a decimal point agree when they differ by no
more than one unit in the last printed digit, unless they have fewer than four digits: `18.` is never
`19.`.  Spaces around numbers do not count, because one digit more or less moves a column.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import io
import re
import traceback
from decimal import Decimal
from pathlib import Path

__all__ = ["Cell", "Page", "agree", "bare", "difference"]

# ------------------------------------------------------------------------------------------------
# The comparison
# ------------------------------------------------------------------------------------------------

# A number that is no part of a name, of a hexadecimal literal or of another number.  The atomic
# group keeps `2.5x` from being read as the number 2. and something else.
_NUMBER = re.compile(
    r"( *(?:(?<![\w%])[-+])?(?<![\w.%])(?>\d+\.\d*|\.\d+|\d+)(?>e[-+]?\d+)?(?=j\b|\W|$) *)", re.I
)
_SHORT = 4  # digits; a number printed shorter than this is never off by rounding


def agree(want: str, got: str) -> bool:
    """Whether two outputs are the same text, numbers compared to their printed digits."""
    wants, gots = want.rstrip().split("\n"), got.rstrip().split("\n")
    return len(wants) == len(gots) and all(map(_lines_agree, wants, gots))


def _lines_agree(want: str, got: str) -> bool:
    if want == got:
        return True
    wants, gots = _NUMBER.split(want.rstrip()), _NUMBER.split(got.rstrip())
    if len(wants) != len(gots):
        return False
    pairs = list(zip(wants, gots, strict=True))
    return all(a == b for a, b in pairs[::2]) and all(
        _numbers_agree(a.strip(), b.strip()) for a, b in pairs[1::2]
    )


def _numbers_agree(want: str, got: str) -> bool:
    if want == got:
        return True
    if "." not in want or "." not in got:
        return False
    a, b = Decimal(want), Decimal(got)
    if max(len(a.as_tuple().digits), len(b.as_tuple().digits)) < _SHORT:
        return False
    unit = Decimal(1).scaleb(min(a.as_tuple().exponent, b.as_tuple().exponent))
    return abs(a - b) <= unit


def difference(want: str, got: str, path: Path, line: int) -> str:
    """A unified diff from what the page says to what was printed, at the page's line."""
    says, printed = want.rstrip("\n"), got.rstrip("\n")
    lines = difflib.unified_diff(
        says.split("\n") if says else [],
        printed.split("\n") if printed else [],
        str(path),
        "printed",
        n=2,
        lineterm="",
    )
    return f"{path}:{line}: the output is not what the page says\n" + "\n".join(
        _moved(text, line - 1) for text in lines
    )


def _moved(text: str, offset: int) -> str:
    """A hunk's header with the page's line numbers in place of the block's."""
    return re.sub(r"^@@ -(\d+)", lambda m: f"@@ -{int(m[1]) + offset}", text)


# ------------------------------------------------------------------------------------------------
# Pages
# ------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^(`{3,})(\{code-cell\}.*|output)\s*$")
_OPTION = re.compile(r"^:(\w+):\s*(.*)$")


@dataclasses.dataclass
class Cell:
    """A code cell and the output block below it; lines count from 1, `end` is one past the fence."""

    source: str
    line: int  # of the first line of code
    end: int
    tags: tuple[str, ...] = ()
    want: str | None = None
    want_line: int = 0  # of the first line of output
    want_end: int = 0

    @property
    def raises(self) -> bool:
        return "raises-exception" in self.tags


class Page:
    """A page's cells, and the namespace in which they run."""

    def __init__(self, path: Path):
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.cells = _cells(self.text.split("\n"))
        self.namespace: dict = {"__name__": "__page__"}
        self.printed: list[str] = []  # what each cell printed so far, in order

    def run(self, index: int) -> str:
        """What cell `index` prints; runs the cells before it that have not run."""
        while len(self.printed) <= index:
            self.printed.append(self._execute(self.cells[len(self.printed)]))
        return self.printed[index]

    def check(self, index: int) -> str | None:
        """None, or what is wrong with the output of cell `index`."""
        cell, got = self.cells[index], self.run(index)
        want = cell.want or ""
        if agree(want, got):
            return None
        return difference(want, got, self.path, cell.want_line or cell.end)

    def promoted(self) -> str:
        """The page with every output block as printed; cells that print nothing lose theirs."""
        lines = self.text.split("\n")
        for index in reversed(range(len(self.cells))):
            cell, got = self.cells[index], self.run(index).rstrip("\n")
            if agree(cell.want or "", got):
                continue
            fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", got)), default=0))
            block = [fence + "output", *got.split("\n"), fence] if got.strip() else []
            if cell.want is not None:
                lines[cell.want_line - 2 : cell.want_end - 1] = block
            else:
                lines[cell.end - 1 : cell.end - 1] = ["", *block]
        return "\n".join(lines)

    def _execute(self, cell: Cell) -> str:
        """Run a cell as a notebook does: what it prints, then the value of a last expression.

        A semicolon at the end keeps the value back; a figure is shown, not said.
        """
        out = io.StringIO()
        tree = ast.parse(cell.source, str(self.path))
        ast.increment_lineno(tree, cell.line - 1)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(out):
            try:
                exec(compile(tree, str(self.path), "exec"), self.namespace)
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), str(self.path), "eval"), self.namespace)
                    kept_back = cell.source.rstrip().endswith(";") or hasattr(value, "savefig")
                    if value is not None and not kept_back:
                        print(repr(value))
            except Exception as error:
                if not cell.raises:
                    raise
                print(raised(error))
            else:
                if cell.raises:
                    raise AssertionError(f"{self.path}:{cell.line}: the cell is tagged to raise, and did not")
        return out.getvalue()


def raised(error: BaseException) -> str:
    """An exception as a page shows it: its type's own name and its message."""
    return bare("".join(traceback.format_exception_only(type(error), error)).strip())


def bare(text: str) -> str:
    """An error's text without the module that its type stands in."""
    return re.sub(r"^[\w.]*\.(?=\w+(:|\n|$))", "", text)


def _cells(lines: list[str]) -> list[Cell]:
    cells: list[Cell] = []
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        at += 1
        if not opening:
            continue
        start = at
        while lines[at].rstrip() != opening[1]:
            at += 1
        body, end = lines[start:at], at + 2
        at += 1
        if opening[2] == "output":
            if not cells or cells[-1].want is not None:
                raise ValueError(f"line {start}: an output block without a cell above it")
            cells[-1].want, cells[-1].want_line, cells[-1].want_end = "\n".join(body), start + 1, end
        else:
            options = 0
            tags: tuple[str, ...] = ()
            while options < len(body) and (option := _OPTION.match(body[options])):
                if option[1] == "tags":
                    tags = tuple(re.findall(r"[\w-]+", option[2]))
                options += 1
            while options < len(body) and not body[options].strip():
                options += 1
            cells.append(Cell("\n".join(body[options:]), start + options + 1, end, tags))
    return cells
