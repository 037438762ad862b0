"""`comixup predict`: probabilities of files, calibrated or not, and damaged files."""

import csv
import functools
import re
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from comixup.lab import evaluation, models
from comixup.lab.evaluation._measure_run import run_temperature
from comixup.lab.training import read_logits
from trained_folder import CLASSES, train_on_folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train_on_folder(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def pictures(run):
    return run.parents[3] / "pictures" / "val"


@pytest.fixture
def columns():
    return 200


@pytest.fixture
def called(called):
    """Calls `comixup predict`."""
    return functools.partial(called, "predict")


@pytest.mark.parametrize("columns", [60])
def test_many_files_have_a_line_each_and_a_summary(called, run, pictures, tmp_path):
    picture = next(path for path in pictures.rglob("*") if path.is_file())
    for number in range(90):
        shutil.copy(picture, tmp_path / f"{number:03d}, a name of more words{picture.suffix}")
    code, printed, err = called(run, *sorted(tmp_path.glob("0*")))
    assert code == 0, err
    lines = printed.splitlines()
    assert len(lines) < 40 + 15
    assert max(map(len, lines)) <= 60
    assert "The first 40 of 90 images" in printed
    assert re.search(r"predicted:\s+90\s", printed)


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_brackets_in_names_are_no_markup(called, run, pictures, tmp_path):
    picture = next(path for path in pictures.rglob("*") if path.is_file())
    copy = shutil.copy(picture, tmp_path / f"a [red] [:x]{picture.suffix}")
    code, printed, err = called(run, copy, "--csv", tmp_path / "p.csv")
    assert code == 0, err
    assert "a [red] [:x]" in printed.replace("\n", "")
    assert rows_of(tmp_path / "p.csv")[0]["file"] == str(copy)


def test_a_folder_gets_the_probabilities_of_the_runs_own_logits(called, run, pictures, tmp_path):
    code, out, err = called(run, pictures, "--csv", "out/all.csv", "--device", "cpu")
    assert code == 0, err
    rows = rows_of(tmp_path / "out" / "all.csv")
    logits, _ = read_logits(run / "logits.safetensors")["test"]
    found = torch.tensor([[float(row[f"p({name})"]) for name in CLASSES] for row in rows])
    torch.testing.assert_close(found, logits.softmax(1), rtol=0, atol=1e-3)  # kept as float16
    for row, probabilities in zip(rows, found, strict=True):
        assert row["class"] == CLASSES[int(probabilities.argmax())]
        assert float(row["probability"]) == pytest.approx(float(probabilities.max()))
        assert str(Path(row["file"]).relative_to(pictures)) in out
        assert f"{100 * float(row['probability']):.1f}" in out
    assert [row["problem"] for row in rows] == [""] * 6


def test_photographs_are_turned_once(called, run, pictures, tmp_path):
    with Image.open(pictures / "ant" / "00.jpg") as picture:
        upright = picture.convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "phone").mkdir()
    upright.save(tmp_path / "phone" / "upright.png")
    turned = upright.transpose(Image.Transpose.ROTATE_90)
    turned.save(tmp_path / "phone" / "turned.png", exif=exif)
    code, _, err = called(run, "phone", "--csv", "phone.csv")
    assert code == 0, err
    one, other = rows_of(tmp_path / "phone.csv")
    for name in CLASSES:
        assert float(one[f"p({name})"]) == pytest.approx(float(other[f"p({name})"]), abs=1e-6)


def test_calibrated_probabilities(called, run, pictures, tmp_path):
    code, out, err = called(run, pictures / "ant" / "00.jpg", "--calibrated", "--csv", "one.csv")
    assert code == 0, err
    temperature = run_temperature(run)
    assert f"Calibrated by the temperature {temperature:.3f}." in out
    (row,) = rows_of(tmp_path / "one.csv")
    logits, _ = read_logits(run / "logits.safetensors")["test"]
    expected = (logits[0] / temperature).softmax(0).max()
    assert float(row["probability"]) == pytest.approx(float(expected), abs=2e-3)


def test_runs_without_validation_logits_cannot_calibrate(called, run, pictures, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(run / "weights.safetensors", alone)
    code, _, err = called(alone, pictures, "--calibrated")
    assert code == 1
    assert "`--calibrated` must be asked of a run that kept logits" in err


def changed_weights(run, folder, **values):
    """Copies a run's weights into a file of its own, with the first number of some changed."""
    weights = load_file(run / "weights.safetensors")
    for name, value in values.items():
        key = next(key for key in weights if key.endswith(name))
        weights[key].view(-1)[0] = value
    with safe_open(run / "weights.safetensors", "pt") as content:
        save_file(weights, folder / "changed.safetensors", content.metadata())
    return folder / "changed.safetensors"


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -0.5])
def test_statistics_of_a_batch_norm_that_cannot_be(called, run, pictures, tmp_path, value):
    file = changed_weights(run, tmp_path, running_var=value)
    code, out, err = called(file, pictures)
    assert code == 1
    assert re.search(r"changed\.safetensors do not fit it \(\S+running_var (has|is a) ", err), err
    assert "ant" not in out


def test_logits_that_are_no_numbers_are_no_prediction(called, run, pictures, tmp_path):
    weights = load_file(run / "weights.safetensors")
    *_, bias = (key for key, tensor in weights.items() if key.endswith("bias") and len(tensor) == 2)
    head = bias.replace("bias", "weight")
    file = changed_weights(run, tmp_path, **{bias: 3e38, head: 3e38})
    weights = load_file(file)
    weights[head].fill_(3e38)
    with safe_open(file, "pt") as content:
        metadata = content.metadata()
    save_file(weights, file, metadata)
    rule = r"images are infinite or not a number.* weights of \S*changed\.safetensors"
    code, out, err = called(file, pictures)
    assert code == 1
    assert re.search(rule, err), err
    assert "ant" not in out
    trained, data = evaluation.load_trained(file), evaluation.trained_on(run).load_data()
    boxes = torch.tensor([[[4, 4, 20, 20]]]).expand(6, 1, 4)
    for truth in (None, boxes):
        with pytest.raises(ValueError, match=r"weights of \S*changed\.safetensors"):
            evaluation.evaluate(trained, data, truth)
    with pytest.raises(ValueError, match=r"weights of \S*changed\.safetensors"):
        models.export(models.load(file), tmp_path / "net.pt2", "pt2")
    assert not (tmp_path / "net.pt2").exists()


def test_damaged_files_are_named_and_the_others_done(called, run, pictures, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8 no picture")
    (tmp_path / "text.png").write_text("no picture")
    words = (tmp_path / "bad.jpg", pictures / "ant", tmp_path / "text.png", "--csv", "all.csv")
    code, out, err = called(run, *words)
    assert code == 1
    assert err.startswith("comixup: 2 of 5 images cannot be read: ")
    assert "bad.jpg" in err
    assert "text.png" in err
    assert "02.jpg" in out
    rows = rows_of(tmp_path / "all.csv")
    assert [bool(row["problem"]) for row in rows] == [True, False, False, False, True]
    assert rows[0]["class"] == rows[0]["p(ant)"] == ""


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["nowhere.jpg"], r"`images` must exist, but there is no nowhere\.jpg"),
        (["empty"], "`images` must have image files, but empty has none"),
    ],
)
def test_files_that_are_not_there(called, run, tmp_path, words, rule):
    (tmp_path / "empty").mkdir()
    code, _, err = called(run, *words)
    assert code == 1
    assert re.search(rule, err), err
