"""The site's half of the page checks: what myst-nb executed, against the page's output blocks.

In the document that myst-nb makes, the outputs of a cell are followed by the page's own block.
This extension compares the two as `pytest` does and warns where they differ, which `-W` makes an
error.  The page's block is what the reader sees; figures stay.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from pages import agree, difference
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def check(app: Sphinx, doctree: nodes.document) -> None:
    path = Path(doctree["source"])
    for cell in [n for n in doctree.findall(nodes.container) if "cell" in n["classes"]]:
        outputs = [n for n in cell.children if "cell_output" in n["classes"]]
        texts = [n for o in outputs for n in o.findall(nodes.literal_block)]
        block = cell.next_node(descend=False, siblings=True)
        says = isinstance(block, nodes.literal_block) and block.get("language") == "output"
        want = block.astext() if says else ""
        got = "\n".join(_printed(n) for n in texts)
        if not agree(want, got):
            logger.warning(difference(want, got, path, (block if says else cell).line or 0), location=cell)
        for node in texts:
            node.parent.remove(node)
        for output in outputs:
            if not output.children:
                cell.remove(output)


def _printed(node: nodes.literal_block) -> str:
    """The text of an output; of a traceback, the exception's lines."""
    text = node.astext().rstrip("\n")
    if "traceback" not in node["classes"]:
        return text
    lines = text.split("\n")
    blank = max((k for k, line in enumerate(lines) if not line.strip()), default=-1)
    return "\n".join(lines[blank + 1 :])


def setup(app: Sphinx) -> dict:
    app.connect("doctree-read", check)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
