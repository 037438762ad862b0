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

SMALL = ["--model", "lenet", "--labels-per-class", "2", "--batch-size", "10", "--lr", "0.01"]


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


def test_one_recipe_is_a_page_to_read(called):
    for name, recipe in RECIPES.items():
        code, text, _ = called("recipes", name)
        assert code == 0
        assert "…" not in text
        words = " ".join(text.split())
        for part in (recipe.title, recipe.source, recipe.data, recipe.model, recipe.notes):
            assert " ".join(part.split()) in words
        for method, settings in recipe.methods.items():
            assert method in words
            assert settings.paper is None or f" {settings.paper:.2f}" in words
        what = "PATH" if name == "folder" else name
        assert text.endswith(f"  comixup train {what} --method {recipe.method}\n")
    _, text, _ = called("recipes", "imagenet-resnet50")
    assert re.search(r"comixup +partition_size=16 sweeps=3 alpha=1.0 +22\.39", text)
    assert "momentum 0.9, weight decay 0.0001 but for biases" in text


def test_recipes_for_machines(called):
    code, text, _ = called("recipes", "imagenet-resnet50", "--json")
    assert code == 0
    assert json.loads(text) == RECIPES["imagenet-resnet50"].as_dict()
    _, text, _ = called("recipes", "--json")
    assert json.loads(text) == [recipe.as_dict() for recipe in RECIPES.values()]


# ---- help ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "tune"])
def test_options_have_plain_names(called, command):
    code, text, _ = called(command, "--help")
    assert code == 0
    flags = set(re.findall(r"--[a-z.-]+", text))
    assert {"--method", "--seeds", "--epochs", "--model", "--labels-per-class", "--out"} <= flags
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


def test_each_seed_has_its_folder(trained):
    assert sorted(path.name for path in trained[1].iterdir()) == ["seed-0", "seed-3"]
    rows = [(path / "metrics.csv").read_text() for path in trained[1].iterdir()]
    assert rows[0] != rows[1]


@pytest.fixture(params=[0, 3])
def run_folder(trained, request):
    return trained[1] / f"seed-{request.param}"


def test_story_of_a_run(run_folder):
    metadata = json.loads((run_folder / "run.json").read_text())
    assert metadata["method"] == "comixup"
    assert f"seed-{metadata['seed']}" == run_folder.name
    recipe = metadata["recipe"]
    assert recipe["methods"]["comixup"]["settings"] == {"beta": 0.5, "sweeps": 2}
    assert recipe["images_per_class"] == 2
    assert recipe["validation"] == 0.01
    assert [phase["epochs"] for phase in recipe["phases"]] == [2]
    assert [phase["batch_size"] for phase in recipe["phases"]] == [10]
    (start,) = metadata["starts"]
    assert start["command"][1:4] == ["train", "digits", "--epochs"]
    assert start["versions"]["torch"] == torch.__version__.split("+")[0]
    assert start["versions"]["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    assert set(start["machine"]) >= {"system", "cores", "gpus"}
    assert "commit" in start


def test_metrics_and_result_of_a_run(run_folder):
    with (run_folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    names = {"lr", "train_loss", "validation_error", "test_error", "test_top5_error", "seconds"}
    assert names <= set(rows[0])
    result = json.loads((run_folder / "result.json").read_text())
    errors = [float(row["test_error"]) for row in rows]
    found = [result["last_error"], result["best_error"]]
    assert_close(found, [errors[1], min(errors)], rtol=1e-4, atol=0)
    assert result["error"] == result["last_error"]  # what the digits' recipe reports


@pytest.mark.parametrize("name", ["curves.png", "first_batch.png"])
def test_pictures_of_a_run(run_folder, name):
    pixels = torch.from_numpy(mpl_image.imread(run_folder / name).copy())[..., :3]
    assert min(pixels.shape[:2]) > 200
    assert len(pixels.flatten(0, 1).unique(dim=0)) > 20


def test_weights_of_a_run_can_be_used(run_folder):
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


def test_events_of_a_run(run_folder):
    events = EventAccumulator(str(run_folder / "tensorboard"))
    events.Reload()
    result = json.loads((run_folder / "result.json").read_text())
    errors = {event.step: event.value for event in events.Scalars("test_error")}
    assert set(errors) == {1, 2}
    assert_close(errors[2], result["last_error"], rtol=1e-5, atol=0)


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
    words = ["digits", "--epochs", "1", *SMALL, "--method", "MixUp", "vanilla"]
    code, text, _ = called("train", *words, "--accelerator", "cpu")
    assert code == 0
    rows = [line.split()[0] for line in text.splitlines() if re.match(r" *(input|vanilla) ", line)]
    assert rows == ["input", "vanilla"]
    assert text.startswith("--method MixUp is called input here.\n")
    assert text.count("is called") == 1


def test_tuning_says_which_is_best(called):
    words = ["digits", "--method", "cut-mix", "--epochs", "1", *SMALL, "--accelerator", "cpu"]
    words[words.index("--lr")] = "--learning-rate"
    code, text, _ = called("tune", *words)
    assert code == 0
    assert text.startswith("--method cut-mix is called cutmix here.\n")
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
    "recipe": (["train", "digit"], r"got 'digit'\. Did you mean digits\?"),
    "recipe to show": (["recipes", "cifar-vat"], r"Did you mean cifar100-vat"),
    "recipe to tune": (["tune", "digitz", "--method", "input"], r"Did you mean digits\?"),
    "method": (["train", "digits", "--method", "cutmic"], r"Did you mean cutmix"),
    "second method": (["train", "digits", "--method", "input", "x"], r"got 'x'"),
    "setting": (["train", "digits", "--set", "betta=1"], r"got 'betta'\. Did you mean beta"),
    "setting's value": (["train", "digits", "--set", "beta=big"], r"`beta` must be"),
    "setting without value": (["train", "digits", "--set", "beta"], r"NAME=VALUE, got 'beta'"),
    "setting twice": (["train", "digits", "--set", "beta=1", "beta=2"], r"must set beta once"),
    "settings apart": (
        ["train", "digits", "--set", "beta=1", "--set", "gamma=2"],
        r"`--set` must be given once",
    ),
    "no boolean": (["train", "digits", "--set", "keep_gradients=no"], r"must be true or false"),
    "number for a boolean": (["train", "digits", "--set", "resolve=0"], r"must be true or false"),
    "infinite setting": (["train", "digits", "--set", "beta=1e400"], r"1e400 is too large"),
    "no number": (["train", "digits", "--set", "tau=NaN"], r"NaN is not a finite number"),
    "deep nesting": (["train", "digits", "--set", f"grid={'[' * 50_000}"], r"nested too deeply"),
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
    "two names of an option": (
        ["train", "digits", "--labels-per-class", "2", "--images-per-class", "3"],
        r"`--images-per-class` must be given once",
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
    "epochs": (["train", "digits", "--epochs", "0"], r"`epochs` must be"),
    "no seeds": (["train", "digits", "--seeds"], r"`--seeds` must be followed by a value"),
    "negative seed": (["train", "digits", "--seeds", "-1"], r"`seeds` must be"),
    "equal seeds": (["train", "digits", "--seeds", "1", "1"], r"got 1 1"),
    "two names of the learning rate": (
        ["train", "digits", "--lr", "0.1", "--learning-rate", "0.2"],
        r"`--lr` must be given once",
    ),
    "a method by two names": (
        ["train", "digits", "--method", "input", "mixup"],
        r"got input twice",
    ),
    "data set": (
        ["train", "digits", "--data-set", "cifar"],
        r"`--data-set` must be one of .*got 'cifar'\. Did you mean cifar10",
    ),
    "data set to measure on": (
        ["evaluate", "no-run", "--data-set", "digit"],
        r"`--data-set` must be one of .*got 'digit'\. Did you mean digits",
    ),
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
            ("devices", "0"),
            ("num-nodes", f"{10**6}"),
            ("num-nodes", "2"),
            ("workers", f"{10**6}"),
            ("workers", "-1"),
            ("accumulate", f"{10**9}"),
            ("accumulate", "101"),
            ("timeout-minutes", "0"),
            ("timeout-minutes", "nan"),
            ("checkpoint-steps", "0"),
            ("checkpoint-steps", f"{10**12}"),
            ("seeds", f"{2**64}"),
            ("seeds", f"0 {10**100}"),
            ("width", f"{10**9}"),
            ("width", "0"),
            ("classes", "5-99"),
            ("classes", f"0-{10**15}"),
            ("classes", "9" * 5000),
            ("classes", "1 1"),
            ("images-per-class", f"{10**12}"),
            ("images-per-class", "-1"),
            ("validation", "1"),
            ("validation", "-0.5"),
            ("validation", "nan"),
            ("validation-seed", "-1"),
            ("validation-seed", f"{2**64}"),
            ("lr", "inf"),
            ("lr", "0"),
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
        ("train digits --epochs None", r"--epochs: must be an integer, got 'None'\."),
        ("train digits --lr fast", r"--lr: must be a number, got 'fast'\."),
        ("train digits --seeds 0 one", r"--seeds: must be an integer, got 'one'\."),
        ("train digits --loss l2", r"--loss: must be one of cross-entropy, official.*got 'l2'\."),
        ("sweep digits --beta low", r"--beta: must be a number, got 'low'\."),
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


@pytest.mark.slow
def test_a_mistake_in_a_process_of_its_own_has_no_traceback(tmp_path):
    command = [sys.executable, "-m", "comixup.cli", "train", "digitz"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Did you mean digits?" in done.stderr
    assert list(tmp_path.iterdir()) == []


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
            *("predict FILE FILE --csv", "predict FILE FILE --maps", "mix FILE --out"),
            "export FILE --to onnx --out",
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
    "no classes": ("predict FILE FILE --top 0", "`top` must be"),
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
