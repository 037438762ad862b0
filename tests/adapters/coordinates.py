"""Images of coordinates: what they show after a plain transform is where its pixels come from."""

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2


def coordinates(size, pil):
    """Returns an image whose first two channels are the row and the column of a pixel, from 1."""
    rows, columns = np.meshgrid(*(np.arange(1, side + 1) for side in size), indexing="ij")
    array = np.stack([rows, columns, 0 * rows], -1).astype(np.uint8)
    return Image.fromarray(array) if pil else torch.from_numpy(array).permute(2, 0, 1)


def expected_numbers(shown, size, grid):
    """Returns the cell numbers that an image of coordinates shows; 0 where it shows none."""
    rows, columns, _ = v2.functional.pil_to_tensor(shown) if pil_like(shown) else shown
    cell = (rows.long() - 1) * grid[0] // size[0] * grid[1]
    cell += (columns.long() - 1) * grid[1] // size[1]
    return torch.where((rows > 0) & (columns > 0), cell + 1, 0)


def pil_like(image):
    return isinstance(image, Image.Image)
