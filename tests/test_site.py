"""The site's build compares what myst-nb executed with what a page says."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("myst_nb", reason="the site's tools are not installed (pip install -e '.[docs]')")

DOCS = Path(__file__).parent.parent / "docs"
EXTENSIONS = DOCS / "_ext"
PAGE = """\
---
file_format: mystnb
kernelspec:
  name: python3
---

# A page

```{code-cell} python
import sys, time
print("in", end=" ", flush=True)
time.sleep(0.3)  # long enough for the kernel to send the first piece alone
print("pieces", 1.23456789)
print("un" + "heard", file=sys.stderr)
6 * 7
```

```output
in pieces 1.23456788
42
```

```{code-cell} python
:tags: [raises-exception]

print("before")
[][0]
```

```output
before
IndexError: list index out of range
```
"""


@pytest.fixture
def build(tmp_path):
    """Builds a site of one page: the exit status and what Sphinx said."""
    shutil.copytree(EXTENSIONS, tmp_path / "_ext")
    conf = 'import sys\nsys.path.insert(0, "_ext")\nextensions = ["myst_nb", "site_check"]\n'
    conf += 'nb_execution_mode = "force"\n'
    conf += f"exclude_patterns = {runpy.run_path(str(DOCS / 'conf.py'))['exclude_patterns']}\n"
    (tmp_path / "conf.py").write_text(conf)

    def run(page: str) -> tuple[int, str]:
        (tmp_path / "index.md").write_text(page)
        command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", ".", "out"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stderr

    run.root = tmp_path
    return run


def test_a_page_that_says_what_is_printed_builds(build):
    status, said = build(PAGE)
    assert status == 0, said
    html = (build.root / "out" / "index.html").read_text()
    assert html.count("list index out of range") == 1 and "Traceback" not in html
    assert "unheard" not in html


def test_a_page_that_says_something_else_fails_the_build(build):
    more = "\n```{code-cell} python\nprint('no block')\n```\n"
    wrong = PAGE.replace("1.23456788", "1.23456787").replace("\nIndexError: list", "\nKeyError: list")
    status, said = build(wrong + more)
    assert status != 0
    for line in (19, 31, 37):
        assert f"index.md:{line}: the output is not what the page says" in said
    assert "-in pieces 1.23456787" in said and "+IndexError" in said and "+no block" in said


def test_what_a_build_leaves_is_no_page(build):
    for _ in range(2):
        status, said = build(PAGE)
        assert status == 0, said
