"""How much of this package one batch, or one training, walks through.

    python benchmarks/walk.py              # counts
    python benchmarks/walk.py --calls      # and every call of a batch, in order
    python benchmarks/walk.py --train      # and `comixup train FOLDER` of one epoch

Counts the calls of Python functions of this package: `calls` counts each call, `functions` and
`files` each once. Functions are what is defined by `def`: not the bodies of modules and classes,
nor lambdas, nor whatever runs while a module is imported. Comprehensions are part of the function
that holds them, as they are from Python 3.12 on. A batch has 100 images, five partitions of
`CoMixup`; what is measured is the second one, after caches are filled.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType

import torch
from torch import nn

import comixup
from comixup import CoMixup, OnePass, Origin, SaliencyMemory, training_step

PACKAGE = Path(comixup.__file__).parent
CLASSES = 10
NOT_FUNCTIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>", "<module>")


def imports(frame: FrameType | None) -> bool:
    """Returns whether a frame runs because a module of this package is being imported."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(str(PACKAGE)):
            return True
        frame = frame.f_back
    return False


class Walk:
    """The calls into this package while it is watched, in order."""

    def __init__(self) -> None:
        self.codes: list[CodeType] = []

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        own = event == "call" and code.co_filename.startswith(str(PACKAGE))
        is_function = code.co_name not in NOT_FUNCTIONS and code.co_flags & inspect.CO_OPTIMIZED
        if own and is_function and not imports(frame):
            self.codes.append(code)

    @contextlib.contextmanager
    def watch(self) -> Iterator[Walk]:
        """Counts the calls of all threads inside of it."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    @property
    def steps(self) -> list[str]:
        """Each call as `file: function`."""
        return [
            f"{Path(code.co_filename).relative_to(PACKAGE)}: "
            f"{getattr(code, 'co_qualname', code.co_name)}"
            for code in self.codes
        ]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Calls, functions and files."""
        return (
            len(self.codes),
            len(set(self.codes)),
            len({code.co_filename for code in self.codes}),
        )


def second_call(call: Callable[[], object]) -> Walk:
    """Returns the walk of the second of two calls."""
    call()
    with Walk().watch() as walk:
        call()
    return walk


def walks() -> dict[str, Walk]:
    """Returns the walks of one batch."""
    images, targets = torch.rand(100, 3, 32, 32), torch.arange(100) % CLASSES
    maps, origin = torch.rand(100, 32, 32), Origin(torch.arange(100))
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, CLASSES))
    mixup = CoMixup(CLASSES)
    mixed = OnePass(CoMixup(CLASSES), SaliencyMemory(100), rate=1)
    clean = OnePass(CoMixup(CLASSES), SaliencyMemory(100), rate=0)
    return {
        "`CoMixup()`": second_call(lambda: mixup(images, targets, maps)),
        "`OnePass()`, mixed batch": second_call(lambda: mixed(images, targets, origin)),
        "`OnePass()`, clean batch": second_call(lambda: clean(images, targets, origin)),
        "`training_step()` with `CoMixup`": second_call(
            lambda: training_step(model, mixup, images, targets)
        ),
    }


def walk_of_training() -> Walk:
    """Returns the walk of `comixup train FOLDER` of one epoch over a few images."""
    from PIL import Image  # noqa: PLC0415

    from comixup.cli import main  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        for number in range(40):
            name = Path(folder, "images", f"class{number % 2}", f"{number}.png")
            name.parent.mkdir(parents=True, exist_ok=True)
            pixels = torch.randint(256, (48, 48, 3), dtype=torch.uint8).numpy()
            Image.fromarray(pixels).save(name)
        sys.argv = [
            *("comixup", "train", f"{folder}/images", "--epochs", "1", "--batch-size", "10"),
            *("--model", "small", "--width", "8", "--image-size", "32", "--workers", "0"),
            *("--out", f"{folder}/runs"),
        ]
        with Walk().watch() as walk, contextlib.redirect_stdout(io.StringIO()):
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise
    return walk


def main() -> None:
    """Prints the table, as CONTRIBUTING.md has it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", action="store_true", help="list every call of one batch")
    parser.add_argument("--train", action="store_true", help="also `comixup train`")
    arguments = parser.parse_args()
    found = walks()
    if arguments.train:
        found["`comixup train FOLDER`, one epoch"] = walk_of_training()
    print("| walk | calls | functions | files |\n| --- | ---: | ---: | ---: |")
    for name, walk in found.items():
        calls, functions, files = walk.counts
        print(f"| {name} | {calls} | {functions} | {files} |")
    if arguments.calls:
        for name, walk in found.items():
            print(f"\n{name}")
            # Of a training, each function once: its calls fill pages.
            steps = dict.fromkeys(walk.steps) if name.startswith("`comixup") else walk.steps
            print("\n".join(f"  {step}" for step in steps))


if __name__ == "__main__":
    main()
