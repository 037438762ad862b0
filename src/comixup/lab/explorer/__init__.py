"""Mixed batches to look at: from images and settings to a result, and a web page of it.

>>> import comixup
>>> from comixup.lab import explorer
>>> batch = explorer.sample_images("digits", count=10)
>>> maps = comixup.spectral_residual(batch.images)
>>> result = explorer.explore(batch, maps, explorer.Settings(tau=1.0))
>>> result.mixed_images.shape
torch.Size([10, 1, 28, 28])
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab.explorer._explore import Result as Result
    from comixup.lab.explorer._explore import explore as explore
    from comixup.lab.explorer._explore import mix_files as mix_files
    from comixup.lab.explorer._images import Batch as Batch
    from comixup.lab.explorer._images import augmented as augmented
    from comixup.lab.explorer._images import load_images as load_images
    from comixup.lab.explorer._images import load_network as load_network
    from comixup.lab.explorer._images import network_maps as network_maps
    from comixup.lab.explorer._images import sample_images as sample_images
    from comixup.lab.explorer._serve import serve as serve
    from comixup.lab.explorer._settings import Settings as Settings
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
