"""Data sets that carry their cells' numbers through torchvision's transforms."""

import threading

import pytest
import torch
import torchvision.transforms as v1
from PIL import Image
from torch import nn
from torch.utils.data import default_collate
from torchvision.transforms import v2

from comixup import Origin, SaliencyMemory
from comixup.adapters.origins import WithOrigins

EXAMPLES = 5


def telling_pictures(cells=4, side=32):
    """Images whose colour is the number of the cell that a pixel lies in, and their memory."""
    memory = SaliencyMemory(EXAMPLES, cells=cells)
    numbers = memory.cell_numbers((side, side)).float()
    return [(numbers.expand(3, side, side).clone(), k) for k in range(EXAMPLES)], memory


@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomCrop(32, padding=4),
        v2.RandomHorizontalFlip(p=1),
        v2.RandomRotation(90, interpolation=v2.InterpolationMode.NEAREST),
        v2.RandomAffine(30, (0.2, 0.2), (0.6, 1.4), 10, v2.InterpolationMode.NEAREST),
        v2.RandomResizedCrop(20, interpolation=v2.InterpolationMode.NEAREST),
        v2.Compose([v2.Pad(3), v2.RandomApply([v2.RandomVerticalFlip(p=1)], p=0.5)]),
        v2.RandomChoice([v2.CenterCrop(20), v2.CenterCrop(30)]),
        v2.Compose([v2.RandomHorizontalFlip(p=1), v2.ToPureTensor(), v2.ToDtype(torch.float32)]),
        v2.Compose([v2.ToPureTensor(), v2.RandomHorizontalFlip(p=1)]),
        v2.Compose([v2.Compose([v2.ToPureTensor()]), v2.Compose([v2.Pad(1), v2.RandomCrop(20)])]),
        v2.RandomOrder([v2.RandomCrop(20), v2.ToPureTensor(), v2.RandomVerticalFlip(p=1)]),
        v2.RandomApply([v2.ToPureTensor(), v2.RandomCrop(20)], p=1),
        nn.Sequential(v2.ToPureTensor(), v2.RandomHorizontalFlip(p=1)),
        v2.ToPureTensor(),
        v2.RandomApply(nn.ModuleList([v2.ToPureTensor(), v2.RandomCrop(20)]), p=1),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_every_pixel_knows_its_cell(transform):
    pictures, memory = telling_pictures()
    dataset = WithOrigins(pictures, memory, transform)
    torch.manual_seed(0)
    for index in range(EXAMPLES):
        image, target, origin = dataset[index]
        assert (target, int(origin.indices)) == (index, index)
        assert torch.equal(image[0].long(), origin.cells.long())


@pytest.mark.parametrize("fill", [3, (1, 2, 3)])
def test_cell_numbers_are_filled_with_nothing_whatever_the_image_is_filled_with(fill):
    pictures, memory = telling_pictures()
    pad = v2.Pad(2, fill=fill)
    image, _, origin = WithOrigins(pictures, memory, pad)[0]
    assert origin.cells[0].tolist() == [0] * 36
    assert image[0, 0].unique().tolist() == [fill if isinstance(fill, int) else fill[0]]
    assert pad(pictures[0][0])[0, 0, 0] == image[0, 0, 0]  # the caller's transform is as it was


def test_samples_make_batches_that_the_memory_reads():
    pictures, memory = telling_pictures()
    dataset = WithOrigins(
        pictures, memory, v2.RandomCrop(28), image_transform=v2.Normalize([1] * 3, [2] * 3)
    )
    images, targets, origin = default_collate([dataset[k] for k in range(EXAMPLES)])
    assert isinstance(origin, Origin)
    assert images.shape == (EXAMPLES, 3, 28, 28)
    assert targets.tolist() == origin.indices.tolist()
    assert memory.read(origin).shape == (EXAMPLES, 28, 28)
    assert torch.equal((images[:, 0] * 2 + 1).long(), origin.cells.long())


def test_pil_images_work():
    memory = SaliencyMemory(1, cells=2)
    pictures = [(Image.new("RGB", (40, 20)), 0)]
    transform = v2.Compose([v2.Resize(10, antialias=True), v2.ToImage()])
    image, _, origin = WithOrigins(pictures, memory, transform)[0]
    assert image.shape[1:] == origin.cells.shape == (10, 20)
    assert origin.cells[0].tolist() == [1] * 10 + [2] * 10


@pytest.mark.parametrize(
    ("transform", "error", "message"),
    [
        (v2.RandAugment(), ValueError, "which RandAugment cannot.*image_transform"),
        (v2.Compose([v2.AutoAugment()]), ValueError, "which AutoAugment cannot"),
        (v2.RandomErasing(), ValueError, "RandomErasing changes the image alone"),
        (v1.RandomCrop(8), TypeError, "made of torchvision's v2 transforms"),
        (v2.Compose([v1.RandomHorizontalFlip()]), TypeError, "v2 transforms"),
        (lambda image: image, TypeError, "v2 transforms"),
        (v2.Lambda(lambda image: image), ValueError, "tell images from masks.*image_transform"),
    ],
)
def test_transforms_that_carry_no_mask_are_rejected_by_name(transform, error, message):
    pictures, memory = telling_pictures()
    with pytest.raises(error, match=f"`transform` must.*{message}"):
        WithOrigins(pictures, memory, transform)


@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomHorizontalFlip(),
        v2.Compose([v2.RandAugment()]),
        v1.Compose([v1.ToTensor(), v1.RandomCrop(8)]),
        nn.Sequential(v2.Resize(8)),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_transforms_of_images_alone_must_not_move_pixels(transform):
    pictures, memory = telling_pictures()
    with pytest.raises(ValueError, match="`image_transform` must not move pixels, but R"):
        WithOrigins(pictures, memory, image_transform=transform)
    harmless = v2.Compose([v2.ColorJitter(), v2.Lambda(lambda image: image), v2.RandomErasing()])
    harmless.lock = threading.Lock()  # nothing is copied
    WithOrigins(pictures, memory, image_transform=harmless)


def test_a_memory_of_another_size_is_rejected():
    pictures, _ = telling_pictures()
    with pytest.raises(ValueError, match="`memory` must have a map for each of the 5 examples"):
        WithOrigins(pictures, SaliencyMemory(4))
    with pytest.raises(TypeError, match="`dataset` must return PIL images or tensors"):
        WithOrigins([("no image", 0)], SaliencyMemory(1))[0]
