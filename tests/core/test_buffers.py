"""Running statistics and other buffers stay as they are where a pass is not to train the model."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from batches import CLASSES, batch, net
from comixup import CoMixup, saliency, training_step
from comixup._passes import unchanged_buffers
from comixup.lab.training._vat import vat_loss
from problems import generator
from rejections import rejects


def test_running_statistics_move_once_when_gradients_are_kept():
    model, (images, targets, _) = net(), batch(6)
    saliency(model, images, targets)
    assert int(model[1].num_batches_tracked) == 1


def test_running_statistics_come_back_if_the_model_fails():
    model, (images, targets, _) = net(), batch(6)
    with pytest.raises(RuntimeError, match="on purpose"):
        saliency(model, images, targets, keep_gradients=False, loss_fn=fails)
    assert int(model[1].num_batches_tracked) == 0


def fails(outputs, targets):
    raise RuntimeError("on purpose")


class DistributedDataParallel(torch.nn.Module):
    """Like torch's, it hands out the first process's buffers before the forward pass."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, images):
        self.module[1].running_mean.fill_(5.0)
        return self.module(images)


def test_buffers_handed_out_before_the_pass_are_those_that_stay():
    images, targets, _ = batch(6)
    model = net()
    saliency(DistributedDataParallel(model), images, targets, keep_gradients=False)
    assert_close(model[1].running_mean, torch.full_like(model[1].running_mean, 5.0))


class Counter(torch.nn.Module):
    """Puts new buffers in place of old ones, and has one that is expanded."""

    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.zeros(()))
        self.register_buffer("wide", torch.ones(1).expand(4))

    def forward(self, images):
        self.runs = self.runs + 1
        return images.flatten(1)[:, :4] * self.wide


def test_buffers_of_every_kind_stay():
    images, _, _ = batch(6)
    model = Counter()
    saliency(model, images, torch.zeros(6, dtype=torch.long), keep_gradients=False)
    assert model.runs == 0


pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")


def lazy():
    """A network that learns its sizes, and makes its statistics, in its first pass."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.LazyConv2d(4, 3),
            nn.LazyBatchNorm2d(momentum=0.5),
            nn.Flatten(),
            nn.LazyLinear(CLASSES),
        )


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("keep", [True, False], ids=["keep", "drop"])
def test_lazy_modules(keep, training):
    images, targets, _ = batch(6)
    model, other = lazy().train(training), lazy().train(training)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        maps = saliency(model, images, targets, keep_gradients=keep)
        torch.manual_seed(1)
        other(images)
    moved = int(keep and training)
    assert int(model[1].num_batches_tracked) == moved
    fresh = nn.BatchNorm2d(4)
    expected = other[1] if moved else fresh
    assert_close(model[1].running_mean, expected.running_mean)
    assert_close(model[1].running_var, expected.running_var)
    again = saliency(other, images, targets, keep_gradients=False)
    if training:  # in eval mode the other network has no statistics of these images
        assert_close(maps, again)


def test_a_lazy_model_trains_from_its_first_step():
    images, targets, _ = batch(6)
    model = lazy()
    mixer = CoMixup(CLASSES, keep_gradients=False, generator=generator(0))
    training_step(model, mixer, images, targets).loss.backward()
    assert int(model[1].num_batches_tracked) == 1  # of the mixed batch
    assert all(p.grad is not None for p in model.parameters())


def test_vat_needs_a_model_that_is_initialized():
    images, _, _ = batch(6)
    model = lazy()
    with rejects(ValueError, r"`model` must have been run once.*model\(images\) first"):
        vat_loss(model, images, epsilon=0.1)
    model(images)
    vat_loss(model, images, epsilon=0.1).backward()


def test_no_hook_stays_behind():
    model = lazy()
    hooks = [len(module._forward_pre_hooks) for module in model]
    with pytest.raises(KeyboardInterrupt), unchanged_buffers(model):
        raise KeyboardInterrupt
    assert not model._forward_pre_hooks
    assert [len(module._forward_pre_hooks) for module in model] == hooks
