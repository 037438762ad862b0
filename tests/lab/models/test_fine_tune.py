"""Networks that begin with trained weights."""

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close
from torchvision.models import resnet18

from cases import each_case
from comixup.lab import models
from comixup.lab.models._load import freeze, load_matching


def saved(model, path):
    weights = {name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()}
    if path.suffix == ".safetensors":
        save_file(weights, path)
    else:
        torch.save(weights, path)
    return path


NETWORKS = {
    "ours": (lambda n: models.build("small", n, width=8), ".safetensors", "fc"),
    "torchvision's": (lambda n: models.build("resnet18", n, shape=(3, 32, 32)), ".pth", "fc"),
    "timm's": (lambda n: models.build("timm:resnet10t", n, shape=(3, 32, 32)), ".pth", "fc"),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_all_but_a_head_of_other_classes_is_loaded(tmp_path, case):
    build, suffix, head = NETWORKS[case]
    torch.manual_seed(0)
    trained = build(7)
    file = saved(trained, tmp_path / f"weights{suffix}")
    model = build(3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert load_matching(model, file, 3) == [f"{head}.weight", f"{head}.bias"]
    for name, tensor in model.state_dict().items():
        expected = before[name] if name.startswith(head) else trained.state_dict()[name]
        assert_close(tensor, expected, rtol=0, atol=0)


def test_a_head_of_the_same_classes_is_loaded_too(tmp_path):
    trained = models.build("small", 4, width=8)
    file = saved(trained, tmp_path / "weights.safetensors")
    assert load_matching(models.build("small", 4, width=8), file, 4) == []


def test_weights_of_smaller_images_fit_the_same_network_for_larger_ones(tmp_path):
    file = saved(models.build("small", 4, width=8), tmp_path / "weights.safetensors")
    larger = models.build("small", 4, width=8, shape=(3, 64, 64))
    assert load_matching(larger, file, 4) == []


def test_torchvisions_own_file_fits_its_network_for_photographs(tmp_path):
    file = saved(resnet18(num_classes=5), tmp_path / "resnet18.pth")
    model = models.build("resnet18", 3, shape=(3, 224, 224))
    assert load_matching(model, file, 3) == ["fc.weight", "fc.bias"]


WRONG = {
    "another width": ("small", {"width": 16}),
    "another network": ("resnet18", {}),
}


@each_case("case", WRONG)
def test_weights_of_another_network_are_rejected(tmp_path_factory, case):
    file = saved(models.build("small", 4, width=8), tmp_path_factory.mktemp("w") / "a.safetensors")
    name, more = WRONG[case]
    with pytest.raises(ValueError, match="`weights` must be of the network that is trained"):
        load_matching(models.build(name, 4, **more), file, 4)


def test_a_frozen_network_trains_its_last_layer_alone():
    torch.manual_seed(0)
    model = models.build("small", 4, width=8)
    freeze(model, "features", 4)
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    images = torch.rand(6, 3, 32, 32, requires_grad=True)
    torch.nn.functional.cross_entropy(model(images), torch.tensor([0, 1, 2, 3, 0, 1])).backward()
    optimizer.step()
    assert images.grad is not None  # saliency still reaches the images
    changed = {name for name, t in model.state_dict().items() if not torch.equal(t, before[name])}
    assert changed == {"fc.weight", "fc.bias"}


def test_frozen_norms_keep_their_statistics_while_all_weights_train():
    torch.manual_seed(0)
    model = models.build("small", 4, width=8)
    freeze(model, "norms", 4)
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, targets = torch.rand(6, 3, 32, 32), torch.tensor([0, 1, 2, 3, 0, 1])
    torch.nn.functional.cross_entropy(model(images), targets).backward()
    optimizer.step()
    same = {name for name, t in model.state_dict().items() if torch.equal(t, before[name])}
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    assert same == {name for name in before if name.endswith((*statistics, "_extra_state"))}


def test_a_network_without_a_last_layer_for_the_classes():
    with pytest.raises(ValueError, match="`model` must end in a linear layer with 3 outputs"):
        freeze(torch.nn.Sequential(torch.nn.Linear(2, 2)), "features", 3)
