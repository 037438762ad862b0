"""The command line: real calls, what runs leave behind, and an error message for every mistake."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys

import matplotlib.image as mpl_image
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.testing import assert_close

import comixup
from comixup import cli
from comixup.cli._options import flags_of
from comixup.lab import data, models
from comixup.lab.training import RECIPES
from pictures import drawing

SMALL = ["--model", "lenet", "--images-per-class", "2", "--batch-size", "10", "--lr", "0.01"]


# ---- recipes ------------------------------------------------------------------------------------


def test_recipes_are_listed_whole(called):
    code, text, _ = called("recipes")
    assert code == 0
    assert "…" not in text
    for recipe in RECIPES.values():
        head = f"{recipe.name}: {recipe.title} ({recipe.source})"
        below = text.split(head + "\n")[1].split("\n\n")[0]
        for name, method in recipe.methods.items():
            assert name in below
            if method.paper is not None:
                # A figure stays on its method's line.
                assert re.search(rf"{re.escape(name)} {method.paper:.2f}\b", below)
        assert f"*{recipe.method}" in below
    figures = [line for line in text.splitlines() if line.startswith("    ")]
    assert max(map(len, figures)) <= 80


def test_a_recipe_is_printed_as_json(called):
    code, text, _ = called("recipes", "imagenet-resnet50")
    assert code == 0
    assert json.loads(text) == RECIPES["imagenet-resnet50"].as_dict()


# ---- help ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "tune"])
def test_options_have_plain_names(called, command):
    code, text, _ = called(command, "--help")
    assert code == 0
    flags = set(re.findall(r"--[a-z.-]+", text))
    assert {"--method", "--seeds", "--epochs", "--model", "--images-per-class", "--out"} <= flags
    assert not any("." in flag for flag in flags)
    assert "None" not in text


@pytest.mark.parametrize("words", [["--help"], []], ids=["--help", "no word"])
def test_help_lists_the_commands(called, words):
    code, text, _ = called(*words)
    assert code == 0
    assert all(name in text for name in (*cli.COMMANDS, "--version"))


def test_the_version(called):
    assert called("--version") == (0, f"comixup {comixup.__version__}\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_of_words(called, tmp_path, shell):
    code, _, _ = called("--tyro-write-completion", shell, str(tmp_path / "completion"))
    assert not code
    assert "--batch-size" in (tmp_path / "completion").read_text()


# ---- train --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns what a call that trained two seeds printed, and the folder of its runs."""
    folder = tmp_path_factory.mktemp("trained")
    words = ["train", "digits", "--epochs", "2", *SMALL, "--seeds", "0", "3"]
    words += ["--set", "beta=0.5", "sweeps=2", "--validation", "0.01", "--accelerator", "cpu"]
    printed, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        drawing(),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
    ):
        patch.setenv("COLUMNS", "80")
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["comixup", *words])
        cli.main()
    assert "Traceback" not in errors.getvalue()
    return printed.getvalue(), folder / "runs" / "digits" / "comixup"


def test_training_tells_how_it_goes(trained):
    lines = trained[0].splitlines()
    assert sum(line.startswith("epoch 2/2: loss ") for line in lines) == 2
    (row,) = [line for line in lines if line.strip().startswith("comixup ")]
    assert "0 3" in row
    assert "±" in row
    assert any("last*" in line for line in lines)
    assert lines[-1] == f"Runs are in {os.path.join('runs', 'digits')}."


def test_what_a_run_leaves(trained):
    for run_folder in trained[1].iterdir():
        metadata = json.loads((run_folder / "run.json").read_text())
        recipe = metadata["recipe"]
        assert recipe["methods"]["comixup"]["settings"] == {"beta": 0.5, "sweeps": 2}
        assert (recipe["images_per_class"], recipe["validation"]) == (2, 0.01)
        (start,) = metadata["starts"]
        assert start["command"][1:4] == ["train", "digits", "--epochs"]
        with (run_folder / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["epoch"] for row in rows] == ["1", "2"]
        errors = [float(row["test_error"]) for row in rows]
        result = json.loads((run_folder / "result.json").read_text())
        found = [result["last_error"], result["best_error"]]
        assert_close(found, [errors[1], min(errors)], rtol=1e-4, atol=0)
        for name in ("curves.png", "first_batch.png"):
            pixels = torch.from_numpy(mpl_image.imread(run_folder / name).copy())[..., :3]
            assert len(pixels.flatten(0, 1).unique(dim=0)) > 20
        events = EventAccumulator(str(run_folder / "tensorboard"))
        events.Reload()
        written = {event.step: event.value for event in events.Scalars("test_error")}
        assert written == pytest.approx(dict(enumerate(errors, 1)), rel=1e-4)


def test_weights_of_a_run_can_be_used(trained):
    run_folder = trained[1] / "seed-3"
    path = run_folder / "weights.safetensors"
    with safe_open(path, "pt") as file:
        about = file.metadata()
    shape = tuple(json.loads(about["shape"]))
    model = models.build(about["model"], int(about["num_classes"]), shape=shape)
    model.load_state_dict(load_file(path))
    model.eval()
    digits = data.load(about["data"])
    assert tuple(json.loads(about["classes"])) == digits.classes
    wrong = count = 0
    for images, targets in digits.test.loader(250).epoch(0):
        wrong += (model(images).argmax(1) != targets).sum().item()
        count += len(targets)
    result = json.loads((run_folder / "result.json").read_text())
    assert_close(
        result["last_error"], 100 * wrong / count, rtol=0, atol=0.11
    )  # one digit, by rounding


def test_the_same_command_again_trains_nothing_but_shows_the_table(called, trained, tmp_path):
    before = {path: path.read_bytes() for path in trained[1].rglob("*.csv")}
    words = ["digits", "--epochs", "2", *SMALL, "--set", "beta=0.5", "sweeps=2"]
    out = str(trained[1].parents[1])
    words += ["--validation", "0.01", "--accelerator", "cpu", "--out", out]
    code, text, _ = called("train", *words, "--seeds", "3", "0")
    assert code == 0
    assert "epoch 1/2" not in text
    assert "3 0" in text
    assert before == {path: path.read_bytes() for path in trained[1].rglob("*.csv")}


def test_methods_are_trained_one_after_the_other(called):
    words = ["digits", "--epochs", "1", *SMALL, "--method", "input", "vanilla"]
    code, text, _ = called("train", *words, "--accelerator", "cpu")
    assert code == 0
    rows = [line.split()[0] for line in text.splitlines() if re.match(r" *(input|vanilla) ", line)]
    assert rows == ["input", "vanilla"]


def test_tuning_says_which_is_best(called):
    words = ["digits", "--method", "cutmix", "--epochs", "1", *SMALL, "--accelerator", "cpu"]
    code, text, _ = called("tune", *words)
    assert code == 0
    assert text.count("best") == 1
    assert re.findall(r"^ *alpha +(\S+)", text, re.MULTILINE) == ["0.2", "1", "2"]


@pytest.mark.parametrize("word", ["False", "false"])
def test_a_boolean_setting_is_what_was_asked_for(called, tmp_path, word):
    words = ["digits", "--epochs", "1", *SMALL, "--accelerator", "cpu"]
    code, _, err = called("train", *words, "--set", f"keep_gradients={word}", "--out", word)
    assert code == 0, err
    metadata = json.loads((tmp_path / word / "digits/comixup/seed-0/run.json").read_text())
    assert metadata["recipe"]["methods"]["comixup"]["settings"] == {"keep_gradients": False}


def test_all_options_but_the_flags_have_values(called):
    for command, call in cli.COMMANDS.items():
        _, text, _ = called(command, "--help")
        bare = re.findall(r"^\W*(?:-h, )?(--[a-z][a-z-]*)(?=  |\W*$)", text, re.MULTILINE)
        assert set(bare) == {"--help", *flags_of(call)}, command


# ---- Mistakes -----------------------------------------------------------------------------------

MISTAKES = {
    "recipe to show": (["recipes", "cifar-vat"], r"Did you mean cifar100-vat"),
    "second method": (["train", "digits", "--method", "input", "x"], r"got 'x'"),
    "setting": (["train", "digits", "--set", "betta=1"], r"got 'betta'\. Did you mean beta"),
    "setting's value": (["train", "digits", "--set", "beta=big"], r"`beta` must be"),
    "settings apart": (
        ["train", "digits", "--set", "beta=1", "--set", "gamma=2"],
        r"`--set` must be given once",
    ),
    "no boolean": (["train", "digits", "--set", "keep_gradients=no"], r"must be true or false"),
    "number for a boolean": (["train", "digits", "--set", "resolve=0"], r"must be true or false"),
    "setting of vanilla": (
        ["train", "digits", "--method", "vanilla", "--set", "p=0.5"],
        r"keywords of NoMix \(none\), got 'p'",
    ),
    "setting of one method": (
        ["train", "digits", "--method", "comixup", "input", "--set", "beta=0.5"],
        r"keywords of InputMixup .*got 'beta'",
    ),
    "idle setting": (
        ["train", "digits", "--set", "keep_gradients=false", "clean_weight=0.5"],
        r"`clean_weight` must be left out",
    ),
    "settings left empty": (["train", "digits", "--set"], r"`--set` must be followed by a value"),
    "method left empty": (
        ["train", "digits", "--method", "--epochs", "1"],
        r"`--method` must be followed by a value",
    ),
    "method twice": (["train", "digits", "--method", "input", "input"], r"got input twice"),
    "epochs twice": (
        ["train", "digits", "--epochs", "1", "--epochs=2"],
        r"`--epochs` must be given once",
    ),
    "spelt in two ways": (
        ["train", "digits", "--batch_size", "10", "--batch-size", "20"],
        r"`--batch-size` must be given once",
    ),
    "setting that is tuned": (
        ["tune", "digits", "--method", "input", "--set", "alpha=0.5"],
        r"`--set` must leave alpha alone, which tune itself tries with 0\.2, 1, 2",
    ),
    "setting to tune": (
        ["tune", "digits", "--method", "input", "--set", "alfa=1"],
        r"got 'alfa'\. Did you mean alpha",
    ),
    "nothing to tune": (["tune", "digits", "--method", "comixup"], r"got 'comixup'"),
    "network": (["train", "digits", "--model", "smal"], r"Did you mean small "),
    "no seeds": (["train", "digits", "--seeds"], r"`--seeds` must be followed by a value"),
    "data": (["train", "cifar100-vat", "--data", "nowhere"], r"cifar100.* not found"),
    "saliency of vanilla": (
        ["train", "digits", "--method", "vanilla", "--saliency", "one-pass"],
        r"`saliency` must be left out for vanilla",
    ),
    "memory of cutmix": (
        ["train", "digits", "--method", "cutmix", "--memory", "rate=0.5"],
        r"`memory` must be left out for cutmix",
    ),
    **{
        f"{option} {value[:12]}": (
            ["train", "digits", f"--{option}", *value.split()],
            rf"`(--)?{option.replace('-', '[-_]')}` must (be|name)",
        )
        for option, value in (
            ("epochs", f"{10**12}"),
            ("batch-size", f"{10**21}"),
            ("devices", "1000"),
            ("num-nodes", "2"),
            ("workers", f"{10**6}"),
            ("accumulate", f"{10**9}"),
            ("accumulate", "101"),
            ("timeout-minutes", "nan"),
            ("checkpoint-steps", "0"),
            ("seeds", f"0 {10**100}"),
            ("width", f"{10**9}"),
            ("classes", "5-99"),
            ("classes", f"0-{10**15}"),
            ("classes", "9" * 5000),
            ("classes", "1 1"),
            ("images-per-class", "-1"),
            ("validation", "nan"),
            ("validation-seed", f"{2**64}"),
            ("lr", "inf"),
            ("weight-decay", "nan"),
        )
    },
    "strategy": (["train", "digits", "--strategy", "dpp"], r"`strategy` must be"),
    "accelerator": (["train", "digits", "--accelerator", "cpuu"], r"cpuu"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_gets_an_error_message(called, kind):
    words, message = MISTAKES[kind]
    code, out, err = called(*words)
    assert code == 1
    assert re.search(message, err)
    assert err.startswith("comixup: ")
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    assert "Runs are in" not in out


@pytest.mark.parametrize("words", [["train"], ["train", "digits", "--epoch", "1"]])
def test_a_wrong_word_on_the_line_gets_help(called, words):
    code, out, err = called(*words)
    assert code == 2
    assert "Traceback" not in out + err
    assert out + err


def test_a_misspelt_command_gets_a_suggestion(called):
    code, out, err = called("trian", "digits")
    assert (code, out) == (2, "")
    assert re.match(r"comixup: `command` must be one of .*got 'trian'\. Did you mean train\?$", err)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("train digits --epochs x", r"--epochs: must be an integer, got 'x'\."),
        ("train digits --lr fast", r"--lr: must be a number, got 'fast'\."),
        ("train digits --seeds 0 one", r"--seeds: must be an integer, got 'one'\."),
        ("train digits --loss l2", r"--loss: must be one of cross-entropy, official.*got 'l2'\."),
        ("evaluate run --maps x", r"--maps: must be one of cam, grad-cam, got 'x'\."),
        ("evaluate run --workers 1.5", r"--workers: must be an integer, got '1\.5'\."),
    ],
)
def test_a_wrong_value_is_told_without_types_of_python(called, words, rule):
    code, out, err = called(*words.split())
    assert code == 2
    assert re.search(rule, " ".join(re.sub("[│╭╮╰╯─]", " ", err).split()))
    assert not re.search(r"class '|NoneType|literal|\{None\}|INT|FLOAT", out + err)


# ---- Signals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_signal_outside_of_training_ends_a_command_with_its_code(
    called, monkeypatch, number, command
):
    before = signal.getsignal(number)
    monkeypatch.setitem(cli.COMMANDS, command, lambda: signal.raise_signal(number))
    code, out, err = called(command)
    assert (code, out) == (128 + number, "")
    resumes = " The same command resumes from the last checkpoint."
    assert err == f"comixup: Stopped.{resumes if command == 'train' else ''}\n"
    assert signal.getsignal(number) is before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "number"),
    [("train", signal.SIGTERM), ("tune", signal.SIGINT), ("sweep", signal.SIGTERM)],
)
def test_a_signal_ends_a_command_that_trains(tmp_path, command, number):
    words = [command, "digits", "--method", "cutmix", "--epochs", "50", "--accelerator", "cpu"]
    words += ["--vary", "alpha=[1,2]"] if command == "sweep" else []
    with subprocess.Popen(
        [sys.executable, "-m", "comixup", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        while "epoch 1/50" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert re.fullmatch(r"comixup: Stopped\. The same command resumes from epoch .*\.\n", errors)


def test_the_traceback_is_there_for_those_who_ask(called, monkeypatch):
    monkeypatch.setenv(cli.DEBUG, "1")
    with pytest.raises(ValueError, match="Did you mean digits"):
        called("train", "digitz")


# ---- Errors that come early ---------------------------------------------------------------------

EARLY = {
    "no run": ("evaluate", "runs"),
    "no runs to compare": ("compare", "runs"),
    "no such run": ("predict none FILE", "`run` must exist, but there is no none"),
    "no run to export": ("export none --to onnx", "`run` must exist"),
    "no such recipe": ("train digit", "Did you mean digits"),
    "a path without end": (f"train {'x' * 5000}", "`recipe` must be the name of one"),
    "an --out without end": (f"train digits --out {'x' * 5000}", "`--out` must be a folder"),
    "no folder": ("train digits --out FILE/runs", "`--out` must be a folder"),
    **{
        f"a place where root cannot write: {words}": (
            f"{words} /proc/folder/name",
            f"`{words.split()[-1]}` must be a folder to write to",
        )
        for words in (
            *("train digits --out", "evaluate FILE --out", "compare FILE --out"),
            *("predict FILE FILE --csv", "mix FILE --out", "export FILE --to onnx --out"),
        )
    },
    "no seed": ("train digits --seeds 1 1", "`seeds` must be different"),
    "no number of workers": ("train digits --workers -1", "`workers` must be"),
    "no such data set": ("train digits --data-set digit", "Did you mean digits"),
    "no such method": ("train digits --method cutmic", "Did you mean cutmix"),
    "no such method to tune": ("tune digits --method cutmic", "Did you mean cutmix"),
    "no such method to vary": ("sweep digits --tau 1 --method cutmic", "Did you mean cutmix"),
    "no setting": ("train digits --set beta", "NAME=VALUE"),
    "no memory": ("train digits --memory rate", "NAME=VALUE"),
    "no weights": ("train digits --weights none.pt", "`--weights` must exist"),
    "epochs for a folder": ("train FOLDER --epochs 0", "`epochs` must be"),
    "fraction of a folder": ("train FOLDER --test-fraction 2", "`test_fraction` must be"),
    "no such data set to measure on": ("evaluate FILE --data-set digit", "Did you mean digits"),
    "no number of workers to evaluate": ("evaluate FILE --workers -1", "`workers` must be"),
    "no boxes": ("evaluate FILE --boxes none", "`--boxes` must exist"),
    "no size": ("evaluate FILE --image-size 0", "`image_size` must be"),
    "no images": ("mix", "`images` must be"),
    "no such image": ("mix none", "`images` must exist"),
    "no such method to mix by": ("mix FILE --method cutmic", "Did you mean cutmix"),
    "no picture": ("mix FILE --out x.bmp", "`--out` must end in"),
    "no count": ("mix FILE --count 0", "`count` must be"),
    "no setting to mix by": ("mix FILE --set beta", "NAME=VALUE"),
    "no such run to explore": ("explore none", "`runs` must exist"),
    "no such table": ("reproduce classificaton", "Did you mean classification"),
}


@pytest.fixture(scope="module")
def early():
    """Returns the error messages of commands for which importing torch raises."""
    file, folder = __file__, os.path.dirname(__file__)
    every = {
        mistake: words.replace("FILE", file).replace("FOLDER", folder).split()
        for mistake, (words, _) in EARLY.items()
    }
    code = f"""
import os, sys
import comixup.cli
assert "torch" not in sys.modules

class NoTorch:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise ImportError("torch was imported")

sys.meta_path.insert(0, NoTorch)
for mistake, words in {every!r}.items():
    print("----", mistake, file=sys.stderr, flush=True)
    if os.fork() == 0:
        sys.argv = ["comixup", *words]
        comixup.cli.main()
        os._exit(0)
    os.wait()
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True
    )
    blocks = run.stderr.split("---- ")[1:]
    return dict(block.split("\n", 1) for block in blocks)


@pytest.mark.parametrize("mistake", EARLY)
def test_mistakes_are_told_before_torch_is_imported(mistake, early):
    assert EARLY[mistake][1] in early[mistake]
    assert early[mistake].startswith("comixup: ")


def test_a_network_that_there_is_not_is_told_before_the_images_are_described(called, tmp_path):
    (tmp_path / "pets").mkdir()
    code, text, err = called("train", "pets", "--model", "resnet1")
    assert (code, text) == (1, "")
    assert "resnet1" in err
