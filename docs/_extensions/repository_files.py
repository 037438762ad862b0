"""Links that lead out of docs/: to a page of the site, or to the file itself, highlighted.

The Markdown links to files of the repository, so that it can be read where the repository is
browsed. On the site such a link has to lead to a page as well. Some files are Markdown and have a
page of their own (`STAND_INS`); every other one that is linked to gets a page that shows it.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
STAND_INS = {
    "project/changelog": ROOT / "CHANGELOG.md",
    "project/contributing": ROOT / "CONTRIBUTING.md",
    "project/kernel": ROOT / "native" / "README.md",
    "project/records": ROOT / "benchmarks" / "RECORDS.md",
}
LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(#[^)\s]*)?(?=\))")
FILE_NAME = re.compile(r"\[[\w./-]+\.md\]\((?=[\w./-]+\.md)")
SCHEME = "repository:"
LANGUAGES = {".py": "python", ".pyi": "python", ".hpp": "cpp", ".cpp": "cpp", ".cff": "yaml"}


def site_links(text: str, source: Path, docname: str) -> str:
    """Returns a page's Markdown with its links as they have to be on the site.

    Args:
        text: the Markdown.
        source: the file that it is from, which its links are relative to.
        docname: the page of the site that shows it.
    """
    folder = (DOCS / docname).parent
    pages = {file: DOCS / f"{name}.md" for name, file in STAND_INS.items()}

    def site_link(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        file = (source.parent / target).resolve()
        if file == ROOT / "README.md":
            file = DOCS / "index.md"
        file = pages.get(file, file)
        if not file.exists():
            return link[0]
        if file.is_relative_to(DOCS) and file.is_file():
            return Path(os.path.relpath(file, folder)).as_posix() + anchor
        return SCHEME + file.relative_to(ROOT).as_posix()

    # A link that is called by its file's name gets the page's title, or the section's.
    return FILE_NAME.sub("[](", LINK.sub(site_link, text))


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Puts the linked-to file in a stand-in's place, and turns links into those of the site."""
    file = STAND_INS.get(docname)
    if file is not None:
        app.env.note_dependency(str(file))
        source[0] = file.read_text(encoding="utf-8")
    if app.env.doc2path(docname).suffix == ".md":
        source[0] = site_links(source[0], file or Path(app.env.doc2path(docname)), docname)


def line_of(name: str, text: str) -> int:
    """Returns the number of the line that defines a name, the first to hold it, or 1."""
    for pattern in (
        rf"^\s*(?:def|class|struct) {name}\b",
        rf"^\s*{name}\b *[:=]|^[\w:<>&* ]+ {name}\(",
        rf"\b{name}\b",
    ):
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            start = found.start() + len(found[0]) - len(found[0].lstrip())
            return text.count("\n", 0, start) + 1
    return 1


def resolve_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Leads links of `SCHEME` to the page of their file, at the name that is the link's text."""
    for link in doctree.findall(nodes.reference):
        uri = link.get("refuri", "")
        if not uri.startswith(SCHEME):
            continue
        path = uri.removeprefix(SCHEME)
        here = app.builder.get_target_uri(docname)
        link["refuri"] = relative_uri(here, app.builder.get_target_uri(f"files/{path}"))
        link["internal"] = True
        name = re.fullmatch(r"(?:\w+\.)*(\w+)", link.astext())
        file = ROOT / path
        if name and file.is_file():
            link["refuri"] += f"#line-{line_of(name[1], file.read_text(encoding='utf-8'))}"


def linked_files(app: Sphinx) -> set[str]:
    """Returns the paths of all files and folders that some page links to by `SCHEME`."""
    found = set()
    for docname in app.env.found_docs:
        source = STAND_INS.get(docname, Path(app.env.doc2path(docname)))
        text = site_links(source.read_text(encoding="utf-8"), source, docname)
        found |= set(re.findall(rf"\]\({SCHEME}([^)\s]+)\)", text))
    return found


def file_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yields a page for each file that is linked to: its text, or what a folder holds."""
    files = linked_files(app)
    for path in sorted(files):
        file = ROOT / path
        if file.is_dir():
            names = sorted(
                f"{entry.name}{'/' * entry.is_dir()}"
                for entry in file.iterdir()
                if not entry.name.startswith((".", "__"))
            )
            rows = "".join(f"<li><code>{html.escape(name)}</code></li>" for name in names)
            body = f"<ul>{rows}</ul>"
        else:
            body = app.builder.highlighter.highlight_block(
                file.read_text(encoding="utf-8"),
                LANGUAGES.get(file.suffix, "text"),
                linenos="inline",
                lineanchors="line",
            )
        title = html.escape(path)
        shown = f'<div class="repository-file">{body}</div>'
        yield f"files/{path}", {"title": path, "body": f"<h1>{title}</h1>{shown}"}, "page.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects the steps to the build."""
    app.connect("source-read", read_source)
    app.connect("doctree-resolved", resolve_links)
    app.connect("html-collect-pages", file_pages)
    app.connect(
        "config-inited",
        lambda app, config: setattr(
            config, "myst_url_schemes", [*config.myst_url_schemes, SCHEME.removesuffix(":")]
        ),
        priority=400,
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
