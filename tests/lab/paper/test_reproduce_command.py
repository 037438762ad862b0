"""`comixup reproduce`: the list, and small things made by it."""

import re

import pytest

from comixup.lab.paper import ITEMS
from comixup.lab.paper._store import commit_results, read_out


@pytest.fixture
def columns():
    return 80


def test_everything_is_listed_with_cost_and_what_is_there(called, tmp_path):
    code, text, _ = called("reproduce")
    assert code == 0
    words = " ".join(text.split())
    for name, item in ITEMS.items():
        assert f"{name}: {item.title} ({item.source})" in words
        assert f"printed: {item.printed}" in words
    assert max(map(len, text.splitlines())) <= 80
    assert "any scale: seconds; needs nothing; nothing done yet" in words
    assert re.search(r"--scale paper: [\d,]+ GPU-hours; needs CIFAR-100, Tiny-ImageNet", words)
    assert not list(tmp_path.iterdir())  # looking leaves no trace


def test_a_picture_is_made_with_its_part_of_the_report(called, tmp_path):
    code, text, _ = called("reproduce", "compatibility", "--out", "here")
    assert code == 0
    assert text.endswith("The report is here/report.md.\n")
    assert "| solve |" in (tmp_path / "here" / "report.md").read_text()
    assert (tmp_path / "here" / "figures" / "compatibility.png").is_file()
    _, text, _ = called("reproduce", "--out", "here")
    listed = text.split("compatibility: ")[1].split("\nrun-time: ")[0]
    assert "all jobs done" in listed

    commit_results(tmp_path / "docs" / "results", read_out(tmp_path / "here"))
    code, text, _ = called("reproduce", "--collect", "--out", "here")
    assert (code, text.splitlines()[0]) == (0, "docs/results: 0 new results.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["methodz"], r"`name` must be one of .*Did you mean methods\?"),
        (["vat", "--cluster", "there"], r"`cluster` must be here:N, ray or ray:HOST:PORT, got"),
        (["methods", "--data", "nowhere"], r"3 of 3 tasks failed: .*not found"),
    ],
    ids=["name", "cluster", "data"],
)
def test_mistakes(called, words, message, monkeypatch):
    if "methods" in words:  # but for the digits, which need no data
        from comixup.lab.paper import _jobs  # noqa: PLC0415

        monkeypatch.setattr(_jobs, "DIGITS", _jobs.SMALL)
    code, _, said = called("reproduce", *words)
    assert code == 1
    assert re.search(message, said)
