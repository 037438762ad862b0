"""Who imports whom: each package uses names of the packages below it, and no others.

The layers are those of CONTRIBUTING.md. Imports are read from the source, without running it.
"""

import ast
import importlib
from pathlib import Path

from cases import each_case

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

BELOW = {
    "shared": (),
    "core": (),
    "mixers": ("core",),
    "plots": ("core", "mixers"),
    "adapters": ("core", "mixers"),
    "selfcheck": ("core", "mixers"),
    "lab": ("core",),
    "models": ("core", "mixers"),
    "data": ("core", "mixers", "adapters"),
    "training": ("core", "mixers", "models", "data"),
    "evaluation": ("core", "plots", "mixers", "models", "data", "training"),
    "paper": ("core", "plots", "mixers", "models", "data", "training", "evaluation"),
    "explorer": ("core", "plots", "mixers", "adapters", "models", "data", "training", "evaluation"),
    "cli": (
        "core",
        "mixers",
        "models",
        "data",
        "training",
        "evaluation",
        "paper",
        "explorer",
        "selfcheck",
    ),
    "examples": ("core", "plots", "mixers", "adapters", "explorer"),
}
"""The packages whose public names each may import. Files of `comixup` itself are shared by all of
them; `comixup` exports the names of the core and of the mixers, and there others find them."""

STEPS = {
    "saliency": 1,
    "memory": 1,
    "problem": 2,
    "objective": 3,
    "solve": 3,
    "reference": 3,
    "puzzle": 3,
    "labelling": 3,
    "mix": 4,
}
"""Files of the core by step: saliency -> problem -> solve -> mix. No step imports a later one; the
other files of the core are shared by the steps, and import none of them."""

BUILT_ON_THE_CORE = ("mixers", "plots", "paper")
"""Packages that import from the files of the core; others import what `comixup` exports."""
ABOVE_THE_METHOD = ("models", "data", "training", "evaluation", "paper", "explorer", "cli")
"""The laboratory and its commands: they may import the files of `comixup.lab` itself, and from the
modules of each other, not only from the packages, names that begin with no underscore."""
OF_SEVERAL = ("grid", "masks", "tensors", "weights")
"""Files of the core that others need too."""


def imports(source):
    """Returns (module, name) for each name that a source takes from comixup; name may be None."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports must be absolute"
            found += [(node.module or "", alias.name) for alias in node.names]
    return [pair for pair in found if pair[0].split(".")[0] == "comixup"]


def package_of(module):
    """Returns the package of `BELOW` that a module belongs to."""
    parts = module.split(".")
    if parts[0] != "comixup":
        return "examples"
    if parts[-1] == "__main__":  # `python -m comixup`
        return "cli"
    if parts[1:2] == ["lab"]:  # whose files of its own are shared by its packages
        return parts[2] if len(parts) > 2 and parts[2] in BELOW else "lab"
    return parts[1] if len(parts) > 1 and parts[1] in BELOW else "shared"


def is_public(module, name):
    """Whether a module of another package may be imported from, and has that name for it."""
    if any(part.startswith("_") for part in module.split(".")):
        return False
    return name is None or name in getattr(
        importlib.import_module(module), "__all__", dir_of(module)
    )


def dir_of(module):
    """Returns the public names of a module without `__all__`: those that it defines itself."""
    found = importlib.import_module(module)
    return [name for name, value in vars(found).items() if is_own(found, name, value)]


def is_own(module, name, value):
    return not name.startswith("_") and getattr(value, "__module__", module.__name__).startswith(
        module.__name__.rpartition(".")[0] or module.__name__
    )


def is_module(name):
    path = SOURCE.joinpath(*name.split("."))
    return path.is_dir() or any(path.with_suffix(end).exists() for end in (".py", ".pyi"))


def targets_of(source):
    """Yields (module, name) for each import of comixup; a module that is imported is no name."""
    for origin, name in imports(source):
        inside = f"{origin}.{name}"
        yield (inside, None) if is_module(inside) else (origin, name)


def breaches(module, source):
    """Yields what a module imports and should not."""
    own = package_of(module)
    for target, name in targets_of(source):
        package, file = package_of(target), target.split(".")[-1]
        whole = target if name is None else f"{target}.{name}"
        if target == "comixup":  # what it exports: not for the files that it is assembled from
            allowed = own not in ("shared", "core", "mixers", "plots")
        elif module == "comixup":
            allowed = package in ("shared", "core") or is_public(target, name)
        elif package == own:
            allowed = own != "core" or STEPS.get(file, 0) <= STEPS.get(module.split(".")[-1], 0)
        elif target == "comixup._native":
            allowed = own in ("core", *BUILT_ON_THE_CORE)
        elif package == "shared":
            allowed = own != "examples" and not (name or "").startswith("_")
        elif package == "lab":
            allowed = own in ABOVE_THE_METHOD and not (name or "").startswith("_")
        elif package not in BELOW[own]:
            allowed = False
        elif package == "core":
            direct = own in BUILT_ON_THE_CORE or (file in OF_SEVERAL and own != "examples")
            allowed = direct and not (name or "").startswith("_")
        elif own in ABOVE_THE_METHOD and package in ABOVE_THE_METHOD:
            allowed = not name.startswith("_") if name else is_public(target, name)
        else:
            allowed = is_public(target, name)
        if not allowed:
            yield whole


def sources():
    for path in sorted((SOURCE / "comixup").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path.read_text()
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield path.stem, path.read_text()


def test_packages_import_public_names_of_those_below_them():
    found = {(module, what) for module, source in sources() for what in breaches(module, source)}
    assert found == set(), "imports of private names, or of a later layer or step"


@each_case(
    ("module", "line"),
    [
        ("comixup.lab.evaluation._new", "from comixup.lab.training._train import _train_run"),
        ("comixup.lab.evaluation._new", "import comixup.lab.training._train"),
        ("comixup.lab.training._new", "from comixup.lab.evaluation import measure"),
        ("comixup.lab.training._new", "def f():\n    from comixup.lab.evaluation import measure"),
        ("comixup.lab.data._new", "from comixup.lab.models import build"),
        ("comixup.lab.models._new", "from comixup._checks import _integer"),
        ("comixup.mixers._new", "from comixup.lab._preprocess import centered"),
        ("comixup.lab.models._new", "from comixup.core.solve import solve"),
        ("comixup.lab.training._new", "from comixup import _native"),
        ("comixup.mixers._new", "from comixup.plots import Page"),
        ("comixup.plots._new", "from comixup.mixers._cutmix import Boxes"),
        ("comixup.core.solve", "from comixup.core.mix import mix"),
        ("comixup.core.problem", "from comixup.core import solve"),
        ("comixup.core.problem", "from comixup.mixers import CoMixup"),
        ("comixup.mixers._new", "from comixup.core.mix import _private"),
        ("comixup.lab.explorer._new", "from comixup.lab.paper import ITEMS"),
        ("plain_pytorch", "from comixup.mixers._mixer import Mixer"),
        ("plain_pytorch", "from comixup.lab.training import train"),
    ],
)
def test_a_breach_is_seen(module, line):
    assert len(list(breaches(module, line))) == 1


@each_case(
    ("module", "line"),
    [
        ("comixup.lab.training._new", "import comixup\nfrom comixup.lab import data, models"),
        ("comixup.lab.training._new", "from comixup._checks import check_count"),
        ("comixup.lab.evaluation._new", "from comixup.lab.training._train import train"),
        ("comixup.lab.paper._new", "from comixup.lab.paper.baseline_solvers import exhaustive"),
        ("comixup.mixers._new", "from comixup.core.solve import solve"),
        ("comixup.core.mix", "from comixup.core.solve import solve"),
        ("comixup.core.solve", "from comixup import _native"),
        ("comixup.lab.data._new", "from comixup.core.grid import cell_numbers"),
        ("plain_pytorch", "from comixup.adapters.timm import Mixup"),
        ("plain_pytorch", "import torch\nfrom comixup import CoMixup"),
    ],
)
def test_the_layers_below_may_be_used(module, line):
    assert list(breaches(module, line)) == []
