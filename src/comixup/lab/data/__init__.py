"""Data sets by name; batches do not depend on the number of processes or the step to resume at.

>>> from comixup.lab.data import load
>>> digits = load("digits")
>>> images, targets = next(digits.train.loader(100, augment="crop-flip").epoch(0))
>>> images.shape
torch.Size([100, 1, 28, 28])

1. The sets: `_cifar`, `_tiny_imagenet`, `_speech`, `_folder`, located by `_roots`; `_load` loads
   any of them, and the digits;
2. their classes: `_data_set`, its splits and their loaders (`_split`), with images `_in_memory` or
   `_on_disk`; `_scan` checks all image files first.
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
