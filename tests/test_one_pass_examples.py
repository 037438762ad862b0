"""One-pass mixing in the pipelines people have: each script differs from a usual one by five lines.

The usual script is made of ours by taking those lines out: both are run, on photographs.
"""

import importlib
import math
import re
from pathlib import Path

import pytest
import torch

import comixup

EXAMPLES = Path(__file__).parents[1] / "examples"
LINES = 5
ADDED = re.compile(r"^ .*  # one pass$")
WAS = re.compile(r"^( +)# was: (.*)$")
SCRIPTS = ["torchvision", "timm", "hugging_face", "albumentations", "kornia"]
pytestmark = pytest.mark.slow  # importing these libraries takes seconds


def usual(text):
    """Returns a script without one-pass mixing, and how many lines were other ones."""
    lines, changed, skip = [], 0, False
    for line in text.splitlines():
        was = WAS.match(line)
        if was:
            lines.append(was[1] + was[2])
            changed, skip = changed + 1, True
        elif skip:
            skip = False  # what replaced it
        elif ADDED.match(line):
            changed += 1
        else:
            lines.append(line)
    return "\n".join(lines), changed


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield importlib.import_module
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_trains_and_differs_from_the_usual_one_by_five_lines(
    examples, name, monkeypatch, capsys
):
    script = examples(f"one_pass_{name}")
    mixed, written = [], []
    original = comixup.OnePass.__call__
    end_epoch = comixup.OnePass.end_epoch

    def call(self, images, *others):
        outputs = original(self, images, *others)
        mixed.append(self.last.mixed)
        return outputs

    def end(self):
        written.append(self.memory.written)
        end_epoch(self)

    monkeypatch.setattr(comixup.OnePass, "__call__", call)
    monkeypatch.setattr(comixup.OnePass, "end_epoch", end)
    losses = script.main(12)
    assert len(losses) == 12
    assert all(map(math.isfinite, losses))
    assert mixed == 6 * [False, True]
    assert written == 3 * [True]

    text, changed = usual((EXAMPLES / f"one_pass_{name}.py").read_text(encoding="utf-8"))
    assert 0 < changed <= LINES
    body = text[text.index("def main") : text.index('if __name__ == "__main__"')]
    assert not re.search(r"mixup|\bmemory\b|OnePass|Origin", body), body
    names = {"__name__": "usual"}
    exec(compile(text, f"usual_{name}.py", "exec"), names)
    mixed.clear()
    assert len(names["main"](12)) == 12
    assert mixed == []
    assert capsys.readouterr().out.count("after 12 steps") == 2
