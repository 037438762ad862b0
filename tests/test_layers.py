"""Who imports whom: each package uses the public names of the packages below it, and no others.

The layers are those of CONTRIBUTING.md. Imports are read from the source, without running it.
"""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

BELOW = {
    "core": (),
    "mixers": ("core",),
    "adapters": ("core", "mixers"),
    "diagnostics": ("core", "mixers"),
    "models": ("core", "mixers"),
    "data": ("core", "mixers"),
    "training": ("core", "mixers", "models", "data"),
    "evaluation": ("core", "mixers", "models", "data", "training"),
    "reproduce": ("core", "mixers", "models", "data", "training", "evaluation"),
    "explorer": ("core", "mixers", "models", "data", "training", "evaluation"),
    "cli": (
        "core",
        "mixers",
        "models",
        "data",
        "training",
        "evaluation",
        "reproduce",
        "explorer",
        "diagnostics",
    ),
    "examples": ("core", "mixers", "adapters"),
}
"""The packages whose public names each may import; files of `comixup` itself are the core."""

STEPS = {
    "_saliency": 1,
    "_spectral": 1,
    "_cell_means": 1,
    "_memory": 1,
    "_compatibility": 2,
    "_problem_checks": 2,
    "_problem": 2,
    "_objective": 3,
    "_solve": 3,
    "baseline_solvers": 3,
    "_reference": 3,
    "_puzzle": 3,
    "_labelling": 3,
    "_mix": 4,
}
"""Files of the core by step: saliency -> problem -> solve -> mix. No step imports a later one; the
other files of the core are shared by the steps, and import none of them."""

SHARED = (
    "_archives",
    "_atomic_write",
    "_batch_page",
    "_center_view",
    "_checks",
    "_crops",
    "_did_you_mean",
    "_eager",
    "_grid",
    "_lazy_imports",
    "_lightning",
    "_locks",
    "_masks",
    "_normalize",
    "_orientation",
    "_plots",
    "_progress",
    "_random",
    "_recording",
    "_repr",
    "_tables",
    "_targets",
    "_tensor_checks",
    "_unmixable",
    "_wrappers",
)
"""Files of the core that several packages need and none owns: all packages may import them."""


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
    return parts[1] if len(parts) > 1 and parts[1] in BELOW else "core"


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


def breaches(module, source):
    """Yields what a module imports and should not."""
    own = package_of(module)
    for origin, name in imports(source):
        target = origin
        if origin == "comixup" and name is not None:
            submodule = name.startswith("_") or name in BELOW
            target = f"comixup.{name}" if submodule else origin
            name = None if submodule else name  # noqa: PLW2901
        package, file = package_of(target), target.split(".")[-1]
        whole = target if name is None else f"{target}.{name}"
        if package == own:
            last = STEPS.get(module.split(".")[-1], 0)
            later = own == "core" and module != "comixup" and STEPS.get(file, 0) > last
            assembled = own == "core" and module != "comixup" and target == "comixup"
            if later or assembled:
                yield whole
        elif module == "comixup" and is_public(target, name):
            continue  # it assembles the core and the mixers
        elif package not in BELOW[own]:
            yield whole
        elif package == "core" and target != "comixup":
            direct = own == "mixers" or (file in SHARED and own != "examples")
            public = is_public(target, name)  # `baseline_solvers`
            if not (direct or public) or (name or "").startswith("_"):
                yield whole
        elif not is_public(target, name):
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


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("comixup.evaluation._new", "from comixup.training._train import check_run_options"),
        ("comixup.evaluation._new", "from comixup.training import _train"),
        ("comixup.evaluation._new", "import comixup.training._train"),
        ("comixup.evaluation._new", "from comixup.training import Fabric"),
        ("comixup.training._new", "from comixup.evaluation import measure"),
        ("comixup.training._new", "from comixup import evaluation"),
        ("comixup.training._new", "def f():\n    from comixup.evaluation import measure"),
        ("comixup.data._new", "from comixup.models import build"),
        ("comixup.models._new", "from comixup._checks import _integer"),
        ("comixup.models._new", "from comixup._solve import solve"),
        ("comixup.reproduce._new", "from comixup.baseline_solvers import _energies"),
        ("comixup._solve", "from comixup._mix import mix"),
        ("comixup._problem", "from comixup import _solve"),
        ("comixup._problem", "from comixup import solve"),
        ("comixup._checks", "from comixup._saliency import saliency"),
        ("comixup._problem", "from comixup.mixers import CoMixup"),
        ("comixup.mixers._new", "from comixup._mix import _private"),
        ("comixup.explorer._new", "from comixup.reproduce import ITEMS"),
        ("comixup.explorer._new", "from comixup.mixers._output_shares import output_shares"),
        ("plain_pytorch", "from comixup._mix import mix"),
        ("plain_pytorch", "from comixup.mixers._mixer import Mixer"),
        ("plain_pytorch", "from comixup.training import train"),
    ],
)
def test_a_breach_is_seen(module, line):
    assert len(list(breaches(module, line))) == 1


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("comixup.training._new", "import comixup\nfrom comixup import CoMixup, data, models"),
        ("comixup.training._new", "from comixup.training._train import train"),
        ("comixup.training._new", "from comixup._checks import check_count"),
        ("comixup.cli._new", "from comixup.evaluation import measure"),
        ("comixup.reproduce._new", "from comixup.baseline_solvers import exhaustive"),
        ("comixup.mixers._new", "from comixup._solve import solve"),
        ("comixup._mix", "from comixup._solve import solve"),
        ("plain_pytorch", "from comixup.adapters.timm import Mixup"),
        ("plain_pytorch", "import torch\nfrom comixup import CoMixup"),
    ],
)
def test_the_layers_below_may_be_used(module, line):
    assert list(breaches(module, line)) == []
