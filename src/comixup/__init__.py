"""Saliency-guided joint mixup for people who train classifiers."""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup._labelling import Labelling as Labelling
    from comixup._memory import Origin as Origin
    from comixup._memory import SaliencyMemory as SaliencyMemory
    from comixup._mix import Plan as Plan
    from comixup._mix import mix as mix
    from comixup._mix import mix_mask_probabilities as mix_mask_probabilities
    from comixup._objective import Terms as Terms
    from comixup._objective import objective as objective
    from comixup._problem import Problem as Problem
    from comixup._saliency import Backward as Backward
    from comixup._saliency import CleanPass as CleanPass
    from comixup._saliency import LossFn as LossFn
    from comixup._saliency import saliency as saliency
    from comixup._solve import solve as solve
    from comixup._spectral import spectral_residual as spectral_residual
    from comixup._version import __version__ as __version__
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
    from comixup.mixers import mix_dict as mix_dict
    from comixup.mixers import plot_batch as plot_batch
    from comixup.mixers import training_step as training_step
else:
    __getattr__, __dir__, __all__ = lazy_imports(
        __name__,
        {
            "_labelling": "Labelling",
            "_memory": "Origin SaliencyMemory",
            "_mix": "Plan mix mix_mask_probabilities",
            "_objective": "Terms objective",
            "_problem": "Problem",
            "_saliency": "Backward CleanPass LossFn saliency",
            "_solve": "solve",
            "_spectral": "spectral_residual",
            "mixers": (
                "CoMixup CutMix InputMixup ManifoldMixup Mixed Mixer NoMix OnePass "
                "OnePassCollate PuzzleMix Step mix_dict plot_batch training_step"
            ),
            "_version": "__version__",
            # Packages above the core are attributes too: `comixup.models.build(...)`.
            "adapters": "",
            "baseline_solvers": "",
            "data": "",
            "diagnostics": "",
            "evaluation": "",
            "explorer": "",
            "models": "",
            "plots": "",
            "reproduce": "",
            "training": "",
        },
    )
