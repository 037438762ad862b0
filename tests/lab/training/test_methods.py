"""From a recipe's words to the object that mixes."""

import pytest
import torch

from cases import each_case
from comixup import NoMix
from comixup._methods import METHODS
from comixup.lab.training import RECIPES, Method
from comixup.lab.training._mixers import MIXERS, make_mixer


def made(method, num_classes=7):
    return make_mixer(method, num_classes, torch.Generator())


def test_all_methods_of_the_paper_are_known():
    assert tuple(MIXERS) == (*METHODS, "comixup-shuffled")


def test_shuffled_saliency_is_another_inputs():
    m = 7
    mixer = make_mixer(Method("comixup-shuffled"), m, torch.Generator().manual_seed(0))
    plain = make_mixer(Method("comixup"), m, torch.Generator())
    images, targets = torch.rand(m, 1, 8, 8), torch.arange(m)
    maps = torch.rand(m, 8, 8, generator=torch.Generator().manual_seed(1)) ** 8
    for _ in range(5):
        before = mixer.generator.get_state()
        mixed = mixer(images, targets, maps)
        # The same draws: a shift from 1 to m - 1, then those of Co-Mixup itself.
        plain.generator.set_state(before)
        shift = int(torch.randint(1, m, (), generator=plain.generator))
        expected = plain(images, targets, torch.stack([maps[(k - shift) % m] for k in range(m)]))
        torch.testing.assert_close(mixed, expected)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Method("comixup", {"betta": 1}), r"keywords of CoMixup .*got 'betta'\. Did you mean beta"),
        (Method("cutmixx"), r"`mixer` must be one of .*got 'cutmixx'\. Did you mean cutmix"),
        (Method("comixup", {"beta": -1}), "`beta` must be"),
    ],
)
def test_mistakes_get_an_error_message(method, message):
    with pytest.raises(ValueError, match=message):
        made(method)


def test_vat_smooths_the_logits_of_unmixed_images_alone():
    with pytest.raises(ValueError, match=r'`vat` must be None unless mixer is "vanilla".*cutmix'):
        Method("cutmix", vat={"weight": 0.1})


def test_methods_that_a_recipe_says_nothing_of_have_their_own_defaults():
    recipe = RECIPES["cifar100-vat"]
    assert "cutmix" not in recipe.methods
    assert recipe.choose("cutmix") == Method("cutmix")
    assert list(recipe.choose("cutmix+input").parts) == ["cutmix", "input"]
    assert recipe.known_methods[: len(recipe.methods)] == tuple(recipe.methods)
    assert set(METHODS) <= set(recipe.known_methods)
    with pytest.raises(ValueError, match=r"`method` must be one of .*cutmix.*got 'cutmixx'"):
        recipe.choose("cutmixx")


@each_case("name", METHODS)
def test_every_listed_method_is_made_from_its_name_and_settings(name):
    kind = MIXERS[name]
    assert kind.__name__ == METHODS[name].mixer
    settings = {} if kind is NoMix else {"p": 1, "validate": True}
    mixer = made(Method(name, settings))
    assert type(mixer) is kind
    assert kind is NoMix or mixer.validate
