"""Recipes of the paper and the trainer that runs them."""

from comixup.training._hardware import Hardware, TrainingStopped
from comixup.training._losses import losses
from comixup.training._recipe import Method, Phase, Recipe
from comixup.training._recipes import RECIPES
from comixup.training._results import Result, results_table
from comixup.training._train import train
from comixup.training._vat import vat_loss

__all__ = [
    "RECIPES",
    "Hardware",
    "Method",
    "Phase",
    "Recipe",
    "Result",
    "TrainingStopped",
    "losses",
    "results_table",
    "train",
    "vat_loss",
]
