"""The paper's settings, by their source, as literals: none is read from the code that it guards.

Sections and appendices are those of the paper; "official" is the official implementation, which
fills in what the text leaves open. The settings of recipes: lab/training/test_paper_recipes.py.
"""

import inspect
import math
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

sys.path.append(str(Path(__file__).parent / "lab" / "data"))

from comixup import CoMixup, Labelling, Problem, PuzzleMix, objective
from comixup.lab import data
from comixup.lab.data import DataSet
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.evaluation import measure, predictions_of
from comixup.lab.evaluation._cam import ActivationMaps
from comixup.lab.evaluation._corruption import CorruptedLoader
from comixup.lab.evaluation._localization import localize
from data_files import write_cifar100, write_speech, write_tiny_imagenet
from problems import generator

# ---- Co-Mixup -----------------------------------------------------------------------------------

WEIGHTS = {"beta": 0.32, "gamma": 1.0, "eta": 0.05, "tau": 0.83}  # appendix E
CO_MIXUP = WEIGHTS | {"omega": 0.001, "alpha": 2.0}  # appendix E
SOLVER = {"levels": 2}  # appendix C: |L| = 3 values of a mask
GRID = 4  # official
PARTITION = 20  # appendix C
SWEEPS = 4  # official


def defaults(function, names):
    parameters = inspect.signature(function).parameters
    return {name: parameters[name].default for name in names}


def test_defaults_of_co_mixup():
    expected = CO_MIXUP | SOLVER | {"grid": GRID, "partition_size": PARTITION, "sweeps": SWEEPS}
    expected |= {"p": 1.0, "clean_weight": 1.0, "clip": "soft", "target_weight": "area"}
    assert defaults(CoMixup, expected) == expected


def test_a_mixer_left_to_its_defaults_mixes_as_the_paper_says():
    draw = generator(0)
    images, saliency = torch.rand(45, 3, 16, 16, generator=draw), torch.rand(45, 16, 16)
    targets = torch.arange(45) % 7
    chosen = CO_MIXUP | SOLVER | {"grid": GRID, "partition_size": PARTITION, "sweeps": SWEEPS}
    mixed = CoMixup(7, generator=generator(1))(images, targets, saliency)
    assert_close(mixed, CoMixup(7, generator=generator(1), **chosen)(images, targets, saliency))


def peaked(*places, size=32):
    """Maps with all saliency in one pixel each, and a little everywhere."""
    maps = torch.full((len(places), size, size), 1e-6)
    for number, (row, column) in enumerate(places):
        maps[number, row, column] = 1.0
    return maps


def test_clip_levels_at_the_papers_settings():
    # Appendix E: tau is relative to n and m/m'. 16 locations; as many outputs as inputs, or half.
    problem = Problem.from_saliency(torch.ones(20, 32, 32))
    assert problem.clip_level == pytest.approx(2 * 0.83 * 16)
    assert problem.total_clip == pytest.approx(0.83 * (16 * 20) ** 2 / 20)
    half = problem.replace(num_outputs=10)
    assert half.clip_level == pytest.approx(0.83 * 16)
    assert half.total_clip == pytest.approx(0.83 * (16 * 10) ** 2 / 20)


def test_compatibility_at_the_papers_settings():
    # A = (1 - omega) I + omega A_c, A_c the l1 distances scaled to sum m: 0 to 1 to 2 on a line.
    problem = Problem.from_saliency(peaked((8, 8), (8, 16), (8, 24)), alpha=None)
    distances = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]]) * 3 / 8
    assert_close(problem.compatibility, 0.999 * torch.eye(3) + 0.001 * distances)
    # l1: three down and four across are seven apart, as are seven down.
    problem = Problem.from_saliency(peaked((8, 8), (11, 12), (15, 8)), alpha=None)
    assert_close(problem.compatibility[0, 1], problem.compatibility[0, 2])


def test_terms_of_eq_1_at_the_papers_settings():
    # Two outputs, a chessboard of both inputs each: 24 pairs of neighbours differ, on 16 cells.
    board = torch.arange(4)[:, None].add(torch.arange(4)) % 2
    labelling = Labelling(torch.stack([board, board])[:, None], num_inputs=2)
    prior = torch.tensor([0.2, 0.8])
    problem = Problem(torch.zeros(2, 4, 4), torch.eye(2), prior=prior)
    terms = objective(problem, labelling)
    assert terms.smoothness == pytest.approx(2 * 24 * 0.32 / 16)
    # o_1 = o_2 = (8, 8): twice their product is 256, gamma / n a sixteenth of it.
    assert terms.compatibility == pytest.approx(2 * 128 / 16)
    assert terms.prior == pytest.approx(-2 * 8 * 0.05 / 16 * (math.log(0.2) + math.log(0.8)))
    # v = (16, 16) stays below 2 tau n = 26.56, so that Eq. (2) has no penalty; Eq. (1)'s clip is
    # tau n^2 m = 424.96 against 256.
    assert terms.total == pytest.approx(terms.smoothness + terms.prior)
    clipped = 0.83 * 16**2 * 2 / 16
    assert terms.eq1_total == pytest.approx(terms.smoothness + terms.prior + clipped)


# ---- Baselines ----------------------------------------------------------------------------------


def test_defaults_of_puzzle_mix():
    # Its paper's, as its official implementation has them.
    expected = {"alpha": 1.0, "beta": 1.2, "gamma": 0.5, "eta": 0.2, "levels": 2, "neighbour": 4}
    expected |= {"grid": (2, 4, 8, 16), "transport": True, "t_eps": 0.8}
    assert defaults(PuzzleMix, expected) == expected


# ---- Evaluation ---------------------------------------------------------------------------------


class Painter(nn.Module):
    """Its map of class c is channel c of the image, its score the channel's mean."""

    def __init__(self):
        super().__init__()
        self.maps, self.pool, self.flat = nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten()

    def forward(self, images):
        return self.flat(self.pool(self.maps(images)))


def localized(images, boxes):
    return localize(
        ActivationMaps(Painter().eval(), images), [(images, torch.zeros(len(images)).long())], boxes
    )


def test_maps_are_cut_at_a_quarter_of_their_range():
    # Section 5: "binarization threshold 0.25 in CAM". From 0 on the left to 1 on the right in 101
    # steps: column 25 is just below a quarter, column 26 above it.
    ramp = torch.linspace(0, 1, 102).expand(1, 1, 30, 102)
    found = localized(40 * ramp - 7, torch.tensor([[[0, 0, 102, 30]]]))
    assert found.boxes.tolist() == [[26, 0, 102, 30]]


def test_an_object_is_found_from_an_overlap_of_a_half_on():
    # Of ten columns shown; the true box has twice as many, which is enough, or one more.
    image = torch.zeros(2, 1, 8, 40)
    image[..., 5:15] = 1
    truth = torch.tensor([[[5, 0, 25, 8]], [[5, 0, 26, 8]]])
    found = localized(image, truth)
    assert_close(found.ious, torch.tensor([1 / 2, 10 / 21]))
    assert (found.top1_loc, found.gt_known) == (50.0, 50.0)


def test_calibration_error_has_ten_bins():
    # Appendix G. Confidences of 0.51 and 0.59 share a bin of width 0.1: one right and one wrong
    # make an accuracy of a half, 0.05 from their mean; bins twice as fine would make 0.5.
    confidences = torch.tensor([0.51, 0.59], dtype=torch.float64)
    logits = torch.stack([confidences.log(), (1 - confidences).log()], 1)
    found = measure(predictions_of(logits, torch.tensor([0, 1])))
    assert len(found.bins) == 10
    assert found.ece == pytest.approx(5.0)
    # With 0.61 in the place of 0.59 they do not: 0.49 and 0.61 apart from 1 and 0.
    confidences = torch.tensor([0.51, 0.61], dtype=torch.float64)
    logits = torch.stack([confidences.log(), (1 - confidences).log()], 1)
    found = measure(predictions_of(logits, torch.tensor([0, 1])))
    assert found.ece == pytest.approx(100 * (0.49 + 0.61) / 2)


def test_noise_of_the_background_has_a_standard_deviation_of_a_tenth():
    # The appendix on background corruption: N(0, 0.1^2).
    grey = torch.full((2, 1, 300, 300), 128, dtype=torch.uint8)
    split = MemorySplit(grey, torch.zeros(2, dtype=torch.int64), (0.0,), (0.5,))
    data = DataSet("grey", ("a",), (1, 300, 300), (0.0,), (0.5,), split, split)
    outside = torch.tensor([[[0, 0, 1, 1]]] * 2)
    noisy, placed = (
        next(CorruptedLoader(data, split, outside, kind, 2).epoch())[0] / 2
        for kind in ("added-noise", "noise")
    )
    added = noisy - 128 / 255
    assert added.std().item() == pytest.approx(0.1, rel=0.02)
    assert added.mean().item() == pytest.approx(0.0, abs=0.002)
    # In its place, and not below black: half of it is 0, and the rest as far as a normal variable.
    assert (placed == 0).float().mean().item() == pytest.approx(0.5, abs=0.01)
    assert placed[placed > 0.0].square().mean().sqrt().item() == pytest.approx(0.1, rel=0.02)


# ---- Data ---------------------------------------------------------------------------------------


def test_cifar100_is_normalized_and_cropped_as_officially(tmp_path):
    write_cifar100(tmp_path)
    loaded = data.load("cifar100", tmp_path)
    assert_close(loaded.mean, (129.3 / 255, 124.1 / 255, 112.4 / 255))
    assert_close(loaded.std, (68.2 / 255, 65.4 / 255, 70.4 / 255))
    assert (loaded.shape, loaded.train.pad) == ((3, 32, 32), 2)


def test_tiny_imagenet_is_normalized_and_cropped_as_officially(tmp_path):
    write_tiny_imagenet(tmp_path)
    loaded = data.load("tiny-imagenet", tmp_path)
    assert (loaded.mean, loaded.std) == ((0.5,) * 3, (0.5,) * 3)
    assert (loaded.shape, loaded.train.pad) == ((3, 64, 64), 4)


def test_spectrograms_have_the_papers_size(tmp_path):
    # Appendix F: 160 x 100.
    write_speech(tmp_path)
    assert data.load("speech-commands", tmp_path).shape == (1, 160, 100)
