"""Recipes of the paper, the trainer that runs them, and trained variants of a recipe."""

from comixup.training._folder import RunFolder
from comixup.training._hardware import MAX_WORKERS, Hardware
from comixup.training._launcher import check_alone
from comixup.training._logits import read_logits
from comixup.training._losses import losses, mean_binary_cross_entropy, scaled_cross_entropy
from comixup.training._methods import MIXERS, change_method, passes_per_image
from comixup.training._preprocessing import preprocessing_of, shape_of
from comixup.training._recipe import Method, Phase, Recipe
from comixup.training._recipes import RECIPES
from comixup.training._results import Result, results_table
from comixup.training._stop import TrainingStopped
from comixup.training._sweep import Sweep, SweepCell, sweep, sweep_table
from comixup.training._train import TrainOptions, check_run_options, train
from comixup.training._tune import tune, tuning_table
from comixup.training._vat import vat_loss

__all__ = [
    "MAX_WORKERS",
    "MIXERS",
    "RECIPES",
    "Hardware",
    "Method",
    "Phase",
    "Recipe",
    "Result",
    "RunFolder",
    "Sweep",
    "SweepCell",
    "TrainOptions",
    "TrainingStopped",
    "change_method",
    "check_alone",
    "check_run_options",
    "losses",
    "mean_binary_cross_entropy",
    "passes_per_image",
    "preprocessing_of",
    "read_logits",
    "results_table",
    "scaled_cross_entropy",
    "shape_of",
    "sweep",
    "sweep_table",
    "train",
    "tune",
    "tuning_table",
    "vat_loss",
]
