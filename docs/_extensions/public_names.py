"""The reference of public names, whatever file an object comes from.

The packages import their names when they are first used, and `__module__` of a class is the
file that defines it: `comixup.core.problem.Problem`. Annotations carry that name, the reference has
`comixup.Problem`. Here the one is led to the other, and constants get the docstring that stands
below them in that file; nothing of the package is changed.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

logger = logging.getLogger(__name__)

PACKAGES = (
    "comixup",
    "comixup.mixers",
    "comixup.plots",
    "comixup.lab.models",
    "comixup.lab.data",
    "comixup.lab.training",
    "comixup.lab.evaluation",
    "comixup.lab.paper",
    "comixup.selfcheck",
    "comixup.adapters.origins",  # before those that import its names
    "comixup.adapters.torchvision",
    "comixup.adapters.timm",
    "comixup.adapters.lightning",
)


@functools.cache
def public_names() -> dict[str, str]:
    """Returns the public name of each object that a package exports, by its other names."""
    names: dict[str, str] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            origin = getattr(value, "__module__", None)
            if origin and origin.startswith("comixup") and not name.startswith("_"):
                qualified = f"{origin}.{getattr(value, '__qualname__', name)}"
                names.setdefault(qualified, f"{package}.{name}")
                names.setdefault(name, f"{package}.{name}")
    return names


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Returns a reference to the public name of what a private or a bare name means."""
    if node.get("refdomain") != "py":
        return None
    public = public_names().get(node["reftarget"])
    objects = env.domains.python_domain.objects
    if public is None or public not in objects:
        return None
    entry = objects[public]
    uri = app.builder.get_relative_uri(node["refdoc"], entry.docname)
    reference = nodes.reference("", "", internal=True, refuri=f"{uri}#{entry.node_id}")
    reference += content
    return reference


def document_constants(app: Sphinx) -> None:
    """Tells autodoc the docstrings of the constants that each package exports."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        own = ModuleAnalyzer.for_module(package).find_attr_docs()  # kept by Sphinx: add to it
        docs: dict[str, list[str]] = {}
        folder = Path(str(module.__file__)).parent
        files = [*folder.glob("_*.py"), *(folder / "core").glob("*.py")]  # `comixup` has a core
        for file in sorted(files):
            found = ModuleAnalyzer.for_file(file, f"{package}.{file.stem}").find_attr_docs()
            docs |= {name: lines for (scope, name), lines in found.items() if not scope}
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            is_alias = getattr(value, "__module__", "").partition(".")[0] != "comixup"
            if is_alias and not inspect.isroutine(value):
                if name not in docs:
                    logger.warning("%s.%s has no docstring", package, name)
                hidden = ["", ":meta hide-value:"] if isinstance(value, Mapping) else []
                own["", name] = [*docs.get(name, [""]), *hidden, ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects the steps to the build."""
    app.connect("missing-reference", resolve)
    app.connect("builder-inited", document_constants)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
