"""Recipes of the paper, the trainer that runs them, and trained variants of a recipe."""

from comixup.training._about_images import describe_images, report_near_copies, summarize
from comixup.training._checkpoint import load_weights
from comixup.training._classes_table import classes_table
from comixup.training._folder import RunFolder
from comixup.training._hardware import MAX_WORKERS, Hardware
from comixup.training._launcher import check_alone
from comixup.training._logits import read_logits
from comixup.training._losses import losses, mean_binary_cross_entropy, scaled_cross_entropy
from comixup.training._methods import MIXERS, change_method, passes_per_image
from comixup.training._own_images import FOLDER, Summary, recipe_for
from comixup.training._recipe import Method, Phase, Recipe
from comixup.training._recipes import RECIPES
from comixup.training._results import Result, results_table
from comixup.training._stop import TrainingStopped
from comixup.training._sweep import Sweep, SweepCell, sweep, sweep_table
from comixup.training._train import TrainOptions, check_run_options, train
from comixup.training._tune import tune, tuning_table
from comixup.training._vat import vat_loss

__all__ = [
    "FOLDER",
    "MAX_WORKERS",
    "MIXERS",
    "RECIPES",
    "Hardware",
    "Method",
    "Phase",
    "Recipe",
    "Result",
    "RunFolder",
    "Summary",
    "Sweep",
    "SweepCell",
    "TrainOptions",
    "TrainingStopped",
    "change_method",
    "check_alone",
    "check_run_options",
    "classes_table",
    "describe_images",
    "load_weights",
    "losses",
    "mean_binary_cross_entropy",
    "passes_per_image",
    "read_logits",
    "recipe_for",
    "report_near_copies",
    "results_table",
    "scaled_cross_entropy",
    "summarize",
    "sweep",
    "sweep_table",
    "train",
    "tune",
    "tuning_table",
    "vat_loss",
]
