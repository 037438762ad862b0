"""A self-contained HTML page from the Markdown of a report, with its pictures inside it."""

from __future__ import annotations

import base64
import html
import itertools
import re
from pathlib import Path

from markdown_it import MarkdownIt

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 62rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.6rem; border-top: 1px solid #bbb; padding-top: 1rem; }
h3 { margin-bottom: 0.3rem; }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: 0.87rem;
        margin: 0.8rem 0; }
th, td { padding: 0.22rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right; }
th { border-bottom: 1px solid #555; vertical-align: bottom; }
th:first-child, td:first-child, td.words { text-align: left; }
img { max-width: 100%; height: auto; }
code, pre { background: #f1f1f1; border-radius: 3px; font-size: 0.88em; }
code { padding: 0.05em 0.3em; } td code { white-space: nowrap; }
pre { padding: 0.6em 0.9em; overflow-x: auto; }
pre code { padding: 0; font-size: 1em; }
a { color: #0a58a6; }
@media print { body { max-width: none; margin: 0; font-size: 11pt; }
               h2 { break-after: avoid; } table, img { break-inside: avoid; } }
"""
_NUMBER = re.compile(r"^[-+±<>=~\s\d.,()%/*]*(of|s|ms)?[-+±\s\d.,()%*]*$")


def html_page(markdown: str, folder: Path) -> str:
    """Returns a page with its pictures inside it.

    Args:
        markdown: a report.
        folder: that pictures' paths are relative to.

    >>> print(html_page("# A & B", Path(".")).splitlines()[-3])
    <h1 id="a-b">A &amp; B</h1>
    """
    parser = MarkdownIt("commonmark", {"xhtmlOut": False}).enable("table")
    tokens, title = parser.parse(markdown), "Report"
    for token, inside in itertools.pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor(inside.content))
            title = inside.content if token.tag == "h1" else title
        elif token.type in ("th_open", "td_open"):
            token.attrs = {}  # the style below aligns numbers right, and words left
            if token.tag == "td" and not _NUMBER.match(inside.content):
                token.attrSet("class", "words")
        for child in inside.children or ():
            if child.type == "image":
                data = base64.b64encode((folder / str(child.attrs["src"])).read_bytes()).decode()
                child.attrSet("src", f"data:image/png;base64,{data}")
    body = parser.renderer.render(tokens, parser.options, {})
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{body}</body>\n</html>"
    )


def anchor(heading: str) -> str:
    """Returns the name that links lead to, as GitHub makes it.

    >>> anchor("Table 1: Top-1 error")
    'table-1-top-1-error'
    """
    words = re.sub(r"[^\w\- ]", "", heading.lower())
    return re.sub(r" +", "-", words.strip())
