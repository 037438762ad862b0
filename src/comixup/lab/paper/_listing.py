"""The list of everything that can be reproduced, there at once."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable
from pathlib import Path

from comixup.lab.paper._costs import Cost
from comixup.lab.paper._items import ITEMS, Item
from comixup.lab.paper._jobs import jobs_of, same_at_both_scales, with_needed
from comixup.lab.paper._store import read_committed, read_out
from comixup.lab.paper._trained_tables import SCALES, Scale

_INDENT = "    "


def listing(results: Path, out: Path, width: int = 100) -> Iterable[str]:
    """Yields paragraphs about each item: what it is, needs and costs, and what is there.

    Args:
        results: folder of the committed cells.
        out: the output folder.
        width: of a line.
    """
    made = {**read_committed(results), **read_out(out)}
    for item in ITEMS.values():
        lines = [_filled(f"{item.name}: {item.title} ({item.source})", width, "")]
        lines += [_filled(f"printed: {item.printed}", width)]
        for scale in SCALES:
            text = _scale_line(item, scale, made)
            if text:
                lines.append(_filled(text, width))
        yield "\n".join(lines)


def _scale_line(item: Item, scale: Scale, made: Collection[str]) -> str:
    """Returns what an item needs, costs and has at a scale; nothing if it has no such scale."""
    jobs = jobs_of(item, scale)
    same = same_at_both_scales(item)
    if not jobs or (same and scale == "paper"):
        return ""
    done = sum(job.key in made for job in jobs)
    cost = sum((job.cost for job in with_needed(jobs)), Cost())
    there = "nothing there yet" if not done else f"{done} of {len(jobs)} cells there"
    if done == len(jobs):
        there = "all cells there"
    name = "any scale" if same else f"--scale {scale}"
    return f"{name}: {cost}; needs {item.needs[scale]}; {there}"


def _filled(text: str, width: int, indent: str = _INDENT) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=_INDENT * 2,
        break_on_hyphens=False,
        break_long_words=False,
    )
