"""Runs measured again with batch-norm statistics of clean images."""

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from batch_norm import study
from comixup.lab.training import read_logits
from small_runs import recipe, train_here, write_images


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    data = write_images(tmp_path_factory.mktemp("images"))
    chosen = recipe(model="small", images_per_class=3)
    return train_here(data, tmp_path_factory.mktemp("runs"), "comixup", chosen)


def shifted_statistics(folder):
    """Makes the running means of a run's weights useless."""
    weights = folder / "weights.safetensors"
    with safe_open(weights, "pt") as file:
        header = file.metadata()
    tensors = load_file(weights)
    means = [name for name in tensors if name.endswith("running_mean")]
    assert means
    save_file({n: t + 5 * (n in means) for n, t in tensors.items()}, weights, header)


def test_statistics_are_those_of_clean_images(run_folder, tmp_path):
    logits, targets = read_logits(run_folder / "logits.safetensors")["test"]
    error = 100 * (logits.argmax(1) != targets).double().mean().item()
    first = study.reestimate(run_folder)
    assert first.error == pytest.approx(error)
    shifted_statistics(run_folder)
    second = study.reestimate(run_folder)
    # Whatever the statistics were, they are estimated anew, and nothing else changes.
    assert (second.clean_error, second.clean_ece) == (first.clean_error, first.clean_ece)
    assert second.ece != first.ece


def test_the_table_grows_run_by_run(run_folder, tmp_path, capsys):
    table = tmp_path / "new" / "table.csv"
    assert study.read_rows(table) == []
    study.collect(run_folder, table=table)
    study.collect(run_folder, table=table)
    (row,) = study.read_rows(table)
    study.report(table)
    assert "comixup" in capsys.readouterr().out
    assert (row.method, row.seed) == ("comixup", 0)
    assert row.clean_ece == pytest.approx(study.reestimate(run_folder).clean_ece, rel=1e-5)


def test_weights_alone_are_not_enough(run_folder, tmp_path):
    alone = tmp_path / "weights.safetensors"
    alone.write_bytes((run_folder / "weights.safetensors").read_bytes())
    with pytest.raises(ValueError, match="`folder` must be that of a finished run"):
        study.reestimate(alone)
