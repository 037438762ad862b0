"""Devices and processes."""

import os

import pytest

from comixup.lab.training import Hardware


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
