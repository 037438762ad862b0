"""Runs small enough to be made by the dozen, in this process or as processes that can be killed."""

import csv
import itertools
import multiprocessing
import os
import pickle
import resource
import signal
import socket
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from comixup.lab.training import RECIPES, Hardware, train
from comixup.lab.training._folder import CHECKPOINT, LOGITS, METRICS, WEIGHTS
from pictures import skip_drawing
from small_cifar import accept_any

RECIPE = "cifar100-low-data"
CLASSES = 4
TRAIN, TEST = 22, 7
"""Training images make steps of 8, 8 and 6; test images are odd in number."""
CHANGES = {"model": "lenet", "epochs": 3, "batch_size": 8, "images_per_class": 5, "lr": 0.005}
"""20 images remain to learn from: steps of 8, 8 and 4."""
STEPS = 3
TIMES = ("seconds", "cpu_seconds", "images_per_second")
WAIT_SECONDS = 300
"""Until a process counts as hanging, on a busy machine."""

processes = multiprocessing.get_context("forkserver")
# What commands import when they are called: each process would import it anew.
processes.set_forkserver_preload(
    [
        "comixup.cli",
        "comixup.lab.evaluation._evaluate",
        "comixup.lab.evaluation._tables",
        "comixup.lab.training._sweep",
        "matplotlib.pyplot",
        "safetensors.torch",
    ]
)

accept_any()  # here and in the processes, which import this module too


def write_images(root):
    """Writes a CIFAR-100 of random images, with few classes."""
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    names = [f"thing {number}" for number in range(CLASSES)]
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}, protocol=4))
    for name, count in (("train", TRAIN), ("test", TEST)):
        labels = [number % CLASSES for number in range(count)]
        pixels = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        pixels = pixels // 2 + 40 * np.array(labels, np.uint8)[:, None]  # something to learn
        content = {"data": pixels, "fine_labels": labels}
        (folder / name).write_bytes(pickle.dumps(content, protocol=4))
    return root


def recipe(**changes):
    return RECIPES[RECIPE].changed(**(CHANGES | changes))


def train_here(data, out, method="vanilla", chosen=None, hardware=None, **settings):
    """Trains in this process; returns the run's folder."""
    chosen = chosen or recipe()
    hardware = hardware or Hardware(accelerator="cpu")
    train(chosen, method=method, out=out, data_root=data, hardware=hardware, **settings)
    return folder_of(out, method)


def folder_of(out, method="vanilla", seed=0):
    return out / RECIPE / method / f"seed-{seed}"


def words(data, out, *more, method="vanilla", **changes):
    """Returns the arguments of the command line for the same run."""
    pairs = {"method": method, "out": out, "data": data, "accelerator": "cpu"}
    pairs |= CHANGES | changes
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in pairs.items()]
    return ["train", RECIPE, *flags, *map(str, more)]


class Command:
    """The command line in a process of its own.

    Args:
        arguments: after the program's name.
        log: file for what it prints.
        environment: variables besides those of this process.
        before: called in the process before all else, with `details`.
        details: for `before`.
    """

    def __init__(self, arguments, log, environment=None, before=None, details=()):
        self.log = Path(log)
        self.process = processes.Process(
            target=_run, args=(arguments, self.log, environment or {}, before, details)
        )
        self.process.start()

    @property
    def pid(self):
        return self.process.pid

    @property
    def text(self):
        return self.log.read_text() if self.log.exists() else ""

    def send(self, number):
        os.kill(self.pid, number)

    def end(self):
        """Waits; returns the exit code (negative: the signal that ended it)."""
        self.process.join(WAIT_SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
            raise TimeoutError(f"the process hung: {self.text}")
        return self.process.exitcode


def run(*arguments, **settings):
    """Runs the command line to its end; returns the exit code and what it printed."""
    command = Command(*arguments, **settings)
    return command.end(), command.text


def _run(arguments, log, environment, before, details):
    with log.open("ab", buffering=0) as file:
        for number in (sys.stdout.fileno(), sys.stderr.fileno()):
            os.dup2(file.fileno(), number)
    os.environ.update(environment)
    torch.set_num_threads(1)
    skip_drawing()
    if before is not None:
        before(*details)
    from comixup import cli  # noqa: PLC0415 - in the process, not where the tests are collected

    sys.argv = ["comixup", *arguments]
    cli.main()


# ---- What can befall a process ------------------------------------------------------------------


def die_at_write(number):
    """Kills this process as it has its n-th file or folder written to the disk, from 0."""
    count = 0
    fsync = os.fsync

    def deadly(descriptor):
        nonlocal count
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        fsync(descriptor)

    os.fsync = deadly


def die_after(seconds):
    """Kills this process once it has computed for so long, wherever it then is."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def at_step(number, action, *arguments):
    """Has something done before this process's n-th step, from 0."""
    from comixup.lab.training._trainer import Trainer  # noqa: PLC0415 - in the process alone

    run_step, count = Trainer.step, itertools.count()

    def step(*details):
        if next(count) == number:
            action(*arguments)
        run_step(*details)

    Trainer.step = step


def count_last_evaluation(path):
    """Writes how many images this process computes the final logits of."""
    from comixup.lab.training import _measures, _trainer  # noqa: PLC0415 - in the process alone

    logits_of, of_batch, sizes = _trainer.logits_of, _measures._logits_of_batch, []

    def counted(fabric, inner, images):
        sizes.append(len(images))
        return of_batch(fabric, inner, images)

    def last(*arguments):
        sizes.clear()
        found = logits_of(*arguments)
        path.write_text(str(sum(sizes)))
        return found

    _measures._logits_of_batch, _trainer.logits_of = counted, last


def kill_self(number):
    os.kill(os.getpid(), number)


def limit_files(size):
    """Lets no file grow beyond so many bytes, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


# ---- Several processes --------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def commands(count, arguments, log, before=(None, None), details=((), ())):
    """Starts the command line in several processes that train together, as torchrun would.

    How many there are they know from the environment alone.
    """
    port, log = free_port(), Path(log)
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": "0",
        "TORCHELASTIC_RUN_ID": "tests",
    }
    return [
        Command(
            arguments,
            log.with_name(f"{log.name}-{rank}"),
            shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            before[rank],
            details[rank],
        )
        for rank in range(count)
    ]


# ---- What came of it ----------------------------------------------------------------------------


def metrics(folder):
    """Returns the rows of a run's metrics without its times."""
    with (folder / METRICS).open(newline="") as file:
        return [
            {name: value for name, value in row.items() if name not in TIMES}
            for row in csv.DictReader(file)
        ]


def weights_of(folder):
    return load_file(folder / WEIGHTS)


def contents(folder):
    """Returns all files of a folder with their bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def saved(folder):
    return torch.load(folder / CHECKPOINT, weights_only=True)


def assert_same_weights(folder, other, **tolerance):
    """Both runs ended with the same weights: bit by bit, unless a tolerance is given."""
    tolerance = tolerance or {"rtol": 0, "atol": 0}
    torch.testing.assert_close(weights_of(folder), weights_of(other), **tolerance)


def assert_same_run(folder, unbroken):
    assert_same_weights(folder, unbroken)
    for name in (WEIGHTS, LOGITS):
        assert (folder / name).read_bytes() == (unbroken / name).read_bytes(), name
    assert metrics(folder) == metrics(unbroken)
    assert saved(folder)["finished"]
    assert not list(folder.glob(".*")), "half written files are left"
