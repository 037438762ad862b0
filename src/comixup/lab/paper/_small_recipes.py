"""Recipes that stand for the paper's at small scale, where no recipe of that name exists.

The tables of multiple inputs, of settings and of virtual adversarial training vary a method of one
recipe. At small scale they vary `cifar100-small-data` in the same way, under names of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from comixup.lab.training import RECIPES, Method, Recipe

SMALL = "cifar100-small-data"
VARIANTS = {
    "cifar100-multi-input": f"{SMALL}-multi-input",
    "cifar100-sensitivity": f"{SMALL}-sensitivity",
    "cifar100-vat": f"{SMALL}-vat",
}
"""The paper's recipes, and what their small counterparts are called."""
DIGITS = "digits-pictures"
"""Digits enough for a network whose saliency is worth a picture: half a minute."""


def recipe_named(name: str) -> Recipe:
    """Returns a recipe of `comixup.lab.training`, or one of the small variants.

    >>> recipe_named("cifar100-small-data-vat").methods["vat-0.01-eps1-updates0"].vat["epsilon"]
    1
    """
    if name in RECIPES:
        return RECIPES[name]
    if name == DIGITS:
        longer = RECIPES["digits"].changed(epochs=10, images_per_class=100)
        return dataclasses.replace(longer, name=name, title="Digits, for pictures")
    paper = {small: big for big, small in VARIANTS.items()}[name]
    base = RECIPES[SMALL]
    methods = _like_small(RECIPES[paper].methods, base.methods)
    return dataclasses.replace(
        base, name=name, title=f"{RECIPES[paper].title}, at small scale", methods=methods
    )


def _like_small(published: Mapping[str, Method], own: Mapping[str, Method]) -> dict[str, Method]:
    """Returns the paper's methods with what the small recipe has chosen for their mixers."""
    return {
        name: dataclasses.replace(
            method,
            settings={**own[method.mixer].settings, **method.settings},
            lr_multiplier=own[method.mixer].lr_multiplier,
            paper=None,
        )
        for name, method in published.items()
    }
