"""Mixed batches to look at: from images and settings to a result, and a web page of it.

>>> from comixup.lab import explorer
>>> batch = explorer.sample_images("digits", count=10)
>>> result = explorer.explore(batch, explorer.spectral_maps(batch), explorer.Settings(tau=1.0))
>>> result.mixed_images.shape
torch.Size([10, 1, 28, 28])
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab.explorer._augmented import augmented as augmented
    from comixup.lab.explorer._code import python_lines as python_lines
    from comixup.lab.explorer._explore import Result as Result
    from comixup.lab.explorer._explore import explore as explore
    from comixup.lab.explorer._images import Batch as Batch
    from comixup.lab.explorer._images import load_images as load_images
    from comixup.lab.explorer._images import sample_images as sample_images
    from comixup.lab.explorer._limits import HOST as HOST
    from comixup.lab.explorer._limits import MAX_FILES as MAX_FILES
    from comixup.lab.explorer._limits import PORT as PORT
    from comixup.lab.explorer._mix_files import Sheet as Sheet
    from comixup.lab.explorer._mix_files import mix_files as mix_files
    from comixup.lab.explorer._serve import serve as serve
    from comixup.lab.explorer._settings import DEMO as DEMO
    from comixup.lab.explorer._settings import SAMPLES as SAMPLES
    from comixup.lab.explorer._settings import SPECTRAL as SPECTRAL
    from comixup.lab.explorer._settings import Settings as Settings
    from comixup.lab.explorer._settings import default_saliency as default_saliency
    from comixup.lab.explorer._sources import Network as Network
    from comixup.lab.explorer._sources import load_network as load_network
    from comixup.lab.explorer._sources import network_maps as network_maps
    from comixup.lab.explorer._sources import spectral_maps as spectral_maps
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
