"""What is made of a run's epochs, and the table of several runs."""

import io
import statistics

import pytest
from rich.console import Console

from comixup.lab._runs import RunRecord
from comixup.lab.training import RECIPES
from comixup.lab.training._results import results_table, run_metrics

CIFAR = RECIPES["cifar100-preactresnet18"]
ERRORS = [90.0, 20.0, 31.0, 32.0, 33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0, 44.0]


def history(errors=ERRORS, validation=None, seconds=None):
    rows = [
        {
            "epoch": float(number + 1),
            "train_loss": 1.0,
            "test_error": error,
            "test_top5_error": error / 2,
            "seconds": 1.0 if seconds is None else seconds[number],
            "cpu_seconds": 2.0,
        }
        for number, error in enumerate(errors)
    ]
    for row, error in zip(rows, validation or [], strict=False):
        row["validation_error"] = error
    return rows


def result(error=20.0, selected=None, seconds=3.0):
    errors = {"last_error": error + 1, "best_error": error - 1, "median_error": error}
    errors |= {} if selected is None else {"selected_error": selected}
    return RunRecord("comixup", 0, {**errors, "seconds_per_epoch": seconds})


# ---- One run ------------------------------------------------------------------------------------


def test_error_at_the_best_validation_is_not_the_best_error():
    validation = [60.0, 30.0, 25.0, 25.0, 26.0]
    found = run_metrics(history([50.0, 10.0, 12.0, 11.0, 9.0], validation), {}, "validation")
    assert found["selected_error"] == found["error"] == 12.0  # the first of equals
    assert found["best_error"] == 9.0
    assert found["median_validation_error"] == 26.0


def test_epochs_that_were_not_evaluated_count_as_trained_alone():
    rows = history([50.0, 40.0, 30.0], seconds=[1.0, 5.0, 12.0])
    for name in ("test_error", "test_top5_error"):
        del rows[1][name]
    found = run_metrics(rows, {}, "median")
    assert (found["epochs"], found["median_error"], found["best_error"]) == (3, 40.0, 30.0)
    assert found["seconds_per_epoch"] == 5.0


@pytest.mark.parametrize(
    ("reported", "error"), [("median", 35.5), ("last", 44.0), ("validation", 36.0)]
)
def test_the_recipe_says_which_error_counts(reported, error):
    validation = [9.0] * 7 + [5.0] + [9.0] * 4
    assert run_metrics(history(ERRORS, validation), {}, reported)["error"] == error


def test_final_weights_are_measured_by_split():
    final = {
        "test": {"images": 9, "error": 30.0, "nll": 1.0},
        "validation": {"images": 4, "error": 40.0, "nll": 2.0},
    }
    found = run_metrics(history(), final, "last")
    assert (found["error"], found["final_error"], found["validation_error"]) == (44.0, 30.0, 40.0)
    assert (found["images"], found["nll"]) == (9, 1.0)
    assert (found["validation_images"], found["validation_nll"]) == (4, 2.0)


# ---- The table ----------------------------------------------------------------------------------


def lines_of(table, width=80):
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    return console.file.getvalue().splitlines()


def test_table_has_a_row_per_method_over_its_seeds():
    found = {
        "vanilla": {0: result(24.0), 7: result(23.0, seconds=5.0)},
        "comixup": {0: result(20.0)},
    }
    lines = lines_of(results_table(CIFAR, found), 120)
    (header,) = [line.split() for line in lines if "method" in line]
    assert header == ["method", "seeds", "median*", "last", "best", "s/epoch", "paper"]
    (vanilla,) = [line for line in lines if "vanilla" in line]
    assert vanilla.split("  ")[0].strip() == "vanilla"
    for cell in ("0 7", "23.50 ± 0.71", "24.50 ± 0.71", "22.50 ± 0.71", "4.0", "23.59"):
        assert cell in vanilla
    (comixup,) = [line for line in lines if "comixup" in line]
    assert comixup.split() == ["comixup", "0", "20.00", "21.00", "19.00", "3.0", "19.87"]


@pytest.mark.parametrize(
    ("name", "reported", "word", "meaning"),
    [
        ("cifar100-vat", "median", "median*", "median of the last ten epochs"),
        ("digits", "last", "last*", "last epoch's error"),
        ("speech-lenet", "validation", "val.*", "where validation accuracy was best"),
    ],
)
def test_table_marks_what_is_reported_and_cuts_nothing_off(name, reported, word, meaning):
    recipe = RECIPES[name]
    assert recipe.reported == reported
    found = {
        method: {seed: result(23.0 + seed, 29.0, 1234.5) for seed in range(3)}
        for method in recipe.methods
    }
    lines = lines_of(results_table(recipe, found), 80)
    text = "\n".join(lines)
    assert word in text
    assert text.count("*") == 2  # at the column, and at what it means
    assert meaning in text
    assert "…" not in text
    for method in recipe.methods:
        assert any(line.split()[:1] == [method] for line in lines)
    assert text.count("1234.5") == len(recipe.methods)


def test_errors_of_a_run():
    found = run_metrics(history(), {}, "median")
    assert found["epochs"] == 12
    assert found["median_error"] == statistics.median(ERRORS[2:]) == 35.5  # of the last ten alone
    assert (found["last_error"], found["best_error"], found["top5_error"]) == (44.0, 20.0, 22.0)
    assert found["cpu_seconds"] == 24.0
    assert not {"median_validation_error", "selected_error", "final_error"} & set(found)
