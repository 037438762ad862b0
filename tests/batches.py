"""Batches, models and the list of methods that the tests of mixing share."""

import functools

import torch
from torch import nn

from cases import each_case
from comixup import Choice, CoMixup, CutMix, InputMixup, ManifoldMixup, PuzzleMix
from comixup.mixers import FMix, GuidedMixup, ResizeMix, RMix, SaliencyMix
from problems import generator

CLASSES = 7


def manifold(*args, layers=("0",), **settings):
    """Manifold mixup attached to a model that changes nothing, so that its mixture can be seen."""
    mixer = ManifoldMixup(*args, layers=layers, **settings)
    mixer.identity = nn.Sequential(nn.Identity())
    return mixer.attach(mixer.identity)


def choice(num_classes=None, p=1.0, generator=None, **settings):
    """A choice of methods that need no saliency, with the settings that all of them have."""
    mixers = [method(num_classes, **settings) for method in (CutMix, InputMixup)]
    return Choice(mixers, p=p, generator=generator)


# A new method is one line here: every test that all methods share then runs for it.
METHODS = {
    "co-mixup": CoMixup,
    "co-mixup, saliency targets": functools.partial(CoMixup, target_weight="saliency"),
    "cutmix": CutMix,
    "cutmix, 3 inputs, per sample": functools.partial(CutMix, num_inputs=3, per_sample=True),
    "input mixup": InputMixup,
    "input mixup, 3 inputs, per sample": functools.partial(
        InputMixup, num_inputs=3, per_sample=True
    ),
    "manifold mixup at the input": functools.partial(ManifoldMixup, layers=["input"]),
    "manifold mixup inside": functools.partial(manifold, num_inputs=3),
    "choice of cutmix and input mixup": choice,
    # Masks tell whose pixels are seen, not where they moved from: test_puzzlemix.py does.
    "puzzle mix": functools.partial(PuzzleMix, grid=4, transport=False),
    "puzzle mix, saliency targets": functools.partial(
        PuzzleMix, grid=4, transport=False, target_weight="saliency"
    ),
    "saliencymix": SaliencyMix,
    "saliencymix, per sample": functools.partial(SaliencyMix, per_sample=True),
    "resizemix": ResizeMix,
    "resizemix, per sample": functools.partial(ResizeMix, per_sample=True),
    "fmix": FMix,
    "fmix, per sample": functools.partial(FMix, per_sample=True),
    "guided mixup": GuidedMixup,
    "r-mix": RMix,
    "r-mix, per sample": functools.partial(RMix, grid=4, per_sample=True),
}
SALIENT = {
    name: METHODS[name]
    for name in ("co-mixup", "puzzle mix", "saliencymix", "guided mixup", "r-mix")
}
# In the others pixels move: masks tell whose are seen, not from which place.
IN_PLACE = {name: method for name, method in METHODS.items() if "resizemix" not in name}


def over(methods):
    """Runs a test for each method of a named set; the name tells which one failed."""
    return each_case("method", methods.values(), ids=methods)


def batch(m=8, size=(8, 8), channels=3, seed=0, dtype=torch.float32, classes=CLASSES):
    """Images, class indices and saliency maps of a batch."""
    draw = generator(seed)
    images = torch.rand(m, channels, *size, generator=draw).to(dtype)
    targets = torch.randint(classes, (m,), generator=draw)
    # Peaked maps, none of them constant (a map of one pixel always is).
    saliency = torch.rand(m, *[max(2, side) for side in size], generator=draw) ** 3
    return images, targets, saliency


def telling(m, channels, size, dtype=torch.float32):
    """Images whose pixel values tell (input, channel, place)."""
    count = m * channels * torch.Size(size).numel()
    return torch.arange(count).view(m, channels, *size).to(dtype)


def run(mixer, images, targets, saliency):
    """Returns what a batch becomes, inside the model too, and its soft targets."""
    mixed, soft = mixer(images, targets, saliency)
    return getattr(mixer, "identity", nn.Identity())(mixed), soft


def upsampled(masks, size):
    """Masks (m', m, *grid) laid over an image: pixel p is in cell floor(p * cells / side)."""
    masks = masks.reshape(*masks.shape, *[1] * (2 + len(size) - masks.ndim))
    for axis, side in enumerate(size, start=2):
        cell = [place * masks.shape[axis] // side for place in range(side)]
        masks = masks.index_select(axis, torch.tensor(cell))
    return masks


def by_masks(masks, images):
    """The mixture that the masks describe, in double precision, by the definition."""
    full = upsampled(masks, images.shape[2:]).double()
    return torch.einsum("ji...,ic...->jc...", full, images.double())


def one_hot(targets, classes=CLASSES):
    return torch.eye(classes)[targets]


def net(size=(8, 8), channels=3, classes=CLASSES, norm=True, seed=0):
    """A small convolutional classifier with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(channels, 4, 3, padding=1),
            nn.BatchNorm2d(4) if norm else nn.Identity(),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(4 * torch.Size(size).numel(), classes),
        )


def gradients(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]
