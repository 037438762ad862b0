"""The versions in pyproject.toml, constraints.txt and the CI workflow say the same."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / ".github/workflows/ci.yml"
PROJECT = ROOT / "pyproject.toml"
pytestmark = pytest.mark.skipif(not WORKFLOW.exists(), reason="not in a checkout of the project")


@pytest.fixture(scope="module")
def project():
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    return tomllib.loads(PROJECT.read_text(encoding="utf-8"))


def lowest(requirement):
    """The lower bound of a requirement, None if it has none."""
    bounds = [Version(spec.version) for spec in requirement.specifier if spec.operator == ">="]
    return max(bounds, default=None)


def requirements(project):
    metadata = project["project"]
    lines = [*metadata["dependencies"], *project["build-system"]["requires"]]
    for extra in metadata["optional-dependencies"].values():
        lines += extra
    return [Requirement(line) for line in lines]


def test_the_minimal_job_installs_the_lowest_versions_that_are_promised(project):
    (versions,) = re.findall(r'versions: "(\w[^"]*)"', WORKFLOW.read_text(encoding="utf-8"))
    tested = {
        name: Version(number) for name, number in re.findall(r"(\w+)==([\d.]+)\.\*", versions)
    }
    core = [Requirement(line) for line in project["project"]["dependencies"]]
    assert tested == {requirement.name: lowest(requirement) for requirement in core}


def test_the_lowest_python_is_tested(project):
    python = project["project"]["requires-python"].removeprefix(">=")
    assert f'python: ["{python}", ' in WORKFLOW.read_text(encoding="utf-8")
    assert project["tool"]["ruff"]["target-version"] == f"py{python.replace('.', '')}"
    assert project["tool"]["cibuildwheel"]["build"][0] == f"cp{python.replace('.', '')}-*"


def test_torch_and_torchvision_belong_together(project):
    """A torchvision needs its own torch (0.18: 2.3, 0.21: 2.6), so a lower bound is never met."""
    bounds = {requirement.name: lowest(requirement) for requirement in requirements(project)}
    assert bounds["torchvision"].minor - bounds["torch"].minor == 15


def test_the_constraints_allow_what_is_required(project):
    names = ("constraints-explorer.txt", "constraints.txt")
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in names)
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    pinned = {one.name: one for one in map(Requirement, filter(None, lines))}
    for requirement in requirements(project):
        if requirement.name != "comixup":
            (pin,) = pinned[requirement.name].specifier
            assert requirement.specifier.contains(pin.version), requirement
