"""Pictures of mixed batches; drawing needs matplotlib.

`plot_batch` (also `comixup.plot_batch`) draws a whole batch in one call. For figures of your own
here are its parts: a page laid out in inches, and images, saliency, borders of cells and target
bars to put on it.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.plots._page import COLOURS as COLOURS
    from comixup.plots._page import Box as Box
    from comixup.plots._page import Page as Page
    from comixup.plots._page import colour_of as colour_of
    from comixup.plots._pictures import plot_tracked as plot_tracked
    from comixup.plots._plot_batch import plot_batch as plot_batch
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
