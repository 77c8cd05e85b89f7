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
        texts = [n for o in outputs for n in o.findall(nodes.literal_block) if not _beside_an_image(n)]
        block = cell.next_node(descend=False, siblings=True)
        says = isinstance(block, nodes.literal_block) and block.get("language") == "output"
        want, got = block.astext() if says else "", _printed(texts)
        if not agree(want, got):
            line = block.line + 1 if says else cell.line  # below the fence
            logger.warning(difference(want, got, path, line), location=cell)
        for node in texts:
            node.parent.remove(node)
        for output in outputs:
            if not any(output.findall(nodes.image)):
                cell.remove(output)


def _beside_an_image(node: nodes.Node) -> bool:
    """Whether a text stands for a figure where no image can be shown."""
    while node is not None and node.get("nb_element") != "mime_bundle":
        node = node.parent
    return node is not None and any(node.findall(nodes.image))


def _printed(texts: list[nodes.literal_block]) -> str:
    """What the outputs of a cell say together; the kernel sends a stream in pieces, as time falls."""
    text = ""
    for node in texts:
        if "stderr" in node["classes"]:
            continue
        if text and not text.endswith("\n") and "stream" not in node["classes"]:
            text += "\n"
        text += _exception(node.astext()) if "traceback" in node["classes"] else node.astext()
    return text


def _exception(traceback: str) -> str:
    """The exception's own lines at the end of a traceback."""
    return traceback.rstrip("\n").split("\n\n")[-1]


def setup(app: Sphinx) -> dict:
    app.connect("doctree-read", check)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
