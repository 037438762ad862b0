"""Choices of a recipe's methods, and schedules: as data, and as runs, killed and resumed."""

import json

import pytest
import torch

from cases import each_case
from comixup import Choice, CoMixup, CutMix, InputMixup, OnePass, Schedule
from comixup.lab.training import RECIPES, Method, change_method
from comixup.lab.training._folder import METADATA
from comixup.lab.training._mixers import make_method, passes_per_image
from comixup.lab.training._run import Run, difference
from rejections import rejects
from small_runs import (
    assert_same_run,
    assert_same_weights,
    commands,
    die_at_write,
    folder_of,
    metrics,
    recipe,
    run,
    saved,
    words,
)

SMALL = RECIPES["cifar100-small-data"]
VAT = RECIPES["cifar100-vat"]
BOTH = "comixup-one-pass+input"
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


def made(method):
    return make_method(method, 5, 20, torch.Generator())


# ---- As data -------------------------------------------------------------------------------------


def test_joined_names_are_a_choice_with_the_settings_of_the_recipe():
    one_pass = made(SMALL.choose(BOTH))
    assert isinstance(one_pass, OnePass)
    assert [type(mixer) for mixer in one_pass.mixer.mixers] == [CoMixup, InputMixup]
    assert one_pass.mixer.mixers[1].alpha == SMALL.methods["input"].settings["alpha"]
    assert len(one_pass.mixer.generators) == 1
    paper = made(SMALL.choose("comixup-hard-clip+cutmix+input"))
    assert isinstance(paper, Choice)
    assert [type(mixer) for mixer in paper.mixers] == [CoMixup, CutMix, InputMixup]
    assert paper.mixers[0].clip == "hard"
    assert paper.mixers[1].alpha == 0.2
    assert (paper.weights, paper.p) == (None, 1.0)
    halves = made(SMALL.choose("input-p0.5+cutmix-p0.5"))
    assert (halves.p, [mixer.p for mixer in halves.mixers]) == (0.5, [1.0, 1.0])


def test_weights_saliency_and_schedule_can_be_changed():
    changed = change_method(SMALL, BOTH, {"weights": [2, 1]}, memory={"rate": 0.75})
    mixup = made(changed.choose(BOTH))
    assert (mixup.mixer.weights, mixup.rate) == ((2.0, 1.0), 0.75)
    changed = change_method(
        SMALL, "comixup+input", {"p": 0.5}, saliency="one-pass", schedule={"annealed": True}
    )
    method = changed.choose("comixup+input")
    assert method.schedule == {"annealed": True}
    mixup = made(method)
    assert isinstance(mixup, OnePass)
    assert mixup.mixer.p == 0.5


def test_it_is_recorded_with_the_run():
    joined = Run(SMALL, BOTH)
    recorded = joined.trained.as_dict()["methods"][BOTH]
    assert recorded["mixer"] == "choice"
    assert list(recorded["parts"]) == ["comixup-one-pass", "input"]
    assert recorded["saliency"] == "one-pass"
    weighted = change_method(SMALL, BOTH, {"weights": [2, 1]})
    assert "settings was {}" in difference(joined.identity(), Run(weighted, BOTH).identity())
    other = change_method(SMALL, "input", {"alpha": 0.5})
    assert "parts was" in difference(joined.identity(), Run(other, BOTH).identity())
    assert Run(SMALL, "comixup-one-pass").recipe == SMALL


def test_passes_are_those_of_the_parts():
    def passes(name, recipe=SMALL):
        return passes_per_image(Run(recipe, name).chosen)

    assert passes(BOTH) == 1
    assert passes("comixup+input") == 1.5
    weighted = change_method(SMALL, "comixup+input", {"weights": [3, 1]})
    assert passes("comixup+input", weighted) == 1.75
    assert passes("cutmix+input") == 1


BAD = {
    "unknown": (SMALL, "comixup+inputt", r"`method` must be one of .*got 'inputt'\. Did you mean"),
    "nothing": (SMALL, "comixup+", r"`method` must be one of .*got ''"),
    "twice": (SMALL, "input+input", r"`method` must join different methods, got input\+input"),
    "manifold": (SMALL, "comixup+manifold", r"got manifold, which mixes inside the network"),
    "vat": (VAT, "comixup+vat-0.01-eps1-updates0", r"which trains by virtual adversarial"),
    "saliency": (
        SMALL,
        "comixup+comixup-one-pass",
        r"of the same saliency, got 'paper' of comixup and 'one-pass' of comixup-one-pass",
    ),
    "memory": (
        SMALL,
        "comixup-one-pass+comixup-one-pass-momentum",
        r"of the same memory, got \{\} of comixup-one-pass and \{'momentum': 0\.5\}",
    ),
    "p": (SMALL, "comixup+input-p0.5", r"of the same p, got 1 of comixup and 0\.5 of input-p0\.5"),
    "epochs": (SMALL, "input+vanilla-half", r"of the same epochs, got 1\.0 of input and 0\.5"),
}


@each_case(("recipe", "name", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_joined(recipe, name, message):
    with rejects(ValueError, message):
        recipe.choose(name)


CHANGES = {
    "weights": ({"settings": {"weights": [1, 2, 3]}}, r"`weights` must have a number for each of"),
    "words": ({"settings": {"weights": ["x", "y"]}}, r"`weights` must be a list whose members"),
    "of a part": ({"settings": {"alpha": 0.5}}, r"keywords of Choice \(weights, p\), got 'alpha'"),
    "schedule": ({"settings": {}, "schedule": {"of": 0.1}}, r"`schedule` must be one of"),
    "off": ({"settings": {}, "schedule": {"off": 1.5}}, r"`off` must be a number from 0 to 1"),
}


@each_case(("changes", "message"), CHANGES.values(), ids=CHANGES)
def test_changes_that_do_not_fit(changes, message):
    with rejects(ValueError, message):
        change_method(SMALL, BOTH, **changes)


def test_other_methods_that_do_not_fit():
    with rejects(ValueError, r"`mixer` must do without a clean pass"):
        change_method(SMALL, "comixup-one-pass+cutmix-clean", {})
    with rejects(ValueError, r"`saliency` must be left out for cutmix\+input"):
        change_method(SMALL, "cutmix+input", {}, saliency="one-pass")
    with rejects(ValueError, r"`schedule` must be left out for vanilla, which mixes nothing"):
        change_method(SMALL, "vanilla", {}, schedule={"annealed": True})
    with rejects(ValueError, r"`parts` must be given if mixer is \"choice\""):
        Method("choice")


def test_schedules_follow_the_epochs():
    def schedule(epochs, **wanted):
        chosen = change_method(recipe(epochs=epochs), "comixup", {}, schedule=wanted)
        return Run(chosen, "comixup").schedule

    assert schedule(20) == Schedule(20, off_epoch=20)
    assert schedule(20, off=0.1) == Schedule(20, off_epoch=18)
    assert schedule(50, off=0.1) == Schedule(50, off_epoch=45)
    assert schedule(50, annealed=True) == Schedule(50, off_epoch=50, annealed=True)
    speech = change_method(RECIPES["speech-lenet"], "comixup", {}, schedule={"off": 0.1})
    assert Run(speech, "comixup").schedule == Schedule(30, first_epoch=5, off_epoch=27)
    plain = Run(recipe(), "comixup")
    annealed = Run(change_method(recipe(), "comixup", {}, schedule={"annealed": True}), "comixup")
    assert "schedule was {}" in difference(plain.identity(), annealed.identity())


# ---- Runs ----------------------------------------------------------------------------------------

JOINED = "comixup+input"
OPTIONS = (
    *("--saliency", "one-pass", "--memory", "rate=0.75", "cells=4"),
    *("--set", "weights=[2,1]", "--schedule", "annealed", "--augment", "trivial"),
)
EPOCHS = 6


@pytest.fixture(scope="module")
def unbroken(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken")
    arguments = [*words(data, out, method=JOINED, epochs=EPOCHS), *OPTIONS]
    code, text = run(arguments, out / "log")
    assert code == 0, text
    return folder_of(out, JOINED)


def test_a_killed_run_ends_as_if_unbroken(data, tmp_path, unbroken):
    arguments = [*words(data, tmp_path, method=JOINED, epochs=EPOCHS), *OPTIONS]
    arguments += ["--checkpoint-steps", "1"]
    for number in (11, 30):  # in the first epoch, and in a later one
        code, text = run(arguments, tmp_path / "log", None, die_at_write, (number,))
        assert code < 0, text
    code, text = run(arguments, tmp_path / "log")
    assert code == 0, text
    folder = folder_of(tmp_path, JOINED)
    assert_same_run(folder, unbroken)
    kept, expected = (saved(each)["memory"]["maps"] for each in (folder, unbroken))
    assert torch.equal(kept, expected)
    assert kept.any()


def test_the_run_has_what_was_asked_for(unbroken):
    about = json.loads((unbroken / METADATA).read_text())
    method = about["recipe"]["methods"][about["method"]]
    assert (about["method"], method["mixer"]) == (JOINED, "choice")
    assert method["settings"] == {"weights": [2.0, 1.0]}
    assert method["schedule"] == {"annealed": True}
    assert list(method["parts"]) == ["comixup", "input"]
    shares = [float(row["unmixed_outputs"]) for row in metrics(unbroken)]
    fractions = [Schedule(EPOCHS, annealed=True)(epoch) for epoch in range(EPOCHS)]
    assert fractions == [1, 1, 1, 1, 1, 0]
    assert [share < 100 for share in shares] == [fraction > 0 for fraction in fractions]


def test_two_processes_train_as_one_that_cuts_its_batches_in_two(data, tmp_path):
    # Processes draw their own methods, some of which take a clean pass and some do not.
    settings = ("--schedule", "off-last-tenth")
    arguments = words(data, tmp_path / "both", method=JOINED, epochs=EPOCHS)
    both = commands(2, [*arguments, *settings, "--checkpoint-steps", "1"], tmp_path / "log")
    codes = [command.end() for command in both]
    assert codes == [0, 0], [command.text for command in both]
    arguments = words(data, tmp_path, method=JOINED, epochs=EPOCHS)
    code, text = run([*arguments, *settings, "--accumulate", "2"], tmp_path / "log")
    assert code == 0, text
    together, alone = (folder_of(out, JOINED) for out in (tmp_path / "both", tmp_path))
    assert_same_weights(together, alone, **ROUNDING)
