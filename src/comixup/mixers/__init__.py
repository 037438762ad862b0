"""The methods, one file each, and the training step they share.

1. Methods with partners: `_input`, `_manifold`, `_cutmix`, `_resizemix`, `_fmix`;
   with saliency (`_salient`): `_comixup`, `_puzzlemix`, `_saliencymix`, `_guidedmixup`, `_rmix`;
   with remembered saliency, in workers too: `_one_pass`; with the last batch: `_recursivemix`; a
   random choice of methods, and schedules: `_choice`. Their base class: `_mixer`;
2. one step with any of them: `_training_step`; a loss for mixtures: `_decoupled`; batches as
   dictionaries: `_mix_dict`;
3. hooks on a user's model: `_hooks`.
"""

from comixup.mixers._choice import Choice as Choice
from comixup.mixers._choice import Schedule as Schedule
from comixup.mixers._comixup import CoMixup as CoMixup
from comixup.mixers._cutmix import Boxes as Boxes
from comixup.mixers._cutmix import CutMix as CutMix
from comixup.mixers._decoupled import decoupled_cross_entropy as decoupled_cross_entropy
from comixup.mixers._fmix import FMix as FMix
from comixup.mixers._guidedmixup import GuidedMixup as GuidedMixup
from comixup.mixers._input import Blend as Blend
from comixup.mixers._input import InputMixup as InputMixup
from comixup.mixers._manifold import ManifoldMixup as ManifoldMixup
from comixup.mixers._mix_dict import mix_dict as mix_dict
from comixup.mixers._mixer import Mixed as Mixed
from comixup.mixers._mixer import Mixer as Mixer
from comixup.mixers._mixer import NoMix as NoMix
from comixup.mixers._mixer import mixes_images as mixes_images
from comixup.mixers._one_pass import OnePass as OnePass
from comixup.mixers._one_pass import OnePassCollate as OnePassCollate
from comixup.mixers._puzzlemix import Puzzle as Puzzle
from comixup.mixers._puzzlemix import PuzzleMix as PuzzleMix
from comixup.mixers._recursivemix import RecursiveMix as RecursiveMix
from comixup.mixers._resizemix import ResizeMix as ResizeMix
from comixup.mixers._rmix import RMix as RMix
from comixup.mixers._saliencymix import SaliencyMix as SaliencyMix
from comixup.mixers._salient import SaliencyMixer as SaliencyMixer
from comixup.mixers._training_step import Step as Step
from comixup.mixers._training_step import training_step as training_step
