"""Saliency computed on small copies of the images."""

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.testing import assert_close

from batches import CLASSES, batch, net
from comixup import CoMixup, PuzzleMix, saliency, training_step


def any_size_model(dimensions=2):
    torch.manual_seed(0)
    convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    pool = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[dimensions - 1]
    return nn.Sequential(
        convolution(3, 5, 3), nn.Tanh(), pool(1), nn.Flatten(), nn.Linear(5, CLASSES)
    )


def test_maps_are_those_of_the_small_images():
    model = any_size_model()
    images, targets, _ = batch(size=(16, 24))
    found = saliency(model, images, targets, keep_gradients=False, scale=0.5)
    small = F.avg_pool2d(images, 2)
    assert_close(found, saliency(model, small, targets, keep_gradients=False))
    assert found.shape == (8, 8, 12)


@pytest.mark.parametrize("size", [(12,), (9, 15), (8, 6, 10)])
def test_any_number_of_dimensions_and_odd_sizes(size):
    images, targets, _ = batch(size=size)
    found = saliency(any_size_model(len(size)), images, targets, keep_gradients=False, scale=0.6)
    assert found.shape[1:] == tuple(round(0.6 * side) for side in size)


@pytest.mark.parametrize("method", [CoMixup, PuzzleMix])
def test_a_mixer_can_take_its_saliency_from_small_images(method):
    model, images, targets = any_size_model(), *batch(size=(16, 16))[:2]
    mixer = method(CLASSES, keep_gradients=False, saliency_scale=0.5)
    assert mixer.saliency(model, images, targets).shape == (8, 8, 8)
    step = training_step(model, mixer, images, targets)
    assert mixer.last.mixed
    assert step.outputs.shape == (8, CLASSES)
    assert step.clean_outputs is None
    assert all(weight.grad is None for weight in model.parameters())


def test_gradients_of_small_images_are_not_kept():
    model, (images, targets, _) = any_size_model(), batch()
    with pytest.raises(ValueError, match="`scale` must be 1 where the pass trains the model too"):
        saliency(model, images, targets, scale=0.5)
    with pytest.raises(ValueError, match="`saliency_scale` must be 1 where"):
        CoMixup(CLASSES, saliency_scale=0.5)
    with pytest.raises(ValueError, match="`scale` must be a number from 0 to 1"):
        saliency(model, images, targets, keep_gradients=False, scale=2)
    with pytest.raises(ValueError, match="`scale` must be above 0"):
        saliency(model, images, targets, keep_gradients=False, scale=0)


@pytest.mark.parametrize("method", [CoMixup, PuzzleMix])
def test_a_network_of_a_fixed_input_size_is_told_with_the_alternatives(method):
    images, targets, _ = batch(4, size=(32, 32))
    vit = torchvision.models.VisionTransformer(32, 8, 1, 2, 16, 16, num_classes=CLASSES)
    told = r"`saliency_scale` .* must be 1 for a model of a fixed input size, got 0.5: on images "
    with pytest.raises(ValueError, match=told + r"of size \(16, 16\) .*AssertionError.*OnePass"):
        training_step(
            vit, method(CLASSES, keep_gradients=False, saliency_scale=0.5), images, targets
        )
    with pytest.raises(ValueError, match=told):  # one of a fixed number of features
        saliency(net((32, 32)), images, targets, keep_gradients=False, scale=0.5)
    with pytest.raises(AssertionError, match="Wrong image height"):  # the model's own
        saliency(vit, images[..., :16, :16], targets, keep_gradients=False)
