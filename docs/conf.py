"""Settings of the documentation site. Build it with ``python docs/build.py``."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "bayes_sd"
author = "bayes_sd developers"
copyright = author
release = version = installed_version("bayes_sd")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sitebuild.mathml",
    "sitebuild.names",
]
templates_path = [str(HERE / "_templates")]
exclude_patterns = ["**/.ipynb_checkpoints"]
nitpicky = True
add_module_names = False
toc_object_entries_show_parents = "hide"
default_role = "name"

# Names of classes in signatures would be links to projects whose index is on the network; the
# types stand in words under Parameters.
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Formulas need no script and no network: see sitebuild/mathml.py.
html_math_renderer = "mathml"
myst_update_mathjax = False
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

# Notebooks show the outputs that are committed with them.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "bayes_sd"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "navbar_end": ["theme-switcher"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
# Pages without neighbours have no use for a sidebar.
html_sidebars = {"index": [], "first-steps": [], "gallery": []}

suppress_warnings = [
    "toc.empty_glob",  # pages that are listed before somebody writes them
    "config.cache",
]
