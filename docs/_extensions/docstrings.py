"""Docstrings as they are written here, read as reStructuredText.

They are Google's, with single backticks around code, indented code blocks and plain asterisks, as
people read them in an editor.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from public_names import public_names
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

CODE = re.compile(r"(`[^`]*`)")
STAR = re.compile(r"(?<![\w*\\])(\*+)(?=\w+(?:[^\w*]|$))(?!\w[^*]*\w\*)")


def escaped(line: str) -> str:
    """Returns a line whose bare asterisks, bars and trailing underscores mean themselves."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    parts = CODE.split(line)
    parts[::2] = [
        re.sub(r"(?<=\w)_(?=[\s,.)-]|$)", r"\\_", STAR.sub(r"\\\1", part).replace("|", r"\|"))
        for part in parts[::2]
    ]
    return "".join(parts)


def as_rst(lines: list[str]) -> list[str]:
    """Returns a docstring with its indented code blocks marked, and all other lines escaped."""
    result: list[str] = []
    in_code, margin = False, 0
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if in_code and line.strip() and indent == 0:
            in_code = False
        before = [earlier for earlier in lines[:number] if earlier.strip()]
        starts = number > 0 and not lines[number - 1].strip() and bool(before)
        if not in_code and indent >= 4 and starts and not before[-1].startswith(" "):
            in_code, margin = True, indent
            result += ["::", ""]
        result.append(line if (in_code and indent >= margin) or not line.strip() else escaped(line))
    return result


def before_napoleon(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Marks a docstring's code, and keeps that of an attribute as it is."""
    lines[:] = as_rst(lines)
    app.comixup_docstring = list(lines)  # type: ignore[attr-defined]


def after_napoleon(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Puts an attribute's docstring back: napoleon takes what precedes a colon for a type."""
    if what in ("attribute", "data", "property"):
        lines[:] = app.comixup_docstring  # type: ignore[attr-defined]


def readable_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str
) -> tuple[str | None, str] | None:
    """Returns a dataclass's signature with `...` for defaults that are made by a factory."""
    if not signature or "<factory>" not in signature:
        return None
    return signature.replace("<factory>", "...").replace("~", ""), returns


def link_to(text: str) -> str | None:
    """Returns the public name that code means: a class by its own, anything after `comixup.`."""
    text = text.removesuffix("()")
    bare = text.removeprefix("comixup.")
    public = public_names()
    if bare in public and (bare != text or bare[:1].isupper()):
        return public[bare]
    return f"comixup.{bare}" if "." in bare and f"comixup.{bare}" in public.values() else None


def linked(literal: nodes.literal, target: str, docname: str) -> pending_xref:
    """Returns code as a link to a public name."""
    return pending_xref(
        "",
        literal,
        refdomain="py",
        reftype="obj",
        reftarget=target,
        refdoc=docname,
        refexplicit=True,
    )


def code_role(
    role: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Inliner,
    options: dict[str, Any] | None = None,
    content: list[str] | None = None,
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Returns code, as a link where it is a public name: single backticks of a docstring."""
    literal = nodes.literal(rawtext, text, classes=["code"])
    target = link_to(text)
    docname = inliner.document.settings.env.docname
    return [linked(literal, target, docname) if target else literal], []


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Links names in the Markdown's code that begin with `comixup.` to the reference."""
    for literal in list(doctree.findall(nodes.literal)):
        target = link_to(literal.astext()) if literal.astext().startswith("comixup.") else None
        inside = isinstance(literal.parent, (nodes.reference, nodes.title, pending_xref))
        if target and not inside:
            place = literal.parent.index(literal)
            literal.parent[place] = linked(literal.deepcopy(), target, app.env.docname)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects the steps to the build."""
    app.add_role("name", code_role)
    app.connect("doctree-read", link_names)
    app.connect("autodoc-process-signature", readable_signature)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
