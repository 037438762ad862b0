"""Weakly supervised localization: how well a classifier's maps find the object that it names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn.functional import interpolate

from comixup.lab._networks import MEMORY_FORMAT
from comixup.lab.evaluation._boxes import box_areas
from comixup.lab.evaluation._cam import ActivationMaps
from comixup.lab.evaluation._metrics import LEVEL, percent_and_interval

THRESHOLD = 0.25
"""Of a map's range, above which it shows the object: the paper's."""
SWEPT = tuple(step / 20 for step in range(1, 20))
"""Thresholds of which MaxBoxAccV2 takes the best."""
HIT = 0.5
"""Least intersection over union of a box that counts as found."""
FINENESS = (0.3, 0.5, 0.7)
"""The same for MaxBoxAccV2 (Choe et al., 2020), which takes their mean."""
CENTRE_SIDE = math.sqrt(0.5)
"""Side of the centre box, in sides of the image: half of its area, about what objects have."""


@dataclass(frozen=True, eq=False)
class Localization:
    """How many objects are found, in percent of the images that have a box, with 95 % intervals.

    The intervals are for other images of this kind, not for other seeds: Wilson's, and for the
    mean over three finenesses the normal approximation. They leave out that MaxBoxAccV2's
    thresholds are the best ones for these very images.

    Attributes:
        name: what the boxes come from.
        images: how many were measured.
        left_out: how many have no box.
        top1_loc: Top-1 Loc: the class is correct and the box overlaps a true one by 0.5 or more.
        top1_loc_interval: its confidence interval.
        gt_known: GT-known Loc: the same of the true class's map, whatever class is predicted.
        gt_known_interval: its confidence interval.
        max_box_acc_v2: MaxBoxAccV2: the mean over overlaps of 0.3, 0.5 and 0.7 of what is found at
            each one's best threshold, where any region may have the box, not the largest alone.
        max_box_acc_v2_interval: its confidence interval.
        indices: (images,) indices in the split of the images measured.
        boxes: (images, 4) boxes found at the paper's threshold; zeros where the map is flat.
        ious: (images,) the largest overlap of that box with a true one, from 0 to 1.
        baselines: what boxes find that know nothing of the image: all of it, and its middle.
    """

    name: str
    images: int
    left_out: int
    top1_loc: float
    top1_loc_interval: tuple[float, float]
    gt_known: float
    gt_known_interval: tuple[float, float]
    max_box_acc_v2: float
    max_box_acc_v2_interval: tuple[float, float]
    indices: Tensor
    boxes: Tensor
    ious: Tensor
    baselines: tuple[Localization, ...] = ()

    @property
    def summary(self) -> dict[str, float]:
        """The single numbers by their names: what a table of comparisons is made of."""
        names = ("top1_loc", "gt_known", "max_box_acc_v2")
        return {name: getattr(self, name) for name in names}


def localize(
    maps_of: ActivationMaps,
    batches: Iterable[tuple[Tensor, Tensor]],
    boxes: Tensor,
    *,
    device: torch.device | str = "cpu",
    after: Callable[[int], object] | None = None,
) -> Localization:
    """Returns how well the maps of the true classes find the objects.

    Only these maps are needed: where the prediction is correct, its map is the same.

    Args:
        maps_of: the maps of a classifier on the device, in evaluation mode.
        batches: of images and classes, in the split's order, such as
            `split.loader(250, device=device).epoch(0)`.
        boxes: (n, k, 4), the true ones, in the same order, one at least; see `check_boxes`.
        device: where to compute.
        after: called with the number of images done, after each batch.
    """
    ious, anywhere, found, correct = [], [], [], []
    has_box = (box_areas(boxes) > 0).any(1)
    done, size = 0, (0, 0)
    for images, targets in batches:
        truth = boxes[done : done + len(images)]
        kept = has_box[done : done + len(images)]
        done += len(images)
        if kept.any():
            size = (images.shape[2], images.shape[3])
            shown = (
                images[kept.to(images.device)].to(device).contiguous(memory_format=MEMORY_FORMAT)
            )
            classes = targets[kept.to(targets.device)].to(device)
            maps, logits = maps_of(shown, classes)
            correct.append((logits.argmax(1) == classes).cpu())
            heat = upsampled(maps, size).cpu().numpy()
            overlaps = [_overlaps(heat > level, truth[kept]) for level in SWEPT]
            anywhere.append(np.stack([best for best, _, _ in overlaps], 1))
            _, largest, its_box = overlaps[SWEPT.index(THRESHOLD)]
            ious.append(largest)
            found.append(its_box)
        if after is not None:
            after(done)
    is_correct = torch.cat(correct)
    return _summary(
        "CAM" if maps_of.method == "cam" else "Grad-CAM",
        torch.from_numpy(np.concatenate(found)),
        np.concatenate(ious),
        np.concatenate(anywhere),
        has_box,
        is_correct,
        _baselines(boxes[has_box], size, has_box, is_correct),
    )


def upsampled(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Returns maps, (n, h, w), at the images' size by bicubic interpolation, each from 0 to 1.

    A map of one value everywhere becomes 0 everywhere: it shows nothing.
    """
    large = interpolate(maps.float()[:, None], size=size, mode="bicubic")[:, 0]
    low, high = large.amin((1, 2), keepdim=True), large.amax((1, 2), keepdim=True)
    # Interpolating one value gives it back but for rounding.
    flat = high - low <= 1e-5 * torch.maximum(high.abs(), low.abs())
    return ((large - low) / (high - low)).masked_fill(flat, 0)


def box_overlaps(boxes: Tensor, truth: Tensor) -> Tensor:
    """Returns the intersection over union of each box with each of its image's, (n, k).

    It is 0 for boxes that do not meet and for boxes without pixels; (n, 4) and (n, k, 4) go in.

    >>> box_overlaps(torch.tensor([[0, 0, 2, 2]]), torch.tensor([[[1, 0, 3, 2], [5, 5, 6, 6]]]))
    tensor([[0.3333, 0.0000]])
    """
    boxes = boxes[:, None]
    starts = torch.maximum(boxes[..., :2], truth[..., :2])
    ends = torch.minimum(boxes[..., 2:], truth[..., 2:])
    # Paper: the official implementation multiplies two negative sides too, so that boxes that are
    # apart in both directions may overlap by a half. `box_areas` takes sides as 0 at least.
    both = box_areas(torch.cat((starts, ends), -1))
    either = box_areas(boxes) + box_areas(truth) - both
    return both / either.clamp(min=1)


def _overlaps(
    masks: npt.NDArray[np.bool_], truth: Tensor
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Returns the best overlap of all regions, that of the largest, and the box of the largest."""
    # Pixels that touch by their corners are joined, as in OpenCV's contours, which the official
    # implementation and Choe et al. use. Paper: "largest" is by the area within the contour there,
    # holes and all; here it is by the region's own pixels.
    regions = find_regions(masks)
    of_region = box_overlaps(torch.from_numpy(regions.boxes), truth[regions.owners])
    overlap = of_region.amax(1).numpy() if len(of_region) else np.zeros(0, np.float32)
    best = np.zeros(len(masks), np.float32)
    np.maximum.at(best, regions.owners, overlap)
    # The largest comes first of its mask's.
    largest, boxes = np.zeros(len(masks), np.float32), np.zeros((len(masks), 4), np.int64)
    owners, first = np.unique(regions.owners, return_index=True)
    largest[owners], boxes[owners] = overlap[first], regions.boxes[first]
    return best, largest, boxes


def _summary(
    name: str,
    boxes: Tensor,
    ious: npt.NDArray[np.float32],
    anywhere: npt.NDArray[np.float32],
    has_box: Tensor,
    correct: Tensor,
    baselines: tuple[Localization, ...] = (),
) -> Localization:
    """Returns the metrics of boxes with their overlaps, and of those at all levels, (n, levels)."""
    images, hits = len(ious), ious >= HIT
    # For each fineness the hits of every image at the threshold that has most of them.
    best = [anywhere >= least for least in FINENESS]
    means = np.mean([found[:, found.sum(0).argmax()] for found in best], axis=0)
    fraction, spread = float(means.mean()), float(means.std(ddof=min(1, images - 1)))
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * spread / math.sqrt(images)
    return Localization(
        name,
        images,
        len(has_box) - images,
        *percent_and_interval(int((hits & correct.numpy()).sum()), images),
        *percent_and_interval(int(hits.sum()), images),
        100 * fraction,
        (100 * max(fraction - half, 0.0), 100 * min(fraction + half, 1.0)),
        indices=has_box.nonzero()[:, 0],
        boxes=boxes,
        ious=torch.from_numpy(ious),
        baselines=baselines,
    )


def _baselines(
    truth: Tensor, size: tuple[int, int], has_box: Tensor, correct: Tensor
) -> tuple[Localization, ...]:
    """Returns what the whole image finds, and boxes in its middle, whose sides are swept too."""
    rows = []
    sweeps = {"whole image": (1.0, (1.0,)), "centre box": (CENTRE_SIDE, (*SWEPT, CENTRE_SIDE, 1.0))}
    for name, (side, sides) in sweeps.items():
        at, boxes = sides.index(side), [_centre_box(swept, size, len(truth)) for swept in sides]
        overlaps = np.stack([box_overlaps(box, truth).amax(1).numpy() for box in boxes], 1)
        rows.append(_summary(name, boxes[at], overlaps[:, at], overlaps, has_box, correct))
    return tuple(rows)


def _centre_box(side: float, size: tuple[int, int], count: int) -> Tensor:
    """Returns the box in the middle of images whose sides are this fraction of theirs."""
    height, width = size
    x0, y0 = round(width * (1 - side) / 2), round(height * (1 - side) / 2)
    return torch.tensor([x0, y0, width - x0, height - y0]).expand(count, 4)


# ---- Connected regions ---------------------------------------------------------------------------


class Regions(NamedTuple):
    """All connected regions of some masks, those of a mask together and the largest of them first.

    Attributes:
        owners: (r,) the mask that each region is in, from the first on.
        boxes: (r, 4) int64 tight boxes x0, y0, x1, y1; x1 and y1 are exclusive ends.
        areas: (r,) pixels of the regions themselves.
    """

    owners: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.int64]
    areas: npt.NDArray[np.int64]


def find_regions(masks: npt.NDArray[np.bool_]) -> Regions:
    """Returns the regions of masks, (n, H, W), whose pixels touch by their sides or corners.

    Of regions with as many pixels, the one that begins higher up, then more to the left, comes
    first.

    Whole runs of pixels in a row are joined, of which there are some dozens where there are
    thousands of pixels: a fraction of the time that scipy.ndimage.label takes.

    >>> mask = np.array([[[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1]]], bool)
    >>> find_regions(mask).boxes.tolist()
    [[0, 0, 2, 2], [3, 1, 4, 3]]
    """
    n, height, width = masks.shape
    # A column and a row of background after each image: so runs end with their rows, and those of
    # two images are not neighbours. One pixel in front lets the first run begin.
    tall, wide = height + 1, width + 1
    padded = np.zeros(n * tall * wide + 1, bool)
    padded[1:].reshape(n, tall, wide)[:, :height, :width] = masks
    changes = np.flatnonzero(padded[1:] != padded[:-1])
    starts, ends = changes[::2], changes[1::2]
    # Of the next row, those that end behind the pixel to the left of this run and begin before
    # the one behind the pixel to its right. Both are in order, as runs do not overlap.
    low = np.searchsorted(ends, starts + wide - 1, side="right")
    high = np.searchsorted(starts, ends + wide + 1, side="left")
    neighbours = np.maximum(high - low, 0)
    # As a sparse matrix: the run in row i has neighbours below[rows[i] : rows[i + 1]].
    rows = np.concatenate(([0], np.cumsum(neighbours)))
    below = np.arange(rows[-1]) - np.repeat(rows[:-1] - low, neighbours)
    joined = csr_array((np.ones(len(below)), below, rows), (len(starts),) * 2)
    regions, labels = connected_components(joined, directed=False)
    if not regions:
        return Regions(*(np.zeros(shape, np.int64) for shape in ((0,), (0, 4), (0,))))

    runs = np.argsort(labels, kind="stable")
    begins = np.flatnonzero(np.diff(labels[runs], prepend=-1))
    rows, left = np.divmod(starts[runs], wide)
    owners, rows = np.divmod(rows, tall)
    lengths = (ends - starts)[runs]
    boxes = np.stack(
        (
            np.minimum.reduceat(left, begins),
            np.minimum.reduceat(rows, begins),
            np.maximum.reduceat(left + lengths, begins),
            np.maximum.reduceat(rows, begins) + 1,
        ),
        axis=1,
    )
    areas = np.add.reduceat(lengths, begins)
    order = np.lexsort((runs[begins], -areas, owners[begins]))
    return Regions(owners[begins][order], boxes[order], areas[order])
