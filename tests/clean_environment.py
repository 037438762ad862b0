"""An environment of its own with a wheel in it, what the wheel requires, and nothing else.

torch takes gigabytes, so packages are linked from the running environment, not installed again.
"""

import ast
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

HERE = Path(__file__).parent
TOOLS = ("pytest", "hypothesis")
"""What the tests need beside the package."""
OF_THE_REPOSITORY = {"docs", "examples", "layers", "lazy_imports", "references", "road", "wheel"}
"""Tests of files that a wheel does not hold."""


class Environment:
    """A virtual environment without pip."""

    def __init__(self, folder):
        venv.create(folder, with_pip=False)
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        self.python = str(Path(folder) / scripts / Path(sys.executable).name)
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        self.packages = Path(self.run("-c", code).stdout.strip())

    def run(self, *words, check=True, **settings):
        """Runs its Python; what this process's environment says of modules does not reach it."""
        run = subprocess.run(
            [self.python, "-I", *words], capture_output=True, text=True, check=False, **settings
        )
        assert run.returncode == 0 or not check, run.stdout + run.stderr
        return run

    def install(self, wheel):
        """Installs a wheel without what it requires."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python]
        subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True)

    def link(self, requirements):
        """Links packages, and what they require, from the running environment."""
        for name in closure(requirements):
            for top in {file.parts[0] for file in metadata.distribution(name).files or ()}:
                there = Path(metadata.distribution(name).locate_file(top))
                here = self.packages / top
                if top not in ("..", "__pycache__") and there.exists() and not here.exists():
                    here.symlink_to(there)


def closure(requirements):
    """Names of packages and of all that they require, of those that are installed here."""
    found, todo = set(), [Requirement(line) for line in requirements]
    while todo:
        wanted = todo.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        if wanted.name.lower() in found:
            continue
        found.add(wanted.name.lower())
        todo += [Requirement(line) for line in metadata.requires(wanted.name) or ()]
    return sorted(found)


def core_tests():
    """The test files that import the core, its dependencies and the tools of testing alone."""
    allowed = {*sys.stdlib_module_names, "comixup", "numpy", "torch", *TOOLS}
    layers = {folder.name for folder in (HERE.parent / "src" / "comixup").iterdir()} - {
        "core",
        "mixers",
    }
    return [
        path
        for folder in (HERE, HERE / "core", HERE / "mixers")
        for path in sorted(folder.glob("test_*.py"))
        if path.stem.removeprefix("test_") not in OF_THE_REPOSITORY
        and all(
            name.split(".")[0] in allowed
            and not (name.startswith("comixup.") and name.split(".")[1] in layers)
            for name in imported(path)
        )
    ]


def imported(path, seen=()):
    """Every module that a file of tests imports, helpers beside it looked through."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            helper = HERE / f"{name.split('.')[0]}.py"
            if not helper.exists():
                yield name
            elif helper not in seen:
                yield from imported(helper, (*seen, helper))
