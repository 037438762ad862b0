"""The laboratory: networks, data sets, training, evaluation, the paper's experiments, the explorer.

Requires the extra `train`. The methods themselves, for your own loop, are in `comixup`.
"""

from comixup._lazy_imports import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__)
