"""A run: a recipe, one of its methods and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from comixup import Schedule
from comixup.lab import models
from comixup.lab.data import DataSet, load
from comixup.lab.models import Preprocessing
from comixup.lab.training._identity import data_fields, identity_of
from comixup.lab.training._recipe import Recipe


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

    @property
    def trained(self) -> Recipe:
        """The recipe with the epochs and the learning rates of this method."""
        return self.recipe.for_method(self.method)

    @property
    def schedule(self) -> Schedule:
        """How many of its batches the method mixes, by the epoch."""
        recipe, wanted = self.trained, self.recipe.choose(self.method).schedule
        return Schedule(
            recipe.epochs,
            first_epoch=recipe.unmixed_epochs,
            off_epoch=recipe.epochs - round(recipe.epochs * wanted.get("off", 0)),
            annealed=wanted.get("annealed", False),
        )

    def identity(self, data: DataSet | None = None) -> str:
        """Returns what makes two runs the same: all that the resulting weights depend on.

        Args:
            data: what it is trained on; None leaves that open.
        """
        fields = None if data is None else data_fields(data)
        return identity_of(self.trained, self.method, self.seed, fields)

    @property
    def final_image_size(self) -> int | None:
        """The pixels per side that it ends with and is evaluated at; None: the data set's own."""
        return self.trained.phases[-1].image_size

    def load_data(self, root: Path | None = None, *, download: bool = False) -> DataSet:
        """Returns the data set that the recipe names, with its classes and images chosen.

        Images are normalised as for the weights that the run begins with, where these say how.
        """
        recipe = self.recipe
        data = load(
            recipe.data,
            root,
            classes=recipe.classes,
            images_per_class=recipe.images_per_class,
            validation=recipe.validation,
            validation_seed=recipe.validation_seed,
            test_fraction=recipe.test_fraction,
            seed=self.seed,
            download=download,
        )
        begun = self._initial_preprocessing()
        return data if begun is None else data.with_normalization(begun.mean, begun.std)

    def _initial_preprocessing(self) -> Preprocessing | None:
        """Returns what the initial weights were trained with; None where nothing says it."""
        if self.recipe.pretrained:
            return models.pretrained_preprocessing(self.recipe.model)
        if self.recipe.weights is not None:
            return models.read_header(self.recipe.weights).preprocessing
        return None
