"""Narrow networks are trained in a memory format that torch computes them in."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from cases import each_case
from comixup.lab import models
from comixup.lab._networks import memory_format
from small_runs import recipe, train_here, write_images

CPU = torch.device("cpu")


@each_case("name", models.names())
def test_the_recipes_networks_are_channels_last(name):
    model = models.build(name, 10, shape=(3, 32, 32))
    assert memory_format(model, CPU) == torch.channels_last


@pytest.mark.parametrize("capability", ["AVX2", "AVX512", "DEFAULT"])
def test_narrow_networks_are_contiguous_on_cpus_alone(monkeypatch, capability):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    block = 16 if capability == "AVX512" else 8
    for width in (2, block - 1, block):
        model = models.build("preactresnet10", 10, width=width)
        expected = torch.channels_last if width == block else torch.contiguous_format
        assert memory_format(model, CPU) == expected
        assert memory_format(model, torch.device("cuda")) == torch.channels_last


def test_gradients_of_the_narrowest_channels_last_network_are_right():
    # The first width at which the kernel that writes beyond its buffer is not used.
    width = next(w for w in range(2, 17) if memory_format(net(w), CPU) == torch.channels_last)
    images = torch.randn(20, 3, 32, 32)
    found = []
    for layout in (torch.contiguous_format, torch.channels_last):
        model = net(width).to(memory_format=layout)
        model(images.contiguous(memory_format=layout)).square().sum().backward()
        found.append([weight.grad for weight in model.parameters()])
    assert_close(*found, rtol=1e-3, atol=1e-3)


def net(width):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.Conv2d(width, 2 * width, 1, stride=2))


def test_a_narrow_network_trains(tmp_path):
    data = write_images(tmp_path / "images")
    train_here(data, tmp_path, chosen=recipe(model="preactresnet10", width=4, epochs=1))
