"""Saliency-guided joint mixup for people who train classifiers."""

from importlib.metadata import version as _version

from comixup._labelling import Labelling as Labelling
from comixup._memory import Origin as Origin
from comixup._memory import SaliencyMemory as SaliencyMemory
from comixup._mix import Plan as Plan
from comixup._mix import mix as mix
from comixup._objective import Terms as Terms
from comixup._objective import objective as objective
from comixup._problem import Problem as Problem
from comixup._saliency import Backward as Backward
from comixup._saliency import CleanPass as CleanPass
from comixup._saliency import LossFn as LossFn
from comixup._saliency import saliency as saliency
from comixup._solve import solve as solve
from comixup._spectral import spectral_residual as spectral_residual
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
from comixup.mixers import Step as Step
from comixup.mixers import training_step as training_step

__version__ = _version("comixup")
__all__ = [
    "Backward",
    "CleanPass",
    "CoMixup",
    "CutMix",
    "InputMixup",
    "Labelling",
    "LossFn",
    "ManifoldMixup",
    "Mixed",
    "Mixer",
    "NoMix",
    "OnePass",
    "OnePassCollate",
    "Origin",
    "Plan",
    "Problem",
    "PuzzleMix",
    "SaliencyMemory",
    "Step",
    "Terms",
    "mix",
    "objective",
    "saliency",
    "solve",
    "spectral_residual",
    "training_step",
]
