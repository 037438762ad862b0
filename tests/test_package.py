"""The package as its users get it: names, version, types, and nothing imported that need not be."""

import ast
import importlib
import importlib.metadata
import importlib.resources
import subprocess
import sys
import typing
from pathlib import Path

import comixup
from cases import each_case

FOLDER = Path(comixup.__file__).parent
ALLOWED = {"torch", "numpy", "comixup"}
LATE = {"_lightning.py": {"lightning_fabric"}, "_plot_batch.py": {"matplotlib"}}
"""Imported inside of functions, which only those who use it call, and for annotations."""
DRAWING = set((FOLDER / "plots").glob("_[a-z]*.py")) - {FOLDER / "plots" / "_plot_batch.py"}
"""What `plot_batch` imports when it is called: with matplotlib, and no part of the core."""


def imported(path):
    """Every module that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            yield node.module
            if node.module.split(".")[0] == "comixup":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reached():
    """Every file of the package that `import comixup` may load."""
    files, found = [FOLDER / "__init__.py"], set()
    while files:
        path = files.pop()
        if path in found or not path.exists() or path in DRAWING:
            continue
        found.add(path)
        for name in imported(path):
            inner = FOLDER.joinpath(*name.split(".")[1:])
            if name.split(".")[0] == "comixup":
                files += [inner.with_suffix(".py"), inner / "__init__.py"]
    return sorted(found)


CORE = reached()


def test_the_kernel_is_built():
    # Fails, never skips, where it is missing: nothing else would notice that it was not tested.
    module = importlib.import_module("comixup._native")
    assert module.__file__.endswith((".so", ".pyd"))


def test_the_kernel_has_what_its_stub_declares():
    module = importlib.import_module("comixup._native")
    stub = ast.parse((FOLDER / "_native.pyi").read_text(encoding="utf-8"))
    declared = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert declared == {name for name in dir(module) if not name.startswith("_")}


@each_case("path", CORE, ids=lambda path: path.name)
def test_core_imports_nothing_but_torch_numpy_and_the_standard_library(path):
    for name in imported(path):
        top = name.partition(".")[0]
        allowed = ALLOWED | LATE.get(path.name, set()) | sys.stdlib_module_names
        assert top in allowed, f"{path.name} imports {name}"


def test_core_is_all_there():
    names = {path.name for path in CORE}
    assert names >= {"__init__.py", "problem.py", "solve.py", "saliency.py", "_comixup.py"}
    assert names.isdisjoint({"_figures.py", "_progress.py", "_train.py"})


def test_importing_the_package_loads_nothing_else():
    program = (
        "import sys, torch, numpy\n"
        "before = set(sys.modules)\n"
        "from comixup import *\n"
        "print(*sorted(set(sys.modules) - before), sep='\\n')\n"
        # Our own networks are no part of it, and load no other library either.
        "assert 'comixup.lab.models' not in sys.modules\n"
        "import comixup  # whose modules are attributes, as after plain imports\n"
        "comixup.lab.models.build('small', 10)\n"
        "assert not {'torchvision', 'timm'} & set(sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    loaded = run.stdout.split()
    assert "comixup.core.solve" in loaded
    tops = {name.partition(".")[0] for name in loaded}
    assert tops <= ALLOWED | set(sys.stdlib_module_names)
    assert not any(name.startswith("comixup.lab.paper") for name in loaded)


def test_public_names_exist_and_are_documented():
    assert len(set(comixup.__all__)) == len(comixup.__all__) <= 30
    for name in comixup.__all__:
        public = getattr(comixup, name)
        is_alias = bool(typing.get_origin(public))  # of a type, which cannot have a docstring
        assert is_alias or public.__doc__, name
    assert {"Labelling", "Problem", "objective", "solve"} <= set(comixup.__all__)


def test_the_version_is_the_installed_one():
    assert comixup.__version__ == importlib.metadata.version("comixup")


def test_the_types_are_shipped():
    assert importlib.resources.files("comixup").joinpath("py.typed").is_file()
    assert importlib.resources.files("comixup").joinpath("_native.pyi").is_file()
