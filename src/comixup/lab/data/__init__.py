"""Data sets by name, in batches that are the same however they are shared out and wherever begun.

>>> from comixup.lab.data import load
>>> digits = load("digits")
>>> images, targets = next(digits.train.loader(100, augment="crop-flip").epoch(0))
>>> images.shape
torch.Size([100, 1, 28, 28])

1. The sets: `_cifar`, `_tiny_imagenet`, `_speech`, `_folder`, found below `_roots`; `_load` has
   them all, and the digits;
2. what they are: `_data_set`, of splits with their batches, `_split`, whose images are `_in_memory`
   or `_on_disk`; `_scan` reads the files once before all else.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab.data._data_set import DataSet as DataSet
    from comixup.lab.data._load import load as load
    from comixup.lab.data._roots import data_root as data_root
    from comixup.lab.data._roots import names as names
    from comixup.lab.data._split import Loader as Loader
    from comixup.lab.data._split import Split as Split
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
