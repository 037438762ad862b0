"""Manifold mixup in layers that run several times: the first run is mixed, and that one alone."""

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.testing import assert_close

from batches import CLASSES, batch, net
from comixup import CutMix, ManifoldMixup, training_step
from problems import generator
from repeats import assert_same_gradients, mixer_for, repeats


def test_only_the_first_run_is_mixed():
    model, (images, targets, _) = repeats(), batch(6)
    mixer = mixer_for(model)
    mixed, soft = mixer(images, targets)
    loss = F.cross_entropy(model(mixed), soft)
    loss.backward()
    assert_same_gradients(model, loss, images, soft, mixer.last.plan)


def test_torchvisions_blocks_are_mixed_once():
    model = torchvision.models.resnet18(num_classes=CLASSES)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()  # then an image's features do not depend on the others
    images, targets, _ = batch(4, (32, 32))
    mixer = mixer_for(model, ("layer1.0.relu",))
    seen = []
    model.layer1[0].conv2.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.layer1[1].conv1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model(images)
        model(mixer(images, targets)[0])
    blend = mixer.last.plan
    assert_close(seen[2], blend.mix_images(seen[0]))
    block = model.layer1[0]
    features = model.maxpool(model.relu(model.bn1(model.conv1(images))))
    with torch.no_grad():
        expected = F.relu(block.bn2(block.conv2(seen[2])) + features)
    assert_close(seen[3], expected)


class Fails(nn.Module):
    """Fails in its second pass, with an error or as if interrupted."""

    def __init__(self, error):
        super().__init__()
        self.act, self.error, self.passes = nn.Tanh(), error, 0

    def forward(self, x):
        self.passes += 1
        x = self.act(x)
        if self.passes == 2:
            raise self.error
        return self.act(x)


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()], ids=repr)
def test_a_pass_that_failed_does_not_spoil_the_next(error):
    model, (images, targets, _) = Fails(error), batch(5)
    mixer = mixer_for(model)
    mixed, _ = mixer(images, targets)
    expected = mixer.last.plan.mix_images(images.tanh()).tanh()
    assert_close(model(mixed), expected)
    with pytest.raises(type(error)):
        model(mixed)
    assert_close(model(mixed), expected)


@pytest.mark.parametrize(
    "other", [None, CutMix(CLASSES, generator=generator(1))], ids=["plain", "CutMix"]
)
def test_no_step_of_another_method_is_mixed_inside(other):
    model, (images, targets, _) = net(norm=False), batch(5)
    training_step(model, ManifoldMixup(CLASSES, layers=["2"]), images, targets)
    plain = net(norm=False)
    state = None if other is None else other.generator.get_state()
    step = training_step(model, other, images, targets)
    if other is not None:
        other.generator.set_state(state)
    assert_close(step.outputs, training_step(plain, other, images, targets).outputs)


def test_two_mixers_on_one_model_take_turns():
    model, (images, targets, _) = net(norm=False), batch(5)
    first, second = mixer_for(model, ("0",)), mixer_for(model, ("2",))
    model(first(images, targets)[0])
    mixed, _ = second(images, targets)
    plain = net(norm=False)
    expected = plain[3:](second.last.plan.mix_images(plain[:3](images)))
    assert_close(model(mixed), expected)


def test_a_clean_pass_of_another_method_is_not_mixed_inside():
    model, (images, targets, _) = net(norm=False), batch(5)
    model(mixer_for(model, ("2",))(images, targets)[0])
    clean = CutMix(CLASSES, clean_weight=1.0).clean_pass(model, images, targets)
    assert_close(clean.outputs, net(norm=False)(images).detach())
