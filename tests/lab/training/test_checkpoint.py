"""Checkpoints: what is read is what was written, and nothing else is read at all."""

import copy
import os
import pickle
import zipfile

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from comixup.lab._networks import load_weights
from comixup.lab.training._folder import (
    CHECKPOINT,
    CHECKPOINT_VERSION,
    State,
    load_optimizer,
    load_state,
    save_state,
)
from small_runs import contents, saved, train_here

IDENTITY = {"lr": 1, "seed": 0}


def small_state():
    row = {"epoch": 1.0, "train_loss": 0.5}
    return State(IDENTITY, epoch=1, step=2, model={"w": torch.arange(600.0)}, history=[row])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / CHECKPOINT
    save_state(small_state(), path)
    return path


def rejected(path, match, identity=IDENTITY):
    """The file is rejected with an error message, and left alone."""
    before = path.read_bytes()
    with pytest.raises(ValueError, match=match) as caught:
        load_state(path, identity)
    assert "Nothing was changed" in str(caught.value)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def rewrite(path, **changes):
    content = torch.load(path, weights_only=True) | changes
    torch.save({name: value for name, value in content.items() if value is not None}, path)


def test_what_is_read_is_what_was_written(path):
    state, expected = load_state(path, IDENTITY), small_state()
    assert_close(state.model, expected.model, rtol=0, atol=0)
    state.model = expected.model
    assert state == expected


def test_a_truncated_file_and_random_bytes(path):
    content = path.read_bytes()
    numbers = torch.randint(256, (4000,), generator=torch.Generator().manual_seed(0))
    for damaged in (b"", content[: len(content) // 3], content[:-1], bytes(numbers.tolist())):
        path.write_bytes(damaged)
        rejected(path, "is damaged")


def test_a_changed_bit_is_never_read_as_something_else(path):
    content, expected, damaged = path.read_bytes(), small_state(), 0
    for place in range(0, len(content), 29):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            state = load_state(path, IDENTITY)
        except ValueError:
            damaged += 1
        else:  # where nothing is stored: padding, times of files
            assert torch.equal(state.model.pop("w"), expected.model["w"])
            assert state == State(**vars(expected) | {"model": {}})
    assert damaged > len(content) / 29 / 2


class Hostile:
    """Makes a folder when it is unpickled in the usual way."""

    def __init__(self, canary):
        self.canary = str(canary)

    def __reduce__(self):
        return os.mkdir, (self.canary,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_hostile_file_runs_nothing(path, tmp_path_factory, zipped):
    canary = tmp_path_factory.mktemp("mine") / "canary"
    hostile = {"format": CHECKPOINT_VERSION, "model": Hostile(canary)}
    if zipped:
        torch.save(hostile, path)
    else:
        path.write_bytes(pickle.dumps(hostile))
    rejected(path, "is damaged or holds objects other than tensors and plain data")
    assert not canary.exists()
    if zipped:
        torch.load(path, weights_only=False)
    else:
        pickle.loads(path.read_bytes())
    assert canary.exists()  # read in the usual way, it would have


def test_an_archive_that_unpacks_to_more_than_it_is(tmp_path):
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    torch.save({"model": {"weight": torch.zeros(10**6)}}, plain)
    with (
        zipfile.ZipFile(plain) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other,
    ):
        for name in archive.namelist():
            other.writestr(name, archive.read(name))
    plain.unlink()
    rejected(packed, "its records are larger than the file")


@pytest.mark.parametrize(
    "change", [{"format": CHECKPOINT_VERSION + 1}, {"format": None}, {"optimizer": None}]
)
def test_another_format(path, change):
    rewrite(path, **change)
    rejected(path, f"must be of format {CHECKPOINT_VERSION}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", "1"),
        ("model", [1]),
        ("optimizer", torch.ones(2)),
        ("history", {"epoch": 1}),
        ("history", [{"epoch": "one"}]),
        ("totals", {"loss": torch.ones(2)}),
    ],
)
def test_parts_of_another_kind(path, name, value):
    rewrite(path, **{name: value})
    rejected(path, "must hold what comixup writes")


def test_another_run(path):
    rejected(path, "seed was 0, is 1", identity=IDENTITY | {"seed": 1})


# ---- Networks and optimizers --------------------------------------------------------------------


def trained():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.rand(4, 3)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def test_weights_and_optimizers_go_on():
    (model, optimizer), (other, its) = trained(), trained()
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    for net, steps in ((model, optimizer), (other, its)):
        net(torch.ones(4, 3)).sum().backward()
        steps.step()
    load_weights(model, weights)
    load_optimizer(optimizer, state)
    optimizer.step()  # from the same gradients, by the same moments
    assert_close(model[0].weight, other[0].weight, rtol=0, atol=0)


def test_an_optimizers_settings_stay_the_recipes():
    _, optimizer = trained()
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0]["lr"] = "a lot"
    load_optimizer(optimizer, state)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_the_optimizer_of_another_network():
    _, optimizer = trained()
    state = copy.deepcopy(optimizer.state_dict())
    state["state"][0]["exp_avg"] = torch.ones(5)
    with pytest.raises(ValueError, match=r"exp_avg must be float32 of shape \(2, 3\)"):
        load_optimizer(optimizer, state)
    state["param_groups"][0]["params"].pop()
    with pytest.raises(ValueError, match="weights are others"):
        load_optimizer(optimizer, state)


# ---- A run's own --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """The folder of all runs, with one that is finished."""
    out = tmp_path_factory.mktemp("runs")
    train_here(data, out)
    return out


def no_number(weight):
    weight = weight.clone()
    weight.view(-1)[0] = torch.nan
    return weight


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda weight: weight[:-1], "fc.weight must be float32 of shape"),
        (lambda weight: weight.tolist(), "of type list"),
        (no_number, "fc.weight has numbers that are infinite or NaN"),
    ],
)
def test_weights_that_do_not_fit_are_rejected_and_nothing_is_changed(data, runs, damage, match):
    folder = train_here(data, runs)
    good = (folder / CHECKPOINT).read_bytes()
    content = saved(folder)
    content["finished"] = False
    content["model"]["fc.weight"] = damage(content["model"]["fc.weight"])
    torch.save(content, folder / CHECKPOINT)
    before = contents(folder)
    with pytest.raises(ValueError, match=match) as caught:
        train_here(data, runs)
    assert "`checkpoint` must fit this run's network and optimizer" in str(caught.value)
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    (folder / CHECKPOINT).write_bytes(good)
