"""CutMix: boxes, and targets that count the pixels that can be seen."""

import pytest
import torch
from torch.testing import assert_close

from batches import telling
from cases import each_case
from comixup import CutMix
from problems import generator


def origin(mixed, images):
    """Which input each pixel shows, (m, *size), from images whose values tell."""
    return mixed[:, 0].long() // images[0].numel()


@each_case("num_inputs", [2, 3, 4])
@each_case("per_sample", [False, True])
@each_case("size", [(24,), (7, 9), (16, 16), (5, 6, 7)], ids=str)
def test_targets_count_the_visible_pixels_exactly(num_inputs, per_sample, size):
    m = 6
    images = telling(m, 2, size, torch.float64)
    mixer = CutMix(m, num_inputs=num_inputs, per_sample=per_sample, generator=generator(0))
    most = 0
    for _ in range(10):
        mixed, soft = mixer(images, torch.arange(m))
        who = origin(mixed, images)
        # Every pixel stays in its place and channel.
        assert_close(mixed, torch.gather(images, 0, who.unsqueeze(1).expand(mixed.shape)))
        seen = torch.stack([torch.bincount(w.flatten(), minlength=m) for w in who])
        assert_close(soft, seen / torch.Size(size).numel(), rtol=1e-6, atol=1e-7)
        most = max(most, int((seen > 0).sum(1).max()))
    assert most == num_inputs


def test_the_box_covers_the_partners_ratio_where_it_fits():
    # kornia#3077: lambda inverted. A partner that fills a share of the pixels has that weight.
    mixer = CutMix(2, alpha=1e6, generator=generator(2))  # ratios of one half
    largest = 0.0
    for _ in range(60):
        mixer(torch.rand(2, 1, 100, 100), torch.arange(2))
        box = (mixer.last.plan.end - mixer.last.plan.begin).prod(-1) / 100**2
        largest = max(largest, float(box))
        ratio = mixer.last.plan.source_ratio()
        partner = int(mixer.last.plan.partners[0, 0])
        assert_close(ratio[0, partner], torch.tensor(float(box) if partner else 1.0))
    assert largest == pytest.approx(0.49, abs=0.012)  # whole pixels: (2 * 35 / 100) ** 2
