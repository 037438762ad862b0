"""Co-Mixup for segmentation: integer masks are mixed by the same plan as their images.

Real images: see segmentation_data.py.
"""

from __future__ import annotations

import functools
import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import comixup
from segmentation_data import IGNORED, Segmented, load
from tiny_data import BATCH, parse_steps

TEST = 80
"""Images that are not trained on."""
loss_of = functools.partial(F.cross_entropy, ignore_index=IGNORED)


def segmenter(channels: int, classes: int) -> nn.Sequential:
    """Returns an untrained network that gives logits for every pixel."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        nn.Conv2d(32, classes, 1),
        nn.Upsample(scale_factor=4, mode="bilinear"),
    )


def check_agreement(
    images: Tensor, masks: Tensor, mixed: Tensor, mixed_masks: Tensor, plan: comixup.Plan
) -> None:
    """Raises unless every pixel of image and mask comes from the same input, and some moved."""
    # Which input each pixel belongs to, by torch's own upsampling of the plan's shares.
    owner = F.interpolate(plan.masks, images.shape[2:], mode="nearest").argmax(1)
    rows, columns = (torch.arange(side) for side in images.shape[2:])
    shown = (owner, rows.view(-1, 1), columns)
    torch.testing.assert_close(mixed, images.movedim(1, -1)[shown].movedim(-1, 1), rtol=0, atol=0)
    torch.testing.assert_close(mixed_masks, masks[shown], rtol=0, atol=0)
    if torch.equal(mixed, images) or torch.equal(mixed_masks, masks):
        raise AssertionError("images and masks must change, but stayed as they were")


def train(data: Segmented, steps: int) -> tuple[float, float]:
    """Returns the test loss per pixel before and after."""
    model = segmenter(data.images.shape[1], data.classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def test_loss() -> float:
        with torch.no_grad():
            loss = loss_of(model.eval()(data.images[:TEST]), data.masks[:TEST])
        model.train()
        return float(loss)

    before = test_loss()
    # One level: every pixel belongs to one image, and has the class it had there.
    mixup = comixup.CoMixup(levels=1)
    loader = DataLoader(
        TensorDataset(data.images[TEST:], data.masks[TEST:]), BATCH, shuffle=True, drop_last=True
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for images, masks in itertools.islice(batches, steps):
        optimizer.zero_grad()
        saliency = mixup.saliency(model, images, masks, loss_fn=loss_of)
        batch = {"image": images, "mask": masks}
        mixed = comixup.mix_dict(mixup, batch, saliency, images="image", masks="mask")
        check_agreement(images, masks, mixed["image"], mixed["mask"], mixup.last.plan)
        loss_of(model(mixed["image"]), mixed["mask"]).backward()
        optimizer.step()
    return before, test_loss()


def main(steps: int = 60) -> tuple[float, float]:
    """Trains; returns the test loss before and after."""
    torch.manual_seed(0)
    name, data = load()
    before, after = train(data, steps)
    print(
        f"{name}: test loss per pixel {before:.2f} -> {after:.2f} after {steps} steps; "
        "masks and images agreed at every pixel of every batch"
    )
    return before, after


if __name__ == "__main__":
    main(parse_steps(__doc__))
