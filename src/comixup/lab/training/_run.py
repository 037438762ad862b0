"""A run: a recipe, one of its methods and a seed; its identity."""

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
"""Fields of a recipe that do not affect the weights."""
_OF_METHODS = ("mixer", "settings", "vat", "saliency", "memory", "schedule", "parts")
"""Fields of a method that affect the weights, in addition to its multipliers."""
_UNKNOWN = "unknown"
"""The identity of initial weights whose file is missing, as a resumed run allows."""
_DATA = ("num_images", "data_digest", "mean", "std")
"""Fields that identify the data; absent if no data are given."""


def settings_of(recipe: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Returns all settings that a run's weights depend on, except its seed and data.

    Args:
        recipe: `Recipe.as_dict` with the method's epochs and learning rates.
        method: name of its method.
    """
    chosen = recipe["methods"][method]
    fields = {name: value for name, value in recipe.items() if name not in _IRRELEVANT}
    return fields | {name: chosen[name] for name in _OF_METHODS} | {"method": method}


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Returns a message on how two identities differ; empty if they are equal.

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
    """A training run: a recipe (with all changes made), the name of its method, and a seed."""

    recipe: Recipe
    method: str
    seed: int = 0

    def __post_init__(self) -> None:
        # A choice of methods is recorded as one of the recipe's.
        object.__setattr__(self, "recipe", self.recipe.with_method(self.method))

    @property
    def title(self) -> str:
        """The run's display name."""
        return f"{self.recipe.name}: {self.method}, seed {self.seed}"

    @functools.cached_property
    def trained(self) -> Recipe:
        """The recipe with this method's epochs and learning rates."""
        return self.recipe.for_method(self.method)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """All settings that its weights depend on, except its seed and data; see `settings_of`."""
        return settings_of(self.trained.as_dict(), self.method)

    @property
    def chosen(self) -> Method:
        """The method."""
        return self.recipe.choose(self.method)

    @property
    def schedule(self) -> Schedule:
        """The fraction of batches to mix in each epoch."""
        recipe, wanted = self.trained, self.chosen.schedule
        return Schedule(
            recipe.epochs,
            first_epoch=recipe.unmixed_epochs,
            off_epoch=recipe.epochs - round(recipe.epochs * wanted.get("off", 0)),
            annealed=wanted.get("annealed", False),
        )

    def identity(self, data: DataSet | None = None) -> dict[str, Any]:
        """Returns the run's identity: everything that its weights depend on.

        Args:
            data: the training data; None leaves them out.
        """
        fields = self.settings | {"seed": self.seed}
        if self.recipe.weights is not None:
            try:
                fields["weights"] = weights_digest(find_weights(Path(self.recipe.weights)))
            except OSError:
                fields["weights"] = _UNKNOWN
        if data is not None:  # without paths or times
            fields["num_images"] = {name: len(split) for name, split in data.splits.items()}
            fields |= {"data_digest": data.digest(), "mean": list(data.mean), "std": list(data.std)}
        return fields

    @property
    def variant(self) -> str:
        """A short hash of its settings, independent of the seed and the data's location."""
        name = self.recipe.weights and Path(self.recipe.weights).name
        fields = self.settings | {"weights": name}
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:8]

    @property
    def final_image_size(self) -> int | None:
        """Pixels per side in the last phase and in evaluation; None: the data set's own."""
        return self.trained.phases[-1].image_size

    def load_data(
        self, root: Path | None = None, *, download: bool = False, loaded: DataSet | None = None
    ) -> DataSet:
        """Returns the recipe's data set, with its selected classes and images.

        Images, also those of a `loaded` data set, are normalized as the initial weights' file
        states, if it does.
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
