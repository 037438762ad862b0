"""Packages whose names are imported when they are first used (PEP 562).

torch alone takes seconds to import, which neither `comixup --help` nor a list of recipes needs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_imports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns a package's `__getattr__`, `__dir__` and `__all__`.

    The package repeats the imports under `TYPE_CHECKING`, for type checkers and editors;
    `tests/test_lazy_imports.py` compares the two.

    Args:
        package: its `__name__`.
        modules: the public names of each of its modules, separated by spaces. The modules
            themselves are attributes too, as they would be after plain imports.

    >>> get, names, public = lazy_imports("json", {"decoder": "JSONDecodeError JSONDecoder"})
    >>> get("JSONDecoder").__module__, public
    ('json.decoder', ['JSONDecodeError', 'JSONDecoder'])
    """
    origins = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{origins[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *origins})

    return get, names, [name for name in sorted(origins) if not name.startswith("_")]
