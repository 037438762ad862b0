"""What the docstrings of public names send users to is public too."""

import importlib
import inspect
import re

import pytest

LAB = [f"comixup.lab.{name}" for name in ("models", "data", "training", "evaluation")]
PACKAGES = ["comixup.mixers", *LAB]
PUBLIC = {
    name: getattr(module, name)
    for module in map(importlib.import_module, ["comixup", *PACKAGES])
    for name in getattr(module, "__all__", dir(module))
    if not name.startswith("_")
}


def docstrings(value):
    """Yields the docstring of a public name, and those of a class's public methods."""
    yield inspect.getdoc(value) or ""
    if inspect.isclass(value):
        for name, member in vars(value).items():
            if not name.startswith("_") and (
                inspect.isfunction(member) or type(member) is property
            ):
                yield inspect.getdoc(member) or ""


def is_public(reference, owner):
    """Whether a name in a docstring is one of the package's, or of the class it stands in."""
    package = max(
        (name for name in ("", "comixup", *PACKAGES) if reference.startswith(name)), key=len
    )
    names = [name for name in reference.removeprefix(package).split(".") if name]
    if not names:
        return True
    value = PUBLIC.get(names[0])
    if value is None:
        return hasattr(owner, names[0])
    fields = getattr(value, "__dataclass_fields__", {})
    return len(names) == 1 or hasattr(value, names[1]) or names[1] in fields


@pytest.mark.parametrize("package", PACKAGES)
def test_what_docstrings_refer_to_is_public(package):
    module = importlib.import_module(package)
    names = getattr(module, "__all__", None) or [n for n in vars(module) if n in PUBLIC]
    wrong = [
        (name, reference)
        for name in names
        for text in docstrings(getattr(module, name))
        for reference in re.findall(r"\b[Ss]ee `([A-Za-z_][\w.]*)", text)
        if not is_public(reference, getattr(module, name))
    ]
    assert wrong == []


def test_a_reference_to_a_private_name_is_seen():
    assert not is_public("progress_bar", PUBLIC["train"])
    assert not is_public("Recipe.nothing", PUBLIC["train"])
    assert is_public("comixup.lab.models.build", PUBLIC["train"])
    assert is_public("Recipe.lr_at", PUBLIC["train"])
