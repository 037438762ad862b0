"""The package as shipped: an sdist, a wheel built from it, installed where nothing else is."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from clean_environment import HERE, TOOLS, Environment, core_tests

ROOT = HERE.parent
pytestmark = pytest.mark.slow
EXTRAS = ("torchvision", "lightning_fabric", "matplotlib", "tyro", "rich", "scipy", "PIL")


def build(out, *options, **environment):
    return subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *options, "-o", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env=os.environ | environment,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The two files that `python -m build` gives."""
    out = tmp_path_factory.mktemp("dist")
    run = build(out)
    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    """A clean environment with the wheel, what its own metadata require, and tools of testing."""
    with zipfile.ZipFile(built[0]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        requires = Parser().parsestr(wheel.read(name).decode()).get_all("Requires-Dist")
    clean = Environment(tmp_path_factory.mktemp("clean"))
    clean.link([*requires, *TOOLS])
    clean.install(built[0])
    return clean


def test_the_sdist_has_what_a_build_and_its_tests_need(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"CMakeLists.txt", "LICENSE", "pyproject.toml", "native/solver/algorithm.hpp"} <= names
    assert {"tests/core/test_solve.py", "src/comixup/py.typed", "constraints.txt"} <= names
    assert not any(name.startswith((".github", "benchmarks", "build/", ".venv")) for name in names)


def test_the_wheel_has_the_package_its_kernel_and_its_types_alone(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {"comixup", "comixup-0.1.0.dist-info"}
    assert len([name for name in names if name.startswith("comixup/_native.")]) == 2  # stub, kernel
    assert "comixup/py.typed" in names


def test_the_environment_is_clean(environment):
    code = f"""
import importlib.util, comixup
print(comixup.__file__)
print(*(name for name in {EXTRAS} if importlib.util.find_spec(name)))
"""
    where, found = environment.run("-c", code).stdout.split("\n")[:2]
    assert Path(where).is_relative_to(environment.packages)
    assert found == ""


def test_the_cores_tests_pass_there(environment, tmp_path):
    tests = core_tests()
    assert len(tests) > 30
    assert {"test_solve", "test_comixup", "test_masks"} <= {path.stem for path in tests}
    for path in (*HERE.glob("*.py"), *tests):  # so that no file of the checkout is imported
        copy = tmp_path / path.relative_to(HERE)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    names = [str(path.relative_to(HERE)) for path in tests]
    options = ("-q", "-p", "no:cacheprovider", "-o", "testpaths=.", "-o", "pythonpath=.")
    run = environment.run("-m", "pytest", *options, *names, cwd=tmp_path, timeout=1800)
    assert " passed" in run.stdout
    assert "skipped" not in run.stdout.splitlines()[-1], run.stdout


def test_the_command_says_what_to_install(environment):
    run = environment.run("-m", "comixup", "--help", check=False)
    assert run.returncode == 1
    assert "pip install 'comixup[train]'" in run.stderr


def test_a_missing_compiler_gets_an_error_that_says_what_to_do(tmp_path):
    run = build(tmp_path, CXX="/missing/c++")
    said = " ".join((run.stdout + run.stderr).split())
    assert run.returncode != 0
    assert "`CXX` must be a C++17 compiler, got none that works (CXX=/missing/c++)." in said
    assert "apt-get install g++" in said
    assert "CXX=/path/to/c++" in said


def test_the_version_is_that_of_the_wheel(built):
    assert importlib.metadata.version("comixup") in built[0].name
