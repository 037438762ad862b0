"""NAME=VALUE words of the command line: what they mean, and those that are rejected."""

import pytest

from comixup.cli._values import parse_settings


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("beta=0.5", {"beta": 0.5}),
        ("sweeps=2", {"sweeps": 2}),
        ("resolve=false", {"resolve": False}),
        ("resolve=False", {"resolve": False}),
        ("clip=None", {"clip": None}),
        ("clip=hard", {"clip": "hard"}),
        ('clip="hard"', {"clip": "hard"}),
        ("grid=[2,3]", {"grid": [2, 3]}),
        ("note=a=b", {"note": "a=b"}),
    ],
)
def test_words_become_settings(word, value):
    found = parse_settings((word,))
    assert found == value
    assert [type(entry) for entry in found.values()] == [type(entry) for entry in value.values()]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["beta"], "NAME=VALUE, got 'beta'"),
        (["=3"], "NAME=VALUE, got '=3'"),
        (["beta=1", "beta=2"], "must set beta once"),
        (["beta=NaN"], "NaN is not a finite number"),
        (["beta=[-Infinity]"], "-Infinity is not a finite number"),
        (["beta=1e400"], "1e400 is too large"),
        ([f"beta={'9' * 5000}"], "4300 digits"),
        ([f"grid={'[' * 100_000}"], "nested too deeply"),
    ],
)
def test_words_that_mean_no_setting(words, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse_settings(words)
    assert len(str(caught.value)) < 300
