"""Tests of what is said of networks that do not take a data set's images."""

import pytest
import torch
from torch import nn

from comixup.lab._networks import check_fit
from comixup.lab.models import build


class Two(nn.Module):
    """Returns scores twice, as some networks do in training."""

    def forward(self, images):
        return images, images


def test_a_network_that_fits_is_left_as_it_was():
    model = build("small", 7)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    check_fit(model, "small", (3, 32, 32), 7)
    assert model.training
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("model", "shape", "message"),
    [
        (lambda: build("small", 7), (3, 0, 32), r"does not \(.*\)\. Choose"),
        (lambda: nn.Conv2d(3, 7, 3), (1, 32, 32), r"images of shape \(1, 32, 32\)"),
        (lambda: build("small", 5), (3, 32, 32), r"each of 7 classes, but it returned \(1, 5\)"),
        (Two, (3, 32, 32), "returned tuple"),
    ],
)
def test_a_network_that_does_not_fit_gets_an_error_message(model, shape, message):
    network = model().train()
    with pytest.raises(ValueError, match=message):
        check_fit(network, "it", shape, 7)
    assert network.training


def test_patches_that_do_not_fit_the_images_get_an_error_message():
    with pytest.raises(ValueError, match=r"`shape` must suit torchvision's vit_b_16, got .*28, 28"):
        build("vit_b_16", 3, shape=(3, 28, 28))
