"""Weights load into the network they are of, and into no other unnoticed."""

import pytest
import torch
from safetensors.torch import save_file

from comixup.lab import models
from comixup.lab._networks import load_weights


def test_weights_of_another_stride_are_rejected():
    weights = models.build("small", 50, shape=(3, 64, 64)).state_dict()
    model = models.build("small", 50)
    for strict in (True, False):
        with pytest.raises(ValueError, match=r"`state_dict` must have the strides .*\[1, 1\] here"):
            model.load_state_dict(weights, strict=strict)
    models.build("small", 50, shape=(3, 96, 96)).load_state_dict(weights)


def test_they_are_rejected_inside_another_module_too():
    outer = torch.nn.Sequential(models.build("small", 5))
    weights = torch.nn.Sequential(models.build("small", 5, shape=(3, 64, 64))).state_dict()
    with pytest.raises(ValueError, match="`state_dict` must have the strides"):
        outer.load_state_dict(weights)


def test_weights_that_do_not_tell_their_strides_are_rejected():
    model = models.build("small", 5)
    weights = {name: value for name, value in model.state_dict().items() if "extra" not in name}
    assert len(weights) == len(model.state_dict()) - 1
    with pytest.raises(RuntimeError, match="_extra_state"):
        model.load_state_dict(weights)
    with pytest.raises(ValueError, match=r"_extra_state must be .* but is absent"):
        load_weights(model, weights)


def test_networks_of_other_libraries_keep_their_names():
    own = torch.nn.Module.state_dict(models.build("torchvision:resnet18", 5))
    assert not [name for name in own if "extra" in name]


def test_a_file_says_which_network_to_build(tmp_path):

    model = models.build("small", 4, shape=(3, 64, 64), width=8).eval()
    preprocessing = models.Preprocessing((3, 64, 64), (0.5,) * 3, (0.25,) * 3, resize=73)
    header = models.Header("small", 4, (3, 64, 64), 8, "mine", tuple("abcd"), preprocessing)
    save_file(model.state_dict(), tmp_path / "w.safetensors", header.as_metadata())
    assert models.read_header(tmp_path / "w.safetensors") == header
    found = models.load(tmp_path / "w.safetensors")
    assert found.preprocessing == preprocessing
    images = preprocessing.normalize(torch.rand(2, 3, 64, 64))
    torch.testing.assert_close(found(images), model(images).softmax(1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"resize": 73', '"resize": 7'),
        ('"resize": 73', '"resize": 1e9'),
        ("[64, 64]", "[32, 32]"),
        ("[0.25, 0.25, 0.25]", "[0.25, 0.25]"),
        ("[0.25, 0.25, 0.25]", "[0.25, 0.25, 0]"),
        ("[0.25, 0.25, 0.25]", "[0.25, 0.25, 1e-300]"),
        ("[0.25, 0.25, 0.25]", "[0.25, 0.25, 1e-39]"),
        ("[0.25, 0.25, 0.25]", "[0.25, 0.25, 1e300]"),
        ("0.5", "NaN"),
        ("0.5", "1e300"),
        ("bilinear", "nearest"),
        ("{", "["),
    ],
)
def test_damaged_preprocessing_is_rejected(tmp_path, old, new):

    preprocessing = models.Preprocessing((3, 64, 64), (0.5,) * 3, (0.25,) * 3, resize=73)
    about = models.Header(shape=(3, 64, 64), preprocessing=preprocessing).as_metadata()
    about["preprocessing"] = about["preprocessing"].replace(old, new)
    save_file({"x": torch.zeros(1)}, tmp_path / "w.safetensors", about)
    with pytest.raises(ValueError, match=r"`path` must be a file .* but preprocessing of"):
        models.read_header(tmp_path / "w.safetensors")
