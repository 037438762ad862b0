"""The exploratory runs of six more methods can be trained, and are told beside the others."""

import pytest
import torch

from comixup._methods import METHODS, PAPER
from comixup.lab.training import RECIPES
from comixup.lab.training._mixers import make_method
from family import study


def passes(method):
    """Passes over images that a method makes, in epochs of the recipe."""
    own = {"rmix-half": 2.0, "guidedmixup-clean": 1.8}.get(method, 1.0)
    return own * RECIPES[study.RECIPE].choose(method).epoch_multiplier


@pytest.mark.parametrize("arm", study.ARMS)
def test_every_arm_can_be_made_and_takes_the_same_compute(arm):
    method = RECIPES[study.RECIPE].choose(arm)
    mixer = make_method(method, 20, 50, torch.Generator())
    assert mixer.num_classes == 20
    assert passes(arm) == pytest.approx(1, abs=0.01)


def test_every_method_beyond_the_papers_has_an_arm():
    of = {RECIPES[study.RECIPE].choose(arm).mixer for arm in study.ARMS}
    assert of == set(METHODS) - set(PAPER)


def test_runs_are_listed_and_told_beside_the_small_data_studys(tmp_path, capsys):
    study.show(tmp_path / "none.csv")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(study.ARMS) * 5
    assert not any(line.startswith("ok") for line in lines)
    study.report(tmp_path / "none.csv")
    table = capsys.readouterr().out
    for title in (*study.BESIDE.values(), *study.ARMS.values()):
        assert title in table
    assert "(5)" in next(line for line in table.splitlines() if "Vanilla" in line)
