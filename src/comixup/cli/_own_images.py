"""Images of one's own in place of a recipe: `comixup train my/images`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from comixup._did_you_mean import did_you_mean
from comixup.cli._options import Changes, RunOptions, changed, changed_fields, print_line
from comixup.lab import data, training
from comixup.lab.training import FOLDER, RECIPES, Recipe

_LOADING = ("classes", "images_per_class", "validation", "validation_seed", "test_fraction")
"""Changes that decide which images are trained on."""


def recipe_and_options(
    word: str, changes: Changes, run_options: RunOptions
) -> tuple[Recipe, RunOptions]:
    """Returns the recipe that a word means, changed, and where to train it.

    Args:
        word: a recipe's name, or the path of a folder of images or of a CSV file.
        changes: what to change in the recipe.
        run_options: where to train.
    """
    if word in RECIPES and word != FOLDER:
        return changed(RECIPES[word], changes), run_options
    path = _path_of(word, run_options)
    fields = changed_fields(changes)
    chosen = {name: fields[name] for name in _LOADING}
    if path.resolve() in (run_options.out.resolve(), *run_options.out.resolve().parents):
        raise ValueError(
            f"`--out` must lie outside of the folder of images, {path}, where its folders would "
            f"pass for classes, got {run_options.out}."
        )
    own = data.load(FOLDER, path, **chosen)
    summary = training.summarize(own)
    named = fields["pretrained"] is not None or fields["model"] or fields["weights"]
    pretrained = fields["model"] or training.PRETRAINED if fields["pretrained"] else None
    if not (named or fields["width"]):
        pretrained = training.default_network(summary, run_options.out / summary.name)
    recipe = training.recipe_for(
        summary,
        epochs=fields["epochs"],
        image_size=fields["image_size"],
        optimizer=fields["optimizer"],
        pretrained=pretrained,
        weights=fields["weights"],
    )
    recipe, console = changed(recipe, changes), Console()
    for line in training.describe_images(own, recipe, by_default=not named):
        print_line(console, line)
    report = training.report_near_copies(own, run_options.out / recipe.name)
    if report:
        print_line(console, report)
    return recipe, replace(run_options, data=path)


def _path_of(word: str, run_options: RunOptions) -> Path:
    """Returns the folder or CSV file that a word names, or --data does for the recipe `folder`."""
    if word == FOLDER:
        if run_options.data is None:
            raise ValueError(
                f"`recipe` {FOLDER} must be given its images, got none. Use comixup train PATH."
            )
        return run_options.data
    path = Path(word).expanduser()
    if not path.exists():
        raise ValueError(
            f"`recipe` must be the name of one ({', '.join(RECIPES)}) or the path of a folder of "
            f"images or a CSV file, got {word!r}.{did_you_mean(word, RECIPES)}"
        )
    if run_options.data is not None:
        raise ValueError(
            f"`--data` must be left out where images are given by their path, {path}, got "
            f"{run_options.data}."
        )
    return path.absolute()
