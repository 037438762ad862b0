"""Recipes of the paper, the trainer that runs them, and trained variants of a recipe.

1. What is trained: `_recipe` (with `_phases`, `_method`); `_paper_recipes`, `_small_recipes`,
   `_own_images` are recipes, `_recipes` all of them;
2. one run of it: `_run`, what makes it the same run (`_identity`), its files (`_folder`,
   `_checkpoint`);
3. its parts: `_make_mixer` (and `_controls`, `_vat`), `_losses`, `_optimizer`, `_weight_average`,
   `_loaders`, put together by `_setup`;
4. the training: `_train` -> `_trainer` -> `_loop` and `_validate`, on `_hardware`, by `_processes`;
   `_report` shows it, `_stop` ends it early;
5. what it leaves: `_export` (`_logits`, `_curves`, `_first_batch`), `_results`, `_classes_table`;
6. many runs: `_variants`, and by them `_tune` and `_sweep`.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab.training._about_images import describe_images as describe_images
    from comixup.lab.training._about_images import report_near_copies as report_near_copies
    from comixup.lab.training._about_images import summarize as summarize
    from comixup.lab.training._classes_table import classes_table as classes_table
    from comixup.lab.training._defaults import TIMEOUT_MINUTES as TIMEOUT_MINUTES
    from comixup.lab.training._defaults import WORKERS as WORKERS
    from comixup.lab.training._folder import RunFolder as RunFolder
    from comixup.lab.training._folder import read_metrics as read_metrics
    from comixup.lab.training._hardware import MAX_WORKERS as MAX_WORKERS
    from comixup.lab.training._hardware import Hardware as Hardware
    from comixup.lab.training._initial_weights import network_of as network_of
    from comixup.lab.training._launcher import check_alone as check_alone
    from comixup.lab.training._logits import read_logits as read_logits
    from comixup.lab.training._losses import losses as losses
    from comixup.lab.training._losses import mean_binary_cross_entropy as mean_binary_cross_entropy
    from comixup.lab.training._losses import scaled_cross_entropy as scaled_cross_entropy
    from comixup.lab.training._make_mixer import MIXERS as MIXERS
    from comixup.lab.training._make_mixer import change_method as change_method
    from comixup.lab.training._make_mixer import passes_per_image as passes_per_image
    from comixup.lab.training._method import Method as Method
    from comixup.lab.training._own_images import FOLDER as FOLDER
    from comixup.lab.training._own_images import PRETRAINED as PRETRAINED
    from comixup.lab.training._own_images import Summary as Summary
    from comixup.lab.training._own_images import default_network as default_network
    from comixup.lab.training._own_images import recipe_for as recipe_for
    from comixup.lab.training._phases import Phase as Phase
    from comixup.lab.training._preprocessing import preprocessing_of as preprocessing_of
    from comixup.lab.training._preprocessing import shape_of as shape_of
    from comixup.lab.training._recipe import Recipe as Recipe
    from comixup.lab.training._recipes import RECIPES as RECIPES
    from comixup.lab.training._results import Result as Result
    from comixup.lab.training._results import results_table as results_table
    from comixup.lab.training._stop import TrainingStopped as TrainingStopped
    from comixup.lab.training._sweep import Sweep as Sweep
    from comixup.lab.training._sweep import SweepCell as SweepCell
    from comixup.lab.training._sweep import sweep as sweep
    from comixup.lab.training._sweep import sweep_table as sweep_table
    from comixup.lab.training._train import TrainOptions as TrainOptions
    from comixup.lab.training._train import check_run_options as check_run_options
    from comixup.lab.training._train import train as train
    from comixup.lab.training._tune import tune as tune
    from comixup.lab.training._tune import tuning_table as tuning_table
    from comixup.lab.training._vat import vat_loss as vat_loss
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
