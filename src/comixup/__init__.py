"""Saliency-guided joint mixup for people who train classifiers."""

from importlib.metadata import version as _version

from comixup._labelling import Labelling as Labelling
from comixup._objective import Terms as Terms
from comixup._objective import objective as objective
from comixup._problem import Problem as Problem
from comixup._solve import solve as solve

__version__ = _version("comixup")
__all__ = ["Labelling", "Problem", "Terms", "objective", "solve"]
