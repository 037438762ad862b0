"""The parts of a picture of a mixed batch, for figures of your own; needs matplotlib.

`comixup.plot_batch` draws all of it in one call. Here are its parts: a page laid out in inches, and
images, saliency, borders of cells and target bars to put on it.
"""

from comixup.plots._page import LINE_WIDTH, Box, Page, tinted
from comixup.plots._palette import COLOURS, colour_of
from comixup.plots._tracked import plot_tracked

__all__ = ["COLOURS", "LINE_WIDTH", "Box", "Page", "colour_of", "plot_tracked", "tinted"]
