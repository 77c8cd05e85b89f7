"""The site: pages that myst-nb executes and `site_check` compares, and the reference made from `spec/`."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]

project = "rune"
author = "the rune authors"
project_copyright = "the rune authors"

extensions = ["myst_nb", "autoapi.extension", "sphinx.ext.napoleon", "site_check"]
exclude_patterns = ["_build", "jupyter_execute"]  # what a build leaves here
html_theme = "furo"
html_title = "rune"
html_static_path = ["_static"]
html_css_files = ["site.css"]

# Pages run from scratch on every build, each in one kernel; a cell that fails without the tag
# `raises-exception` fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# The reference is made from the stubs, which are the spec.
autoapi_dirs = ["../spec/rune"]
autoapi_file_patterns = ["*.pyi"]
autoapi_root = "autoapi"
autoapi_add_toctree_entry = False
autoapi_keep_files = False
autoapi_options = ["members", "undoc-members", "show-module-summary"]
autoapi_member_order = "bysource"
default_role = "any"
napoleon_google_docstring = True
