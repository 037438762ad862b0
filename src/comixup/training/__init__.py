"""Recipes of the paper and the trainer that runs them."""

from comixup.training._figures import write_figure
from comixup.training._files import atomic_write
from comixup.training._hardware import Hardware
from comixup.training._logits import read_logits
from comixup.training._losses import losses
from comixup.training._methods import MIXERS, passes_per_image
from comixup.training._recipe import Method, Phase, Recipe
from comixup.training._recipes import RECIPES
from comixup.training._results import Result, results_table
from comixup.training._stop import TrainingStopped
from comixup.training._train import train
from comixup.training._vat import vat_loss

__all__ = [
    "MIXERS",
    "RECIPES",
    "Hardware",
    "Method",
    "Phase",
    "Recipe",
    "Result",
    "TrainingStopped",
    "atomic_write",
    "losses",
    "passes_per_image",
    "read_logits",
    "results_table",
    "train",
    "vat_loss",
    "write_figure",
]
