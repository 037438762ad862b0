"""Networks are measured on images as their training ended with them, whatever size these have."""

import dataclasses
import json
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from comixup.lab import evaluation, models
from comixup.lab.data import load
from comixup.lab.training import RECIPES, Hardware, train

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLASSES = ("ant", "bee", "cat")
TEST_IMAGES = 7
"""Of each class."""
SIZES = (32, 64, 96)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Returns a folder of JPEGs, upright and lying ones, whose colour tells their class."""
    root, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for split, count in (("train", 4), ("val", TEST_IMAGES)):
        for kind, name in enumerate(CLASSES):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                height, width = (60 + 7 * number, 130) if number % 2 else (110, 75 + 5 * number)
                small = random.integers(0, 256, (6, 6, 3), dtype=np.uint8)
                small[..., kind] = small[..., kind] // 2 + 100
                picture = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
                picture.save(folder / f"{number}.jpg", quality=90)
    return root


@pytest.fixture(scope="module")
def runs(pictures, tmp_path_factory):
    """Returns the folders of runs that ended with images of different sizes, by size."""
    out = tmp_path_factory.mktemp("runs")
    recipe = RECIPES["digits"].changed(
        data="folder", model="small", width=8, epochs=2, batch_size=6, images_per_class=0
    )
    found = {}
    for size in SIZES:
        phases = tuple(dataclasses.replace(phase, image_size=size) for phase in recipe.phases)
        named = dataclasses.replace(recipe, name=f"folder-{size}", phases=phases)
        train(
            named,
            method="vanilla",
            out=out,
            data_root=pictures,
            hardware=Hardware(accelerator="cpu", workers=0),
        )
        found[size] = out / named.name / "vanilla" / "seed-0"
    return found


# ---- An independent computation: Pillow, NumPy, and torch's functions alone ----------------------


def view(path, size):
    """Returns the centre of a picture, normalized, (3, size, size)."""
    picture = Image.open(path).convert("RGB")
    shorter = round(size * 256 / 224)
    width, height = picture.size
    if width < height:
        width, height = shorter, int(shorter * height / width)
    else:
        width, height = int(shorter * width / height), shorter
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    picture = picture.crop((left, top, left + size, top + size))
    colours = (np.asarray(picture, np.float64) / 255 - MEAN) / STD
    return torch.from_numpy(colours).permute(2, 0, 1).float()


def logits_of(weights, images, stem_stride):
    """Returns what the network "small" computes from its weights, written out."""

    def norm(maps, name):
        keys = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(maps, *(weights[f"{name}.{key}"] for key in keys)).relu()

    maps = F.conv2d(images, weights["stem.weight"], stride=stem_stride, padding=1)
    for layer in ("layer1.0", "layer2.0", "layer3.0"):
        active = norm(maps, f"{layer}.bn1")
        inner = F.conv2d(active, weights[f"{layer}.conv1.weight"], stride=2, padding=1)
        inner = F.conv2d(norm(inner, f"{layer}.bn2"), weights[f"{layer}.conv2.weight"], padding=1)
        maps = F.conv2d(active, weights[f"{layer}.shortcut.weight"], stride=2) + inner
    means = norm(maps, "norm.0").mean((2, 3))
    return means @ weights["fc.weight"].T + weights["fc.bias"]


def error_and_ece(logits, targets):
    """Returns both in percent."""
    scores = np.exp(logits - logits.max(1, keepdims=True))
    probabilities = scores / scores.sum(1, keepdims=True)
    sure, correct = probabilities.max(1), probabilities.argmax(1) == targets
    bins = np.minimum((10 * sure).astype(int), 9)
    gaps = [
        np.mean(bins == k) * abs(correct[bins == k].mean() - sure[bins == k].mean())
        for k in set(bins.tolist())
    ]
    return 100 * (1 - correct.mean()), 100 * sum(gaps)


@pytest.mark.parametrize("size", SIZES)
def test_error_and_ece_are_those_of_an_independent_computation(called, runs, pictures, size):
    run, weights = runs[size], load_file(runs[size] / "weights.safetensors")
    code, _, err = called("evaluate", run, "--device", "cpu", "--workers", "0")
    assert code == 0, err
    found = json.loads((run / "evaluation.json").read_text())["summary"]
    files = [path for name in CLASSES for path in sorted((pictures / "val" / name).iterdir())]
    targets = np.repeat(range(len(CLASSES)), TEST_IMAGES)
    logits = logits_of(weights, torch.stack([view(path, size) for path in files]), 1 + (size >= 64))
    error, ece = error_and_ece(logits.double().numpy(), targets)
    assert found["error"] == pytest.approx(error)
    assert found["ece"] == pytest.approx(ece, abs=0.01)
    result = json.loads((run / "result.json").read_text())
    assert found["error"] == pytest.approx(result["final_error"])
    # At the data set's own size the answers are others: it would be noticed.
    at_224 = logits_of(weights, torch.stack([view(path, 224) for path in files]), 1 + (size >= 64))
    assert abs(error_and_ece(at_224.double().numpy(), targets)[1] - ece) > 0.1


# ---- What weights and runs remember --------------------------------------------------------------


def test_the_header_has_what_the_run_ended_with(runs):
    with safe_open(runs[64] / "weights.safetensors", "pt") as content:
        about = content.metadata()
    assert json.loads(about["shape"]) == [3, 64, 64]
    assert json.loads(about["preprocessing"]) == {
        "resize": 73,
        "crop": [64, 64],
        "interpolation": "bilinear",
        "mean": list(MEAN),
        "std": list(STD),
    }
    assert json.loads(about["classes"]) == list(CLASSES)
    assert (about["width"], about["data"], about["model"]) == ("8", "folder", "small")


def test_where_the_data_lay_is_in_the_run_and_not_in_its_weights(runs, pictures):
    assert json.loads((runs[64] / "run.json").read_text())["data_root"] == str(pictures)
    with safe_open(runs[64] / "weights.safetensors", "pt") as content:
        assert str(pictures) not in json.dumps(content.metadata())


def test_a_network_comes_back_with_its_preprocessing(runs, pictures):
    classifier = models.load(runs[96])
    path = pictures / "val" / "ant" / "1.jpg"
    images = classifier.preprocessing(Image.open(path))[None]
    torch.testing.assert_close(images[0], view(path, 96), rtol=0, atol=1e-5)
    expected = logits_of(load_file(runs[96] / "weights.safetensors"), images, 2).softmax(1)
    torch.testing.assert_close(classifier(images), expected)
    assert not classifier.model.training
    assert classifier.classes == CLASSES


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--image-size", "96"], r"`image_size` must be 64,.* got 96"),
        (["--data-set", "tiny"], "`--data-set` must be one of"),
        (["--data", "nowhere"], "a folder of images was not found"),
    ],
)
def test_what_contradicts_a_run_is_rejected(called, runs, words, rule):
    code, _, err = called("evaluate", runs[64], *words)
    assert code == 1
    assert re.search(rule, err), err


@pytest.mark.parametrize(
    ("name", "value"), [("mean", [0.5, 0.5, 0.5]), ("std", [0.5, 0.5, 0.5]), ("resize", 64)]
)
def test_data_that_are_prepared_otherwise_are_rejected(runs, pictures, tmp_path, name, value):
    file = tmp_path / "other.safetensors"
    source = runs[64] / "weights.safetensors"
    with safe_open(source, "pt") as content:
        about = content.metadata()
    changed = json.loads(about["preprocessing"]) | {name: value}
    save_file(load_file(source), file, about | {"preprocessing": json.dumps(changed)})
    trained, data = evaluation.load_trained(file), load("folder", pictures)
    with pytest.raises(ValueError, match=f"`data` must be prepared as for .* with {name} "):
        evaluation.evaluate(trained, data)


def test_another_shape_than_the_header_has_is_rejected(runs):
    with pytest.raises(ValueError, match=r"`shape` must be \(3, 64, 64\).* got \(3, 224, 224\)"):
        models.load(runs[64], shape=(3, 224, 224))
