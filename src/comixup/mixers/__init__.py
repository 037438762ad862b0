"""The methods, one file each, and the training step they share.

1. The methods: `_none`, `_input`, `_manifold` and `_cutmix` (with `_partners`), `_puzzlemix` and
   `_comixup` (with `_saliency_mixer`), `_choice` of them, `_one_pass`; all are a `_mixer`; how
   many batches they mix over training: `_schedule`;
2. one step with any of them: `_training_step`;
3. batches of other forms: `_mix_dict`, `_collate`, `_partly_mixed`;
4. where models need care: `_hooks` and `_checkpointing` for layers inside them, `_eager` for
   torch.compile, `_kept_gradient` for loops that lose the clean gradient;
5. the picture of a batch: `_plot_batch`, `_batch_picture`, `_batch_page`, `_output_shares`.
"""

from comixup.mixers._choice import Choice as Choice
from comixup.mixers._collate import OnePassCollate as OnePassCollate
from comixup.mixers._comixup import CoMixup as CoMixup
from comixup.mixers._cutmix import Boxes as Boxes
from comixup.mixers._cutmix import CutMix as CutMix
from comixup.mixers._input import InputMixup as InputMixup
from comixup.mixers._manifold import ManifoldMixup as ManifoldMixup
from comixup.mixers._mix_dict import mix_dict as mix_dict
from comixup.mixers._mixer import Mixed as Mixed
from comixup.mixers._mixer import Mixer as Mixer
from comixup.mixers._none import NoMix as NoMix
from comixup.mixers._one_pass import OnePass as OnePass
from comixup.mixers._plot_batch import plot_batch as plot_batch
from comixup.mixers._puzzlemix import Puzzle as Puzzle
from comixup.mixers._puzzlemix import PuzzleMix as PuzzleMix
from comixup.mixers._schedule import Schedule as Schedule
from comixup.mixers._training_step import Step as Step
from comixup.mixers._training_step import training_step as training_step
