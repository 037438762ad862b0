"""Names of packages are imported when they are used: what `import comixup` and help never load."""

import ast
import importlib
import inspect
import pickle
import pydoc
import re
import subprocess
import sys

import pytest

import comixup

HEAVY = (
    *("torch", "torchvision", "torchmetrics", "lightning_fabric", "matplotlib", "scipy", "PIL"),
    *("gradio", "sklearn", "mlxtend"),
)
"""Libraries that take from tenths of a second to seconds to import."""
PACKAGES = (
    "comixup",
    "comixup.plots",
    "comixup.lab.data",
    "comixup.lab.models",
    "comixup.lab.training",
    "comixup.lab.evaluation",
    "comixup.lab.paper",
    "comixup.lab.explorer",
)


COMMANDS = [
    *("--help", "recipes", "train --help", "evaluate --help", "check --help", "mix --help"),
    *("explore --help", "reproduce"),
]
PROGRAM = f"""
import sys, comixup
dir(comixup), comixup.__version__
import comixup.cli

def told(what):
    print("loaded by", what + ":", *(name for name in {HEAVY} if name in sys.modules))

told("import")
for words in {COMMANDS}:
    sys.argv = ["comixup", *words.split()]
    try:
        comixup.cli.main()
    except SystemExit as end:
        assert not end.code, end.code
    told(words)
import PIL
told("import PIL")
"""


def test_import_help_and_lists_load_no_torch():
    # In a process of its own; what one command has loaded shows at those after it too.
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120
    )
    told = re.findall(r"^loaded by (.*): ?(.*)$", run.stdout, re.MULTILINE)
    assert [what for what, _ in told] == ["import", *COMMANDS, "import PIL"]
    assert [(what, loaded) for what, loaded in told[:-1] if loaded] == []
    assert told[-1][1] == "PIL"  # or else this proves nothing


def typed(package):
    """Returns the names that a package imports under `TYPE_CHECKING`: what type checkers see."""
    tree = ast.parse(inspect.getsource(package))
    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert all(alias.asname == alias.name for node in branch.body for alias in node.names)
    return {alias.name for node in branch.body for alias in node.names}


@pytest.mark.parametrize("name", PACKAGES)
def test_type_checkers_and_python_see_the_same_names(name):
    package = importlib.import_module(name)
    public = {name for name in typed(package) if not name.startswith("_")}
    assert public
    assert set(package.__all__) == public
    assert public <= set(dir(package))
    for found in public:
        assert getattr(package, found) is vars(package)[found]  # from the second time on


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match=r"module 'comixup' has no attribute 'ComMixup'"):
        _ = comixup.ComMixup
    with pytest.raises(ImportError, match="cannot import name 'ComMixup'"):
        exec("from comixup import ComMixup")


def test_star_imports_pickles_and_help():
    space = {}
    exec("from comixup import *", space)
    assert set(comixup.__all__) <= set(space)
    assert pickle.loads(pickle.dumps(comixup.CoMixup)) is comixup.CoMixup
    text = pydoc.plain(pydoc.render_doc(comixup))
    assert "class CoMixup" in text
    assert "training_step(" in text
