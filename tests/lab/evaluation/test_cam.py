"""Class activation maps: their mean is the score, whatever the network; and Grad-CAM."""

import pytest
import timm
import torch
from torch import nn
from torch.testing import assert_close
from torchvision.models.vgg import VGG, make_layers

from comixup.lab.evaluation._cam import ActivationMaps
from comixup.lab.models import build


def images(n=3, channels=3, size=64, seed=0):
    return torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(seed))


def maps_of(model, batch, classes=None, **options):
    maps, _ = ActivationMaps(model, batch, **options)(batch, classes)
    return maps


def made(name, classes=7, shape=(3, 64, 64)):
    torch.manual_seed(1)
    return narrow_vgg11(classes) if name == "vgg11" else build(name, classes, shape=shape).eval()


def narrow_vgg11(classes):
    """Torchvision's VGG-11 with few channels: most of its 133 million weights are in its head."""
    with torch.device("meta"):
        model = VGG(nn.Identity(), init_weights=False)
    model.features = make_layers([4, "M", 4, "M", 8, 8, "M", 8, 8, "M", 8, 8, "M"])
    model.classifier = nn.Sequential(
        nn.Linear(8 * 49, 16), nn.ReLU(True), nn.Dropout(), nn.Linear(16, classes)
    )
    return model.eval()


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("small", "fc"),
        ("preactresnet18", "fc"),
        ("torchvision:resnet18", "fc"),
        ("torchvision:densenet121", "classifier"),  # averages by a function, after one in place
        ("torchvision:shufflenet_v2_x0_5", "fc"),  # averages by a method
        ("timm:resnet18", "fc"),
    ],
)
def test_maps_average_to_scores(name, head):
    model, batch, classes = made(name), images(), torch.tensor([6, 0, 3])
    maps, scores = ActivationMaps(model, batch)(batch, classes)
    with torch.no_grad():
        assert_close(scores, model(batch), rtol=1e-4, atol=1e-4)
    assert maps.ndim == 3
    assert maps[0].numel() > 1
    biases = model.get_submodule(head).bias.detach()[classes]
    expected = scores[torch.arange(3), classes]
    assert_close(maps.mean((1, 2)) + biases, expected, rtol=1e-3, atol=1e-4)


def test_scores_that_are_averages_have_their_maps_as_they_are():
    model, batch = made("torchvision:squeezenet1_1"), images()
    maps, scores = ActivationMaps(model, batch)(batch, torch.tensor([1, 1, 5]))
    assert_close(maps.mean((1, 2)), scores[torch.arange(3), [1, 1, 5]])


def test_a_head_of_one_pixel_convolution():
    torch.manual_seed(2)
    body = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU())
    model = nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, 4, 1), nn.Flatten()).eval()
    batch = images(channels=1, size=9)
    maps, scores = ActivationMaps(model, batch)(batch, torch.tensor([0, 3, 2]))
    expected = scores[torch.arange(3), [0, 3, 2]] - model[2].bias.detach()[[0, 3, 2]]
    assert_close(maps.mean((1, 2)), expected)


def test_each_place_by_hand():
    model, batch = made("small"), images()
    with torch.no_grad():
        features = model.features(batch)
    maps = maps_of(model, batch, torch.tensor([2, 2, 4]))
    for number, label in enumerate((2, 2, 4)):
        for row in range(maps.shape[1]):
            place = features[number, :, row, 1]
            expected = sum(a * b for a, b in zip(place, model.fc.weight[label], strict=True))
            assert_close(maps[number, row, 1], expected.detach(), rtol=1e-4, atol=1e-5)


def test_no_classes_are_the_predicted_ones():
    model, batch = made("small"), images()
    predicted = model(batch).argmax(1)
    other = maps_of(model, batch, (predicted + 1) % 7)
    maps = maps_of(model, batch)
    assert_close(maps, maps_of(model, batch, predicted))
    assert not torch.equal(maps, other)


def test_grad_cam_is_the_positive_part_of_cam_where_both_fit():
    # The score's derivative by each map's pixel is then its weight over the number of pixels.
    model, batch, classes = made("small"), images(), torch.tensor([0, 1, 2])
    cam = maps_of(model, batch, classes)
    grad_cam = maps_of(model, batch, classes, method="grad-cam")
    assert_close(grad_cam, cam.relu() / cam[0].numel(), rtol=1e-4, atol=1e-7)
    assert (cam < 0).any()


class Overwriting(nn.Module):
    """Overwrites its last feature maps, as torchvision's DenseNets do."""

    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Conv2d(1, 6, 3), nn.Linear(6, 4)

    def forward(self, images):
        return self.fc(nn.functional.relu(self.body(images), inplace=True).mean((2, 3)))


def test_grad_cam_of_maps_that_the_model_overwrites():
    torch.manual_seed(0)
    model, batch = Overwriting().eval(), images(channels=1, size=9)
    maps = maps_of(model, batch, torch.tensor([0, 3, 2]), method="grad-cam")
    features, weights = model.body(batch).detach(), model.fc.weight.detach()[[0, 3, 2]] / 49
    shown = (features > 0).float().mean((2, 3)) * weights
    assert_close(maps, torch.einsum("nc,nchw->nhw", shown, features).relu())


@pytest.mark.parametrize("name", ["vgg11", "lenet", "torchvision:mobilenet_v3_small"])
def test_other_heads_need_grad_cam(name):
    shape = (1, 28, 28) if name == "lenet" else (3, 64, 64)
    model, batch = made(name, shape=shape), images(channels=shape[0], size=shape[1])
    with pytest.raises(ValueError, match=r"`model` must average .* method='grad-cam'"):
        maps_of(model, batch)
    parameters = [parameter.clone() for parameter in model.parameters()]
    maps = maps_of(model, batch, method="grad-cam")
    assert maps.ndim == 3
    assert (maps >= 0).all()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert_close(parameters, list(model.parameters()))


def test_grad_cam_takes_the_maps_before_the_last_pooling():
    found = ActivationMaps(made("vgg11"), images(), method="grad-cam")
    assert found.layer == "features.19"


def test_transformers_have_no_maps():
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5, img_size=64).eval()
    with pytest.raises(ValueError, match="`model` must average"):
        maps_of(model, images())
    with pytest.raises(ValueError, match=r"`model` must end in convolutions.* by `layer`"):
        maps_of(model, images(), method="grad-cam")


def test_maps_of_one_pixel_are_none():
    with pytest.raises(ValueError, match="larger images"):
        maps_of(made("torchvision:resnet18"), images(size=32))


def test_a_layer_by_name():
    model, batch = made("torchvision:resnet18"), images()
    named = maps_of(model, batch, layer="layer4.1")
    assert_close(named, maps_of(model, batch))
    deep = maps_of(model, batch, layer="layer2", method="grad-cam")
    assert deep.shape == (3, 8, 8)
    with pytest.raises(ValueError, match=r"`layer` must name a module .* 'layer3'"):
        maps_of(model, batch, layer="layer3")
    with pytest.raises(ValueError, match=r"`layer` must be the name .* 'layer9'"):
        maps_of(model, batch, layer="layer9")
    with pytest.raises(ValueError, match=r"`layer` must name .* 'fc'"):
        maps_of(model, batch, layer="fc", method="grad-cam")


def test_frozen_networks_have_grad_cam_too_and_no_hook_stays():
    model, batch = made("small").requires_grad_(False), images()
    maps = maps_of(model, batch, method="grad-cam")
    assert maps.shape == (3, 4, 4)
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (torch.tensor([0, 1]), "`classes` must have a whole number for each of the 3"),
        (torch.tensor([0, 1, 7]), "`classes` must be from 0 to 6"),
        (torch.tensor([0, 1, -1]), "`classes` must be from 0 to 6"),
    ],
)
def test_wrong_classes(classes, words):
    with pytest.raises(ValueError, match=words):
        maps_of(made("small"), images(), classes)


def test_wrong_calls():
    model = made("small")
    with pytest.raises(ValueError, match="`method` must be one of"):
        maps_of(model, images(), method="lime")
    with pytest.raises(ValueError, match="`images` must have shape"):
        maps_of(model, images()[0])
    with pytest.raises(ValueError, match=r"Call model.eval\(\) first"):
        maps_of(model.train(), images())
