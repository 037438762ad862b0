"""Cross-references to public names, whatever private module an object comes from.

The packages import their names when they are first used, and `__module__` of a class is the private
file that defines it: `comixup._problem.Problem`. Annotations carry that name, the reference has
`comixup.Problem`. Here the one is led to the other; nothing of the package is changed.
"""

from __future__ import annotations

import functools
import importlib

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

PACKAGES = (
    "comixup",
    "comixup.mixers",
    "comixup.models",
    "comixup.data",
    "comixup.training",
    "comixup.evaluation",
    "comixup.reproduce",
    "comixup.diagnostics",
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


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects the step to the build."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
