"""The page checker: what it lets pass, what it refuses, and what `--promote` writes."""

import importlib
import re
from pathlib import Path

import pytest
from pages import Page, agree, difference

import rune

PAGE = """\
# A page

```{code-cell} python
import numpy as np
x = np.array([1.0, 2.0])
```

Some words.

```{code-cell} python
print(np.sin(x))
```

```output
[0.84147098 0.90929743]
```

```{code-cell} python
:tags: [raises-exception]

x[5]
```

```output
IndexError: index 5 is out of bounds for axis 0 with size 2
```
"""


def page(tmp_path, text=PAGE):
    path = tmp_path / "page.md"
    path.write_text(text)
    return Page(path)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("[20. 18. 12.]", "[20. 18. 12.]"),
        ("0.5403023", "0.5403024"),  # one unit in the last printed digit
        ("-632.546", "-632.547"),
        ("0.54030231", "0.5403023"),  # one digit fewer is a zero at the end
        ("[0.5403023  0.25]", "[0.54030231 0.25]"),  # which moves the column
        ("1.2345e-07", "1.2346e-07"),
        ("9.9999", "10.0000"),
        ("[2.-4.1234j]", "[2.-4.1235j]"),
    ],
)
def test_what_agrees(want, got):
    assert agree(want, got) and agree(got, want)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("[20. 18. 12.]", "[20. 18. 13.]"),  # no rounding makes 13 of 12
        ("0.25", "0.26"),
        ("0.5403023", "0.5403025"),  # two units
        ("1 run", "2 run"),
        ("12345", "12346"),  # integers are exact
        ("0.5403023", "0.54"),
        ("%12 : float64", "%13 : float64"),
        ("float64:0x0000000000000000", "float64:0x0000000000000001"),
        ("x0.12345", "x0.12346"),  # a name
        ("[2.-4.j]", "[2.+4.j]"),
        ("1.23456", "-1.23456"),
        ("a\nb", "a"),
        ("  indented", "indented"),
        ("", "something"),
    ],
)
def test_what_does_not(want, got):
    assert not agree(want, got) and not agree(got, want)


def test_the_cells_of_a_page_run_in_order_in_one_namespace(tmp_path):
    p = page(tmp_path)
    assert [c.line for c in p.cells] == [4, 11, 21]
    assert [p.check(k) for k in (1, 0, 2)] == [None] * 3


def test_a_wrong_digit_fails_at_the_line_of_the_page(tmp_path):
    p = page(tmp_path, PAGE.replace("0.90929743", "0.90929763"))
    wrong = p.check(1)
    assert "page.md:15" in wrong and "@@ -15" in wrong
    assert "-[0.84147098 0.90929763]" in wrong and "+[0.84147098 0.90929743]" in wrong


def test_the_line_of_a_difference_is_the_pages(tmp_path):
    want = "\n".join(map(str, range(20)))
    text = difference(want, want.replace("15", "x"), tmp_path / "page.md", 100)
    assert "@@ -113," in text  # "15" stands on line 115, below two lines of context


def test_a_cell_that_prints_needs_a_block_and_a_silent_one_has_none(tmp_path):
    silent = page(tmp_path, PAGE.replace("print(np.sin(x))", "y = np.sin(x)"))
    assert "-[0.84147098" in silent.check(1)
    loud = page(tmp_path, PAGE.replace("x = np", "print(7); x = np"))
    assert "+7" in loud.check(0)


def test_a_cell_must_raise_what_it_is_tagged_to_raise(tmp_path):
    quiet = page(tmp_path, PAGE.replace("x[5]", "x[1]"))
    with pytest.raises(AssertionError, match=r"page\.md:21: the cell is tagged to raise"):
        quiet.check(2)
    other = page(tmp_path, PAGE.replace("x[5]", "x['a']"))
    assert other.check(2) is not None
    untagged = page(tmp_path, PAGE.replace(":tags: [raises-exception]\n", ""))
    with pytest.raises(IndexError):
        untagged.check(2)


def test_promoting_writes_what_was_printed_and_nothing_else(tmp_path):
    assert page(tmp_path).promoted() == PAGE
    broken = PAGE.replace("0.90929743", "7").replace("index 5 is out", "index 9 is out")
    assert page(tmp_path, broken).promoted() == PAGE
    off_by_one = PAGE.replace("0.90929743", "0.90929742")  # agrees, so it stays as it is
    assert page(tmp_path, off_by_one).promoted() == off_by_one
    without = PAGE.replace("\n```output\n[0.84147098 0.90929743]\n```\n", "")
    assert page(tmp_path, without).promoted() == PAGE


def test_a_last_expression_is_shown(tmp_path):
    text = "```{code-cell} python\na = 3\na + 1\n```\n\n```output\n4\n```\n"
    assert page(tmp_path, text).check(0) is None
    assert page(tmp_path, text.replace("a + 1", "a + 1;")).run(0) == ""


def test_pytest_collects_pages_and_promotes(pytester):
    """The whole way, as a user runs it."""
    root = pytester.path
    (root / "docs").mkdir()
    here = Path(__file__).parent.parent
    pytester.makeconftest((here / "conftest.py").read_text())
    pytester.makeini(f"[pytest]\npythonpath = {here / 'docs' / '_ext'}")
    text = PAGE.replace("0.90929743", "0.9092")
    (root / "docs" / "page.md").write_text(text)
    result = pytester.runpytest_subprocess("docs")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*page.md:15: the output is not what the page says*"])
    assert (root / "docs" / "page.md").read_text() == text
    pytester.runpytest_subprocess("docs", "--promote").assert_outcomes(passed=3)
    assert (root / "docs" / "page.md").read_text() == PAGE


def test_every_name_that_the_pages_give_in_their_text_exists():
    root = Path(__file__).parent.parent
    names = set()
    for page in (root / "README.md", *(root / "docs").glob("*.md")):
        text = re.sub(
            r"^```.*?^```", "", page.read_text(), flags=re.M | re.S
        )  # what runs is compared already
        names.update(re.findall(r"`[^`\n]*?(?<![\w./])(rune(?:\.[A-Za-z_]\w*)+)", text))
    assert len(names) > 30
    for name in names:
        found = rune
        for part in name.split(".")[1:]:
            found = getattr(found, part, None) or importlib.import_module(f"{found.__name__}.{part}")
