"""A self-contained HTML page from the Markdown of a report: headings, tables, pictures, prose."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 62rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.6rem; border-top: 1px solid #bbb; padding-top: 1rem; }
h3 { margin-bottom: 0.3rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.87rem; margin: 0.8rem 0; }
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
        markdown: of the kind that reports are written in: blocks between empty lines.
        folder: that pictures' paths are relative to.

    >>> print(html_page("# A & B", Path(".")).splitlines()[-3])
    <h1 id="a-b">A &amp; B</h1>
    """
    blocks = re.split(r"\n{2,}", markdown.strip())
    title = next((b.lstrip("# ") for b in blocks if b.startswith("# ")), "Report")
    body = "\n".join(_block(block, folder) for block in blocks)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{body}\n</body>\n</html>"
    )


def anchor(heading: str) -> str:
    """Returns the name that links lead to, as GitHub makes it.

    >>> anchor("Table 1: Top-1 error")
    'table-1-top-1-error'
    """
    words = re.sub(r"[^\w\- ]", "", heading.lower())
    return re.sub(r" +", "-", words.strip())


def _block(block: str, folder: Path) -> str:
    heading = re.fullmatch(r"(#+) (.*)", block)
    if heading:
        level, text = len(heading[1]), heading[2]
        return f'<h{level} id="{anchor(text)}">{_inline(text)}</h{level}>'
    picture = re.fullmatch(r"!\[([^\]]*)\]\(([^)]+)\)", block)
    if picture:
        return _picture(picture[1], folder / picture[2])
    if block.startswith("|"):
        return _table(block)
    if block.startswith("```"):
        code = block.partition("\n")[2].rpartition("```")[0]
        return f"<pre><code>{html.escape(code)}</code></pre>"
    if block.startswith("- "):
        items = re.split(r"\n(?=- )", block)
        return "<ul>" + "".join(f"<li>{_inline(item[2:])}</li>" for item in items) + "</ul>"
    return f"<p>{_inline(block)}</p>"


def _picture(alt: str, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{html.escape(alt)}" src="data:image/png;base64,{data}"></p>'


def _table(block: str) -> str:
    rows = [_split(line) for line in block.splitlines()]
    head, body = rows[0], rows[2:]
    cells = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    lines = [f"<tr>{cells}</tr>"]
    for row in body:
        cells = "".join(
            f"<td>{_inline(cell)}</td>"
            if _NUMBER.match(cell)
            else f'<td class="words">{_inline(cell)}</td>'
            for cell in row
        )
        lines.append(f"<tr>{cells}</tr>")
    return f'<div class="table"><table>\n{chr(10).join(lines)}\n</table></div>'


def _split(line: str) -> list[str]:
    """Returns the cells of a table's line; a bar behind a backslash is part of a cell."""
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _inline(text: str) -> str:
    """Returns prose with its code, links, bold and slanted words."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"<code>{html.escape(part[1:-1])}</code>" if part.startswith("`") else _words(part)
        for part in parts
    )


def _words(text: str) -> str:
    plain = html.escape(text, quote=False)
    plain = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', plain)
    plain = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", plain)
    return re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)", r"<em>\1</em>", plain)
