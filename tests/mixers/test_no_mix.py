"""No mixing, with the calling convention of the methods that mix."""

import pytest
import torch.nn.functional as F
from torch.testing import assert_close

from batches import CLASSES, batch, net, one_hot
from comixup import NoMix, training_step


@pytest.mark.parametrize("enabled", [True, False])
def test_images_stay_and_targets_become_soft(enabled):
    images, targets, _ = batch(5)
    mixer = NoMix(CLASSES)
    mixer.enabled = enabled
    same, soft = mixer(images, targets)
    assert_close(same, images, rtol=0, atol=0)
    assert_close(soft, one_hot(targets))
    assert mixer.last.mixed is False


def test_a_loss_for_soft_targets_serves_in_the_training_step():
    images, targets, _ = batch(5)
    model = net()
    loss_fn = F.binary_cross_entropy_with_logits
    step = training_step(model, NoMix(CLASSES), images, targets, loss_fn=loss_fn)
    assert_close(step.loss, loss_fn(step.outputs, one_hot(targets)))
    assert step.clean_loss is None
