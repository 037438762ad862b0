"""Methods by any of their usual names: `co-mixup`, `CutMix`, `mixup`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.console import Console

from comixup.cli._options import print_line

_SYNONYMS = {
    "mixup": "input",
    "inputmixup": "input",
    "manifoldmixup": "manifold",
    "none": "vanilla",
    "nomix": "vanilla",
    "erm": "vanilla",
}
"""Other names of methods, without hyphens and capitals."""


def method_name(word: str, known: Iterable[str]) -> str:
    """Returns the known method that a word means; the word itself if it means none, or several.

    >>> known = ["input", "comixup", "cutmix"]
    >>> [method_name(word, known) for word in ("Co-Mixup", "mixup", "cut", "co-mixup+mixup")]
    ['comixup', 'input', 'cut', 'comixup+input']
    """
    known = list(known)
    if word in known:
        return word
    if "+" in word:  # a choice of several
        return "+".join(method_name(part, known) for part in word.split("+"))
    plain = _plain(word)
    found = [name for name in known if _plain(name) in (plain, _SYNONYMS.get(plain))]
    return found[0] if len(found) == 1 else word


def method_names(words: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Returns the known methods that words mean; see `method_name`."""
    known = list(known)
    return tuple(method_name(word, known) for word in words)


def print_synonyms(words: Sequence[str], names: Sequence[str], option: str = "--method") -> None:
    """Prints which method was taken for each word that is not its name."""
    for word, name in zip(words, names, strict=True):
        if word != name:
            print_line(Console(), f"{option} {word} is called {name} here.")


def _plain(name: str) -> str:
    return re.sub(r"[-_\s]", "", name.lower())
