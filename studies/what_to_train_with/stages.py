"""The runs of the study, stage by stage: what is trained next follows from what was collected.

Rules, written before the runs: docs/results/rules.md.
"""

from __future__ import annotations

import csv
import functools
import os
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from comixup.lab.evaluation import RunRecord, paired_interval, read_runs

HERE = Path(__file__).parent
RUNS = HERE / "runs.csv"
CIFAR, TINY_IMAGENET = "cifar100-small-data", "tiny-imagenet-small"
CHOOSING = ("--classes", "70-89", "--width", "16")
"""Classes that are not reported, and a network small enough for 240 epochs in six CPU-minutes."""
SEEDS = range(10)
"""Of the reported runs."""
_ONE_PASS = "comixup-one-pass"
OURS: dict[str, tuple[str, ...]] = {
    "one-pass": (_ONE_PASS,),
    "one-pass-recycle": (_ONE_PASS, "--memory", "recycle=true"),
    "one-pass-third": (_ONE_PASS, "--memory", "rate=0.3333"),
    "one-pass-annealed": (_ONE_PASS, "--schedule", "annealed"),
    "one-pass-off": (_ONE_PASS, "--schedule", "off-last-tenth"),
    "one-pass-input": (f"{_ONE_PASS}+input",),
    "one-pass-cutmix": (f"{_ONE_PASS}+cutmix",),
    "one-pass-both": (f"{_ONE_PASS}+input+cutmix",),
    "one-pass-saliency-targets": (_ONE_PASS, "--set", "target_weight=saliency"),
    "one-pass-tau-1": (_ONE_PASS, "--set", "tau=1.0"),
    "one-pass-grid-8": (_ONE_PASS, "--set", "grid=8"),
    "one-pass-ema": (_ONE_PASS, "--ema", "0.995"),
}
"""Stage 1, our candidates: the method or methods, and options. `recycle`, by which mixed batches
refreshed maps too, was no better and is gone since: its run is of the commit in its row."""
RIVALS: dict[str, tuple[str, ...]] = {
    "no-mixing": ("vanilla",),
    "input-0.2": ("input", "--set", "p=0.5", "alpha=0.2"),
    "input-1": ("input", "--set", "p=0.5", "alpha=1.0"),
    "input-2": ("input", "--set", "p=0.5", "alpha=2.0"),
    "cutmix-0.2": ("cutmix", "--set", "p=0.5", "alpha=0.2"),
    "cutmix-1": ("cutmix", "--set", "p=0.5", "alpha=1.0"),
    "coin-half": ("input+cutmix", "--set", "p=0.5"),
    "coin": ("input+cutmix",),
    "coin-annealed": ("input+cutmix", "--schedule", "annealed"),
    "coin-off": ("input+cutmix", "--schedule", "off-last-tenth"),
    "input-smoothed": ("input", "--set", "p=0.5", "--label-smoothing", "0.1"),
}
"""Stage 1, the simple rivals; the twelfth is the best of them with averaged weights."""
AVERAGED = "-ema"
"""Ends the name of an arm with averaged weights."""
_AVERAGED = {arm + AVERAGED: (*words, "--ema", "0.995") for arm, words in RIVALS.items()}
ARMS = {**OURS, **RIVALS, **_AVERAGED}
SIMPLE = ("no-mixing", "input", "cutmix", "coin")
"""The simple rivals by the beginning of their arms' names, the simplest first."""
SHUFFLED = "-other-maps"
"""Ends the name of an arm whose images have other images' maps."""
FINE_TUNED: dict[str, tuple[str, ...]] = {
    "crop-flip": ("vanilla", "--augment", "crop-flip"),
    "trivial": ("vanilla", "--augment", "trivial"),
    "trivial-input": ("input", "--augment", "trivial", "--set", "p=0.5", "alpha=1.0"),
    "trivial-cutmix": ("cutmix", "--augment", "trivial", "--set", "p=0.5", "alpha=1.0"),
    "trivial-coin": ("input+cutmix", "--augment", "trivial", "--set", "p=0.5"),
    "trivial-one-pass": (_ONE_PASS, "--augment", "trivial"),
}
RATES = ("1e-4", "3e-4", "1e-3")
"""Learning rates of fine-tuning, of which each arm takes its best."""
_FINE_TUNING = (
    *("--model", "efficientnet-lite0", "--pretrained", "--image-size", "128"),
    *("--optimizer", "adamw", "--weight-decay", "0.05", "--freeze", "norms", "--head-lr", "10"),
    *("--batch-size", "20", "--validation-seed", "0"),
)
FINE_TUNING_SETS: dict[str, tuple[str, ...]] = {
    "photos44": (
        *("--images-per-class", "5", "--epochs", "40", "--evaluate-every", "40"),
        *("--test-fraction", "0.5", "--validation", "0.4", *_FINE_TUNING),
    ),
    "tiny-imagenet": (
        *("--images-per-class", "10", "--epochs", "18", "--evaluate-every", "18"),
        *("--validation", "0.1", *_FINE_TUNING),
    ),
}
"""What is fine-tuned on: about 9,000 images of 128 pixels in all, five CPU-minutes."""


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        condition: stage, augmentation and epochs: what runs must share to be compared.
        arm: what is compared; a method, or one with options.
        seed: of the run.
        words: the method, and options of `comixup train`.
        data: recipe, or name of a set to fine-tune on.
    """

    condition: str
    arm: str
    seed: int
    words: tuple[str, ...]
    data: str = CIFAR

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells runs apart."""
        return self.condition, self.arm, self.seed

    def folder(self, out: Path) -> Path | None:
        """Returns the folder of the run; None if it is not finished."""
        found = [*self._out(out).glob(f"**/seed-{self.seed}/result.json")]
        return found[0].parent if found else None

    def command(self, out: Path) -> list[str]:
        """Returns the command that trains the run, or resumes it."""
        train = ["-m", "comixup", "train"]
        if "COMIXUP_AUGMENTED" in os.environ:  # the same runs, in less time
            train = [str(HERE / "train.py")]
        source = _images(self.data, out) if self.data in FINE_TUNING_SETS else self.data
        method, *options = self.words
        words = [sys.executable, *train, str(source), "--method", method]
        words += ["--seeds", str(self.seed), "--workers", "0", *options]
        return [*words, "--out", str(self._out(out))]

    def _out(self, out: Path) -> Path:
        return out / self.condition / self.arm.replace(",", "").replace(" ", "-")


def tasks() -> Iterator[Task]:
    """Yields all runs that the collected ones ask for, in the order in which they are trained."""
    for stage in (stage_0, stage_1, stage_2, fine_tuning, curves, records):
        yield from stage()
        if missing(stage()):
            return


def collected() -> list[RunRecord]:
    """Returns the runs that were collected; `recipe` is their condition."""
    return list(_read(RUNS, RUNS.stat().st_mtime_ns)) if RUNS.exists() else []


@functools.lru_cache(maxsize=1)
def _read(runs: Path, _changed: int) -> tuple[RunRecord, ...]:
    return tuple(read_runs(runs))


def results() -> dict[tuple[str, str, int], RunRecord]:
    """Returns the collected runs by condition, arm and seed.

    Two arms of stage 1 are methods of stage 0: their runs are not trained twice.
    """
    found = {run.key: run for run in collected()}
    same = {"vanilla": "no-mixing", "input-p0.5": "input-1"}
    for (where, method, seed), run in list(found.items()):
        if method in same:
            found[where.replace("stage0", "stage1"), same[method], seed] = run
    return found


def missing(wanted: Iterable[Task] | None = None) -> list[Task]:
    """Returns the runs that were not collected, of those wanted or else of all."""
    done = results()
    return [task for task in (tasks() if wanted is None else wanted) if task.key not in done]


def error_of(run: RunRecord) -> float:
    """Returns what runs on classes that are not reported are judged by: both errors' mean."""
    return (run.metrics["error"] + run.metrics["validation_error"]) / 2


# ---- Stage 0: augmentation and length ------------------------------------------------------------


def stage_0() -> Iterator[Task]:
    """Yields the runs that choose augmentation and length."""
    for seed in (100, 101):
        for epochs in (120, 240):
            for augment in ("crop-flip", "trivial", "rand"):
                options = (*CHOOSING, "--epochs", str(epochs), "--augment", augment)
                for method in ("vanilla", "input-p0.5"):
                    yield Task(f"stage0/{augment}-{epochs}", method, seed, (method, *options))


def condition() -> tuple[str, int]:
    """Returns augmentation and epochs with the lowest error in stage 0: the study's condition."""
    groups: dict[str, list[float]] = {}
    for run in collected():
        if run.recipe.startswith("stage0/"):
            groups.setdefault(run.recipe, []).append(error_of(run))
    best = min(groups, key=lambda name: statistics.mean(groups[name]))
    augment, _, epochs = best.removeprefix("stage0/").rpartition("-")
    return augment, int(epochs)


# ---- Stage 1: search -----------------------------------------------------------------------------


def stage_1() -> Iterator[Task]:
    """Yields the runs of the search: both pools are halved twice, each by itself."""
    augment, epochs = condition()
    options = (*CHOOSING, "--epochs", str(epochs), "--augment", augment)
    where = f"stage1/{augment}-{epochs}"

    def round_of(arms: Iterable[str], seeds: Iterable[int]) -> list[Task]:
        return [Task(where, arm, seed, (*ARMS[arm], *options)) for seed in seeds for arm in arms]

    ours, rivals = list(OURS), list(RIVALS)
    first = round_of([*ours, *rivals], [100])
    yield from first
    if missing(first):
        return
    twelfth = round_of([ranked(rivals, [100])[0] + "-ema"], [100])
    yield from twelfth
    if missing(twelfth):
        return
    rivals.append(twelfth[0].arm)
    ours, rivals = ranked(ours, [100])[:6], ranked(rivals, [100])[:6]
    second = round_of([*ours, *rivals], [101, 102])
    yield from second
    if missing(second):
        return
    seeds = [100, 101, 102]
    yield from round_of([*ranked(ours, seeds)[:3], *ranked(rivals, seeds)[:3]], [103, 104, 105])


def ranked(arms: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """Returns arms of stage 1 by their mean error over seeds that all of them have."""
    found, (augment, epochs) = results(), condition()

    def mean_error(arm: str) -> float:
        runs = [found[f"stage1/{augment}-{epochs}", arm, seed] for seed in seeds]
        return statistics.mean(map(error_of, runs))

    return sorted(arms, key=mean_error)


def chosen_mode() -> str:
    """Returns the arm of ours with the lowest mean error over the six seeds of the search."""
    return ranked(_with_seeds(OURS, range(100, 106)), range(100, 106))[0]


def chosen_rivals() -> list[str]:
    """Returns an arm of each simple rival: its best settings over the seeds that all of them have.

    The simplest rival comes first.
    """
    return [_best_settings(rival) for rival in SIMPLE]


def _best_settings(rival: str) -> str:
    seeds = range(100, 106)
    arms = [arm for arm in _with_seeds(ARMS, [100]) if arm.startswith(rival)]
    common = [seed for seed in seeds if len(_with_seeds(arms, [seed])) == len(arms)]
    return ranked(arms, common)[0]


def _with_seeds(arms: Iterable[str], seeds: Iterable[int]) -> list[str]:
    found, (augment, epochs), seeds = results(), condition(), list(seeds)
    where = f"stage1/{augment}-{epochs}"
    return [arm for arm in arms if all((where, arm, seed) in found for seed in seeds)]


# ---- Stage 2: confirmation -----------------------------------------------------------------------


def confirmed_on(data: str) -> str:
    """Returns the condition of the confirmation on CIFAR-100 or Tiny-ImageNet."""
    augment, epochs = condition()
    return f"stage2/{data}-{augment}-{epochs if data == 'cifar100' else 180}"


def confirmed_words() -> dict[str, tuple[str, ...]]:
    """Returns method and options of each arm that is confirmed on CIFAR-100.

    The chosen mode is the first, then come the simple rivals, the simplest first, and the mode with
    other images' maps; those with averaged weights were added later.
    """
    mode, rivals = chosen_mode(), chosen_rivals()
    coin = rivals[SIMPLE.index("coin")]
    words = {arm: ARMS[arm] for arm in (mode, *rivals)}
    words[mode + SHUFFLED] = (
        words[mode][0].replace(_ONE_PASS, f"{_ONE_PASS}-shuffled"),
        *words[mode][1:],
    )
    for arm in (mode, coin, rivals[0]):
        if "--ema" not in words[arm]:
            words[arm + AVERAGED] = (*words[arm], "--ema", "0.995")
    return words


def confirmed_mode(data: str) -> str:
    """Returns the arm whose error is compared with the rivals' on a set."""
    return chosen_mode() if data == "cifar100" else chosen_mode() + AVERAGED


def confirmed_rivals() -> list[str]:
    """Returns the simple rivals among the confirmed arms, the simplest first."""
    mode = chosen_mode()
    return [arm for arm in confirmed_words() if not arm.startswith(mode)]


def strongest(where: str, rivals: Iterable[str]) -> list[str]:
    """Returns rivals by their mean error over all seeds; on equal means they keep their order."""
    found = results()

    def mean_error(arm: str) -> float:
        return statistics.mean(found[where, arm, seed].metrics["error"] for seed in SEEDS)

    return sorted(rivals, key=mean_error)


def stage_2() -> Iterator[Task]:
    """Yields the runs that confirm the choice: ten seeds each, on data nothing was chosen by."""
    augment, epochs = condition()
    mode, rivals = chosen_mode(), chosen_rivals()
    where, words = confirmed_on("cifar100"), confirmed_words()
    options = ("--classes", "50-69", "--width", "16", "--epochs", str(epochs), "--augment", augment)
    main = [Task(where, a, seed, (*words[a], *options)) for seed in SEEDS for a in words]
    main.sort(key=lambda task: (task.arm.endswith(AVERAGED), task.arm == rivals[0] + AVERAGED))
    yield from main
    if missing(main):
        return
    coin, where = rivals[SIMPLE.index("coin")], confirmed_on("tiny-imagenet")
    options = ("--width", "16", "--epochs", "180", "--augment", augment)
    options += ("--precision", "bf16-mixed")
    first, *averaged = confirmed_twice()
    for arms in (averaged[::-1], [first]):  # last what is beaten on CIFAR-100 already
        second = [
            Task(where, arm, seed, (*words[arm], *options), TINY_IMAGENET)
            for seed in SEEDS
            for arm in arms
        ]
        yield from second
        if missing(second):
            return
    # What docs/results/small-data.csv has not, of the network and the augmentation that it is of.
    plain = ("--epochs", "120", "--augment", "crop-flip")
    for seed in SEEDS:
        for arm in (mode, coin):
            yield Task("stage2/cifar100-crop-flip-120", arm, seed, (*words[arm], *plain))


def errors(where: str, arm: str, seeds: Iterable[int] = SEEDS) -> dict[int, float]:
    """Returns the errors of an arm by seed, as far as they were collected."""
    found = results()
    keys = {seed: (where, arm, seed) for seed in seeds}
    return {seed: found[key].metrics["error"] for seed, key in keys.items() if key in found}


def primary(data: str) -> tuple[str, list[float]] | None:
    """Returns the strongest simple rival on a set and the mode's error minus its, by seed.

    None if runs are missing.
    """
    where, found = confirmed_on(data), results()
    rivals = [arm for arm in confirmed_rivals() if (where, arm, 0) in found]
    mode = errors(where, confirmed_mode(data))
    if len(mode) < len(SEEDS) or any(len(errors(where, arm)) < len(SEEDS) for arm in rivals):
        return None
    rival = strongest(where, rivals)[0]
    theirs = errors(where, rival)
    return rival, [mode[seed] - theirs[seed] for seed in SEEDS]


def recommended() -> bool | None:
    """Returns whether the mode is recommended, by the rules; None while runs are missing."""
    both = [primary("cifar100"), primary("tiny-imagenet")]
    if None in both:
        return None
    intervals = [paired_interval(each[1]) for each in both if each is not None]
    return all(interval is not None and interval[1] < 0 for interval in intervals)


def confirmed_twice() -> list[str]:
    """Returns the arms that are confirmed on both sets, the simplest first."""
    plain, coin = chosen_rivals()[0], chosen_rivals()[SIMPLE.index("coin")]
    return [plain, *(arm + AVERAGED for arm in (plain, coin, chosen_mode()))]


def recommendation() -> str | None:
    """Returns the arm that the rules recommend; None while runs are missing, or if none is.

    It is the simplest of those confirmed on both sets that no other of them beats on either set, in
    error or NLL, with an interval that excludes zero.
    """
    found, arms = results(), confirmed_twice()
    sets = [confirmed_on(data) for data in ("cifar100", "tiny-imagenet")]
    if any((where, arm, seed) not in found for where in sets for arm in arms for seed in SEEDS):
        return None

    def beaten(arm: str, by: str) -> bool:
        for where in sets:
            for metric in ("error", "nll"):
                keys = [[(where, a, seed) for seed in SEEDS] for a in (by, arm)]
                theirs, own = ([found[key].metrics[metric] for key in each] for each in keys)
                interval = paired_interval([a - b for a, b in zip(theirs, own, strict=True)])
                if interval is not None and interval[1] < 0:
                    return True
        return False

    standing = (arm for arm in arms if not any(beaten(arm, by) for by in arms if by != arm))
    return next(standing, None)


# ---- Fine-tuning ---------------------------------------------------------------------------------


def fine_tuning() -> Iterator[Task]:
    """Yields the runs of fine-tuning: each arm's learning rate is chosen first."""
    for data, shared in FINE_TUNING_SETS.items():
        rates = {arm: list(RATES) for arm in FINE_TUNED}
        first = [_rate_task(data, arm, rate, 100) for arm in rates for rate in rates[arm]]
        yield from first
        if missing(first):
            return
        rates = {arm: _ranked_rates(data, arm, RATES, [100])[:2] for arm in rates}
        second = [_rate_task(data, arm, rate, 101) for arm in rates for rate in rates[arm]]
        yield from second
        if missing(second):
            return
        for seed in range(5):
            for arm, words in FINE_TUNED.items():
                best = _ranked_rates(data, arm, rates[arm], [100, 101])[0]
                options = (*words, *shared, "--lr", best)
                yield Task(f"fine-tuning/{data}", arm, seed, options, data)


def _rate_task(data: str, arm: str, rate: str, seed: int) -> Task:
    words = (*FINE_TUNED[arm], *FINE_TUNING_SETS[data], "--lr", rate)
    return Task(f"fine-tuning-rates/{data}", f"{arm}-{rate}", seed, words, data)


def _ranked_rates(data: str, arm: str, rates: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """Returns learning rates by the mean error on images held out, the lowest first."""
    found = results()

    def mean_error(rate: str) -> float:
        runs = [found[_rate_task(data, arm, rate, seed).key] for seed in seeds]
        return statistics.mean(run.metrics["validation_error"] for run in runs)

    return sorted(rates, key=mean_error)


# ---- Curves --------------------------------------------------------------------------------------

FEW_SEEDS = range(3)
IMAGES, EPOCHS = (20, 50, 100, 250), (60, 120, 240, 480)
"""Per class, and of training; the confirmation has 100 images, and one of the lengths."""
CONFIRMED_IMAGES = 100
UNAUGMENTED = "-crop-flip"
"""Ends the name of an arm without the study's augmentation."""


def curve_words() -> dict[str, tuple[str, ...]]:
    """Returns method and options of each arm of the curves: the chosen mode is the first."""
    words, mode, (vanilla, *rivals) = confirmed_words(), chosen_mode(), chosen_rivals()
    augment, _ = condition()
    rival = strongest(confirmed_on("cifar100"), rivals)[0]
    augmented = {arm: (*words[arm], "--augment", augment) for arm in (mode, vanilla, rival)}
    return augmented | {vanilla + UNAUGMENTED: (*words[vanilla], "--augment", "crop-flip")}


def curve_condition(arm: str, images: int, epochs: int) -> str:
    """Returns the condition of an arm's runs at a point of the curves.

    Where both curves meet, most arms have been confirmed.
    """
    if images != CONFIRMED_IMAGES:
        return f"curves/{images}-images"
    confirmed = not arm.endswith(UNAUGMENTED) and epochs == condition()[1]
    return confirmed_on("cifar100") if confirmed else f"curves/{epochs}-epochs"


def curves() -> Iterator[Task]:
    """Yields the runs that ask where the mode would win, if it is not recommended."""
    if recommended():
        return
    _, epochs = condition()
    points = [(images, epochs) for images in IMAGES]
    points += [(CONFIRMED_IMAGES, length) for length in EPOCHS if length != epochs]
    for images, length in points:
        shared = ("--classes", "50-69", "--width", "16", "--epochs", str(length))
        for seed in FEW_SEEDS:
            for arm, words in curve_words().items():
                where = curve_condition(arm, images, length)
                if where.startswith("curves/"):
                    options = (*shared, "--images-per-class", str(images))
                    yield Task(where, arm, seed, (*words, *options))


# ---- Records -------------------------------------------------------------------------------------

RECORDS: dict[str, tuple[str, ...]] = {
    "Vanilla, crops and flips": ("vanilla", "--augment", "crop-flip"),
    "Input mixup, p = 0.5, crops and flips": (*RIVALS["input-1"], "--augment", "crop-flip"),
    "Vanilla, RandAugment": ("vanilla", "--augment", "rand"),
    "Input mixup or CutMix, p = 0.5, averaged weights, RandAugment": (
        *(*RIVALS["coin-half"], "--ema", "0.995", "--augment", "rand"),
    ),
    "One-pass Co-Mixup, one batch of three, averaged weights, RandAugment": (
        *(*OURS["one-pass-third"], "--ema", "0.995", "--augment", "rand"),
    ),
}
"""Attempts at the lowest error of a fixed budget, in the order in which they were made."""
RECORD_SEEDS = range(10, 20)
"""By which nothing is ever chosen."""


def records() -> Iterator[Task]:
    """Yields the runs of the record table: 20 classes of 100 images, 120 passes over each."""
    for title, words in RECORDS.items():
        for seed in RECORD_SEEDS:
            yield Task("records", title, seed, (*words, "--epochs", "120"))


def _images(data: str, out: Path) -> Path:
    """Returns what `comixup train` reads: a folder, or a list of Tiny-ImageNet's images.

    Tiny-ImageNet as such comes in its own 64 pixels only; image files of a list in any size.
    """
    root = Path(os.environ.get("COMIXUP_DATA", "data")).absolute()
    if data != "tiny-imagenet":
        return root / data
    images, listed = root / "tiny-imagenet-50", out.absolute() / "tiny-imagenet.csv"
    if not listed.exists():
        rows = [
            (path, path.parts[-3], "train") for path in sorted(images.glob("train/*/images/*.JPEG"))
        ]
        with (images / "val" / "val_annotations.txt").open() as file:
            for name, label, *_ in csv.reader(file, delimiter="\t"):
                rows.append((images / "val" / "images" / name, label, "test"))
        listed.parent.mkdir(parents=True, exist_ok=True)
        with listed.open("w", newline="") as file:
            csv.writer(file).writerows([("path", "label", "split"), *rows])
    return listed
