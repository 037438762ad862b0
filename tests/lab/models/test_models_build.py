"""Networks by name: every one of ours trains, is mixed inside, compiled, saved; names are found."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from comixup import ManifoldMixup
from comixup.lab.models import build, names
from comixup.lab.models._paper import preact_resnet, resnext, small, wide_resnet
from problems import generator
from rejections import rejects

CLASSES = 5
SPEECH = ["lenet", "vgg11-speech"]
IMAGES = [name for name in names() if name not in SPEECH]
# Every kind of network in a size that can be run often: the code is that of the named ones.
SMALL = {
    "small": lambda: small(CLASSES, width=8),
    "pre-activation": lambda: preact_resnet(CLASSES, width=8, blocks=(1, 1, 1, 1)),
    "wide": lambda: wide_resnet(CLASSES, depth=10, width=1),
    "resnext": lambda: resnext(CLASSES, depth=11, groups=2, base_width=8),
    "lenet": lambda: build("lenet", CLASSES),
    "vgg": lambda: build("vgg11-speech", CLASSES),  # the least of its sizes
}
over_kinds = pytest.mark.parametrize("make", list(SMALL.values()), ids=list(SMALL))


def images(shape=(3, 32, 32), count=4, seed=0):
    return torch.randn(count, *shape, generator=generator(seed))


def seeded(make, seed=0):
    torch.manual_seed(seed)
    return make()


SIZES = {
    "small": (100, 320_900),
    "preactresnet10": (100, 4_947_620),
    "preactresnet18": (10, 11_171_146),
    "preactresnet34": (100, 21_325_476),
    "wrn16-8": (10, 10_965_866),
    "wrn28-10": (10, 36_489_290),  # Zagoruyko and Komodakis: 36.5 million, without biases
    "resnext29-4-24": (100, 4_937_252),
    "resnet50-imagenet": (1000, 25_557_032),  # as torchvision's documentation has it
    "lenet": (30, 16_321_570),
    "vgg11-speech": (30, 13_172_894),
}
"""Classes and weights; counted by formulas from the papers' layers."""


@pytest.mark.parametrize("name", SIZES)
def test_networks_have_the_published_sizes(name):
    classes, size = SIZES[name]
    shape = (1, 160, 100) if name in SPEECH else (3, 32, 32)
    model = build(name, classes, shape=shape)
    assert sum(weight.numel() for weight in model.parameters()) == size
    assert model(images(shape, 2)).shape == (2, classes)


@pytest.mark.parametrize("name", [n for n in IMAGES if n not in ("wrn28-10", "resnet50-imagenet")])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 28, 28),
        (4, 17, 33),
        pytest.param((3, 64, 64), marks=pytest.mark.slow),
        pytest.param((3, 40, 56), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_image_networks_take_any_size_and_number_of_channels(name, shape):
    model = build(name, CLASSES, shape=shape).eval()
    assert model(images(shape, 2)).shape == (2, CLASSES)


@pytest.mark.parametrize(
    ("shape", "stride"),
    [((3, 32, 32), 1), ((3, 63, 63), 1), ((3, 64, 63), 1), ((3, 64, 64), 2), ((1, 96, 128), 2)],
    ids=str,
)
def test_large_images_get_a_stem_with_stride_2(shape, stride):
    for name in ("small", "preactresnet18", "wrn16-8"):
        assert build(name, CLASSES, shape=shape).stem.stride == (stride, stride)
    assert build("resnext29-4-24", CLASSES, shape=shape).stem[0].stride == (stride, stride)


@pytest.mark.parametrize("name", names())
def test_heads_and_stages_have_the_same_names_everywhere(name):
    model = build(name, CLASSES)
    assert isinstance(model.fc, nn.Linear)
    assert model.fc.out_features == CLASSES
    assert {"layer1", "layer2"} <= {child for child, _ in model.named_children()}
    assert hasattr(model, "avgpool") == (name not in SPEECH)


@over_kinds
def test_gradients_reach_the_images_and_every_weight(make):
    # DistributedDataParallel waits for the gradient of every weight.
    model, batch = seeded(make).train(), images().requires_grad_()
    F.cross_entropy(model(batch), torch.arange(4)).backward()
    assert all(bool(image.any()) for image in batch.grad)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@over_kinds
def test_manifold_mixup_finds_its_usual_layers_and_mixes_there(make):
    model, batch = seeded(make).train(), images()
    mixup = ManifoldMixup(CLASSES, generator=generator(0)).attach(model)
    seen = dict.fromkeys(mixup.layers, 0)
    for _ in range(12):
        mixed, targets = mixup(batch, torch.arange(4))
        model(mixed)  # the next call complains if the active layer has not run
        seen[mixup.last.layer or "input"] += 1
        assert targets.shape == (4, CLASSES)
    assert all(seen.values())
    assert set(seen) == {"input", "layer1", "layer2"}


@pytest.mark.slow
@over_kinds
def test_compiles_in_one_piece(make):
    model, batch = seeded(make).eval(), images()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert_close(compiled(batch), model(batch))


@over_kinds
def test_a_saved_state_makes_another_copy_the_same(make, tmp_path):
    model, other, batch = seeded(make, 1), seeded(make, 2), images()
    model.train()(batch)  # batch norms have seen something
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert_close(other.eval()(batch), model.eval()(batch), rtol=0, atol=0)


def test_a_bare_name_is_ours_then_torchvisions_then_timms():
    assert type(build("resnet18", CLASSES)).__module__ == "torchvision.models.resnet"
    assert type(build("timm:resnet18", CLASSES)).__module__ == "timm.models.resnet"
    assert type(build("resnet10t", CLASSES)).__module__ == "timm.models.resnet"
    assert type(build("torchvision:resnet18", CLASSES)).__module__ == "torchvision.models.resnet"
    assert build("lenet", CLASSES).hidden.out_features == 1000


def test_other_libraries_get_channels_and_size():
    for name, shape in (("shufflenet_v2_x0_5", (3, 64, 64)), ("vit_tiny_patch16_224", (1, 64, 64))):
        assert build(name, CLASSES, shape=shape)(images(shape)).shape == (4, CLASSES)


REJECTED = {
    "typing slip": (("preactresnet19", 10), {}, r".*got 'preactresnet19'. .* preactresnet18\b"),
    "swapped": (("wrn8-16", 10), {}, r"`name` must be of a known network.* wrn16-8\b"),
    "torchvision": (("torchvision:resnet51", 10), {}, r".*'torchvision:resnet51'. .* resnet50\b"),
    "timm": (("timm:vit_tinny_patch16_224", 10), {}, r".* vit_tiny_patch16_224\b"),
    "ours of another's": (("timm:wrn16-8", 10), {}, r"`name` must be of a known network"),
    "nothing like it": (("?", 10), {}, r".*got '\?'. Our own networks are small, small-os8, p"),
    "empty": (("", 10), {}, r".*got ''. Our own networks are"),
    "library": (
        ("keras:resnet50", 10),
        {},
        r"`name` must begin with one of \['torchvision', 'timm",
    ),
    "classes": (("small", 0), {}, r"`num_classes` must be a positive integer, got 0"),
    "two sides": (("small", 10), {"shape": (32, 32)}, r"`shape` must be \(channels, height, width"),
    "a number": (("small", 10), {"shape": 32}, r"`shape` must be \(channels, height, width\), got"),
    "no pixels": (("small", 10), {"shape": (3, 0, 32)}, r"`shape` must be a positive integer"),
    "pretrained": (("small", 10), {"pretrained": True}, r"`pretrained` must be False for 'small'"),
    "too small": (("vgg11-speech", 10), {"shape": (1, 28, 28)}, r"`shape` must be at least 32"),
}


@pytest.mark.parametrize(
    ("args", "settings", "message"), list(REJECTED.values()), ids=list(REJECTED)
)
def test_what_makes_no_sense_gets_an_error_message(args, settings, message):
    with rejects(ValueError, message):
        build(*args, **settings)


def test_a_name_must_be_a_string():
    with rejects(TypeError, r"`name` must be a string, got 18"):
        build(18, 10)


# ---- Widths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["small", "small-os8", "preactresnet10", "preactresnet18", "preactresnet34"]
)
def test_widths_are_the_feature_maps_of_the_first_stage(name):
    model = build(name, CLASSES, width=6)
    assert model.stem.out_channels == 6
    assert model(images()).shape == (4, CLASSES)


@pytest.mark.parametrize(
    ("name", "side", "last"),
    [
        ("small", 32, 4),
        ("small", 64, 4),
        ("small-os8", 64, 8),
        # The windows that the official implementation averages over are as large.
        ("preactresnet18", 32, 4),
        ("preactresnet18", 64, 4),
        ("wrn16-8", 32, 8),
        ("wrn16-8", 64, 8),
        ("resnext29-4-24", 32, 8),
    ],
)
def test_the_last_feature_maps_have_the_resolution_of_the_paper(name, side, last):
    model = build(name, CLASSES, shape=(3, side, side))
    seen = []
    model.avgpool.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape))
    model(images((3, side, side), 2))
    assert [shape[2:] for shape in seen] == [(last, last)]


@pytest.mark.parametrize("name", ["wrn16-8", "lenet", "torchvision:resnet18"])
def test_other_networks_have_no_width_to_choose(name):
    with rejects(ValueError, "`width` must be None for .* Networks whose width can be chosen"):
        build(name, CLASSES, width=8)


@pytest.mark.parametrize("width", [0, -1, 10**6, True, 1.5])
def test_absurd_widths_are_rejected(width):
    with rejects(ValueError, "`width` must be"):
        build("small", CLASSES, width=width)
