"""Each example trains a few steps with the real library."""

import importlib
import math
import os
import re
import subprocess
import sys
import warnings
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


@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning:lightning")
@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning:lightning")
def test_lightning_zeroes_gradients_after_an_automatic_training_step_which_is_warned_of(example):
    # What the comment in the example says. If this fails, it can be simpler.
    lightning = example("lightning")
    kinds = example("lightning_training")
    seen = []

    class Watched(kinds.MixedOnlyClassifier):
        def __init__(self):
            super().__init__()
            vars(self.mixup)["keep_gradients"] = True

        def on_before_zero_grad(self, optimizer):
            seen.append(self.net[0].weight.grad is not None)

    trainer = lightning.Trainer(
        max_steps=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )
    with warnings.catch_warnings(record=True) as caught:  # pytest.warns would repeat Lightning's
        warnings.simplefilter("always")
        trainer.fit(Watched(), example("tiny_data").train_loader(64))
    assert seen == [True]  # the clean gradient was there, and is wiped
    ours = [str(warning.message) for warning in caught if "clean" in str(warning.message)]
    assert len(ours) == 1
    assert ours[0].startswith("Watched must not use Lightning's automatic optimization")


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
        data.check_changed(images, targets, mixup.leave(images), soft)


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


@pytest.mark.parametrize("broken", ["masks as they came", "masks of other inputs"])
def test_segmentation_notices_masks_that_do_not_belong_to_their_images(
    example, monkeypatch, broken
):
    segmentation = example("segmentation")
    mix_masks = comixup.Labelling.mix_masks

    def wrong(plan, masks, ignore_index=255):
        return masks if broken == "masks as they came" else mix_masks(plan, masks.flip(0))

    monkeypatch.setattr(comixup.Labelling, "mix_masks", wrong)
    masks = torch.arange(8).view(8, 1, 1).expand(8, 8, 8)
    data = example("segmentation_data").Segmented(
        torch.rand(120, 1, 8, 8), masks.repeat(15, 1, 1), 8
    )
    with pytest.raises(AssertionError, match="Tensor-likes are not equal"):
        segmentation.train(data, steps=1)


def test_boxes_become_masks_with_an_ignored_border(example):
    data = example("segmentation_data")
    mask = data.box_mask((12, 16), [2, 1, 14, 11], label=5)
    assert mask.shape == (12, 16)
    assert mask[6, 8] == 5
    assert mask[6, 2] == data.IGNORED
    assert data.box_mask((64, 64), [20, 20, 40, 40], 5)[0, 0] == 0


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


def test_the_shapes_are_the_same_every_time_and_every_class_is_there(example):
    data = example("tiny_data")
    images, targets, shown = data.draw_shapes(64)
    again = data.draw_shapes(64)[0]
    torch.testing.assert_close(images, again, rtol=0, atol=0)
    assert images.shape == (64, 3, data.SIZE, data.SIZE)
    assert len(targets.unique()) == len(data.CLASSES)
    assert shown.flatten(1).any(1).all()


def test_every_example_is_run_here_or_by_the_demo():
    parts = {"tiny_data", "segmentation_data", "demo", "demo_picture", "demo_training"}
    parts |= {f"one_pass_{name}" for name in SCRIPTS}  # test_one_pass_examples.py
    files = (Path(__file__), Path(__file__).with_name("test_hugging_face.py"))
    here = "".join(file.read_text(encoding="utf-8") for file in files)
    for path in sorted(EXAMPLES.glob("*.py")):
        assert path.stem in parts or f"def test_{path.stem}" in here, path.name
