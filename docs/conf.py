"""How Sphinx builds the site: ``make docs``."""

import logging
import os
import sys
from pathlib import Path

import kernelstream

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# The gallery draws without a screen, and without messages about what is being compiled.
logging.getLogger("kernelstream").setLevel(logging.ERROR)
os.environ.setdefault("MPLBACKEND", "agg")

project = "kernelstream"
author = "The kernelstream developers"
release = version = kernelstream.__version__
language = "en"
smartquotes = False  # two hyphens begin an option

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "command_line",
    "http_api",
    "project_pages",
    "shown_members",
]
exclude_patterns = ["_build", "_ext", "gallery"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# `name` in a docstring is a link where there is such a name, and code elsewhere.
default_role = "py:obj"
add_module_names = False
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autosummary_generate = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # a page that would load scripts from elsewhere
    "min_reported_time": 20,
    "download_all_examples": False,
    "abort_on_example_error": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "kernelstream"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "kernelstream"},
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 7,
}
html_copyright = True
copyright = "the kernelstream developers, BSD 3-clause licence"
