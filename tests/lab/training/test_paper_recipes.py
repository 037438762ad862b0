"""The recipes' settings and the errors they are held against, by their table, as literals.

Where the text is silent, "official" is the official implementation.
"""

import dataclasses

import pytest
import torch

from comixup import CoMixup
from comixup._methods import PAPER
from comixup.lab.data._split import Order
from comixup.lab.training import RECIPES
from comixup.lab.training._mixers import make_mixer

# ---- The paper's tables -------------------------------------------------------------------------

CLASSIFICATION = {  # tab:classification; Vanilla, Input, Manifold, CutMix, Puzzle Mix, Co-Mixup
    "cifar100-preactresnet18": (23.59, 22.43, 21.64, 21.29, 20.62, 19.87),
    "cifar100-wrn16-8": (21.70, 20.08, 20.55, 20.14, 19.24, 19.15),
    "cifar100-resnext29-4-24": (21.79, 21.70, 22.28, 21.86, 21.12, 19.78),
    "tiny-imagenet-preactresnet18": (43.40, 43.48, 40.76, 43.11, 36.52, 35.85),
    "imagenet-resnet50": (24.03, 22.97, 23.30, 22.92, 22.49, 22.39),
    "speech-vgg11": (4.84, 3.91, 3.67, 3.76, 3.70, 3.54),
    "speech-lenet": (11.24, 10.83, 12.33, 12.80, 10.89, 10.67),  # tab:speech
}
MULTI_INPUT = {  # tab:multiple-input
    ("input", 2): 22.43,
    ("manifold", 2): 21.64,
    ("cutmix", 2): 21.29,
    ("input", 3): 23.03,
    ("manifold", 3): 22.13,
    ("cutmix", 3): 22.01,
    ("input", 4): 23.12,
    ("manifold", 4): 22.07,
    ("cutmix", 4): 22.20,
}
SENSITIVITY = {  # tab:hyperparameter
    "beta": {0: 20.29, 0.16: 20.18, 0.32: 19.87, 0.48: 20.35, 0.64: 21.24},
    "gamma": {0.6: 20.3, 0.8: 19.99, 1.0: 19.87, 1.2: 20.09, 1.4: 20.13},
    "tau": {0.79: 20.45, 0.81: 20.14, 0.83: 19.87, 0.85: 20.15, 0.87: 20.23},
    "omega": {0: 20.51, 0.0005: 20.42, 0.001: 19.87, 0.005: 20.18, 0.01: 20.14},
    "partition_size": {2: 20.3, 4: 20.22, 10: 20.15, 20: 19.87, 50: 19.96},
}
VAT = {  # tab:vat; by coefficient, number of updates and radius
    (0.001, 0, 1): 23.38,
    (0.001, 0, 2): 23.62,
    (0.001, 1, 1): 24.76,
    (0.001, 1, 2): 26.22,
    (0.01, 0, 1): 23.14,
    (0.01, 0, 2): 23.67,
    (0.01, 1, 1): 28.33,
    (0.01, 1, 2): 31.95,
    (0.1, 0, 1): 23.65,
    (0.1, 0, 2): 23.88,
    (0.1, 1, 1): 34.75,
    (0.1, 1, 2): 39.82,
}
CIFAR_RECIPES = [name for name, recipe in RECIPES.items() if recipe.loss == "official"]


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_figures_of_the_table_of_errors(name):
    methods = RECIPES[name].methods
    assert tuple(methods) == tuple(PAPER)
    assert tuple(method.mixer for method in methods.values()) == tuple(PAPER)
    assert tuple(method.paper for method in methods.values()) == CLASSIFICATION[name]


def test_figures_of_the_table_of_many_inputs():
    methods = dict(RECIPES["cifar100-multi-input"].methods)
    assert methods.pop("comixup").paper == 19.87
    found = {(m.mixer, m.settings["num_inputs"]): m.paper for m in methods.values()}
    assert found == MULTI_INPUT
    assert all(name == f"{m.mixer}-{m.settings['num_inputs']}" for name, m in methods.items())


def test_figures_of_the_table_of_sensitivity():
    found = {}
    for method in RECIPES["cifar100-sensitivity"].methods.values():
        assert method.mixer == "comixup"
        ((setting, value),) = method.settings.items()  # one varies, the others stay
        found.setdefault(setting, {})[value] = method.paper
    assert found == SENSITIVITY


def test_figures_of_the_table_of_virtual_adversarial_training():
    methods = dict(RECIPES["cifar100-vat"].methods)
    assert methods.pop("comixup").paper == 19.87
    found = {
        (m.vat["weight"], m.vat["updates"], m.vat["epsilon"]): m.paper for m in methods.values()
    }
    assert found == VAT
    assert {method.mixer for method in methods.values()} == {"vanilla"}


def test_our_own_recipes_claim_no_figure():
    ours = [recipe for recipe in RECIPES.values() if recipe.source == "ours"]
    assert len(ours) == 6
    assert {method.paper for recipe in ours for method in recipe.methods.values()} == {None}


# ---- Settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CIFAR_RECIPES)
def test_settings_of_cifar_and_tiny_imagenet(name):
    # Section 5; batches, Nesterov's momentum and what is reported are official.
    recipe = RECIPES[name]
    tiny = recipe.data == "tiny-imagenet"
    first, second, epochs = (600, 900, 1200) if tiny else (100, 200, 300)
    assert [(phase.epochs, phase.batch_size) for phase in recipe.phases] == [(epochs, 100)]
    assert recipe.lr == ((0, 0.2), (first, 0.02), (second, 0.002))
    assert (recipe.momentum, recipe.weight_decay, recipe.nesterov) == (0.9, 1e-4, True)
    assert (recipe.optimizer, recipe.lr_interpolation, recipe.reported) == (
        "sgd",
        "constant",
        "median",
    )


def test_cifar_recipes_are_all_but_our_own():
    of_cifar = {name for name, recipe in RECIPES.items() if recipe.data == "cifar100"}
    ours = {"cifar100-low-data", "cifar100-small-data"}
    assert {*CIFAR_RECIPES, *ours} == of_cifar | {"tiny-imagenet-preactresnet18"}


def test_settings_of_imagenet():
    recipe = RECIPES["imagenet-resnet50"]
    assert [dataclasses.astuple(phase) for phase in recipe.phases] == [
        (15, 1024, 128, 0.08),
        (25, 448, 224, 0.087),
        (60, 448, 224, 0.087),
    ]
    assert (recipe.epochs, recipe.lr_interpolation) == (100, "linear")
    assert (recipe.nesterov, recipe.decay_norms, recipe.weight_decay) == (False, False, 1e-4)
    assert recipe.momentum == 0.9
    assert recipe.lr == (
        (0, 0.5),
        (8, 1.0),
        (15, 0.125),
        (15, 0.2),
        (40, 0.02),
        (65, 0.002),
        (90, 0.0002),
        (100, 0.00002),
    )


@pytest.mark.parametrize("name", ["speech-vgg11", "speech-lenet"])
def test_settings_of_speech(name):
    recipe = RECIPES[name]
    # Appendix F and the mixup paper (section 3.3), which it follows.
    assert [(phase.epochs, phase.batch_size) for phase in recipe.phases] == [(30, 100)]
    assert (recipe.patience, recipe.reported, recipe.unmixed_epochs) == (5, "validation", 5)
    assert (recipe.optimizer, recipe.weight_decay) == ("adam", 0.0)
    assert recipe.lr == ((0, 3e-3), (10, 3e-4), (20, 3e-5))


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_co_mixup_has_the_papers_settings(name):
    # Left to the mixer's defaults (tests/test_paper_constants.py) but for ImageNet's, official.
    own = {"partition_size": 16, "sweeps": 3, "alpha": 1.0} if name == "imagenet-resnet50" else {}
    method = RECIPES[name].methods["comixup"]
    assert (method.mixer, method.settings) == ("comixup", own)
    mixer = make_mixer(method, 10, torch.Generator())
    assert type(mixer) is CoMixup
    assert (mixer.partition_size, mixer.sweeps, mixer.alpha, mixer.omega, mixer.grid) == (
        own.get("partition_size", 20),
        own.get("sweeps", 4),
        own.get("alpha", 2.0),
        0.001,
        4,
    )


ALPHAS = {  # official: Input, Manifold, CutMix; ImageNet's and speech's from the papers of each
    "cifar100-preactresnet18": (1.0, 2.0, 1.0),
    "cifar100-wrn16-8": (1.0, 2.0, 1.0),
    "cifar100-resnext29-4-24": (1.0, 2.0, 1.0),
    "tiny-imagenet-preactresnet18": (0.2, 0.2, 0.2),
    "imagenet-resnet50": (0.2, 0.2, 1.0),
    "speech-vgg11": (0.2, 0.2, 1.0),
    "speech-lenet": (0.2, 0.2, 1.0),
}
PUZZLE_MIX = {  # official; saliency is taken without a clean loss on CIFAR-100
    "cifar100-preactresnet18": {"t_size": 4, "clean_weight": 0.0},
    "cifar100-wrn16-8": {"t_size": 4, "clean_weight": 0.0},
    "cifar100-resnext29-4-24": {"t_size": 4, "clean_weight": 0.0},
    "tiny-imagenet-preactresnet18": {"t_size": 4},
    "imagenet-resnet50": {"beta": 1.5, "neighbour": 2},
    "speech-vgg11": {},
    "speech-lenet": {},
}


@pytest.mark.parametrize("name", ALPHAS)
def test_settings_of_the_baselines(name):
    methods = RECIPES[name].methods
    found = tuple(methods[method].settings["alpha"] for method in ("input", "manifold", "cutmix"))
    assert found == ALPHAS[name]
    assert methods["puzzlemix"].settings == PUZZLE_MIX[name]


@pytest.mark.parametrize("name", RECIPES)
def test_baselines_are_tuned_where_the_paper_tunes_them(name):
    # Appendix E.
    tunes = RECIPES[name].tuning_grid
    assert set(tunes) == {"input", "manifold", "cutmix"}
    assert all(grid == {"alpha": (0.2, 1.0, 2.0)} for grid in tunes.values())


# ---- ImageNet on many GPUs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processes", "batch_size", "each"), [(8, None, 56), (64, 2048, 32), (512, 8192, 16)]
)
def test_the_notes_on_many_gpus_are_right(processes, batch_size, each):
    recipe = RECIPES["imagenet-resnet50"]
    shares = []
    for phase in recipe.changed(batch_size=batch_size).phases:
        last = {"rank": processes - 1, "world_size": processes}
        shares.append(len(Order(1_281_167, phase.batch_size, shuffled=True, **last).share(0)))
    assert min(shares) == each
    assert f"{each}" in recipe.notes
    assert f"On {processes}" in recipe.notes
    assert batch_size is None or f"--batch-size {batch_size} --lr {batch_size // 1024}" in (
        recipe.notes
    )


def test_more_processes_than_a_phase_can_share_are_rejected_with_what_would_do():
    smallest = min(phase.batch_size for phase in RECIPES["imagenet-resnet50"].phases)
    Order(1_281_167, smallest, shuffled=True, world_size=224)
    message = "got batches of 448 .*Use --batch-size 450 or more .* or at most 224 processes"
    with pytest.raises(ValueError, match=message):
        Order(1_281_167, smallest, shuffled=True, world_size=225)
