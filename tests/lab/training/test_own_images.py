"""Training on a folder or a table of one's own images."""

import csv
import dataclasses
import io
import json
import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file
from torch.testing import assert_close

from cases import each_case
from comixup.lab import models
from comixup.lab.data import load
from comixup.lab.training import RECIPES, read_logits, train
from comixup.lab.training._folder import RunFolder, State
from comixup.lab.training._losses import balanced_weights, losses
from comixup.lab.training._own_images import (
    Summary,
    default_network,
    recipe_for,
    report_near_copies,
    summarize,
)
from comixup.lab.training._report import Reporter
from comixup.lab.training._results import classes_table, results_table
from comixup.lab.training._run import Run
from comixup.lab.training._setup import network_of
from comixup.lab.training._trainer import Totals, Trainer
from small_sets import HERE

COLOURS = {"blue": (20, 40, 200), "green": (30, 180, 50), "red": (200, 30, 30)}


def write_images(folder, counts, shift=0):
    """Writes images of one colour each, a folder for each class; returns the folder above."""
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            colour = tuple(part + 5 * number + shift for part in COLOURS[name])
            Image.new("RGB", (20 + number, 24), colour).save(folder / name / f"{number}.png")
    return folder


def tiny(root, **changes):
    """Returns the recipe for a folder, made so small that an epoch takes milliseconds."""
    own = load("folder", root)
    recipe = recipe_for(dataclasses.replace(summarize(own), name="colours"), image_size=16)
    return recipe.changed(model="small", width=8, epochs=2, batch_size=4, **changes)


CHOICES = {
    "a few hundred small ones": (Summary("a", 400, 64), ("preactresnet10", 32, 64, 32, 106)),
    "a few hundred photographs": (Summary("a", 400, 600), ("resnet18", None, 128, 32, 106)),
    "many photographs": (Summary("a", 100_000, 600), ("resnet18", None, 224, 128, 27)),
    "many small ones": (Summary("a", 50_000, 32), ("preactresnet18", None, 32, 128, 32)),
    "a handful of icons": (Summary("a", 12, 16), ("preactresnet10", 32, 32, 4, 120)),
}


@each_case("case", CHOICES)
def test_settings_follow_from_the_images(case):
    summary, expected = CHOICES[case]
    recipe = recipe_for(summary)
    phase = recipe.phases[0]
    found = (recipe.model, recipe.width, phase.image_size, phase.batch_size, recipe.epochs)
    assert found == expected
    assert recipe.lr[0][1] == recipe.lr[-1][1] == 0


def test_fine_tuning_is_adamw_at_a_low_rate_and_takes_whole_photographs():
    new, tuned = (recipe_for(Summary("a", 400, 600), weights=w) for w in (None, "a.pt"))
    assert (new.optimizer, tuned.optimizer) == ("sgd", "adamw")
    assert tuned.phases[0].image_size == 224
    assert (tuned.freeze, tuned.head_lr, tuned.method) == ("norms", 10, "vanilla")
    assert (tuned.augment, tuned.ema) == ("crop-flip", None)
    assert (new.freeze, new.head_lr, new.method) == ("none", 1, "input-or-cutmix")
    assert new.augment == "rand"
    assert new.ema == pytest.approx(1 - 24 / (new.epochs * 13), abs=1e-5)  # batches of 32
    assert [max(rate for _, rate in each.lr) for each in (new, tuned)] == [0.015, 1e-4]
    assert tuned.epochs < new.epochs / 5


NETWORKS = {
    "a few photographs": (Summary("a", 400, 600), True, "efficientnet-lite0"),
    "weights that are not installed": (Summary("a", 400, 600), False, None),
    "many photographs": (Summary("a", 5_000, 600), True, None),
    "icons": (Summary("a", 400, 32), True, None),
}


@each_case("case", NETWORKS)
def test_few_images_are_fine_tuned_on_where_weights_are_installed(case, monkeypatch, tmp_path):
    summary, installed, expected = NETWORKS[case]
    monkeypatch.setattr("comixup.lab.models.weights_are_installed", lambda name: installed)
    assert default_network(summary, tmp_path) == expected


def test_runs_that_were_begun_keep_their_network(monkeypatch, tmp_path):
    """Whatever is installed when they are resumed; a damaged file decides nothing."""
    monkeypatch.setattr("comixup.lab.models.weights_are_installed", lambda name: False)
    for name, text in (
        ("seed-0", json.dumps({"recipe": {"model": "resnet18", "pretrained": True}})),
        ("seed-1", "{"),
    ):
        (tmp_path / "vanilla" / name).mkdir(parents=True)
        (tmp_path / "vanilla" / name / "run.json").write_text(text)
    assert default_network(Summary("a", 400, 600), tmp_path) == "resnet18"


SIZES = {
    "photographs": (Summary("a", 400, 600), "efficientnet-lite2", 260),
    "of its own size": (Summary("a", 400, 240), "efficientnet-lite1", 240),
    "smaller ones": (Summary("a", 400, 144), "efficientnet-lite0", 128),
    "those to enlarge": (Summary("a", 400, 64), "efficientnet-lite0", 128),
    "torchvision's": (Summary("a", 400, 600), "resnet18", 224),
}


@each_case("case", SIZES)
def test_pretrained_networks_take_images_of_their_own_size(case):
    summary, name, size = SIZES[case]
    recipe = recipe_for(summary, pretrained=name)
    assert (recipe.model, recipe.pretrained, recipe.optimizer) == (name, True, "adamw")
    assert recipe.phases[0].image_size == size
    assert recipe_for(summary, pretrained=name, image_size=96).phases[0].image_size == 96


def test_the_rate_follows_half_a_cosine():
    recipe = RECIPES["folder"]
    (_, zero), (start, high), (end, _) = recipe.lr
    middle = recipe.lr_at((start + end) / 2)
    assert (zero, middle) == (0, pytest.approx(high / 2))
    assert recipe.lr_at(start + 0.25 * (end - start)) == pytest.approx(high * 0.853553, rel=1e-5)


def test_near_copies_are_reported(tmp_path):
    root = tmp_path / "colours"
    write_images(root / "train", {"blue": 2, "green": 2})
    write_images(root / "val", {"blue": 1, "green": 1})  # the very same ones
    own = load("folder", root)
    said = report_near_copies(own, tmp_path / "runs")
    assert "2 of 2 images to evaluate on are near copies" in said
    listed = json.loads((tmp_path / "runs" / "near_copies.json").read_text())["near_copies"]
    assert next(pair[0].split("/")[-3:] for pair in listed) == ["val", "blue", "0.png"]
    assert "With so many images" not in said


def test_of_very_many_images_it_is_said_how_many_were_compared(tmp_path, monkeypatch):
    monkeypatch.setattr("comixup.lab.data._scan.MAX_COMPARED", 5)
    root = tmp_path / "colours"
    write_images(root / "train", {"blue": 2, "green": 2})
    write_images(root / "val", {"blue": 2, "green": 2}, shift=3)
    said = report_near_copies(load("folder", root), tmp_path / "runs")
    assert "With so many images, 1 of the 4 to evaluate on, " in said


@pytest.mark.parametrize("ema", [None, 0.5])
def test_the_best_weights_by_validation_are_kept_and_reported(tmp_path, ema):
    root = tmp_path / "colours"
    for seed, part in enumerate(("train", "val", "test")):
        write_images(root / part, {"blue": 6, "green": 6, "red": 6})
        for number, path in enumerate(sorted((root / part).glob("*/*.png"))):
            pixels = np.random.default_rng(100 * seed + number).integers(0, 256, (20, 20, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    plain = tiny(root, augment="crop-flip").changed(epochs=6)
    recipe = dataclasses.replace(plain, evaluate_every=1, ema=ema)
    assert recipe.reported == "validation"
    result = train(recipe, method="vanilla", out=tmp_path, data_root=root, hardware=HERE)[0]
    folder = tmp_path / "colours" / "vanilla" / "seed-0"
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    errors = [float(row["validation_error"]) for row in rows]
    best = rows[errors.index(min(errors))]
    assert errors[-1] > min(errors), "this test needs a run whose last epoch is not its best"
    assert result.metrics["validation_error"] == pytest.approx(min(errors), rel=1e-4)
    assert result.metrics["final_error"] == pytest.approx(float(best["test_error"]), rel=1e-4)
    assert result.error == pytest.approx(result.metrics["final_error"])
    assert result.metrics["nll"] == pytest.approx(float(best["test_loss"]), rel=1e-4)
    logits, targets = read_logits(folder / "logits.safetensors")["validation"]
    assert 100 * (logits.argmax(1) != targets).float().mean() == pytest.approx(
        min(errors), rel=1e-4
    )


def test_class_weights_make_the_loss_of_rare_classes_count_more():
    weights = balanced_weights(torch.tensor([0, 0, 0, 1]), 2)
    assert_close(weights, torch.tensor([4 / 6, 2.0]))
    mixed_loss, clean_loss = losses("cross-entropy", 2, weights)
    logits, targets = torch.tensor([[1.0, 0.0], [0.5, 2.0]]), torch.tensor([0, 1])
    each = F.cross_entropy(logits, targets, reduction="none")
    assert_close(clean_loss(logits, targets), (each * weights[targets]).mean())
    assert_close(mixed_loss(logits, F.one_hot(targets, 2).float()), clean_loss(logits, targets))


def test_the_table_of_classes_whose_names_are_no_markup(tmp_path):
    root, out = write_images(tmp_path / "colours", {"red": 5, "blue": 10}), tmp_path / "out"
    (root / "red").rename(root / "[red]")
    (root / "blue").rename(root / "[:x]")
    console = Console(file=io.StringIO(), width=100)
    recipe = dataclasses.replace(tiny(root), name="[bold]")
    found = train(recipe, method="vanilla", out=out, data_root=root, hardware=HERE)
    console.print(classes_table(recipe, {"vanilla": found}))
    console.print(results_table(recipe, {"vanilla": found}))
    for name in ("[red]", "[:x]", "[bold]: error of each class"):
        assert name in console.file.getvalue()
    with (out / "[bold]/vanilla/seed-0/classes.csv").open() as file:
        rows = {row["class"]: row for row in csv.DictReader(file)}
    assert [rows[name]["training_images"] for name in ("[red]", "[:x]")] == ["4", "8"]
    assert [rows[name]["test_images"] for name in ("[red]", "[:x]")] == ["1", "2"]
    errors = [float(row["error"]) for row in rows.values()]
    assert sum(errors) / 2 == pytest.approx(found[0].metrics["balanced_error"], rel=1e-4)


@pytest.mark.parametrize("method", ["comixup-one-pass", "manifold"])
def test_images_with_several_labels(tmp_path, method):
    write_images(tmp_path / "images", {"blue": 6, "green": 6})
    lines = ["path,labels"] + [
        f"images/{name}/{number}.png,{name}" + (";even" if number % 2 == 0 else "")
        for name in ("blue", "green")
        for number in range(6)
    ]
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(lines))
    recipe = tiny(table)
    assert recipe.loss == "binary-cross-entropy"
    result = train(recipe, method=method, out=tmp_path, data_root=table, hardware=HERE)[0]
    assert 0 <= result.metrics["mean_average_precision"] <= 100
    logits, targets = read_logits(tmp_path / f"colours/{method}/seed-0/logits.safetensors")["test"]
    wrong = ((logits > 0) != (targets > 0)).float().mean()
    classifier = models.load(tmp_path / f"colours/{method}/seed-0")
    images = torch.rand(2, 3, 16, 16)
    assert_close(classifier(images), classifier.model(images).sigmoid())
    assert result.metrics["last_error"] == pytest.approx(100 * wrong.item(), rel=1e-4)


def test_what_does_not_go_together():
    recipe = RECIPES["folder"]
    with pytest.raises(ValueError, match='`freeze` must be "none" for a network with random'):
        recipe.changed(freeze="norms")
    with pytest.raises(ValueError, match="`class_weights` must be left out unless the loss is"):
        dataclasses.replace(recipe, loss="official", class_weights="balanced")
    with pytest.raises(ValueError, match="`weights` must be None with pretrained=True"):
        recipe.changed(weights="x.pt", pretrained=True)
    assert recipe.changed(model="small").width is None


def test_a_run_begins_with_the_weights_of_another_and_tells_what_is_new(tmp_path, capsys):
    root = write_images(tmp_path / "colours", {"blue": 5, "green": 5, "red": 5})
    first = tiny(root)
    train(first, method="vanilla", out=tmp_path / "first", data_root=root, hardware=HERE)
    weights = tmp_path / "first/colours/vanilla/seed-0"
    assert network_of(weights) == {"model": "small", "width": 8}
    other = write_images(tmp_path / "other", {"blue": 5, "green": 5})
    recipe = tiny(other, weights=str(weights), freeze="features", class_weights="balanced", ema=0.9)
    options = {"out": tmp_path / "second", "data_root": other, "hardware": HERE}
    train(recipe, method="comixup", console=Console(width=200), **options)
    assert "new: fc.weight, fc.bias" in capsys.readouterr().out
    names = ("first/colours/vanilla", "second/colours/comixup")
    old, new = (load_file(tmp_path / f"{name}/seed-0/weights.safetensors") for name in names)
    assert_close(new["layer1.0.conv1.weight"], old["layer1.0.conv1.weight"], rtol=0, atol=0)
    assert new["fc.weight"].shape == (2, 32)
    shutil.rmtree(tmp_path / "first")  # a run that has begun does not need it any more
    train(recipe, method="comixup", **options)
    train(tiny(other), method="comixup", **options)  # random weights: another run
    (fresh,) = (tmp_path / "second" / "colours").glob("comixup-*/seed-0/weights.safetensors")
    assert not torch.equal(load_file(fresh)["layer1.0.conv1.weight"], new["layer1.0.conv1.weight"])


def test_the_last_layer_has_a_learning_rate_of_its_own(tmp_path):
    """Two equal runs but for `head_lr`: the last layer's first step is as many times as large."""
    root = write_images(tmp_path / "images", {"red": 6, "green": 6})
    recipe = tiny(root, optimizer="sgd", weight_decay=0.0)
    recipe = dataclasses.replace(recipe, lr=((0, 0.1), (2, 0.1)))
    moved = {}
    for factor in (1.0, 10.0):
        run = Run(dataclasses.replace(recipe, head_lr=factor), "vanilla")
        data = run.load_data(root)
        fabric, reporter = Fabric(accelerator="cpu", devices=1), Reporter(None, "", 1)
        trainer = Trainer(run, data, fabric, State({}), RunFolder(tmp_path), reporter, HERE)
        start = {name: t.clone() for name, t in trainer.evaluated.state_dict().items()}
        images, targets = torch.ones(2, 3, 16, 16), torch.tensor([0, 1])
        trainer.step(images, targets, None, 1, Totals(torch.device("cpu"), {}))
        moved[factor] = {n: t - start[n] for n, t in trainer.evaluated.state_dict().items()}
    assert moved[1.0]["fc.weight"].abs().max() > 0
    assert_close(moved[10.0]["fc.weight"], 10 * moved[1.0]["fc.weight"], rtol=1e-3, atol=1e-6)
    others = [name for name in moved[1.0] if name.endswith("conv1.weight")]
    assert others
    for name in others:
        assert_close(moved[10.0][name], moved[1.0][name])
