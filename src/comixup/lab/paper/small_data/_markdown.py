"""Differences and tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from comixup.lab.paper.small_data._contrasts import Contrast


def difference(contrast: Contrast) -> str:
    """Returns a difference in points with its 95 % confidence interval."""
    text = f"{contrast.difference:+.2f}"
    if contrast.interval is not None:
        text += f" [{contrast.interval[0]:+.2f}, {contrast.interval[1]:+.2f}]"
    return text


def p_value(contrast: Contrast) -> str:
    """Returns the adjusted p-value; nothing where there is none."""
    if contrast.holm is None:
        return ""
    return "< 0.001" if contrast.holm < 0.001 else f"{contrast.holm:.3f}"


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as the lines of a table; the second one has the alignments."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
