"""Tuning: what is tried, and that the test images have no say in the choice."""

import io

import pytest
from rich.console import Console

from comixup.lab._runs import RunRecord
from comixup.lab.training import RECIPES, Method, Sweep, tune
from comixup.lab.training import _sweep as sweeps
from comixup.lab.training._sweep import Variant, tuning_table
from small_sets import HERE, reduced, write_all

CIFAR = RECIPES["cifar100-preactresnet18"]


def result(validation, test, **more):
    errors = {"median_validation_error": validation, "median_error": test, "error": test}
    return RunRecord("input", 0, errors | more)


def found(**results):
    """Returns a sweep with these results of variants, by name."""
    method = Method("input")
    variants = [
        Variant("alpha", name, name, method, False, by_seed) for name, by_seed in results.items()
    ]
    return Sweep(CIFAR, "input", tuple(variants))


@pytest.fixture
def variants(monkeypatch):
    """Returns the recipe of the variants that `tune` would train, and they themselves."""

    def of(recipe, method=None):
        monkeypatch.setattr(sweeps, "_train_variants", lambda recipe, grid, name, *_: (
            recipe, {one.name: one.method for one in sweeps.sweep_variants(recipe, grid, name)}
        ))  # fmt: skip
        return tune(recipe, method)

    return of


def test_each_alpha_of_the_paper_is_a_variant(variants):
    method, own = "manifold", "2"
    _, methods = variants(CIFAR, method)
    names = {alpha: f"{method}-alpha-{alpha}" for alpha in ("0.2", "1", "2")} | {own: method}
    assert list(methods) == list(names.values())
    assert [m.settings["alpha"] for m in methods.values()] == [0.2, 1.0, 2.0]
    assert {(m.mixer, m.paper) for m in methods.values()} == {(method, None)}


def test_images_are_held_out_where_the_data_has_none_of_its_own(variants):
    assert variants(CIFAR, "input")[0].validation == 0.1
    assert variants(CIFAR.changed(validation=0.3), "input")[0].validation == 0.3
    assert variants(RECIPES["speech-lenet"], "input")[0].validation is None


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
        tune(RECIPES[name], method)


def test_best_variant_is_the_validation_images_choice():
    tuned = found(
        low_test_error={0: result(30.0, 1.0), 1: result(31.0, 1.0)},
        low_validation_error={0: result(26.0, 99.0), 1: result(20.0, 98.0)},
        lowest_of_one_seed={0: result(40.0, 2.0), 1: result(15.0, 2.0)},
    )
    assert tuned.best.name == "low_validation_error"
    without = found(a={0: RunRecord("input", 0, {"median_error": 1.0, "error": 1.0})})
    with pytest.raises(ValueError, match="must have validation images"):
        assert without.best


def test_tuning_trains_every_variant(tmp_path):
    name = "cifar100-preactresnet18"
    root = write_all(tmp_path / "sets")
    recipe = reduced(RECIPES[name], model="small", images_per_class=1)
    how = {"out": tmp_path, "data_root": root, "hardware": HERE}
    tuned = tune(recipe, "input", **how)
    folders = {path.name for path in (tmp_path / f"{name}-tune").iterdir() if path.is_dir()}
    assert folders == {one.name for one in tuned.variants}
    # The same command once more trains nothing: the runs are done.
    assert tune(recipe, "input", **how) == tuned


def lines(table):
    console = Console(width=120, file=io.StringIO())
    console.print(table)
    return console.file.getvalue().splitlines()


def test_table_marks_the_best():
    tuned = found(a={0: result(10.0, 30.0)}, b={0: result(9.0, 40.0), 3: result(10.0, 41.0)})
    rows = [line.split() for line in lines(tuning_table(tuned))]
    assert ["alpha", "a", "1", "10.00", "30.00"] in rows
    assert ["alpha", "b", "2", *["9.50", "±", "0.71", "40.50", "±", "0.71", "best"]] in rows


def test_a_tie_is_not_called_the_best():
    def run(error, images=200):
        return result(error, 1.0, validation_images=images)

    a, b = {0: run(10.0), 1: run(10.5)}, {0: run(10.5), 1: run(10.0)}
    assert found(a=a, b=b).ties == ["b"]
    assert found(c={0: run(9)}, a=a, b=b).ties == []
    # One image of one of two seeds is a quarter of a percent: less is rounding.
    assert found(a=a, b={0: run(10.6), 1: run(10.1)}).ties == ["b"]
    assert found(a=a, b={0: run(10.5), 1: run(10.5)}).ties == []
    text = " ".join(" ".join(lines(tuning_table(found(a=a, b=b)))).split())
    assert "best" not in text
    assert "a, b tie: they differ by less than one validation image" in text
