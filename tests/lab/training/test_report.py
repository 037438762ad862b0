"""What a run shows: lines where there is no terminal, a bar where there is one, TensorBoard."""

import io
import time

import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from comixup.lab.training._report import Reporter

ROW = {
    "epoch": 2.0,
    "lr": 0.1,
    "train_loss": 1.23456,
    "test_error": 45.678,
    "seconds": 3.21,
    "images_per_second": 1234.5,
}


def shown(reporter_calls, *, terminal=False, epochs=5, width=80, **settings):
    """Returns what a reporter printed while these calls were made."""
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal)
    with Reporter(console, "CIFAR-100, a network: comixup, seed 0", epochs, **settings) as reporter:
        reporter_calls(reporter)
    return console.file.getvalue()


def test_lines_for_a_log():
    text = shown(lambda reporter: reporter.epoch(ROW))
    assert text.splitlines() == [
        "CIFAR-100, a network: comixup, seed 0, 5 epochs",
        "epoch 2/5: loss 1.2346, test error 45.68 %, 3.2 s (1,234 images/s)",
    ]


MIXED = {**ROW, "inputs_per_output": 2.43, "unmixed_outputs": 7.7}


@pytest.mark.parametrize(("width", "fits"), [(80, False), (120, True)])
def test_how_batches_are_mixed_is_shown_beside_a_bar_where_it_fits(width, fits):
    text = shown(lambda reporter: reporter.epoch(MIXED), terminal=True, width=width)
    assert ("error 45.68 %, 2.4 inputs per output (8 % unmixed)" in text) is fits
    assert "…" not in text


def test_bar_shows_how_far_the_run_is():
    sums = torch.tensor([20.0, 8.0, 0.0, 0.0])

    def calls(reporter):
        reporter.epoch(ROW)
        reporter.step(2, 1, 2, sums)

    text = shown(calls, terminal=True)
    assert "CIFAR-100, a network: comixup, seed 0, 5 epochs" in text
    assert "2/5" in text
    assert "loss 2.500, error 45.68 %" in text
    assert "left" in text
    assert "…" not in text


def test_bar_of_a_resumed_run_begins_where_it_stood():
    assert "3/5" in shown(lambda reporter: None, terminal=True, first_epoch=3)


def events(folder):
    found = EventAccumulator(str(folder))
    found.Reload()
    return {
        name: {event.step: event.value for event in found.Scalars(name)}
        for name in found.Tags()["scalars"]
    }


def calls(errors):
    def report(reporter):
        for epoch, error in errors.items():
            reporter.epoch({**ROW, "epoch": float(epoch), "test_error": error})

    return report


def test_a_resumed_run_takes_back_what_came_after_its_checkpoint(tmp_path):
    shown(calls({1: 60.0, 2: 50.0, 3: 99.0, 4: 98.0}), events=tmp_path)
    shown(calls({3: 40.0}), events=tmp_path, first_epoch=2)
    assert events(tmp_path)["test_error"] == {1: 60.0, 2: 50.0, 3: 40.0}


@pytest.mark.parametrize("jump", [-86400, 0])
def test_a_clock_that_is_set_back_between_two_starts(tmp_path, monkeypatch, jump):
    # With no jump at all, the starts are within one second.
    now = 1.7e9
    for start, errors in enumerate(({1: 60.0, 2: 99.0}, {2: 50.0, 3: 98.0}, {3: 40.0})):
        monkeypatch.setattr(time, "time", lambda start=start: now + start * jump)
        monkeypatch.setattr("os.getpid", lambda start=start: 100 - start)
        shown(calls(errors), events=tmp_path, first_epoch=start)
    assert events(tmp_path)["test_error"] == {1: 60.0, 2: 50.0, 3: 40.0}


def test_files_of_others_stay_where_they_are(tmp_path):
    names = {"events.out.tfevents.99999999999.host.v2", "events.out.tfevents.mine.v2", "notes.txt"}
    for name in names:
        (tmp_path / name).write_bytes(b"")
    shown(calls({1: 60.0}), events=tmp_path)
    assert names < {path.name for path in tmp_path.iterdir()}
