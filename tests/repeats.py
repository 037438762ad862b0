"""A network whose activation runs several times, with blocks under gradient checkpointing."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from batches import CLASSES
from comixup import ManifoldMixup
from problems import generator


class Repeats(nn.Module):
    """A network with one activation module for three convolutions, as torchvision's blocks have.

    `blocks` says which of the three are checkpointed together; `run` runs a checkpointed block.
    """

    def __init__(self, blocks=(), run=None):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))
        self.act = nn.Tanh()
        self.head = nn.Linear(256, CLASSES)
        self.blocks, self.run = blocks, run

    def some(self, x, numbers, blend=None):
        for number in numbers:
            x = self.act(self.convs[number](x))
            if blend is not None and number == 0:
                x = blend.mix_images(x)
        return x

    def forward(self, x, blend=None):
        x, done = self.stem(x), 0
        for numbers in self.blocks:
            x = self.some(x, range(done, numbers[0]))
            x = self.run(lambda h, numbers=numbers: self.some(h, numbers), x)
            done = numbers[-1] + 1
        return self.head(self.some(x, range(done, 3), blend).flatten(1))


def repeats(*args):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Repeats(*args)


def mixer_for(model, layers=("act",), seed=0, **settings):
    mixer = ManifoldMixup(CLASSES, layers=layers, generator=generator(seed), **settings)
    return mixer.attach(model)


def assert_same_gradients(model, loss, images, soft, blend):
    """Holds a model against one whose first output of `act` is mixed without hooks."""
    plain = repeats()
    expected = F.cross_entropy(plain(images, blend), soft)
    expected.backward()
    assert_close(loss, expected)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert_close(p.grad, q.grad)


def once(function, x):
    return checkpoint(function, x, use_reentrant=False)


def once_reentrant(function, x):
    return checkpoint(function, x, use_reentrant=True)
