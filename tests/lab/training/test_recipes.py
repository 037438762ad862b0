"""The recipes: a few real steps of every one."""

import dataclasses
import json

import pytest
import torch
from numpy.testing import assert_allclose
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from cases import each_case
from comixup._methods import METHODS
from comixup.lab import data, models
from comixup.lab.training import RECIPES, change_method, train
from comixup.lab.training._folder import read_metrics
from comixup.lab.training._mixers import make_mixer
from small_sets import HERE, reduced, write_all

SMALL_NETWORK = type(models.build("small", 10))


@each_case("name", RECIPES)
def test_everything_that_a_recipe_names_exists(name):
    recipe = RECIPES[name]
    assert recipe.name == name
    assert recipe.data in data.names()
    assert recipe.model in (*models.names(), "resnet18")  # torchvision's
    assert recipe.choose(None) in recipe.methods.values()
    for method in recipe.methods.values():
        assert make_mixer(method, 10, torch.Generator()).num_classes == 10


# ---- Real steps ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("sets"))


@pytest.fixture
def seen():
    """Notes the shape of what networks are trained on, and the learning rate of every step."""
    notes = {"shapes": [], "rates": []}

    def forward(module, inputs):
        if isinstance(module, SMALL_NETWORK) and module.training:
            notes["shapes"].append(tuple(inputs[0].shape))

    def step(optimizer, arguments, keywords):
        notes["rates"].append([group["lr"] for group in optimizer.param_groups])

    handles = [register_module_forward_pre_hook(forward), register_optimizer_step_pre_hook(step)]
    yield notes
    for handle in handles:
        handle.remove()


def check_run(recipe, root, out, method=None, epochs=1):
    """Trains, and returns the run's folder after a look at what every run leaves behind."""
    result = train(recipe, method=method, out=out, data_root=root, hardware=HERE)[0]
    folder = out / recipe.name / (method or recipe.method) / "seed-0"
    rows = read_metrics(folder)
    assert [row["epoch"] for row in rows] == list(range(1, epochs + 1))
    assert all(0 < row["train_loss"] < 100 for row in rows)
    assert 0 <= result.error <= 100
    assert json.loads((folder / "result.json").read_text())["error"] == result.error
    # RecursiveMix pastes images of the batch before, which is gone when pictures are drawn.
    assert (folder / "first_batch.png").exists() == (method != "recursivemix")
    return folder


REAL_NETWORKS = [  # one of each data set
    "cifar100-preactresnet18",
    "speech-lenet",
    "tiny-imagenet-small",
    "digits",
]
LARGE_NETWORKS = [
    "cifar100-wrn16-8",
    "cifar100-resnext29-4-24",
    "tiny-imagenet-preactresnet18",
    "speech-vgg11",
    "cifar100-low-data",
]
SMALL_NETWORKS = [
    ("cifar100-multi-input", "input-3"),
    ("cifar100-multi-input", "manifold-4"),
    ("cifar100-multi-input", "cutmix-3"),
    ("cifar100-sensitivity", "omega-0"),
    ("cifar100-sensitivity", "partition_size-2"),
    ("cifar100-vat", "vat-0.01-eps1-updates0"),
    ("cifar100-vat", "vat-0.1-eps2-updates1"),
    ("speech-small", "comixup"),
    *(("cifar100-preactresnet18", method) for method in METHODS),
]
"""Other methods, with networks that the list above has in the recipe's place."""
PLAIN = [
    ("cifar100-multi-input", "manifold-4"),
    ("cifar100-vat", "vat-0.1-eps2-updates1"),
    ("speech-small", "comixup"),
    ("cifar100-preactresnet18", "puzzlemix"),
]
"""Of these, one of each kind in the plain suite."""


@pytest.mark.parametrize(
    "name", REAL_NETWORKS + [pytest.param(name, marks=pytest.mark.slow) for name in LARGE_NETWORKS]
)
def test_recipe_trains(name, root, tmp_path):
    check_run(reduced(RECIPES[name], batch_size=2, images_per_class=1), root, tmp_path)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(*case, marks=() if case in PLAIN else pytest.mark.slow)
        for case in SMALL_NETWORKS
    ],
)
def test_method_trains(name, method, root, tmp_path):
    check_run(reduced(RECIPES[name], model="small"), root, tmp_path, method)


def test_the_comparison_on_small_data_trains(root, tmp_path):
    few = {"classes": [1, 3], "images_per_class": 2, "validation": 0.34, "width": 8}
    recipe = reduced(RECIPES["cifar100-small-data"], batch_size=2, **few)
    check_run(recipe, root, tmp_path, "comixup-one-pass")


def test_every_recipe_is_trained_above_or_below():
    others = {"imagenet-resnet50", "cifar100-small-data", "folder"}  # test_own_images.py
    trained = {*REAL_NETWORKS, *LARGE_NETWORKS, *(name for name, _ in SMALL_NETWORKS), *others}
    assert trained == set(RECIPES)


def test_three_phases_of_imagenet(root, tmp_path, seen):
    recipe = RECIPES["imagenet-resnet50"].changed(epochs=7, model="small")
    assert [phase.epochs for phase in recipe.phases] == [1, 2, 4]
    sizes, batches = (16, 24, 32), (4, 2, 8)
    phases = tuple(
        dataclasses.replace(phase, image_size=size, batch_size=batch)
        for phase, size, batch in zip(recipe.phases, sizes, batches, strict=True)
    )
    recipe = dataclasses.replace(recipe, phases=phases)
    check_run(recipe, root, tmp_path, "vanilla", epochs=7)
    # Eight images: two steps in the first phase's epoch, four in each of the second, one after.
    phase_of_step = [0] * 2 + [1] * 8 + [2] * 4
    assert seen["shapes"] == [(batches[k], 3, sizes[k], sizes[k]) for k in phase_of_step]
    # The moments of the recipe, 0, 8, 15, 40, 65, 90 and 100, come to 0, 8/15, 1, 3, 4 2/3 ...
    rates = [0.5, 0.5 + (1.0 - 0.5) * 0.5 / (8 / 15)]
    rates += [0.2 + (0.02 - 0.2) * step / 8 for step in range(8)]
    rates += [recipe.lr_at(epoch) for epoch in (3, 4, 5, 6)]
    assert rates[-4] == 0.02
    assert_allclose([groups[0] for groups in seen["rates"]], rates, rtol=1e-9)
    # Weights that decay, and norms and biases that do not, at the same rate.
    assert all(len(groups) == 2 and groups[0] == groups[1] for groups in seen["rates"])


@pytest.mark.slow
def test_imagenets_own_network_and_co_mixup_train(root, tmp_path):
    recipe = reduced(RECIPES["imagenet-resnet50"], image_sizes=(32,))
    check_run(recipe, root, tmp_path)


def test_unmixed_epochs_are_not_mixed(root, tmp_path, seen):
    recipe = reduced(RECIPES["cifar100-preactresnet18"], epochs=3, model="small", batch_size=12)
    recipe = dataclasses.replace(recipe, unmixed_epochs=1)
    recipe = change_method(recipe, "comixup", {}, schedule={"off": 0.3})
    check_run(recipe, root, tmp_path, "comixup", epochs=3)
    # A mixed step passes the network twice: for the saliency, and with what was mixed.
    assert len(seen["shapes"]) == 1 + 2 + 1


@pytest.mark.parametrize("lr", [1e-12, 1e-2])
def test_speech_stops_when_validation_accuracy_no_longer_rises(lr, root, tmp_path):
    recipe = reduced(RECIPES["speech-small"], epochs=9, model="small", lr=lr)
    recipe = dataclasses.replace(recipe, patience=2)
    result = train(recipe, method="vanilla", out=tmp_path, data_root=root, hardware=HERE)[0]
    rows = read_metrics(tmp_path / recipe.name / "vanilla" / "seed-0")
    errors = [row["validation_error"] for row in rows]
    best = [min(errors[: epoch + 1]) for epoch in range(len(errors))]
    idle = [epoch for epoch in range(2, len(errors)) if best[epoch] == best[epoch - 2]]
    assert len(rows) == (idle[0] + 1 if idle else 9)
    first = errors.index(min(errors))
    assert_allclose(result.error, rows[first]["test_error"], rtol=1e-5)
    if lr < 1e-6:
        assert len(rows) == 3
