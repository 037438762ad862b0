"""Lazy imports of a package's names (PEP 562).

torch alone takes seconds to import, which neither `comixup --help` nor a list of recipes needs.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any


def lazy_imports(
    package: str,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns a package's `__getattr__`, `__dir__` and `__all__`.

    Its names are those that its `__init__.py` imports under `if TYPE_CHECKING:`, which type
    checkers and editors read. Its modules are attributes too, as after plain imports.

    Args:
        package: its `__name__`.

    >>> get, names, public = lazy_imports("comixup.lab.data")
    >>> get("load").__module__, "load" in public
    ('comixup.lab.data._load', True)
    """
    loader: Any = sys.modules[package].__loader__
    origins = {
        alias.asname or alias.name: node.module
        for branch in ast.parse(loader.get_source(package)).body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name in origins:
            value = getattr(importlib.import_module(origins[name]), name)
            setattr(sys.modules[package], name, value)  # later uses do not call `get`
            return value
        if not name.startswith("__") and importlib.util.find_spec(f"{package}.{name}"):
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *origins})

    return get, names, [name for name in sorted(origins) if not name.startswith("_")]
