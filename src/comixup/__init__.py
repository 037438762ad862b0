"""Saliency-guided joint mixup for training classifiers."""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup._version import __version__ as __version__
    from comixup.core.labelling import Labelling as Labelling
    from comixup.core.memory import Origin as Origin
    from comixup.core.memory import SaliencyMemory as SaliencyMemory
    from comixup.core.mix import Plan as Plan
    from comixup.core.mix import mix as mix
    from comixup.core.mix import mix_mask_probabilities as mix_mask_probabilities
    from comixup.core.objective import Terms as Terms
    from comixup.core.objective import objective as objective
    from comixup.core.problem import Problem as Problem
    from comixup.core.saliency import LossFn as LossFn
    from comixup.core.saliency import saliency as saliency
    from comixup.core.saliency import spectral_residual as spectral_residual
    from comixup.core.solve import solve as solve
    from comixup.mixers import Choice as Choice
    from comixup.mixers import CoMixup as CoMixup
    from comixup.mixers import CutMix as CutMix
    from comixup.mixers import InputMixup as InputMixup
    from comixup.mixers import ManifoldMixup as ManifoldMixup
    from comixup.mixers import Mixed as Mixed
    from comixup.mixers import Mixer as Mixer
    from comixup.mixers import NoMix as NoMix
    from comixup.mixers import OnePass as OnePass
    from comixup.mixers import OnePassCollate as OnePassCollate
    from comixup.mixers import PuzzleMix as PuzzleMix
    from comixup.mixers import Schedule as Schedule
    from comixup.mixers import Step as Step
    from comixup.mixers import mix_dict as mix_dict
    from comixup.mixers import training_step as training_step
    from comixup.plots import plot_batch as plot_batch
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
