"""The laboratory: networks, data sets, training, evaluation, the paper's experiments, the explorer.

Needs the extra `train`. The method itself, for a loop of your own, is `comixup`.
"""

from comixup._lazy_imports import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__)
