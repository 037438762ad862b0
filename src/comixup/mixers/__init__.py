"""The methods, one file each, and the training step they share.

1. The methods: `_input`, `_manifold` and `_cutmix` with partners, `_comixup` and `_puzzlemix` by
   saliency, `_choice` of them, `_one_pass`; all are a `_mixer`, which tells what it needs; how
   many batches they mix over training: `_schedule`;
2. one step with any of them: `_training_step`;
3. batches of other forms: `_mix_dict`, `_collate`;
4. where models need care: `_hooks` and `_checkpointing` for layers inside them, `_kept_gradient`
   for loops that lose the clean gradient.
"""

from comixup.mixers._choice import Choice as Choice
from comixup.mixers._collate import OnePassCollate as OnePassCollate
from comixup.mixers._comixup import CoMixup as CoMixup
from comixup.mixers._cutmix import Boxes as Boxes
from comixup.mixers._cutmix import CutMix as CutMix
from comixup.mixers._input import InputMixup as InputMixup
from comixup.mixers._manifold import ManifoldMixup as ManifoldMixup
from comixup.mixers._mix_dict import mix_dict as mix_dict
from comixup.mixers._mixed import Mixed as Mixed
from comixup.mixers._mixer import Mixer as Mixer
from comixup.mixers._mixer import NoMix as NoMix
from comixup.mixers._mixer import mixes_images as mixes_images
from comixup.mixers._one_pass import OnePass as OnePass
from comixup.mixers._puzzlemix import Puzzle as Puzzle
from comixup.mixers._puzzlemix import PuzzleMix as PuzzleMix
from comixup.mixers._schedule import Schedule as Schedule
from comixup.mixers._training_step import Step as Step
from comixup.mixers._training_step import training_step as training_step
