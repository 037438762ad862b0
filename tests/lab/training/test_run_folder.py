"""The files of a run's folder: its metadata and its metrics."""

import json

import pytest

from comixup.lab.training import _folder
from comixup.lab.training._folder import read_metrics, write_metadata, write_metrics


def test_every_start_adds_to_the_story(tmp_path):
    for seed in (3, 3):
        write_metadata(tmp_path, {"name": "digits"}, {"method": "comixup", "seed": seed})
    metadata = json.loads((tmp_path / _folder.METADATA).read_text())
    assert metadata["recipe"] == {"name": "digits"}
    assert (metadata["method"], metadata["seed"]) == ("comixup", 3)
    first, second = metadata["starts"]
    assert first["time"] <= second["time"]
    assert {"torch", "comixup", "python", "numpy"} <= set(second["versions"])
    assert {"commit", "command", "machine"} <= set(second)


DEEP = 100_000
"""Levels of nesting that cannot be read."""


@pytest.mark.parametrize(
    "before",
    ["", "[1]", '{"starts": 1}', "half a st", '{"starts":' * DEEP, "\ud800"],
    ids=lambda text: text[:12],
)
def test_a_damaged_story_is_begun_again(tmp_path, before):
    (tmp_path / _folder.METADATA).write_bytes(before.encode(errors="surrogatepass"))
    write_metadata(tmp_path, {}, {})
    assert len(json.loads((tmp_path / _folder.METADATA).read_text())["starts"]) == 1


def test_metrics_come_back(tmp_path):
    history = [{"epoch": 1.0, "loss": 0.25}, {"epoch": 2.0, "loss": 1e-9, "error": 12.5}]
    write_metrics(tmp_path, history)
    assert read_metrics(tmp_path) == history
    assert (tmp_path / _folder.METRICS).read_text().splitlines()[0] == "epoch,loss,error"


@pytest.mark.parametrize(
    "content",
    [
        b"epoch,loss\n1,low\n",
        b"epoch,loss\n1,2,3\n",
        b"epoch\n\xff\xfe\n",
        b"epoch\n" + b"9" * 200_000,
    ],
    ids=["words", "too many", "no text", "long"],
)
def test_a_damaged_table_is_rejected(tmp_path, content):
    (tmp_path / _folder.METRICS).write_bytes(content)
    with pytest.raises(ValueError, match=r"metrics\.csv is damaged"):
        read_metrics(tmp_path)
