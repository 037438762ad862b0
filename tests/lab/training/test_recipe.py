"""What a recipe says at every moment, and what changing it changes."""

import dataclasses
import json

import pytest
from numpy.testing import assert_allclose

from cases import each_case
from comixup.lab.training import RECIPES, Method, Phase, Recipe, change_method
from comixup.lab.training._run import Run, difference

CIFAR = RECIPES["cifar100-preactresnet18"]
IMAGENET = RECIPES["imagenet-resnet50"]
SPEECH = RECIPES["speech-lenet"]


def recipe_of(**changes):
    plain = Recipe(
        name="mine",
        title="A title",
        source="ours",
        data="digits",
        model="small",
        methods={
            "comixup": Method("comixup", {"beta": 0.5}, paper=12.0),
            "soft": Method("comixup", {"beta": 0.7}),
        },
        phases=(Phase(4, 10), Phase(6, 5, image_size=8, min_scale=0.5)),
        lr=((0, 1.0), (4, 0.5), (4, 2.0), (10, 0.2)),
    )
    return dataclasses.replace(plain, **changes)


# ---- Moments ------------------------------------------------------------------------------------


@each_case(("epoch", "batch_size"), [(0, 10), (3, 10), (4, 5), (9, 5), (10, 5)])
def test_phase_at_an_epoch(epoch, batch_size):
    assert recipe_of().phase_at(epoch).batch_size == batch_size


@each_case(
    ("epoch", "rate"),
    [
        (0, 0.5),
        (4, 0.75),
        (8, 1.0),
        (11.5, (1.0 + 0.125) / 2),
        (15, 0.2),  # the next phase's, not 0.125
        (27.5, 0.11),
        (40, 0.02),
        (52.5, 0.011),
        (65, 0.002),
        (90, 0.0002),
        (95, 0.00011),
        (100, 0.00002),
        (120, 0.00002),
    ],
)
def test_linear_learning_rate(epoch, rate):
    assert_allclose(IMAGENET.lr_at(epoch), rate, rtol=1e-12)


def test_learning_rate_before_its_first_moment_is_the_first():
    assert recipe_of(lr=((2, 0.3), (5, 0.1))).lr_at(0) == 0.3


# ---- Changes ------------------------------------------------------------------------------------


@each_case("epochs", [2, 3, 7, 10, 33, 50, 99, 100, 200])
def test_phases_add_up_and_their_learning_rates_begin_with_them(epochs):
    recipe = IMAGENET.changed(epochs=epochs)
    assert recipe.epochs == epochs
    assert min(phase.epochs for phase in recipe.phases) > 0
    jump = sum(phase.epochs for phase in recipe.phases if phase.batch_size == 1024)
    assert recipe.lr_at(jump) == 0.2
    assert recipe.lr_at(epochs) == 0.00002
    if jump:
        assert recipe.lr_at(0) == 0.5
        assert_allclose(recipe.lr_at(jump - 1e-9), 0.125, rtol=1e-6)


def test_one_epoch_is_the_longest_phases():
    recipe = IMAGENET.changed(epochs=1)
    assert recipe.phases == (dataclasses.replace(IMAGENET.phases[2], epochs=1),)
    assert_allclose([recipe.lr_at(0), recipe.lr_at(1)], [0.02, 0.00002])


def test_unmixed_epochs_keep_their_proportion():
    # Else a short run would end before anything is mixed.
    assert [SPEECH.changed(epochs=n).unmixed_epochs for n in (1, 12, 30, 60)] == [0, 2, 5, 10]


def test_changes_of_one_kind_do_not_undo_those_of_another():
    recipe = recipe_of().changed(epochs=5, batch_size=3, lr=1.0)
    assert [(phase.epochs, phase.batch_size) for phase in recipe.phases] == [(2, 3), (3, 3)]
    assert_allclose(recipe.lr, [(0, 0.5), (2, 0.25), (2, 1.0), (5, 0.1)])


def test_a_changed_recipe_claims_no_figure_of_the_paper():
    before = RECIPES["cifar100-preactresnet18"]
    assert before.changed() == before
    changed = before.changed(epochs=3)
    assert {method.paper for method in changed.methods.values()} == {None}
    settings = {name: method.settings for name, method in before.methods.items()}
    assert {name: method.settings for name, method in changed.methods.items()} == settings


def test_no_images_per_class_means_all():
    assert RECIPES["cifar100-low-data"].changed(images_per_class=0).images_per_class is None


@each_case(
    ("changes", "word"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 10**12}, "batch_size"),
        ({"lr": float("nan")}, "lr"),
        ({"loss": "hinge"}, "loss"),
        ({"weight_decay": -1.0}, "weight_decay"),
    ],
)
def test_impossible_changes_are_rejected(changes, word):
    with pytest.raises(ValueError, match=f"`{word}` must be"):
        recipe_of().changed(**changes)


# ---- Methods and their settings -----------------------------------------------------------------


def test_settings_are_added_to_those_of_one_method():
    recipe = change_method(recipe_of(), "comixup", {"tau": 0.9})
    assert recipe.methods["comixup"].settings == {"beta": 0.5, "tau": 0.9}
    assert recipe.methods["soft"] == recipe_of().methods["soft"]


def test_the_papers_figure_does_not_belong_to_other_settings():
    assert change_method(recipe_of(), "comixup", {"beta": 0.1}).methods["comixup"].paper is None
    assert change_method(recipe_of(), "comixup", {}).methods["comixup"].paper == 12.0


def test_unknown_method_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"got 'comixupp'\. Did you mean comixup or"):
        CIFAR.choose("comixupp")
    with pytest.raises(ValueError, match="in recipe cifar100-preactresnet18"):
        change_method(CIFAR, "nothing like it", {})


# ---- As text ------------------------------------------------------------------------------------


@each_case("name", RECIPES)
def test_recipes_are_plain_data(name):
    recipe = RECIPES[name].as_dict()
    assert json.loads(json.dumps(recipe)) == recipe
    assert set(recipe) == {field.name for field in dataclasses.fields(Recipe)}


OTHER_RUNS = {
    "name": {"name": "other"},
    "data": {"data": "cifar10"},
    "model": {"model": "lenet"},
    "epochs": {"phases": (Phase(4, 10), Phase(7, 5, image_size=8, min_scale=0.5))},
    "batch size": {"phases": (Phase(4, 11), Phase(6, 5, image_size=8, min_scale=0.5))},
    "image size": {"phases": (Phase(4, 10), Phase(6, 5, image_size=9, min_scale=0.5))},
    "crops": {"phases": (Phase(4, 10), Phase(6, 5, image_size=8, min_scale=0.4))},
    "lr": {"lr": ((0, 1.0), (4, 0.5), (4, 2.0), (10, 0.3))},
    "lr_interpolation": {"lr_interpolation": "linear"},
    "loss": {"loss": "official"},
    "optimizer": {"optimizer": "adam"},
    "momentum": {"momentum": 0.8},
    "nesterov": {"nesterov": False},
    "weight_decay": {"weight_decay": 0.0},
    "decay_norms": {"decay_norms": False},
    "unmixed_epochs": {"unmixed_epochs": 1},
    "schedule": {"methods": {"comixup": Method("comixup", {"beta": 0.5}, schedule={"off": 0.1})}},
    "parts": {"methods": {"comixup": Method("choice", parts={"input": Method("input")})}},
    "patience": {"patience": 3},
    "classes": {"classes": (1, 2)},
    "images_per_class": {"images_per_class": 5},
    "augment": {"augment": "trivial"},
    "label_smoothing": {"label_smoothing": 0.1},
    "validation": {"validation": 0.1},
    "validation_seed": {"validation_seed": 0},
    "test_fraction": {"test_fraction": 0.5},
    "width": {"width": 8},
    "pretrained": {"pretrained": True},
    "weights": {"weights": "trained.safetensors"},
    "freeze": {"weights": "trained.safetensors", "freeze": "norms"},
    "skip_bad": {"skip_bad": True},
    "head_lr": {"head_lr": 10.0},
    "class_weights": {"class_weights": "balanced"},
    "evaluate_every": {"evaluate_every": 2},
    "mixer": {"methods": {"comixup": Method("cutmix", {"beta": 0.5})}},
    "settings": {"methods": {"comixup": Method("comixup", {"beta": 0.6})}},
    "vat": {"methods": {"comixup": Method("vanilla", {"beta": 0.5}, vat={"weight": 0.1})}},
    "ema": {"ema": 0.9},
}

SAME_RUNS = {
    "title": {"title": "Another"},
    "source": {"source": "tab:other"},
    "method that is the default": {"method": "soft"},
    "reported": {"reported": "last"},
    "tuning_grid": {"tuning_grid": {"input": {"alpha": (1.0,)}}},
    "notes": {"notes": "Something"},
    "other methods": {"methods": {"comixup": Method("comixup", {"beta": 0.5}, paper=1.0)}},
}


@each_case("change", OTHER_RUNS)
def test_identity_changes_with_what_the_weights_depend_on(change):
    assert difference(identity(), identity(**OTHER_RUNS[change]))


@each_case("change", SAME_RUNS)
def test_identity_does_not_change_with_what_is_for_people(change):
    assert difference(identity(), identity(**SAME_RUNS[change])) == ""


def test_every_field_of_a_recipe_is_in_one_of_the_lists_above():
    listed = {name for change in (*OTHER_RUNS.values(), *SAME_RUNS.values()) for name in change}
    assert listed == {field.name for field in dataclasses.fields(Recipe)}


def test_identity_has_the_seed_and_the_method():
    recipe = recipe_of()
    runs = [Run(recipe, method, seed) for method in ("comixup", "soft") for seed in (0, 1)]
    assert len({str(run.identity()) for run in runs}) == 4
    assert len({run.variant for run in runs}) == 2


def identity(**changes):
    return Run(recipe_of(**changes), "comixup", 0).identity()


# ---- Methods of other lengths -------------------------------------------------------------------


def test_a_method_may_have_epochs_and_learning_rates_of_its_own():
    methods = {
        "comixup": Method("comixup", {"beta": 0.5}),
        "long": Method("vanilla", epoch_multiplier=2, lr_multiplier=0.5),
        "short": Method("vanilla", epoch_multiplier=0.5),
    }
    recipe = recipe_of(methods=methods)
    assert recipe.for_method("comixup") is recipe
    long = recipe.for_method("long")
    assert long.epochs == 2 * recipe.epochs
    assert long.methods == methods
    assert long.lr == tuple((2 * when, rate / 2) for when, rate in recipe.lr)
    assert recipe.for_method("short").epochs == recipe.epochs // 2
    assert Run(recipe, "long").trained == long
    twice = recipe_of(methods={**methods, "comixup": Method("vanilla")}).changed(epochs=20)
    assert "phases was" in difference(
        Run(recipe, "long").identity(), Run(twice, "short").identity()
    )
