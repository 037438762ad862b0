"""The paper's tables and figures as data: complete, and in agreement with the recipes."""

import dataclasses
import re

import pytest

from comixup.lab.paper import ITEMS, chosen_items, jobs_of
from comixup.lab.paper._jobs import jobs_by_scale, passes_of, run_cost, with_needed
from comixup.lab.paper._trained_tables import SMALL, VARIANTS, recipe_named
from comixup.lab.training import RECIPES
from comixup.lab.training._mixers import passes_per_image

SCALES = ("small", "paper")
TABLES = {*range(1, 5), *range(6, 13)}
"""Table 5 lists notations."""
FIGURES = set(range(1, 14))


def numbers(word):
    """Returns the numbers of the tables or figures that items name as their source."""
    found = set()
    for item in ITEMS.values():
        if not item.source.startswith(word):
            continue
        digits = [int(number) for number in re.findall(r"\d+", item.source)]
        found |= set(range(digits[0], digits[1] + 1)) if " to " in item.source else set(digits)
    return found


def test_every_table_and_figure_is_there():
    assert numbers("Table") == TABLES
    assert numbers("Figure") == FIGURES


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_runs_exist_and_printed_errors_are_the_recipes(item):
    for entry in item.entries:
        for scale in SCALES:
            for run in entry.runs[scale]:
                method = recipe_named(run.recipe).methods[run.method]
                if scale == "small" or entry.metric != "error":
                    continue
                slip = item.name == "speech" and (entry.row, entry.column) == ("VGG-11", "Co-Mixup")
                assert (entry.paper == method.paper) is not slip
                assert run.recipe in RECIPES


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_jobs_of_an_item(item):
    for scale in SCALES:
        jobs = jobs_of(item, scale)
        assert len({job.key for job in jobs}) == len(jobs)
        assert jobs
        order = [job.key for job in with_needed(jobs)]
        for job in with_needed(jobs):
            assert all(order.index(n.key) < order.index(job.key) for n in job.needs)
        assert all(job.cost.seconds > 0 for job in jobs)


def test_analyses_have_a_hundred_seeds():
    for name in ("exhaustive", "narasimhan-bilmes", "run-time", "mixed-batches"):
        seeds = {}
        for job in jobs_of(ITEMS[name], "small"):
            seeds.setdefault(job.key.rpartition("/")[0], []).extend(job.arguments["seeds"])
        assert all(sorted(own) == list(range(100)) for own in seeds.values())
    assert list(jobs_by_scale(ITEMS["exhaustive"])) == ["small"]
    assert list(jobs_by_scale(ITEMS["mixed-batches"])) == ["small", "paper"]


def test_comixup_with_its_own_settings_is_trained_once():
    runs = {run for entry in ITEMS["hyperparameters"].entries for run in entry.runs["paper"]}
    assert sum(run.recipe == "cifar100-preactresnet18" for run in runs) == 3
    assert len(runs) == 3 * (25 - 5 + 1)  # five settings share their default
    shared = {run for e in ITEMS["classification"].entries for run in e.runs["paper"]}
    assert {run for run in runs if run.recipe == "cifar100-preactresnet18"} <= shared


@pytest.mark.parametrize("paper", VARIANTS)
def test_small_variants_vary_the_small_recipe(paper):
    small, base = recipe_named(VARIANTS[paper]), RECIPES[SMALL]
    assert set(small.methods) == set(RECIPES[paper].methods)
    same = dataclasses.replace(
        small, name=base.name, title=base.title, methods=base.methods, method=base.method
    )
    assert same == base
    for name, method in small.methods.items():
        assert method.paper is None
        assert method.lr_multiplier == base.methods[method.mixer].lr_multiplier
        assert set(RECIPES[paper].methods[name].settings.items()) <= set(method.settings.items())


def test_passes_are_those_of_the_trainer():
    for recipe in (RECIPES["imagenet-resnet50"], RECIPES["cifar100-multi-input"]):
        for method in recipe.methods.values():
            assert passes_of(method) == passes_per_image(method)
    assert run_cost("cifar100-preactresnet18", "comixup").gpu_seconds == pytest.approx(
        2 * run_cost("cifar100-preactresnet18", "vanilla").gpu_seconds
    )


def test_names_are_checked():
    assert len(chosen_items(("all",))) == len(ITEMS)
    with pytest.raises(ValueError, match=r"`name` must be one of .*Did you mean exhaustive\?"):
        chosen_items(("exhaustiv",))
