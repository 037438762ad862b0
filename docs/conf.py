"""How Sphinx builds the documentation site: `make docs`, into build/docs."""

import sys
from pathlib import Path

import comixup

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "comixup"
author = "the authors of comixup"
copyright = "the authors of comixup, MIT licence"
version = release = comixup.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docstrings",
    "offline_mathjax",
    "public_names",
    "repository_files",
]
root_doc = "index"
exclude_patterns = ["_extensions", "_static", "images/*.py"]
nitpicky = True
highlight_language = "none"  # of blocks that name none
default_role = "name"  # _extensions/docstrings.py: single backticks are code

# ---- Markdown, as GitHub reads it too ------------------------------------------------------------

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # the anchors that GitHub makes
myst_links_external_new_tab = False
mathjax_path = "mathjax/tex-svg.js"  # _extensions/offline_mathjax.py
mathjax3_config = {"svg": {"fontCache": "global"}}

# ---- The reference, from docstrings --------------------------------------------------------------

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# Nothing to link to: other projects, whose inventories are on the network, which a build must not
# need; and private types in annotations. Public names are found before (_extensions/public_names).
nitpick_ignore_regex = [
    ("py:.*", r"(abc|argparse|collections|contextlib|enum|pathlib|threading)\..*"),
    ("py:.*", r"(lightning|lightning_fabric|matplotlib|numpy|np|npt|PIL|Image|rich)\..*"),
    ("py:.*", r"(timm|torch|torchvision)\..*"),
    ("py:.*", r"Cluster|Console|Done|Fabric|Figure|Path|Scalar|Tell|Tensor|TrainOptions"),
    ("py:.*", r"'[\w-]+'|(dict|tuple)\[.*"),
    ("py:.*", r"comixup(\.\w+)*\._\w+\.\w+|comixup\.core\.\w+\.\w+"),
]

# ---- How it looks --------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"comixup {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#00527a",
        "color-brand-content": "#0067a3",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6cc0f0",
        "color-brand-content": "#6cc0f0",
    },
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
