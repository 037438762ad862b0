"""Runs the code blocks of the documentation, follows its links, and builds its site."""

import importlib
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import comixup
from comixup._methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "native" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]


def code_blocks(page):
    """Returns the Python blocks of a page, each behind as many empty lines as lines precede it."""
    text = page.read_text(encoding="utf-8")
    return [
        "\n" * text[: block.start(1)].count("\n") + block.group(1)
        for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


SLOW_PAGES = {ROOT / "docs" / "guides" / "one-pass-in-your-pipeline.md"}
"""Pages that import many libraries."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page in SLOW_PAGES else [], id=name)
        for page, name in zip(PAGES, IDS, strict=True)
        if code_blocks(page)
    ],
)
def test_code_blocks_run(page):
    names = {"__name__": "__main__"}
    for block in code_blocks(page):  # a later block may use what an earlier one made
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("listed", METHODS.values(), ids=METHODS)
def test_every_method_has_a_card_with_its_class_and_a_picture(listed):
    if listed.mixer == "NoMix":
        cards = [ROOT / "docs" / "methods" / "index.md"]  # the control: a line says what it is for
        pattern = r"`comixup\.NoMix`"
    else:
        cards = sorted((ROOT / "docs" / "methods").glob("*.md"))
        pattern = rf"!\[.*\]\(\.\./images/method-.*Class:\s+`comixup\.(mixers\.)?{listed.mixer}`"
    found = [card for card in cards if re.search(pattern, card.read_text(), re.DOTALL)]
    assert len(found) == 1, found
    assert (
        listed.mixer == "NoMix"
        or f"({found[0].name})" in (ROOT / "docs" / "methods" / "index.md").read_text()
    )


def anchors(page):
    """Returns what GitHub makes of a page's headings to link to."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page):
    links = re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for text, link in links:
        if link.startswith("http"):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name} links to {target}#{anchor}"
        name = re.fullmatch(r"`(?:\w+\.)*(\w+)`", text)  # `Class.name`: in that file
        if name and text != f"`{file.name}`" and file.suffix in (".py", ".hpp", ".cpp"):
            source = file.read_text(encoding="utf-8")
            assert re.search(rf"\b{name[1]}\b", source), f"{name[1]} is not in {target}"


PACKAGES = (
    "comixup",
    "comixup.lab.data",
    "comixup.selfcheck",
    "comixup.lab.evaluation",
    "comixup.lab.models",
    "comixup.lab.paper",
    "comixup.lab.training",
)
ADAPTERS = {
    "comixup.adapters.hugging_face.MixesBatches",
    "comixup.adapters.hugging_face.OriginTransform",
    "comixup.adapters.kornia.followed",
    "comixup.adapters.lightning.KeepCleanGradient",
    "comixup.adapters.origins.WithOrigins",
    "comixup.adapters.timm.Mixup",
    "comixup.adapters.timm.OriginLoader",
    "comixup.adapters.torchvision.BatchMix",
}


def public_names():
    """Returns the names that the packages export, with the name of their package."""
    modules = [importlib.import_module(package) for package in PACKAGES]
    return {
        f"{module.__name__}.{name}" for module in modules for name in getattr(module, "__all__", ())
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Returns the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "-b", "html", "-n", "-W", "--keep-going", "-q"]
    places = ["-d", folder / "doctrees", ROOT / "docs", folder / "html"]
    built = subprocess.run(
        [sys.executable, *command, *places], capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    return folder / "html"


@pytest.mark.slow
def test_the_reference_has_every_public_name(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = zlib.decompress(inventory).decode().splitlines()
    documented = {entry.split(" ", 1)[0] for entry in entries}
    some = {"CoMixup", "lab.data.load", "lab.evaluation.evaluate", "lab.training.train"}
    assert {f"comixup.{name}" for name in some} <= public_names()
    methods = {listed.mixer for listed in METHODS.values()}
    homes = {name: "" if hasattr(comixup, name) else "mixers." for name in methods}
    assert {f"comixup.{home}{name}" for name, home in homes.items()} - documented == set()
    assert (public_names() | ADAPTERS) - documented == set()


@pytest.mark.slow
def test_the_site_needs_no_network_and_leads_nowhere_else(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="([^"]*)"', text)
        assert [link for link in loaded if re.match(r"(https?:)?//", link)] == [], page
        for link in re.findall(r'<a\b[^>]*href="([^"]*)"', text):
            target, _, anchor = link.partition("#")
            if re.match(r"\w+:", link):
                continue
            file = (page.parent / target).resolve() if target else page
            assert file.is_file(), f"{page.relative_to(site)} links to {link}"
            if anchor and file.suffix == ".html":
                assert f'id="{anchor}"' in file.read_text(encoding="utf-8"), f"{page}: {link}"


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


def test_the_kernels_map_names_every_header():
    page = (ROOT / "native" / "README.md").read_text(encoding="utf-8")
    headers = [f for f in (ROOT / "native").rglob("*.hpp") if f.parent.name != "bindings"]
    assert len(headers) > 20
    for header in headers:
        section = page.split(f"\n## {header.parent.name}/\n")[1].split("\n## ")[0]
        assert f"`{header.name}`" in section, header


def test_the_kernel_and_the_reference_name_each_others_steps():
    kernel = (ROOT / "native" / "solver" / "algorithm.hpp").read_text(encoding="utf-8")
    reference = (ROOT / "src" / "comixup" / "core" / "reference.py").read_text(encoding="utf-8")
    sources = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "native" / "solver").glob("*.hpp")
    )
    assert "src/comixup/core/reference.py" in kernel
    assert "native/solver/algorithm.hpp" in reference
    rows = re.findall(r"^//   (\S+) {2,}(\S.*)$", kernel.split("#pragma once")[0], re.MULTILINE)
    assert len(rows) > 8
    for here, there in rows[1:]:
        name = here.split("::")[-1]
        assert re.search(rf"^(class|struct) {name}\b|\w {name}\(", sources, re.MULTILINE), name
        for function in there.split(", "):
            assert f"\ndef {function}(" in reference, function
