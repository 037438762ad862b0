"""Many runs at once: the same weights as one after the other, and what fails is told."""

import pytest

from comixup.lab._cluster import Cluster, check_done
from comixup.lab.training import RECIPES, Hardware, train_all
from small_runs import assert_same_run

RECIPE = RECIPES["digits"].changed(
    model="lenet", epochs=2, batch_size=8, images_per_class=2, test_fraction=None
)
METHODS, SEEDS = ["vanilla", "comixup"], (0, 1)


def train_on(cluster, out, methods=METHODS, **options):
    options = {"seeds": SEEDS, "hardware": Hardware(accelerator="cpu"), **options}
    return train_all(RECIPE, methods, cluster, out=out, **options)


@pytest.mark.slow
def test_two_processes_leave_the_same_runs_as_one(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    came = []
    results, done = train_on(
        Cluster("here:2"), tmp_path / "two", each=lambda *run: came.append(run[:2])
    )
    check_done(done)
    assert sorted(came) == [(method, seed) for method in sorted(METHODS) for seed in SEEDS]
    alone, _ = train_on(Cluster(cpus=1), tmp_path / "one")
    assert {method: list(by_seed) for method, by_seed in results.items()} == {
        method: list(SEEDS) for method in METHODS
    }
    for method in METHODS:
        for seed in SEEDS:
            assert results[method][seed].errors == alone[method][seed].errors
            folders = (found[method][seed].folder for found in (results, alone))
            assert_same_run(*folders)


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    taken = tmp_path / "digits" / "vanilla" / "seed-0"
    taken.parent.mkdir(parents=True)
    taken.write_text("a file where the run's folder should be")
    results, done = train_on(Cluster(), tmp_path, ["vanilla"])
    assert list(results["vanilla"]) == [1]
    with pytest.raises(RuntimeError, match=r"^1 of 2 tasks failed: `folder` must be"):
        check_done(done)


@pytest.mark.parametrize("where", ["here:2", "ray"])
def test_one_process_per_run(tmp_path, where):
    hardware = Hardware(accelerator="cpu", devices=2)
    with pytest.raises(ValueError, match=r"`devices` and `num_nodes` must be 1 with --cluster"):
        train_on(Cluster(where), tmp_path, hardware=hardware)
