"""`comixup evaluate`, `compare` and `sweep`: real calls, and an error message for every mistake."""

import csv
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file

sys.path.append(str(Path(__file__).parents[1] / "data"))

from comixup import cli
from comixup.lab import models
from comixup.lab._locks import locked
from data_files import write_cifar100, write_folder, write_speech, write_tiny_imagenet

IMAGES = 8
SMALL = ["--model", "lenet", "--epochs", "1", "--batch-size", "10", "--accelerator", "cpu"]


@pytest.fixture
def columns():
    return 140


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns the folder of digits' runs: two methods with two seeds each."""
    out = tmp_path_factory.mktemp("runs")
    words = ["train", "digits", *SMALL, "--images-per-class", "2", "--method", "vanilla", "comixup"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["comixup", *words, "--seeds", "0", "1", "--out", str(out)])
        cli.main()
    return out / "digits"


@pytest.fixture
def runs(trained, tmp_path):
    """Copies of those runs, to be written into."""
    folder = shutil.copytree(trained, tmp_path / "runs" / "digits")
    return sorted(folder.glob("*/seed-*"))


def saved(folder):
    return json.loads((folder / "evaluation.json").read_text())


def weights_of(name, num_classes, path, side=64):
    torch.manual_seed(0)
    torch.save(models.build(name, num_classes, shape=(3, side, side)).state_dict(), path)
    return path


@pytest.fixture
def tiny(tmp_path):
    """Returns the folder of a small Tiny-ImageNet with a grey file among its test images."""
    folder = write_tiny_imagenet(tmp_path / "data", each=1, val=IMAGES)
    grey = folder / "val" / "images" / "val_2.JPEG"
    Image.open(grey).convert("L").save(grey)
    return folder


@pytest.fixture
def of_tiny(tiny, tmp_path):
    """Returns the words that evaluate a file of weights on it."""
    path = weights_of("small", 3, tmp_path / "network.pth")
    return ["evaluate", path, "--model", "small", "--data-set", "tiny-imagenet", "--data", "data"]


@pytest.fixture
def folder(tmp_path):
    """Returns a folder of six images of two classes to test on, two of which are grey."""
    root = write_folder(tmp_path / "pictures", train=1, test=3)
    lines = [
        f"{kind}/{number:02}.{'png' if number % 2 else 'jpg'},10,12,30,32"
        for kind in ("ant", "bee")
        for number in range(3)
    ]
    (tmp_path / "boxes.csv").write_text("\n".join(["file,x0,y0,x1,y1", *lines[:-1]]) + "\n")
    return root


@pytest.fixture
def of_folder(folder, tmp_path):
    path = weights_of("small", 2, tmp_path / "network.pth", side=32)
    words = ["evaluate", path, "--model", "small", "--data-set", "folder", "--data", "pictures"]
    return [*words, "--image-size", "32", "--workers", "0"]


def assert_message(answer, pattern):
    """The call failed, with one line that says why."""
    code, out, err = answer
    assert code == 1, out
    assert re.search(pattern, err), err
    assert err.startswith("comixup: ")
    assert err.count("\n") == 1
    assert "Traceback" not in out + err


# ---- evaluate -----------------------------------------------------------------------------------


def test_images_that_are_not_square(called, tmp_path):
    write_speech(tmp_path / "data")
    few = ["--images-per-class", "1", "--epochs", "1", "--batch-size", "8", "--accelerator", "cpu"]
    words = ["speech-small", "--method", "vanilla", "--data", tmp_path / "data", *few]
    code, _, err = called("train", *words, "--out", tmp_path / "runs")
    assert code == 0, err
    run = tmp_path / "runs" / "speech-small" / "vanilla" / "seed-0"
    code, _, err = called("evaluate", run)
    assert code == 0, err
    reported = json.loads((run / "result.json").read_text())["final_error"]
    assert saved(run)["metrics"]["error"] == pytest.approx(reported)
    assert_message(called("evaluate", run, "--image-size", "64"), "160 x 100|\\(1, 160, 100\\)")


def test_images_that_came_since_do_not_move_others_from_training_to_test(called, tmp_path):
    root = write_folder(tmp_path / "pictures", train=10, test=0)
    for kind in (root / "train").iterdir():
        kind.rename(root / kind.name)
    for place in ("train", "val", "test"):
        shutil.rmtree(root / place, ignore_errors=True)
    few = ["--epochs", "1", "--model", "small", "--width", "8", "--image-size", "32"]
    words = ["train", root, "--method", "vanilla", *few, "--workers", "0", "--accelerator", "cpu"]
    code, _, err = called(*words, "--out", tmp_path / "runs")
    assert code == 0, err
    run = tmp_path / "runs" / "pictures" / "vanilla" / "seed-0"
    assert called("evaluate", run)[0] == 0
    before = saved(run)["test_digest"]
    for kind in (root / "ant", root / "bee"):
        shutil.copy(next(kind.iterdir()), kind / "000 first.png")
    assert_message(called("evaluate", run), "`data` must have the test images of the run")
    code, _, err = called("evaluate", run, "--data", root, "--out", tmp_path / "runs" / "other")
    assert code == 0, err
    assert saved(tmp_path / "runs" / "other")["test_digest"] != before
    answer = called("compare", run, tmp_path / "runs" / "other")
    assert_message(answer, "`runs` must be measured on the same images")


def test_a_run_is_evaluated_on_what_it_was_trained_on(called, runs):
    code, text, _ = called("evaluate", runs[0])
    assert code == 0
    assert "comixup, seed 0 on digits" in text
    assert "1,000" in text
    found, result = saved(runs[0]), json.loads((runs[0] / "result.json").read_text())
    assert (found["method"], found["seed"], found["recipe"]) == ("comixup", 0, "digits")
    assert found["summary"]["error"] == pytest.approx(result["last_error"], abs=0.11)
    assert f"{found['summary']['error']:.2f}" in text
    assert found["localization"] is None
    assert (runs[0] / "reliability.png").exists()
    assert not (runs[0] / "localization.png").exists()


@pytest.mark.parametrize("place", ["a file", "below a file", "a folder for the file", "in use"])
def test_what_cannot_be_written_is_found_out_before_anything_is_computed(
    called, runs, tmp_path, monkeypatch, place
):
    monkeypatch.setattr(cli._evaluation.evaluation, "evaluate", pytest.fail)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder" / "evaluation.json").mkdir(parents=True)
    out = {"a file": "file", "below a file": "file/below"}.get(place, "folder")
    told = {"a folder for the file": "evaluation.json is one", "in use": "must not be in use"}
    with locked(tmp_path / ("folder" if place == "in use" else "other")):
        answer = called("evaluate", runs[0], "--out", out)
    assert_message(answer, told.get(place, "`--out` must be a folder to write to"))
    # Of several, the last one that cannot be written stops them all.
    (runs[1] / "evaluation.json").mkdir()
    assert_message(called("evaluate", *runs[:2]), "evaluation.json is one")
    assert not (runs[0] / "evaluation.json").exists()


def test_runs_that_would_be_written_to_one_folder(called, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(cli._evaluation.evaluation, "evaluate", pytest.fail)
    told = "must have a folder each to write into"
    assert_message(called("evaluate", runs[0], runs[0]), told)
    assert_message(called("evaluate", runs[0], runs[0].parent / "." / runs[0].name), told)
    assert_message(called("evaluate", *runs[:2], "--out", "measured"), told)
    shutil.copy(runs[0] / "weights.safetensors", tmp_path / "mine.safetensors")
    torch.save({}, tmp_path / "mine.pt")
    words = ["mine.safetensors", "mine.pt", "--data-set", "digits"]
    assert_message(called("evaluate", *words), told)


def test_several_processes_of_evaluate_are_too_many(called, runs, monkeypatch):
    for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    for command in ("evaluate", "compare"):
        assert_message(called(command, runs[0]), f"`{command}` must be one process, but torchrun")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("workers", 10**6), ("image-size", 10**9), ("seed", 2**64)),
        *(("device", "gpuu"), ("device", "meta")),
    ],
)
def test_numbers_and_devices_that_cannot_be(called, runs, option, value):
    told = rf"`(--)?{option.replace('-', '_')}` must be"
    assert_message(called("evaluate", runs[0], f"--{option}", value), told)


def test_bare_weights_are_evaluated(called, runs, tmp_path):
    network = models.build("lenet", 10, shape=(1, 28, 28))
    torch.save({"state_dict": network.state_dict()}, tmp_path / "mine.pt")
    code, text, _ = called("evaluate", "mine.pt", "--model", "lenet", "--data-set", "digits")
    assert code == 0
    assert "mine.pt on digits" in text
    found = saved(tmp_path / "mine")
    assert found["method"] is None
    assert found["metrics"]["images"] == 1000


@pytest.mark.parametrize(("maps", "name"), [("cam", "CAM"), ("grad-cam", "Grad-CAM")])
def test_boxes_of_tiny_imagenet_are_used(called, of_tiny, tmp_path, maps, name):
    code, text, _ = called(*of_tiny, "--maps", maps)
    assert code == 0
    for words in (
        f"GT-known Loc, % ({name})",
        "whole image",
        "MaxBoxAccV2",
        "background: added-noise",
    ):
        assert words in text
    found = saved(tmp_path / "network")
    assert found["metrics"]["images"] == found["localization"]["images"] == IMAGES
    assert set(found["corruption"]) == {"replace", "noise", "added-noise"}
    pictures = {path.name for path in (tmp_path / "network").glob("*.png")}
    assert pictures == {"reliability.png", "localization.png", "corruption.png"}


def test_folders_have_boxes_from_a_csv_file(called, of_folder, tmp_path):
    code, _, _ = called(*of_folder, "--boxes", "boxes.csv")
    assert code == 0
    found = saved(tmp_path / "network")
    assert found["metrics"]["images"] == 6  # grey ones too
    assert (found["localization"]["images"], found["localization"]["left_out"]) == (5, 1)
    assert found["corruption"]["noise"]["images"] == 5
    assert (tmp_path / "network" / "localization.png").exists()


def test_a_class_without_test_images_is_named(called, of_folder, folder, tmp_path):
    for path in (folder / "val" / "bee").iterdir():
        path.unlink()
    code, out, _ = called(*of_folder)
    assert code == 0
    assert "Classes of pictures without images: 'bee' in test." in out
    assert saved(tmp_path / "network")["corruption"] == {}


def test_boxes_as_large_as_the_images_leave_nothing_to_draw(called, of_folder, tmp_path):
    names = ["ant/00.jpg", "bee/00.jpg", "bee/01.png"]
    lines = [f"{name},0,0,99,99" for name in names]
    (tmp_path / "whole.csv").write_text("\n".join(lines))
    code, text, _ = called(*of_folder, "--boxes", "whole.csv")
    assert code == 0
    found = saved(tmp_path / "network")
    assert found["corruption"]["noise"]["increment"] == 0
    assert "100.00" in text  # the whole image is each box
    assert (tmp_path / "network" / "localization.png").exists()
    assert not (tmp_path / "network" / "corruption.png").exists()


# ---- Damaged images -----------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--boxes", "boxes.csv"]])
def test_a_damaged_file_of_a_folder_is_named(called, of_folder, folder, tmp_path, more):
    (folder / "val" / "ant" / "01.png").write_bytes(b"no picture")
    assert_message(called(*of_folder, *more), r"01\.png cannot be read as an image")
    code, text, err = called(*of_folder, *more, "--skip-bad")
    assert code == 0
    left_out = r"1 of 8 images of pictures are left out\. .*01\.png cannot be read"
    assert re.search(left_out, text)
    assert "Warning" not in text + err
    assert saved(tmp_path / "network")["metrics"]["images"] == 5


# ---- Mistakes -----------------------------------------------------------------------------------


MISTAKES = {
    "no runs": (["evaluate"], r"`runs` must be one folder or file at least"),
    "no data": (["evaluate", "RUN", "--data-set", "cifar10"], r"not found"),
    "other images": (
        ["evaluate", "RUN", "--data-set", "cifar100", "--data", "data"],
        r"must have 1 channel\(s\), those of the images that .* was trained on, got 3",
    ),
    "another model": (["evaluate", "RUN", "--model", "small"], r"do not fit"),
    "unknown model": (["evaluate", "RUN", "--model", "lenett"], r"lenet"),
    "no model": (["evaluate", "bare.pth", "--data-set", "digits"], r"Name it with --model"),
    "no data set": (["evaluate", "bare.pth", "--model", "lenet"], r"Name it with --data-set"),
    "run without weights": (["evaluate", "unfinished"], r"there is no weights\.safetensors"),
    "boxes without files": (
        ["evaluate", "RUN", "--boxes", "boxes.csv"],
        r"must belong to images in files",
    ),
    "skipping": (["evaluate", "RUN", "--skip-bad"], r"`skip_bad` must be False for 'digits'"),
    "not evaluated": (["compare", "RUN"], r"must be evaluated before they are compared"),
    "nothing to vary": (["sweep", "digits"], r"must vary something"),
    "list to vary": (["sweep", "digits", "--vary", "levels=3"], r"NAME=\[VALUE,\.\.\.\]"),
    "settings to vary twice": (
        ["sweep", "digits", "--vary", "levels=[1]", "levels=[2]"],
        r"`--vary` must set levels once",
    ),
    "setting by two options": (
        ["sweep", "digits", "--beta", "0", "--vary", "beta=[1]"],
        r"`--vary` must name other settings than --beta",
    ),
    "no values to vary": (["sweep", "digits", "--vary", "levels=[]"], r"one at least"),
    "values left empty": (["sweep", "digits", "--tau", "--beta", "0"], r"`--tau` must be followed"),
    "no boolean to vary": (["sweep", "digits", "--vary", "resolve=[0,1]"], r"true or false"),
    "equal values": (["sweep", "digits", "--vary", "beta=[1,1.0]"], r"must have different values"),
    "setting without effect": (
        ["sweep", "digits", "--set", "beta=0.5", "--beta", "0", "1"],
        r"`--set` must set what the sweep does not vary",
    ),
    "idle setting": (
        ["sweep", "digits", "--set", "keep_gradients=false", "--vary", "clean_weight=[0,1]"],
        r"`clean_weight` must be left out",
    ),
    "setting to vary": (["sweep", "digits", "--vary", "betta=[1]"], r"betta"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_gets_an_error_message(called, runs, tmp_path, kind):
    words, message = MISTAKES[kind]
    write_cifar100(tmp_path / "data", train=8, test=4, classes=4)
    (tmp_path / "boxes.csv").write_text("00.jpg,1,2,9,9\n")
    torch.save(models.build("lenet", 10, shape=(1, 28, 28)).state_dict(), tmp_path / "bare.pth")
    shutil.copytree(runs[0], tmp_path / "unfinished")
    (tmp_path / "unfinished" / "weights.safetensors").unlink()
    assert_message(called(*(runs[0] if word == "RUN" else word for word in words)), message)
    assert not (runs[0] / "evaluation.json").exists()


# ---- compare and sweep --------------------------------------------------------------------------


def test_runs_are_compared(called, runs, tmp_path):
    assert called("evaluate", *runs)[0] == 0
    code, text, _ = called("compare", *runs, "--out", "side-by-side")
    assert code == 0
    found = tmp_path / "side-by-side"
    assert {path.suffix for path in found.iterdir()} == {".md", ".csv", ".png"}
    errors = {
        method: [saved(run)["summary"]["error"] for run in runs if run.parent.name == method]
        for method in ("vanilla", "comixup")
    }
    head, _, _, shown = [line for line in text.splitlines() if line.strip()][:4]
    for method, values in errors.items():
        place = head.split().index(method)
        assert re.findall(r"([\d.]+) ±", shown)[place] == f"{sum(values) / 2:.2f}"
    (table,) = found.glob("*.csv")
    rows = list(csv.reader(table.read_text().splitlines()))
    assert {"vanilla", "comixup"} <= {row[0] for row in rows if row}
    code, _, err = called("compare", *runs, "--reference", "cutmix")
    assert code == 1
    assert "`reference` must be one of the methods" in err


@pytest.mark.slow
def test_a_sweep_leaves_a_table(called, tmp_path):
    words = ["digits", "--beta", "0", "0.32", "--epochs", "1", "--images-per-class", "5"]
    words += ["--accelerator", "cpu", "--workers", "0"]
    code, text, _ = called("sweep", *words)
    assert code == 0
    folder = tmp_path / "runs" / "digits-sweep"
    assert len(list(folder.glob("*/seed-0/result.json"))) == 2
    assert "beta" in text
    with (folder / "sensitivity.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [float(row[1]) for row in rows[1:]] == [0, 0.32]
    assert (folder / "sensitivity.png").exists()
    before = {path: path.read_text() for path in folder.rglob("metrics.csv")}
    assert called("sweep", *words)[0] == 0  # nothing is trained again
    assert before == {path: path.read_text() for path in folder.rglob("metrics.csv")}


def test_a_network_of_some_classes_is_measured_on_those(called, tmp_path):
    words = ["--classes", "3-5", "--method", "vanilla", "--out", tmp_path, *SMALL]
    code, _, said = called("train", "digits", "--images-per-class", "2", *words)
    assert code == 0, said
    folder = tmp_path / "digits" / "vanilla" / "seed-0"
    code, _, said = called("evaluate", folder)
    assert code == 0, said
    result = json.loads((folder / "result.json").read_text())
    found = saved(folder)["metrics"]
    assert found["images"] == result["images"] == 300
    assert found["error"] == pytest.approx(result["final_error"])
    assert found["ece"] == pytest.approx(result["ece"], abs=1e-3)


def test_calibration_is_given_after_temperature_scaling_too(called, tmp_path):
    words = ["--validation", "0.5", "--method", "vanilla", "comixup", "--out", tmp_path, *SMALL]
    code, _, said = called("train", "digits", "--images-per-class", "2", *words)
    assert code == 0, said
    folders = [tmp_path / "digits" / method / "seed-0" for method in ("vanilla", "comixup")]
    code, printed, said = called("evaluate", *folders)
    assert code == 0, said
    assert printed.count("after temperature scaling (T =") == 4
    for folder, passes in zip(folders, (1, 2), strict=True):
        logits = load_file(folder / "logits.safetensors")
        found = saved(folder)
        scaled = logits["test_logits"].double() / found["scaled"]["temperature"]
        expected = F.cross_entropy(scaled, logits["test_targets"].long()).item()
        assert found["summary"]["scaled_nll"] == pytest.approx(expected)
        assert found["summary"]["passes"] == passes
        assert found["summary"]["cpu_seconds"] > 0
    code, printed, said = called("compare", *folders)
    assert code == 0, said
    assert "ECE, scaled, %" in printed
