"""Runs that take saliency from earlier batches: killed, resumed, and shared between processes."""

import dataclasses

import pytest
import torch

from comixup.lab.training import Hardware, _trainer, change_method
from comixup.lab.training._mixers import make_method
from comixup.lab.training._report import is_mixture
from small_runs import (
    assert_same_weights,
    commands,
    folder_of,
    recipe,
    saved,
    train_here,
    words,
)

ONE_PASS = (
    *("--saliency", "one-pass", "--memory", "rate=0.75", "cells=4"),
    *("--augment", "trivial"),
)
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


def one_pass(**changes):
    memory = {"rate": 0.75, "cells": 4}
    chosen = recipe(augment="trivial", **changes)
    return change_method(chosen, "comixup", {}, saliency="one-pass", memory=memory)


def test_two_processes_train_as_one_that_cuts_its_batches_in_two(data, tmp_path):
    arguments = [*words(data, tmp_path / "both", method="comixup", epochs=3), *ONE_PASS]
    both = commands(2, [*arguments, "--checkpoint-steps", "1"], tmp_path / "log")
    codes = [command.end() for command in both]
    assert codes == [0, 0], [command.text for command in both]
    halves = Hardware(accelerator="cpu", accumulate=2)
    folder = train_here(data, tmp_path, "comixup", one_pass(epochs=3), halves)
    together = folder_of(tmp_path / "both", "comixup")
    assert_same_weights(together, folder, **ROUNDING)
    maps = [saved(each)["memory"]["maps"].float() for each in (together, folder)]
    torch.testing.assert_close(*maps, atol=1.5, rtol=0)  # a rounding of a byte


def test_methods_without_saliency_are_rejected():
    method = dataclasses.replace(recipe().methods["cutmix"], saliency="one-pass")
    with pytest.raises(ValueError, match='`saliency` must be "paper" for cutmix'):
        make_method(method, 4, 10, torch.Generator())
    method = dataclasses.replace(one_pass().methods["comixup"], memory={"ratte": 0.5})
    with pytest.raises(ValueError, match=r"`memory` must have settings among .*Did you mean rate"):
        make_method(method, 4, 10, torch.Generator())
    with pytest.raises(ValueError, match='`memory` must be empty where saliency is "paper"'):
        change_method(recipe(), "comixup", {}, memory={"rate": 0.5})


@pytest.fixture
def drawn(monkeypatch):
    """Pictures of batches as they would be drawn: name, what was mixed, epoch and step."""
    drawn = []

    def draw(path, last, images, loader, when, title):
        drawn.append((path.name, last, when))
        path.write_bytes(b"")

    monkeypatch.setattr(_trainer, "draw_mixed_batch", draw)
    return drawn


def test_the_first_batch_that_is_mixed_and_the_last_are_drawn(data, tmp_path, drawn):
    train_here(data, tmp_path, method="comixup", chosen=one_pass())
    assert [name for name, _, _ in drawn] == ["first_batch.png", "last_batch.png"]
    pictures = {name: (last, when) for name, last, when in drawn}
    assert all(last.mixed for last, _ in pictures.values())
    assert pictures["last_batch.png"][1][0] == 2  # the last of three epochs
    first = pictures["first_batch.png"]
    assert is_mixture(first[0].plan) or first[1] == pictures["last_batch.png"][1]


def test_a_run_that_patience_stops_has_a_last_batch(data, tmp_path, monkeypatch, drawn):
    errors = iter([50.0, 40.0, 45.0, 30.0, 35.0, 30.0])
    evaluate = _trainer.Trainer._evaluate
    monkeypatch.setattr(
        _trainer.Trainer,
        "_evaluate",
        lambda trainer: evaluate(trainer) | {"validation_error": next(errors)},
    )
    chosen = recipe(epochs=8, patience=2, validation=0.4, images_per_class=3, evaluate_every=1)
    folder = train_here(data, tmp_path, "input", chosen)
    # Epochs 2 and 4, counted from 0, are no better than those before: 3 and 5 may be the last.
    assert [when[0] for name, _, when in drawn if name == "last_batch.png"] == [3, 5]
    assert next(errors, None) is None
    assert (folder / "last_batch.png").exists()
