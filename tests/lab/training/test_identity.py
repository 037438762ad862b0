"""A run's identity: what it was trained with, and the data that it was trained on."""

import json
import shutil

import pytest

from comixup.lab.training import train
from comixup.lab.training._folder import (
    CHECKPOINT,
    METRICS,
    RESULT,
    WEIGHTS,
    load_state,
    save_state,
)
from comixup.lab.training._run import Run, difference
from small_runs import folder_of, recipe, train_here, words, write_images


def test_difference_names_what_came_and_went():
    assert difference({"a": 1, "b": 2}, {"b": 3, "c": 4}) == (
        "a was 1, is absent; b was 2, is 3; c was absent, is 4"
    )


# ---- Data ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    place = tmp_path_factory.mktemp("finished")
    data = write_images(place / "data")
    train_here(data, place / "out")
    return place


def other_images(place, **change):
    """Writes the same images, one of them changed."""
    data = write_images(place)
    path = data / "cifar-100-python" / change["file"]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # a pixel of an image in the middle
    path.write_bytes(bytes(content))
    return data


def test_other_data_do_not_report_a_run(finished, tmp_path):
    other = other_images(tmp_path / "other", file="train")
    chosen = recipe(images_per_class=0)
    train_here(finished / "data", tmp_path / "out", chosen=chosen)
    folder = folder_of(tmp_path / "out")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(ValueError, match=r"holds another: data_digest was .*Nothing was changed"):
        train_here(other, tmp_path / "out", chosen=chosen)
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


def test_an_unfinished_run_is_not_continued_with_other_data(finished, tmp_path):
    other = other_images(tmp_path / "other", file="test")
    state = load_state(
        folder_of(finished / "out") / CHECKPOINT, Run(recipe(), "vanilla").identity()
    )
    state.finished = False
    folder = folder_of(tmp_path / "out")
    folder.mkdir(parents=True)
    save_state(state, folder / CHECKPOINT)
    with pytest.raises(ValueError, match="holds another: data_digest was"):
        train_here(other, tmp_path / "out")


def test_the_same_data_elsewhere_are_the_same(finished, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(finished / "data", moved)
    result = train(recipe(), method="vanilla", out=finished / "out", data_root=moved)[0]
    assert result.metrics["epochs"] == 3


def test_a_finished_run_is_reported_where_its_data_are_gone(finished, tmp_path, called):
    code, text, _ = called(*words(tmp_path / "nowhere", finished / "out"))
    assert code == 0, text
    assert "is finished; its data or initial weights were not found" in " ".join(text.split())
    assert "top-1 error on the test images" in text


def test_a_finished_run_without_its_last_files_needs_its_data(finished, tmp_path):
    shutil.copytree(finished / "out", tmp_path / "out")
    (folder_of(tmp_path / "out") / RESULT).unlink()
    with pytest.raises(FileNotFoundError, match="was not found"):
        train_here(tmp_path / "nowhere", tmp_path / "out")
    folder = train_here(finished / "data", tmp_path / "out")
    twin = folder_of(finished / "out")
    for name in (RESULT, METRICS, WEIGHTS, "logits.safetensors"):
        assert (folder / name).read_bytes() == (twin / name).read_bytes()


def test_other_settings_have_a_folder_of_their_own_and_both_resume(finished, tmp_path):
    data, out = finished / "data", tmp_path / "out"
    shutil.copytree(finished / "out", out)
    before = json.loads((folder_of(out) / "run.json").read_text())
    shorter = recipe(epochs=2)
    found = train(shorter, method="vanilla", out=out, data_root=data)[0]
    name = f"vanilla-{Run(shorter, 'vanilla').variant}"
    assert found.folder == folder_of(out, name)
    assert (found.metrics["epochs"], found.folder.joinpath(RESULT).exists()) == (2, True)
    (line,) = (folder_of(out).parents[1] / "variants.txt").read_text().splitlines()
    assert line.startswith(f"{name}: ")
    assert "phases was" in line
    # The same commands find their runs, and another seed lies beside its own.
    again = train(shorter, method="vanilla", seeds=(0, 1), out=out, data_root=data)
    assert [again[seed].folder for seed in (0, 1)] == [folder_of(out, name, s) for s in (0, 1)]
    assert len(json.loads((found.folder / "run.json").read_text())["starts"]) == 1
    usual = train(recipe(), method="vanilla", out=out, data_root=data)[0]
    assert usual.folder == folder_of(out)
    assert json.loads((folder_of(out) / "run.json").read_text()) == before
    # Also when the first ones are gone.
    shutil.rmtree(folder_of(out).parent)
    assert train(shorter, method="vanilla", out=out, data_root=data)[0].folder == found.folder
