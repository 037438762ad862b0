"""Data sets by name, in batches that are the same however they are shared out and wherever begun.

>>> digits = load("digits")
>>> images, targets = next(digits.train.loader(100, augment=True).epoch(0))
>>> images.shape
torch.Size([100, 1, 28, 28])
"""

from comixup._normalize import normalize as normalize
from comixup.data._load import load as load
from comixup.data._load import names as names
from comixup.data._places import data_root as data_root
from comixup.data._seeds import MAX_SEED as MAX_SEED
from comixup.data._seeds import Purpose as Purpose
from comixup.data._seeds import permutation as permutation
from comixup.data._seeds import seed_for as seed_for
from comixup.data._sets import DataSet as DataSet
from comixup.data._sets import Loader as Loader
from comixup.data._sets import Split as Split
from comixup.data._tiny_imagenet import tiny_imagenet_boxes as tiny_imagenet_boxes

__all__ = [
    "MAX_SEED",
    "DataSet",
    "Loader",
    "Purpose",
    "Split",
    "data_root",
    "load",
    "names",
    "normalize",
    "permutation",
    "seed_for",
    "tiny_imagenet_boxes",
]
