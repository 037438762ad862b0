"""Several methods of a recipe as one, of which each batch has one drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from comixup.lab.training._make_mixer import mixer_class
from comixup.lab.training._method import CHOICE, JOINT, Method


def join_methods(named: Sequence[tuple[str, Method]]) -> Method:
    """Returns the choice of several methods, with their settings and equal weights.

    Args:
        named: name and method of each.

    >>> joined = join_methods([("input", Method("input")), ("cutmix", Method("cutmix"))])
    >>> joined.mixer, list(joined.parts)
    ('choice', ['input', 'cutmix'])
    """
    parts = dict(named)
    if len(parts) < len(named):
        raise ValueError(f"`method` must join different methods, got {_names(named)}.")
    for name, method in named:
        _check_part(name, method)
    salient = [(name, method) for name, method in named if mixer_class(method).needs_saliency]
    saliency = _same(salient, "saliency", lambda method: method.saliency, "paper")
    settings = {}
    p = _same(named, "p", lambda method: method.settings.get("p", 1), 1)
    if p != 1:
        settings["p"] = p
    return Method(
        CHOICE,
        settings,
        saliency=saliency,
        memory=_same(salient, "memory", lambda method: dict(method.memory), {}),
        schedule=_same(named, "schedule", lambda method: dict(method.schedule), {}),
        epoch_multiplier=_same(named, "epochs", lambda method: method.epoch_multiplier, 1.0),
        lr_multiplier=_same(named, "learning rate", lambda method: method.lr_multiplier, 1.0),
        ema=_same(named, "ema", lambda method: method.ema, None),
        parts={
            name: Method(method.mixer, {k: v for k, v in method.settings.items() if k != "p"})
            for name, method in named
        },
    )


def _check_part(name: str, method: Method) -> None:
    """Rejects a method that no batch can have drawn."""
    why = None
    if method.vat is not None:
        why = "trains by virtual adversarial training"
    elif method.parts:
        why = "is a choice of several itself"
    elif mixer_class(method).mixes_inside:
        why = "mixes inside the network, for all batches"
    if why:
        raise ValueError(
            f"`method` must join methods that mix images, got {name}, which {why}. Train it by "
            "itself."
        )


def _same(
    named: Sequence[tuple[str, Method]], what: str, of: Callable[[Method], Any], default: Any
) -> Any:
    """Returns what methods have in common; raises `ValueError` if they differ in it."""
    values = [of(method) for _, method in named]
    for (name, _), value in zip(named, values, strict=True):
        if value != values[0]:
            raise ValueError(
                f"`method` must join methods of the same {what}, got {values[0]!r} of "
                f"{named[0][0]} and {value!r} of {name}. Join others, or make them alike."
            )
    return values[0] if values else default


def _names(named: Sequence[tuple[str, Method]]) -> str:
    return JOINT.join(name for name, _ in named)
