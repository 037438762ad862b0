"""Bad values are stopped early, and the one that is left is what it would have been alone."""

import dataclasses

import pytest

from comixup.lab._cluster import Cluster
from comixup.lab.training import RECIPES, Hardware, train, tune
from comixup.lab.training._sweep import rungs
from small_runs import assert_same_run, metrics
from test_tune import lines, tuning_table

# With so small a learning rate only a clean loss of a large weight teaches anything in two epochs;
# 300 times the rate is beyond what the network stands.
GRID = {"input": {"clean_weight": (0.0, 0.5, 30.0, 300.0)}}
RECIPE = dataclasses.replace(
    RECIPES["digits"].changed(
        model="lenet", epochs=4, batch_size=20, images_per_class=20, lr=0.001, validation=0.02
    ),
    tuning_grid=GRID,
)
HERE = Hardware(accelerator="cpu")
BEST = "input-clean_weight-30"


def tune_on(cluster, out):
    return tune(RECIPE, "input", reduction_factor=2, cluster=cluster, out=out, hardware=HERE)


def epochs_of(out):
    return {
        folder.name: len(metrics(folder / "seed-0"))
        for folder in (out / "digits-tune").iterdir()
        if folder.is_dir()
    }


def test_a_hopeless_value_is_stopped_and_the_best_is_found(tmp_path):
    found = tune_on(Cluster(cpus=1), tmp_path)
    assert found.best.name == BEST
    assert [one.name for one in found.trained] == [BEST]
    stopped = {one.name: one.stopped[0] for one in found.variants if one.stopped}
    assert sorted(stopped.values()) == [1, 1, 2]
    assert stopped["input"] == 1  # of which nothing is learned
    assert epochs_of(tmp_path) == {BEST: 4, **stopped}
    text = " ".join(" ".join(lines(tuning_table(found))).split())
    assert text.count("stopped after epoch 1 at") == 2
    assert text.count("best") == 1
    # Two pauses have changed nothing of it.
    alone = dataclasses.replace(
        RECIPE, name="alone", validation=0.02, methods={BEST: found.best.method}, method=BEST
    )
    result = train(alone, out=tmp_path, hardware=HERE)[0]
    assert_same_run(found.best.results[0].folder, result.folder)
    # The same command once more trains nothing, also where a run is further than its rung.
    assert tune_on(Cluster(), tmp_path) == found
    every = tune(RECIPE, "input", out=tmp_path, hardware=HERE)
    assert every.best.name == BEST
    assert tune_on(Cluster(), tmp_path) == found


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here:2"])
def test_the_cluster_does_not_change_what_is_stopped(tmp_path, where, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one, two = (tune_on(Cluster(name), tmp_path / name) for name in ("here:1", where))
    assert [v.stopped for v in one.variants] == [v.stopped for v in two.variants]
    assert_same_run(one.best.results[0].folder, two.best.results[0].folder)


def test_rungs_follow_the_recipe():
    changed = dataclasses.replace(RECIPE, evaluate_every=2)
    assert rungs(changed, 4, 2) == [(2, 2), (2, 1)]
    assert rungs(dataclasses.replace(RECIPE, unmixed_epochs=2), 4, 2) == [(3, 2), (3, 1)]
    assert rungs(RECIPE.changed(epochs=90), 10, 3) == [(10, 3), (30, 1)]


@pytest.mark.parametrize(
    ("changes", "count", "factor"),
    [({}, 2, 3), ({"evaluate_every": 4}, 4, 2), ({"unmixed_epochs": 3}, 4, 2), ({}, 4, 1)],
)
def test_factors_that_stop_nothing_are_rejected(changes, count, factor):
    with pytest.raises(ValueError, match="`reduction_factor` must be"):
        rungs(dataclasses.replace(RECIPE, **changes), count, factor)
