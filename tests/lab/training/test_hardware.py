"""Devices and processes."""

import contextlib
import copy
import dataclasses
import os

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from comixup.lab import models
from comixup.lab.training import RECIPES, Hardware
from comixup.lab.training._run import Run
from comixup.lab.training._setup import with_sync_batch_norm


@pytest.mark.parametrize("name", ["devices", "num_nodes", "accumulate"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_counts_are_positive(name, value):
    with pytest.raises((ValueError, TypeError), match=f"`{name}` must be"):
        Hardware(**{name: value})


def test_workers_may_be_none_at_all():
    assert Hardware(workers=0).workers == 0
    with pytest.raises(ValueError, match="`workers` must be"):
        Hardware(workers=-1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("devices", 1000),
        ("num_nodes", 10**6),
        ("accumulate", 10**9),
        ("workers", 10**6),
        ("devices", 10**21),
        ("timeout_minutes", 1e9),
        ("timeout_minutes", 0),
        ("timeout_minutes", float("nan")),
    ],
)
def test_numbers_that_no_machine_has_are_rejected(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        Hardware(**{name: value})


def test_a_machine_with_many_cores_can_have_a_process_on_each(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 192)
    assert Hardware(devices=192).devices == 192


def test_strategies_that_shard_are_rejected():
    with pytest.raises(ValueError, match="`strategy` must be one of"):
        Hardware(strategy="fsdp")


def test_a_fabric_on_the_cpu():
    fabric = Hardware(accelerator="cpu").launch()
    assert (fabric.world_size, fabric.device.type) == (1, "cpu")
    assert fabric.is_global_zero


@pytest.mark.parametrize(
    ("name", "value"), [("PRECISION", "bf16-mixed"), ("DEVICES", "2"), ("ACCELERATOR", "cuda")]
)
def test_fabrics_own_variables_cannot_change_what_is_asked_for(monkeypatch, name, value):
    monkeypatch.setenv(f"LT_{name}", value)
    message = f"`{name.lower()}` must be what Lightning Fabric reads .* LT_{name}={value}"
    with pytest.raises(ValueError, match=message):
        Hardware(accelerator="cpu").launch()
    monkeypatch.setenv(f"LT_{name}", {"PRECISION": "32-true", "DEVICES": "1"}.get(name, "cpu"))
    assert Hardware(accelerator="cpu").launch().world_size == 1


# ---- Batch norm of several processes ------------------------------------------------------------


class TwoGpus(Fabric):
    """What a network is converted for; two GPUs are not there to train on."""

    world_size, device = 2, torch.device("cuda")


def converted(method="cutmix", freeze="none", fabric=None, network="small", **changes):
    recipe = RECIPES["cifar100-preactresnet18"].with_method(method, **changes)
    recipe = dataclasses.replace(recipe, freeze=freeze, pretrained=freeze != "none")
    width = 8 if network == "small" else None
    model = models.build(network, 4, shape=(3, 32, 32), width=width)
    synchronized = with_sync_batch_norm(
        copy.deepcopy(model), Run(recipe, method), fabric or TwoGpus(accelerator="cpu")
    )
    return model, synchronized


# timm's has activations in its batch norms.
@pytest.mark.parametrize("network", ["small", "timm:test_efficientnet"])
def test_the_converted_network_is_the_same_one(network):
    model, synchronized = converted(network=network)
    norms = [m for m in synchronized.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert norms
    assert all(isinstance(module, nn.SyncBatchNorm) for module in norms)
    torch.testing.assert_close(synchronized.state_dict(), model.state_dict(), rtol=0, atol=0)
    images = torch.rand(4, 3, 32, 32)
    for one in (model, synchronized):  # without a process group it is batch norm
        one.train()
    torch.testing.assert_close(synchronized(images), model(images))
    torch.testing.assert_close(synchronized.state_dict(), model.state_dict())


def test_where_nothing_is_to_be_synchronized_the_network_stays():
    for settings in ({"fabric": Fabric(accelerator="cpu", devices=1)}, {"freeze": "norms"}):
        _, network = converted(**settings)
        assert not any(isinstance(module, nn.SyncBatchNorm) for module in network.modules())


PASSES = [
    ("comixup", {"settings": {"p": 0.5}}, False),
    ("comixup", {"schedule": {"annealed": True}}, False),
    ("comixup+cutmix", {}, False),
    ("comixup", {}, True),
    ("comixup", {"settings": {"p": 0.5}, "saliency": "one-pass"}, True),
    ("comixup+puzzlemix", {}, True),
    ("cutmix", {"settings": {"p": 0.5}}, True),
    ("cutmix", {"schedule": {"annealed": True}}, True),
]


@pytest.mark.parametrize(("method", "changes", "alike"), PASSES)
def test_processes_that_make_other_passes_would_wait_for_ever(method, changes, alike):
    expected = contextlib.nullcontext()
    if not alike:
        expected = pytest.raises(ValueError, match="`sync_batch_norm` must be left out for a meth")
    with expected:
        converted(method, **changes)


def test_torch_synchronizes_no_batch_norm_on_a_cpu(tmp_path):
    # Were this to change, `with_sync_batch_norm` need not reject CPUs.
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        with pytest.raises(ValueError, match="SyncBatchNorm expected input tensor to be on GPU"):
            nn.SyncBatchNorm(3)(torch.rand(4, 3, 2, 2))
    finally:
        torch.distributed.destroy_process_group()
