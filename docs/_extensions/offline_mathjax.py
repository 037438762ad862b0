"""MathJax without the network: its one file for TeX and SVG, from the package that brings it."""

from __future__ import annotations

import importlib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.fileutil import copy_asset

SCRIPT = "tex-svg.js"  # holds its fonts as paths: nothing else is loaded


def copy_script(app: Sphinx, error: Exception | None) -> None:
    """Copies the script to the site, and not the 20 MB that lie beside it."""
    if error is None and app.builder.format == "html":
        package = importlib.import_module("sphinx-mathjax-offline")
        script = Path(str(package.__file__)).parent / "static" / "mathjax" / SCRIPT
        copy_asset(script, app.outdir / "_static" / "mathjax")


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds Sphinx's own extension, and the step that copies."""
    app.setup_extension("sphinx.ext.mathjax")
    app.connect("build-finished", copy_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
