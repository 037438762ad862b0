"""Where the objects are: ground-truth boxes of Tiny-ImageNet, of ImageNet's XML and of CSV files.

Within this package, boxes of n images are (n, k, 4) int64: for each image up to k boxes x0, y0,
x1, y1 in pixels of what the model is shown. x0 and y0 are the first column and row inside, and
x1 and y1 the exclusive ends. Rows without a box are all zero, and so are images without any. In
files x1 and y1 are the last column and row inside, as both data sets have them.
"""

from __future__ import annotations

import csv
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar
from xml.etree import ElementTree

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from comixup._checks import check_count
from comixup.lab._pictures import orientation_of, stored_size, upright_box, upright_size
from comixup.lab._preprocess import CenterCrop
from comixup.lab.data import DataSet

Box: TypeAlias = tuple[float, float, float, float]
"""x0, y0, x1, y1 as in a file: the last column and row are inside."""

MAX_XML_BYTES = 1_000_000
"""Annotations of an image have some thousand; a file that is larger is none."""
FIELDS = ("file", "x0", "y0", "x1", "y1")
"""Columns of CSV files."""
_T = TypeVar("_T")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def find_boxes(
    data: DataSet, source: Path | None = None, image_size: int | None = None
) -> Tensor | None:
    """Returns the boxes of a data set's test images: those of a source, or the set's own if any."""
    if source is None:
        return data.test_boxes
    files = data.test.paths
    if not files:
        raise ValueError(
            f"`--boxes` must belong to images in files, but those of {data.name} are not: boxes go "
            "by the files' names."
        )
    return read_boxes(source, files, image_size or max(data.shape[1:]))


def read_boxes(
    source: str | Path, files: Sequence[str | bytes | Path], image_size: int | None = None
) -> Tensor:
    """Returns the boxes of image files, (n, k, 4), from a CSV file or a folder of XML files.

    A CSV file has the columns file, x0, y0, x1, y1 and a line for each box; `file` is the image's
    name, with its folder or without. An XML file (as ImageNet and Pascal VOC have them) belongs to
    the image of its name, whose size it has to state if it states one. Where several images have
    one name, the folder's name must be the same too. Boxes that reach beyond the image are cut off
    at its border. Images that have no box, or none within the crop that the model sees, have zeros.
    Boxes of an image that is stored turned (EXIF) are of its stored pixels.

    Args:
        source: the CSV file, or the folder, in which all folders are looked through.
        files: the images, in the split's order; of those with boxes the size is read.
        image_size: pixels per side of what the model is shown: the middle of the image, as the
            loaders of `comixup.lab.data` cut it out. None if it is shown whole, as it is.
    """
    if image_size is not None:
        check_count("image_size", image_size)
    source, paths = Path(source), [Path(os.fsdecode(file)) for file in files]
    if source.is_dir():
        found = _from_xml(source, paths)
    elif source.suffix.lower() == ".csv" and source.is_file():
        found = _from_csv(source, paths)
    else:
        raise FileNotFoundError(
            f"`source` must be a CSV file or a folder of XML files with boxes, got {source}, which "
            f"{'is neither' if source.exists() else 'does not exist'}."
        )
    if not any(found):
        raise ValueError(
            f"{source} has no box for any of the {len(paths)} images, the first of which is "
            f"{paths[0] if paths else 'missing'}. Files with boxes and images go by their names."
        )
    shown = [
        _shown(boxes, path, image_size) if boxes else []
        for path, boxes in zip(paths, found, strict=True)
    ]
    padded = np.zeros((len(shown), max(len(boxes) for boxes in shown) or 1, 4), np.int64)
    for row, boxes in zip(padded, shown, strict=True):
        row[: len(boxes)] = np.array(boxes).reshape(-1, 4)
    return torch.from_numpy(padded)


def box_areas(boxes: Tensor) -> Tensor:
    """Returns the pixels in each box, (...), of boxes (..., 4); 0 where there is none.

    >>> box_areas(torch.tensor([[1, 1, 3, 4], [0, 0, 0, 0]]))
    tensor([6, 0])
    """
    sides = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0)
    return sides[..., 0] * sides[..., 1]


def with_background(boxes: Tensor, size: tuple[int, ...]) -> Tensor:
    """Returns which images have a box, and none that covers all of it, (n,) booleans."""
    areas = box_areas(boxes)
    return (areas > 0).any(1) & (areas < math.prod(size)).all(1)


def check_boxes(boxes: Tensor, count: int, size: tuple[int, int]) -> None:
    """Raises `ValueError` unless boxes are (count, k, 4) integers within images of a size.

    Args:
        boxes: what is checked.
        count: of images.
        size: height and width of the images.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or boxes.dtype.is_floating_point:
        raise ValueError(
            "`boxes` must have whole numbers of shape (images, boxes of an image, 4), got "
            f"{boxes.dtype} of {tuple(boxes.shape)}. One box for each image is (n, 1, 4)."
        )
    if len(boxes) != count:
        raise ValueError(
            f"`boxes` must have a row for each of the {count} images, got {len(boxes)}. Are they "
            "of another split?"
        )
    (height, width), (_, _, x1, y1) = size, boxes.amax((0, 1)).tolist()
    if int(boxes.min()) < 0 or x1 > width or y1 > height:
        raise ValueError(
            f"`boxes` must lie within the images' {width} x {height} pixels, got some up to "
            f"{x1} x {y1}. Were they read for another image size?"
        )


# ---- Files --------------------------------------------------------------------------------------


def _from_csv(source: Path, paths: Sequence[Path]) -> list[list[Box]]:
    boxes: dict[str, list[Box]] = {}
    with source.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if not row or (number == 1 and tuple(cell.strip() for cell in row) == FIELDS):
                continue
            where = f"{source}, line {number},"
            if len(row) != len(FIELDS):
                raise ValueError(
                    f"{where} must have {', '.join(FIELDS)}, got {len(row)} cells: {row}."
                )
            boxes.setdefault(row[0].strip(), []).append(_checked(row[1:], where))
    return _matched(boxes, paths, keep_suffix=True)


def _from_xml(source: Path, paths: Sequence[Path]) -> list[list[Box]]:
    files = (Path(place, name) for place, _, names in os.walk(source) for name in names)
    wanted = {path.stem for path in paths}
    found = {
        str(file.relative_to(source).with_suffix("")): file
        for file in files
        if file.suffix.lower() == ".xml" and file.stem in wanted
    }
    matched = _matched({name: [file] for name, file in found.items()}, paths, keep_suffix=False)
    return [
        [box for file in of_image for box in _read_xml(file, path)]
        for of_image, path in zip(matched, paths, strict=True)
    ]


def _matched(
    found: Mapping[str, list[_T]], paths: Sequence[Path], *, keep_suffix: bool
) -> list[list[_T]]:
    """Returns what was found for each image: under its name with its folder's, or its name."""
    images = Counter(path.name if keep_suffix else path.stem for path in paths)
    by_name: dict[str, list[str]] = {}
    for key in found:
        by_name.setdefault(Path(key).name, []).append(key)
    matched = []
    for path in paths:
        whole = path if keep_suffix else path.with_suffix("")
        keys = by_name.get(whole.name, [])
        # ImageNet's images lie in folders of classes, and the XML of its validation set does not.
        if len(keys) > 1 or images[whole.name] > 1:
            keys = [key for key in keys if Path(key).parent.name == whole.parent.name]
        if len(keys) > 1:
            raise ValueError(
                f"{path} has boxes under several names, {keys[0]} and {keys[1]}. Leave one."
            )
        matched.append(found[keys[0]] if keys else [])
    return matched


def _read_xml(path: Path, image: Path) -> Iterator[Box]:
    """Yields the boxes of all objects that an annotation of an image lists."""
    root = _parsed(path)
    _check_stated_size(root, path, image)
    for thing in root.iter("object"):
        corners = [thing.findtext(f"bndbox/{name}") for name in _CORNERS]
        yield _checked([corner or "" for corner in corners], f"{path}")


def _check_stated_size(root: ElementTree.Element, path: Path, image: Path) -> None:
    """Raises `ValueError` for the annotation of an image of another size.

    One without a size is taken as it is, and so is one with zeros, which some tools write for a
    size that they do not know.
    """
    stated = tuple((root.findtext(f"size/{name}") or "0").strip() for name in ("width", "height"))
    if "0" in stated:
        return
    (width, height), _ = _size_and_orientation(image)
    if stated != (str(width), str(height)):
        raise ValueError(
            f"{path} must be of an image of {width} x {height} pixels, the size of {image}, got "
            f"{stated[0][:20]} x {stated[1][:20]}: its boxes would be elsewhere. Scale the boxes, "
            "or take the images that they were drawn on."
        )


class _PlainTree(ElementTree.TreeBuilder):
    """An XML tree without declarations.

    Entities could stand for other files, or for each other until they fill the memory; boxes need
    none of them.
    """

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ValueError(
            "must be a plain annotation, got one with a document type of its own, which may stand "
            "for other files or for endless text. Remove its <!DOCTYPE ...>."
        )


def _parsed(path: Path) -> ElementTree.Element:
    size = path.stat().st_size
    if size > MAX_XML_BYTES:
        raise ValueError(
            f"{path} must have at most {MAX_XML_BYTES} bytes, as annotations do, got {size}."
        )
    try:
        parser = ElementTree.XMLParser(target=_PlainTree())
        return ElementTree.parse(path, parser).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"{path} cannot be read as XML: {error}. Unpack it again.") from None
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None


def _checked(cells: Sequence[str], where: str) -> Box:
    """Returns a box from its four numbers."""
    try:
        x0, y0, x1, y1 = (float(cell) for cell in cells)
    except ValueError:
        x0 = y0 = x1 = y1 = math.nan
    if not all(map(math.isfinite, (x0, y0, x1, y1))):
        raise ValueError(f"{where} must have four numbers for a box, got {list(cells)}.")
    if x1 < x0 or y1 < y0:
        raise ValueError(
            f"{where} must have boxes from their upper left to their lower right corner, got "
            f"x from {x0:g} to {x1:g} and y from {y0:g} to {y1:g}."
        )
    return x0, y0, x1, y1


# ---- From the file's pixels to the model's -------------------------------------------------------


def _shown(
    boxes: Sequence[Box], path: Path, image_size: int | None
) -> list[tuple[int, int, int, int]]:
    """Returns boxes in pixels of what the model is shown, but for those that it does not see."""
    (width, height), orientation = _size_and_orientation(path)
    crop = CenterCrop.of(upright_size((width, height), orientation), image_size)
    shown = []
    for x0, y0, x1, y1 in boxes:
        edges = max(x0, 0), max(y0, 0), min(x1 + 1, width), min(y1 + 1, height)
        if edges[2] <= edges[0] or edges[3] <= edges[1]:
            raise ValueError(
                f"{path} must have its boxes within its {width} x {height} pixels, got x from "
                f"{x0:g} to {x1:g} and y from {y0:g} to {y1:g}. Are they of another image?"
            )
        box = crop.box(upright_box(edges, (width, height), orientation))
        if box is not None:
            shown.append(box)
    return shown


def _size_and_orientation(path: Path) -> tuple[tuple[int, int], int]:
    """Returns stored width and height and EXIF orientation of an image file, without decoding."""
    try:
        with Image.open(path) as image:
            return stored_size(image), orientation_of(image)
    except Exception as error:  # of damaged files, readers raise anything
        raise ValueError(f"{path} cannot be read as an image: {error}. Replace it.") from None
