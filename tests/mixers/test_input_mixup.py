"""Input mixup: ratios, partners, means."""

import pytest
import torch
from torch.testing import assert_close

from batches import batch
from comixup import InputMixup
from comixup.mixers._input import Blend
from problems import generator


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize("num_inputs", [2, 3, 4])
def test_every_image_is_the_weighted_mean_of_itself_and_its_partners(per_sample, num_inputs):
    images, targets, _ = batch(6)
    mixer = InputMixup(7, per_sample=per_sample, num_inputs=num_inputs, generator=generator(0))
    mixed, soft = mixer(images, targets)
    plan = mixer.last.plan
    ratios = plan.ratios.expand(6, -1)
    for j in range(6):
        image = ratios[j, 0] * images[j]
        target = ratios[j, 0] * torch.eye(7)[targets[j]]
        for k in range(num_inputs - 1):
            i = int(plan.partners[j, k])
            image = image + ratios[j, 1 + k] * images[i]
            target = target + ratios[j, 1 + k] * torch.eye(7)[targets[i]]
        assert_close(mixed[j], image)
        assert_close(soft[j], target)


def test_an_image_that_is_three_quarters_weighs_three_quarters():
    # kornia#3077: lambda inverted.
    plan = Blend(torch.tensor([[1], [0]]), torch.tensor([[0.75, 0.25]]))
    images = torch.tensor([100.0, 200.0]).view(2, 1, 1)
    assert plan.mix_images(images).flatten().tolist() == [125.0, 175.0]
    assert plan.source_ratio().tolist() == [[0.75, 0.25], [0.25, 0.75]]


def test_a_partner_that_is_oneself_adds_up():
    plan = Blend(torch.tensor([[0, 0], [0, 1]]), torch.tensor([[0.5, 0.25, 0.25]]))
    assert plan.source_ratio().tolist() == [[1.0, 0.0], [0.25, 0.75]]
    assert_close(plan.source_ratio((7, 7)), plan.source_ratio())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_rounds_once(dtype):
    images, targets, _ = batch(6, dtype=dtype)
    mixer = InputMixup(7, num_inputs=4, generator=generator(5))
    mixed, _ = mixer(images, targets)
    exact = mixer.last.plan.mix_images(images.float())
    assert_close(mixed, exact.to(dtype), rtol=0, atol=0)
