"""Tuning: what is tried, and that the test images have no say in the choice."""

import dataclasses
import io

import pytest
from rich.console import Console

from comixup.lab.training import RECIPES, Result, train
from comixup.lab.training._sweep import (
    best_of,
    mean_validation,
    tied_with,
    tune,
    tuning_table,
    tuning_variants,
)
from small_sets import HERE, reduced, write_all

CIFAR = RECIPES["cifar100-preactresnet18"]


def result(validation, test):
    return Result(
        epochs=1,
        last=test,
        best=test,
        median=test,
        validation=validation,
        at_best_validation=test,
        top5=0.0,
        seconds_per_epoch=1.0,
        cpu_seconds=1.0,
    )


@pytest.mark.parametrize("method", ["input", "manifold", "cutmix"])
def test_each_alpha_of_the_paper_is_a_variant(method):
    recipe = tuning_variants(CIFAR, method)
    names = [f"{method}-alpha-{alpha}" for alpha in ("0.2", "1", "2")]
    assert list(recipe.methods) == names
    assert recipe.method == names[0]
    assert [m.settings["alpha"] for m in recipe.methods.values()] == [0.2, 1.0, 2.0]
    assert {(m.mixer, m.paper) for m in recipe.methods.values()} == {(method, None)}
    assert recipe.name == "cifar100-preactresnet18-tune"  # its runs have folders of their own


def test_close_values_are_variants_of_their_own():
    close = {"input": {"alpha": (0.1234567, 0.1234568)}}
    recipe = tuning_variants(dataclasses.replace(CIFAR, tuning_grid=close), "input")
    assert [m.settings["alpha"] for m in recipe.methods.values()] == [0.1234567, 0.1234568]


def test_other_settings_stay():
    recipe = tuning_variants(RECIPES["cifar100-multi-input"], "cutmix-3")
    assert list(recipe.methods) == [f"cutmix-3-alpha-{alpha}" for alpha in ("0.2", "1", "2")]
    assert {m.settings["num_inputs"] for m in recipe.methods.values()} == {3}


def test_images_are_held_out_where_the_data_has_none_of_its_own():
    assert tuning_variants(CIFAR, "input").validation == 0.1
    assert tuning_variants(CIFAR.changed(validation=0.3), "input").validation == 0.3
    assert tuning_variants(RECIPES["speech-lenet"], "input").validation is None


@pytest.mark.parametrize(
    ("name", "method", "message"),
    [
        ("cifar100-preactresnet18", "comixup", r"\(input, manifold, cutmix\), got 'comixup'"),
        ("cifar100-preactresnet18", None, "got 'comixup'"),
        ("cifar100-sensitivity", "beta-0", "must be that of a recipe that tunes, got 'beta-0'"),
        ("cifar100-preactresnet18", "cutmixx", "Did you mean cutmix"),
    ],
)
def test_what_cannot_be_tuned_gets_an_error_message(name, method, message):
    with pytest.raises(ValueError, match=message):
        tuning_variants(RECIPES[name], method)


def test_means_are_of_the_validation_error():
    assert mean_validation({0: result(10.0, 90.0), 1: result(20.0, 80.0)}) == 15.0
    with pytest.raises(ValueError, match="must have validation images"):
        mean_validation({0: dataclasses.replace(result(1.0, 1.0), validation=None)})


def test_best_variant_is_the_validation_images_choice():
    found = {
        "low test error": {0: result(30.0, 1.0), 1: result(31.0, 1.0)},
        "low validation error": {0: result(26.0, 99.0), 1: result(20.0, 98.0)},
        "lowest of one seed": {0: result(40.0, 2.0), 1: result(15.0, 2.0)},
    }
    assert best_of(found) == "low validation error"


@pytest.mark.parametrize("name", ["cifar100-preactresnet18", "speech-lenet"])
def test_tuning_trains_every_variant(name, tmp_path):
    root = write_all(tmp_path / "sets")
    recipe = reduced(RECIPES[name], model="small", images_per_class=1)
    best, found = tune(recipe, "input", out=tmp_path, data_root=root, hardware=HERE)
    assert mean_validation(found[best]) == min(map(mean_validation, found.values()))
    folders = sorted(path.name for path in (tmp_path / f"{name}-tune").iterdir())
    assert folders == sorted(found)
    # The same command once more trains nothing: the runs are done.
    variants = tuning_variants(recipe, "input")
    again = train(variants, method=best, out=tmp_path, data_root=root, hardware=HERE)
    assert again == found[best]


def test_table_marks_the_best():
    found = {"a": {0: result(10.0, 30.0)}, "b": {0: result(9.0, 40.0), 3: result(10.0, 41.0)}}
    console = Console(width=80, file=io.StringIO())
    console.print(tuning_table("b", found))
    rows = [line.strip("│ ").split("│") for line in console.file.getvalue().splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows if len(row) == 5 or len(row) == 4]
    assert ["a", "0", "10.00", "30.00"] in [row[:4] for row in cells]
    assert ["b", "0 3", "9.50 ± 0.71", "40.50 ± 0.71", "best"] in cells


def test_a_tie_is_not_called_the_best():
    def run(error, images=200):
        return dataclasses.replace(result(error, 1.0), final={"validation": {"images": images}})

    found = {"a": {0: run(10.0), 1: run(10.5)}, "b": {0: run(10.5), 1: run(10.0)}, "c": {0: run(9)}}
    assert tied_with("a", {name: found[name] for name in "ab"}) == ["b"]
    assert tied_with("c", found) == []
    # One image of one of two seeds is a quarter of a percent: less is rounding.
    assert tied_with("a", {"a": found["a"], "b": {0: run(10.6), 1: run(10.1)}}) == ["b"]
    assert tied_with("a", {"a": found["a"], "b": {0: run(10.5), 1: run(10.5)}}) == []
    console = Console(width=120, file=io.StringIO())
    console.print(tuning_table("a", {name: found[name] for name in "ab"}))
    text = console.file.getvalue()
    assert "best" not in text
    assert "a, b tie: they differ by less than one validation image" in " ".join(text.split())
