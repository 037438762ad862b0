"""Recipes of the paper, the trainer that runs them, and trained variants of a recipe.

1. Recipes: their class `_recipe`, all of them `_recipes`, one for a folder of images `_own_images`;
2. one run of a recipe: `_run`, its identity, and `_folder`, its files and checkpoint;
3. its parts: `_setup` (network and optimizer), `_mixers`, `_losses`, `_vat`, `_measures`;
4. the training: `_train` -> `_trainer`, on `_hardware`; `_report` shows progress and figures,
   `_stop` handles signals;
5. the results: `_export`, `_results`;
6. many runs: `_sweep`.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab.training._export import read_logits as read_logits
    from comixup.lab.training._folder import read_metrics as read_metrics
    from comixup.lab.training._hardware import Hardware as Hardware
    from comixup.lab.training._mixers import change_method as change_method
    from comixup.lab.training._recipe import Method as Method
    from comixup.lab.training._recipe import Phase as Phase
    from comixup.lab.training._recipe import Recipe as Recipe
    from comixup.lab.training._recipes import RECIPES as RECIPES
    from comixup.lab.training._stop import TrainingStopped as TrainingStopped
    from comixup.lab.training._sweep import Sweep as Sweep
    from comixup.lab.training._sweep import sweep as sweep
    from comixup.lab.training._sweep import tune as tune
    from comixup.lab.training._train import train as train
    from comixup.lab.training._train import train_all as train_all
    from comixup.lab.training._vat import vat_loss as vat_loss
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
