"""A run: a recipe, one of its methods and a seed; and what makes two runs the same."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comixup import Schedule
from comixup.lab import models
from comixup.lab._weights_file import find_weights, weights_digest
from comixup.lab.data import DataSet, load
from comixup.lab.training._recipe import OF_DATA, Method, Recipe

_IRRELEVANT = ("title", "source", "method", "methods", "reported", "tuning_grid", "notes")
"""Fields of a recipe that leave the weights as they are."""
_OF_METHODS = ("mixer", "settings", "vat", "saliency", "memory", "schedule", "parts")
"""Fields of a method that the weights depend on, beside its multipliers."""
_UNKNOWN = "unknown"
"""The identity of initial weights whose file is gone; a run that has begun does not need it."""
_DATA = ("num_images", "data_digest", "mean", "std")
"""What tells data apart; absent where the data are left open."""


def settings_of(recipe: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Returns all that the weights of a run depend on but its seed and data, by name.

    Args:
        recipe: as trained, with the method's own epochs and learning rates, by `Recipe.as_dict`.
        method: name of the method in it.
    """
    chosen = recipe["methods"][method]
    fields = {name: value for name, value in recipe.items() if name not in _IRRELEVANT}
    return fields | {name: chosen[name] for name in _OF_METHODS} | {"method": method}


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Returns in what two identities differ, for people; nothing if they are of one run.

    >>> difference({"seed": 0, "width": 5}, {"seed": 1, "width": 5})
    'seed was 0, is 1'
    """
    weights = (old.get("weights"), new.get("weights"))
    unknown = {"weights"} if _UNKNOWN in weights and all(weights) else set()
    unknown |= {name for name in _DATA if name not in old or name not in new}

    def shown(fields: Mapping[str, Any], name: str) -> str:
        return json.dumps(fields[name]) if name in fields else "absent"

    return "; ".join(
        f"{name} was {shown(old, name)}, is {shown(new, name)}"
        for name in dict.fromkeys([*old, *new])
        if name not in unknown and old.get(name) != new.get(name)
    )


@dataclass(frozen=True)
class Run:
    """What is trained: a recipe (with all changes made), the name of a method in it, and a seed."""

    recipe: Recipe
    method: str
    seed: int = 0

    def __post_init__(self) -> None:
        # A choice of methods is recorded as one of the recipe's.
        object.__setattr__(self, "recipe", self.recipe.with_method(self.method))

    @property
    def title(self) -> str:
        """The run's name for people."""
        return f"{self.recipe.name}: {self.method}, seed {self.seed}"

    @functools.cached_property
    def trained(self) -> Recipe:
        """The recipe with the epochs and the learning rates of this method."""
        return self.recipe.for_method(self.method)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """All that its weights depend on but its seed and data; see `settings_of`."""
        return settings_of(self.trained.as_dict(), self.method)

    @property
    def chosen(self) -> Method:
        """The method."""
        return self.recipe.choose(self.method)

    @property
    def schedule(self) -> Schedule:
        """How many of its batches the method mixes, by the epoch."""
        recipe, wanted = self.trained, self.chosen.schedule
        return Schedule(
            recipe.epochs,
            first_epoch=recipe.unmixed_epochs,
            off_epoch=recipe.epochs - round(recipe.epochs * wanted.get("off", 0)),
            annealed=wanted.get("annealed", False),
        )

    def identity(self, data: DataSet | None = None) -> dict[str, Any]:
        """Returns what makes two runs the same: all that the resulting weights depend on.

        Args:
            data: what it is trained on; None leaves that open.
        """
        fields = self.settings | {"seed": self.seed}
        if self.recipe.weights is not None:
            try:
                fields["weights"] = weights_digest(find_weights(Path(self.recipe.weights)))
            except OSError:
                fields["weights"] = _UNKNOWN
        if data is not None:  # no paths or times
            fields["num_images"] = {name: len(split) for name, split in data.splits.items()}
            fields |= {"data_digest": data.digest(), "mean": list(data.mean), "std": list(data.std)}
        return fields

    @property
    def variant(self) -> str:
        """A short hash of its settings, the same for all seeds and wherever its data lie."""
        name = self.recipe.weights and Path(self.recipe.weights).name
        fields = self.settings | {"weights": name}
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:8]

    @property
    def final_image_size(self) -> int | None:
        """The pixels per side that it ends with and is evaluated at; None: the data set's own."""
        return self.trained.phases[-1].image_size

    def load_data(
        self, root: Path | None = None, *, download: bool = False, loaded: DataSet | None = None
    ) -> DataSet:
        """Returns the data set that the recipe names, with its classes and images chosen.

        Images are normalized as for the weights that the run begins with, where these say how;
        those that are `loaded` already as well.
        """
        recipe = self.recipe
        data = loaded or load(
            recipe.data,
            root,
            seed=self.seed,
            download=download,
            **{name: getattr(recipe, name) for name in OF_DATA},
        )
        begun = models.pretrained_preprocessing(recipe.model) if recipe.pretrained else None
        if recipe.weights is not None:
            begun = models.read_header(recipe.weights).preprocessing
        return data if begun is None else data.with_normalization(begun.mean, begun.std)
