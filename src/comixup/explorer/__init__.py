"""Mixed batches to look at: from images and settings to a result, and a web page of it.

>>> from comixup import explorer
>>> batch = explorer.sample_images("digits", count=10)
>>> result = explorer.explore(batch, explorer.spectral_maps(batch), explorer.Settings(tau=1.0))
>>> result.mixed_images.shape
torch.Size([10, 1, 28, 28])
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.explorer._augmented import augmented as augmented
    from comixup.explorer._code import python_lines as python_lines
    from comixup.explorer._explore import Result as Result
    from comixup.explorer._explore import explore as explore
    from comixup.explorer._images import Batch as Batch
    from comixup.explorer._images import load_images as load_images
    from comixup.explorer._images import sample_images as sample_images
    from comixup.explorer._limits import HOST as HOST
    from comixup.explorer._limits import MAX_FILES as MAX_FILES
    from comixup.explorer._limits import PORT as PORT
    from comixup.explorer._mix_files import Sheet as Sheet
    from comixup.explorer._mix_files import mix_files as mix_files
    from comixup.explorer._serve import serve as serve
    from comixup.explorer._settings import DEMO as DEMO
    from comixup.explorer._settings import SAMPLES as SAMPLES
    from comixup.explorer._settings import SPECTRAL as SPECTRAL
    from comixup.explorer._settings import Settings as Settings
    from comixup.explorer._settings import default_saliency as default_saliency
    from comixup.explorer._sources import Network as Network
    from comixup.explorer._sources import load_network as load_network
    from comixup.explorer._sources import network_maps as network_maps
    from comixup.explorer._sources import spectral_maps as spectral_maps
else:
    __getattr__, __dir__, __all__ = lazy_imports(
        __name__,
        {
            "_augmented": "augmented",
            "_code": "python_lines",
            "_explore": "Result explore",
            "_images": "Batch load_images sample_images",
            "_limits": "HOST MAX_FILES PORT",
            "_mix_files": "Sheet mix_files",
            "_serve": "serve",
            "_settings": "DEMO SAMPLES SPECTRAL Settings default_saliency",
            "_sources": "Network load_network network_maps spectral_maps",
        },
    )
