"""The methods, one file each, and the training step they share."""

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
from comixup.mixers._training_step import Step as Step
from comixup.mixers._training_step import training_step as training_step
