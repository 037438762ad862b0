"""Runs the code blocks of the documentation, and follows its links."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
IDS = [page.name for page in PAGES]


def code_blocks(page):
    """Returns the Python blocks of a page, each behind as many empty lines as lines precede it."""
    text = page.read_text(encoding="utf-8")
    return [
        "\n" * text[: block.start(1)].count("\n") + block.group(1)
        for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


@pytest.mark.parametrize("page", [p for p in PAGES if code_blocks(p)], ids=lambda page: page.name)
def test_code_blocks_run(page):
    names = {"__name__": "__main__"}
    for block in code_blocks(page):  # a later block may use what an earlier one made
        exec(compile(block, str(page), "exec"), names)


def test_the_front_page_and_the_solver_page_have_code():
    assert len(code_blocks(ROOT / "README.md")) >= 2
    assert len(code_blocks(ROOT / "docs" / "solver.md")) >= 2


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page):
    links = re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for text, target in links:
        if target.startswith("http"):
            continue
        file = (page.parent / target).resolve()
        assert file.exists(), f"{page.name} links to {target}"
        name = re.fullmatch(r"`(?:\w+\.)*(\w+)`", text)  # `Class.name`: in that file
        if name and text != f"`{file.name}`" and file.suffix in (".py", ".hpp", ".cpp"):
            source = file.read_text(encoding="utf-8")
            assert re.search(rf"\b{name[1]}\b", source), f"{name[1]} is not in {target}"


def test_every_marked_departure_from_the_paper_is_listed():
    page = (ROOT / "docs" / "paper-to-code.md").read_text(encoding="utf-8")
    files = [
        file
        for folder in ("src", "native")
        for file in sorted((ROOT / folder).rglob("*.?pp")) + sorted((ROOT / folder).rglob("*.py"))
        if "Paper:" in file.read_text(encoding="utf-8")
    ]
    assert files
    departures = page.split("## Departures")[1]
    for file in files:
        marks = file.read_text(encoding="utf-8").count("Paper:")
        listed = departures.count(f"(../{file.relative_to(ROOT).as_posix()})")
        assert listed >= marks, f"{file.name}: {marks} marked, {listed} listed"


def test_hooks_use_the_tested_versions():
    pins = re.findall(r"[\w-]+==[\d.]+", (ROOT / ".pre-commit-config.yaml").read_text())
    tested = re.findall(r"^[\w-]+==[\d.]+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pins
    assert set(pins) <= set(tested)
