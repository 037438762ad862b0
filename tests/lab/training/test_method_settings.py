"""Settings: no value passes for one of another type."""

import inspect
import math

import pytest

from cases import each_case
from comixup import CoMixup, InputMixup, ManifoldMixup, NoMix, PuzzleMix
from comixup.lab.training._mixers import (
    MIXERS,
    check_effect,
    check_settings,
    keywords_of,
    plain,
)

BOOLEANS = [
    (kind, name)
    for kind in MIXERS.values()
    for name, parameter in keywords_of(kind).items()
    if isinstance(parameter.default, bool)
]


@each_case(("kind", "name"), BOOLEANS)
@each_case("value", ["False", "no", "maybe", "", 0, 1, 1.0, None, [False], {}])
def test_only_booleans_pass_for_booleans(kind, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be true or false, got"):
        check_settings(kind, {name: value})
    assert check_settings(kind, {name: False}) == {name: False}


def test_the_booleans_of_all_mixers_are_found():
    assert {name for _, name in BOOLEANS} >= {"keep_gradients", "resolve", "transport", "validate"}


@each_case("kind", MIXERS.values())
def test_defaults_fit_their_annotations(kind):
    for name, parameter in keywords_of(kind).items():
        assert parameter.default is not inspect.Parameter.empty
        (found,) = check_settings(kind, {name: parameter.default}).values()
        assert found == parameter.default
        assert type(found) is type(parameter.default)


@each_case(
    ("kind", "settings", "message"),
    [
        (CoMixup, {"beta": "0.5"}, "`beta` must be a finite number, got '0.5'"),
        (CoMixup, {"beta": math.nan}, "`beta` must be a finite number, got nan"),
        (CoMixup, {"beta": math.inf}, "`beta` must be a finite number, got inf"),
        (CoMixup, {"beta": [0.5]}, r"`beta` must be a finite number, got \[0.5\]"),
        (CoMixup, {"sweeps": 2.5}, "`sweeps` must be an integer, got 2.5"),
        (CoMixup, {"partition_size": "all"}, "must be an integer or null, got 'all'"),
        (CoMixup, {"clip": "Hard"}, "`clip` must be one of soft, hard or null, got 'Hard'"),
        (CoMixup, {"grid": [2, "3"]}, "`grid` must be an integer or a list"),
        (CoMixup, {"compatibility": [[1]]}, "`compatibility` must be null, got"),
        (ManifoldMixup, {"layers": "layer1"}, "`layers` must be a list .* a word, got 'layer1'"),
        (PuzzleMix, {"std": 0.5}, "`std` must be a list .* or null, got 0.5"),
        (InputMixup, {"beta": 1}, "keywords of InputMixup"),
        (NoMix, {"p": 0.5}, r"keywords of NoMix \(none\), got 'p'"),
        (CoMixup, {"Beta": 1}, "got 'Beta'. Did you mean eta or beta"),
    ],
)
def test_values_of_other_types(kind, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        check_settings(kind, settings)
    assert len(str(caught.value)) < 700


@each_case(
    ("given", "wanted"),
    [
        ({"beta": 1}, {"beta": 1.0}),
        ({"beta": -0.0}, {"beta": 0.0}),
        ({"sweeps": 2.0}, {"sweeps": 2}),
        ({"alpha": None}, {"alpha": None}),
        ({"grid": [2, 3]}, {"grid": (2, 3)}),
        ({"clip": "hard"}, {"clip": "hard"}),
    ],
)
def test_one_setting_has_one_form(given, wanted):
    found = check_settings(CoMixup, given)
    assert repr(found) == repr(wanted)


@each_case(
    "settings",
    [
        {"clean_weight": 0.5, "keep_gradients": False},
        {"transport": False, "t_eps": 0.2},
        {"t_size": 4, "transport": False},
        {"eta": 0.1, "alpha": None},
    ],
)
def test_settings_that_another_switches_off(settings):
    with pytest.raises(ValueError, match=r"must be left out with .*, where it has no effect"):
        check_effect(settings)
    for name in settings:
        check_effect({name: settings[name]})


def test_values_keep_all_their_digits():
    assert plain(0.1234567) != plain(0.1234568)
    assert plain(1e-7) == "1e-07"
