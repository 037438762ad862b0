"""Trained variants of a recipe: one method with other settings, what `tune` and `sweep` share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from comixup.lab.training._hardware import Hardware
from comixup.lab.training._method import Method
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._results import Result
from comixup.lab.training._train import TrainOptions, check_run_options, train

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from comixup.lab.training._settings import Scalar


def with_setting(method: Method, setting: str, value: Scalar) -> Method:
    """Returns a method with one setting changed; the paper's error no longer belongs to it."""
    settings = {**method.settings, setting: value}
    return dataclasses.replace(method, settings=settings, paper=None)


def recipe_of_variants(recipe: Recipe, suffix: str, variants: Mapping[str, Method]) -> Recipe:
    """Returns a recipe whose methods are the variants; its runs have a folder of their own.

    Args:
        recipe: everything but the methods.
        suffix: of its name.
        variants: by name.
    """
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name}{suffix}",
        methods=dict(variants),
        method=next(iter(variants)),
    )


def launch_for(variants: Recipe, options: TrainOptions) -> Fabric:
    """Starts the processes that all variants are trained in; returns their Fabric.

    Options that no run can have are rejected before that. A Fabric among the options is returned
    as it is: its processes run already.
    """
    hardware = options.get("hardware") or Hardware()
    seeds, checkpoint_steps = options.get("seeds", (0,)), options.get("checkpoint_steps")
    check_run_options(variants, seeds, hardware, checkpoint_steps)
    return options.get("fabric") or hardware.launch()


def train_variants(
    variants: Recipe, fabric: Fabric, options: TrainOptions
) -> Iterator[tuple[str, dict[int, Result]]]:
    """Yields the name of each method of a recipe and its results by seed, once it is trained.

    Args:
        variants: from `recipe_of_variants`.
        fabric: from `launch_for`.
        options: keywords of `train`.
    """
    options = {**options, "fabric": fabric}
    for name in variants.methods:
        yield name, train(variants, method=name, **options)
