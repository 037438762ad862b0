"""Each example trains a few steps with the real library."""

import importlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import comixup
from test_one_pass_examples import SCRIPTS

EXAMPLES = Path(__file__).parents[1] / "examples"
STEPS = 12


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # such small layers gain nothing from more, and lose on busy cores
    yield importlib.import_module
    torch.set_num_threads(threads)


def check(before, after):
    assert math.isfinite(after)
    assert after < before


def test_plain_pytorch(example, capsys):
    results = example("plain_pytorch").main(STEPS)
    assert set(results) == {"float32", "mixed precision"}
    for before, after in results.values():
        check(before, after)
    assert capsys.readouterr().out.count("test loss") == 2


@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning:lightning")
@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning:lightning")
@pytest.mark.slow
def test_one_pass_training(example, capsys):
    results = example("one_pass_training").main(64)
    assert set(results) == {"plain loop", "mixed by workers", "Lightning", "Accelerate"}
    for before, after in results.values():
        check(before, after)
    assert capsys.readouterr().out.count("test loss") == 4


def test_torchvision_transform(example):
    results = example("torchvision_transform").main(2 * STEPS)
    assert set(results) == {"after the loader", "in the collate function"}
    for before, after in results.values():
        check(before, after)


def test_timm_training(example):
    check(*example("timm_training").main(2 * STEPS))


@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning:lightning")
@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning:lightning")
def test_lightning_training(example):
    results = example("lightning_training").main(STEPS)
    assert set(results) == {"CoMixupClassifier", "ManualClassifier", "MixedOnlyClassifier"}
    for before, after in results.values():
        check(before, after)
    assert results["CoMixupClassifier"] == results["ManualClassifier"]
    assert results["CoMixupClassifier"] != results["MixedOnlyClassifier"]


def test_examples_notice_batches_that_stay_as_they_were(example):
    data = example("tiny_data")
    images, targets, _ = data.draw_shapes(8)
    mixup = comixup.CutMix(len(data.CLASSES), generator=torch.Generator().manual_seed(0))
    _, soft = mixup(images, targets)
    data.check_changed(images, targets, mixup.last.plan, soft)
    hard = torch.eye(len(data.CLASSES))[targets]
    with pytest.raises(AssertionError, match="targets must change"):
        data.check_changed(images, targets, mixup.last.plan, hard)
    with pytest.raises(AssertionError, match="images must change"):
        data.check_changed(images, targets, mixup.identity_plan(images), soft)


def test_accelerate_training(example):
    check(*example("accelerate_training").main(STEPS))


def test_segmentation(example, monkeypatch, capsys):
    monkeypatch.delenv("COMIXUP_DATA", raising=False)
    check(*example("segmentation").main(STEPS))
    said = capsys.readouterr().out
    assert said.startswith("digits: ")
    assert "agreed at every pixel" in said


@pytest.mark.data
def test_segmentation_of_photographs(example, capsys):
    check(*example("segmentation").main(2 * STEPS))
    assert capsys.readouterr().out.startswith("Tiny-ImageNet: ")


@pytest.mark.slow
def test_ddp_training_in_two_processes():
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "ddp_training.py"), "--steps", str(STEPS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={key: value for key, value in os.environ.items() if key != "RANK"},  # not torchrun's
    )
    assert run.returncode == 0, run.stderr
    before, after = map(float, re.findall(r"\d+\.\d+", run.stdout)[:2])
    check(before, after)
    assert "same weights in 2 processes: True" in run.stdout


def test_every_example_is_run_here_or_by_the_demo():
    parts = {"tiny_data", "segmentation_data", "demo", "demo_picture", "demo_training"}
    parts |= {f"one_pass_{name}" for name in SCRIPTS}  # test_one_pass_examples.py
    files = (Path(__file__), Path(__file__).with_name("test_hugging_face.py"))
    here = "".join(file.read_text(encoding="utf-8") for file in files)
    for path in sorted(EXAMPLES.glob("*.py")):
        assert path.stem in parts or f"def test_{path.stem}" in here, path.name
