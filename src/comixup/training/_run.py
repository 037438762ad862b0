"""A run: a recipe, one of its methods and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from comixup.data import DataSet, load
from comixup.training._identity import data_fields, identity_of
from comixup.training._recipe import Recipe


@dataclass(frozen=True)
class Run:
    """What is trained: a recipe (with all changes made), the name of a method in it, and a seed."""

    recipe: Recipe
    method: str
    seed: int = 0

    def __post_init__(self) -> None:
        self.recipe.choose(self.method)

    @property
    def title(self) -> str:
        """The run's name for people."""
        return f"{self.recipe.name}: {self.method}, seed {self.seed}"

    @property
    def trained(self) -> Recipe:
        """The recipe with the epochs and the learning rates of this method."""
        return self.recipe.for_method(self.method)

    def shape(self, data: DataSet, epoch: int = -1) -> tuple[int, int, int]:
        """Returns the shape (C, H, W) of the images that the network is shown in an epoch.

        Args:
            data: what it is trained on.
            epoch: counted from 0; the last one by default, whose images the network is built for.
        """
        recipe = self.trained
        side = recipe.phase_at(epoch if epoch >= 0 else recipe.epochs + epoch).image_size
        channels, height, width = data.shape
        return (channels, height, width) if side is None else (channels, side, side)

    def identity(self, data: DataSet | None = None) -> str:
        """Returns what makes two runs the same: all that the resulting weights depend on.

        Args:
            data: what it is trained on; None leaves that open.
        """
        fields = None if data is None else data_fields(data)
        return identity_of(self.trained, self.method, self.seed, fields)

    def load_data(self, root: Path | None = None, *, download: bool = False) -> DataSet:
        """Returns the data set that the recipe names, with its classes and images chosen."""
        recipe = self.recipe
        return load(
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
