"""The state from which a run goes on: written whole, read without running code."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from comixup.training._files import write_whole

FORMAT = 1
"""Raised when a checkpoint of before can no longer be read."""


@dataclass
class State:
    """Where a run stands.

    Every generator is seeded anew for each part of each step, from the run's seed and the counts
    below: `epoch` and `step` therefore are the state of all of them.

    Attributes:
        identity: recipe, method and seed as text: what makes two runs the same.
        epoch: the epoch that comes next or is under way, from 0.
        step: steps of it that are done.
        model: its weights and buffers.
        optimizer: its state.
        precision: state of the precision plugin (the scale of half-precision losses).
        totals: sums over the epoch under way.
        history: one row per epoch done.
        seconds: time spent in training so far.
        finished: whether the run has come to its end.
    """

    identity: str
    epoch: int = 0
    step: int = 0
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    precision: dict[str, Any] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False


def save_state(state: State, path: Path) -> None:
    """Writes a checkpoint in one move."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **_shallow(state)}, buffer)
    write_whole(path, buffer.getvalue())


def load_state(path: Path, identity: str) -> State | None:
    """Returns the state that a checkpoint holds, or None if there is none; nothing in it is run.

    Args:
        path: the checkpoint.
        identity: of the run that wants to go on; a checkpoint of another is refused.
    """
    if not path.exists():
        return None
    try:
        raw = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, zipfile.BadZipFile, ValueError) as why:
        reason = str(why).strip().split("\n", 1)[0][:200]
        raise ValueError(
            f"`checkpoint` must be one that comixup wrote, but {path} is damaged or holds things "
            f"that are not data ({reason}). Nothing was changed: put back a good copy, or move the "
            "file away to train from the start."
        ) from None
    names = {f.name for f in fields(State)}
    if not isinstance(raw, dict) or raw.get("format") != FORMAT or not names <= set(raw):
        found = raw.get("format") if isinstance(raw, dict) else type(raw).__name__
        raise ValueError(
            f"`checkpoint` must be of format {FORMAT}, but {path} has {found!r}. Nothing was "
            "changed: use the version of comixup that wrote it, or move the file away."
        )
    state = State(**{name: raw[name] for name in names})
    wrong = [
        f.name
        for f in fields(State)
        if not isinstance(getattr(state, f.name), _KINDS[str(f.type).split("[", 1)[0]])
    ]
    if wrong:
        raise ValueError(
            f"`checkpoint` must hold what comixup writes, but {', '.join(wrong)} of {path} is of "
            "another type. Nothing was changed: put back a good copy, or move the file away."
        )
    if state.identity != identity:
        raise ValueError(
            f"`folder` must be this run's own, but {path.parent} holds another: "
            f"{difference(state.identity, identity)}. Nothing was changed: choose another folder "
            "with --out, or go back to the settings of before."
        )
    return state


_KINDS: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "dict": dict,
    "list": list,
}


def difference(before: str, now: str) -> str:
    r"""Returns which lines of two identities differ, in words.

    >>> difference("seed: 0\nlr: 1", "seed: 1\nlr: 1")
    'seed was 0, is 1'
    """
    old, new = (
        dict(line.partition(": ")[::2] for line in text.splitlines()) for text in (before, now)
    )
    changes = [
        f"{name} was {old.get(name, 'absent')}, is {new.get(name, 'absent')}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return "; ".join(changes) or "its text differs"


def _shallow(state: State) -> dict[str, Any]:
    return {f.name: getattr(state, f.name) for f in fields(state)}
