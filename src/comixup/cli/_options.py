"""The options that commands share, generated from `Recipe`, `Method` and `Hardware`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import tempfile
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import docstring_parser
import tyro

from comixup._did_you_mean import did_you_mean
from comixup.cli._values import metavar
from comixup.lab import data as data_sets
from comixup.lab._cluster import Cluster
from comixup.lab.training._hardware import Hardware
from comixup.lab.training._recipe import Method, Phase, Recipe

if TYPE_CHECKING:
    import torch

_MAX_DIGITS = 7
"""Of a class index: no data set has as many classes."""
SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {},
    "annealed": {"annealed": True},
    "off-last-tenth": {"off": 0.1},
}
"""`Method.schedule`, by the words of --schedule."""


def option_help(metavar: str, default: str | None = None) -> Any:
    """Returns how --help shows an option: its placeholder, and text for its default."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=default)


Flag: TypeAlias = Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")]
Folder: TypeAlias = Annotated[Path, option_help("FOLDER")]
DataFolder: TypeAlias = Annotated[
    Path | None, option_help("FOLDER", "(default: $COMIXUP_DATA, else ./data)")
]
Device: TypeAlias = Annotated[str, option_help("NAME", "(default: cuda if there, else cpu)")]
# Of numbers and choices the type tells the placeholder: see `plain_rule`.


# ---- Generated options --------------------------------------------------------------------------


def help_of(*documented: Any) -> dict[str, str]:
    """Returns what docstrings say of attributes and arguments, by name; the first one counts.

    What None stands for is left out: an option is left out instead.

    >>> help_of(Phase)["epochs"]
    'how many.'
    """
    found: dict[str, str] = {}
    for one in reversed(documented):
        params = docstring_parser.parse(one.__doc__).params
        for param in params:
            text = re.sub(r"; None[: ][^.;]*", "", " ".join((param.description or "").split()))
            found[param.arg_name] = text.replace("None means", "By default")
    return found


def _option_class(
    name: str, doc: str, options: Mapping[str, Any], helps: Mapping[str, str], defaults: object
) -> Any:
    """Returns a dataclass of options, none of which is given by default: None, or False for flags.

    Help shows the attributes of `defaults`: what options are if not given.
    """
    fields = []
    for option, kind in options.items():
        flag, default = kind is bool, getattr(defaults, option, None)
        shown = tyro.conf.arg(
            metavar="" if flag else _METAVARS.get(option, metavar(kind)),
            help=helps[option],
            help_behavior_hint="" if default is None else f"(default: {default})",
        )
        hint: Any = Annotated[kind | None, shown]
        if flag:
            hint = Annotated[bool, tyro.conf.FlagCreatePairsOff, shown]
        fields.append((option, hint, dataclasses.field(default=False if flag else None)))
    made = dataclasses.make_dataclass(name, fields, frozen=True)
    made.__doc__, made.__module__ = doc, __name__
    return made


_METAVARS = {"set": "NAME=VALUE ...", "memory": "NAME=VALUE ...", "classes": "CLASS ..."}


_FIELDS = (
    *("data_set", "model", "epochs", "batch_size", "lr", "loss", "weight_decay", "classes"),
    *("images_per_class", "validation", "validation_seed", "test_fraction", "skip_bad", "augment"),
    *("width", "image_size", "optimizer", "pretrained", "no_pretrained", "weights", "freeze"),
    *("head_lr", "class_weights", "label_smoothing", "ema", "evaluate_every", "set", "saliency"),
    *("memory", "schedule"),
)
"""What options change in a recipe, its phases and its methods."""
_OTHERWISE: dict[str, Any] = {
    "data_set": str,
    "lr": float,
    "epochs": int,
    "classes": tuple[str, ...],
    "weights": Path,
    "schedule": Literal["constant", "annealed", "off-last-tenth"],
    "no_pretrained": bool,
    "set": tuple[str, ...],
    "memory": tuple[str, ...],
}
"""Types of options that are not those of the field that they change."""
_HINTS = {
    name: hint
    for kind in (Phase, Method, Recipe)
    for name, hint in typing.get_type_hints(kind).items()
}
_HELPS = help_of(Recipe.changed, Recipe, Method) | {
    "data_set": "another data set: cifar10, cifar100, tiny-imagenet, imagenet, speech-commands, "
    "digits, or folder for images of your own in folders named after their classes.",
    "no_pretrained": "begin with random weights, where few images of your own would be fine-tuned.",
    "set": "settings of the method: --set beta=0.5 sweeps=2 resolve=false. Values are numbers, "
    "true, false, null, words, or lists such as [2,4].",
    "memory": "settings of one-pass saliency: rate, cells, momentum.",
    "schedule": "how many batches are mixed over the epochs: as many to the end, fewer from 60 % "
    "on (Mixup Without Hesitation), or none in the last tenth.",
}

if TYPE_CHECKING:
    Changes: TypeAlias = Any
    HardwareOptions: TypeAlias = Any
    ClusterOptions: TypeAlias = Any
else:
    Changes = _option_class(
        "Changes",
        "What to change in the recipe.",
        {name: _OTHERWISE.get(name, _HINTS.get(name)) for name in _FIELDS},
        _HELPS,
        None,
    )
    HardwareOptions = _option_class(
        "HardwareOptions",
        "What to train on.",
        typing.get_type_hints(Hardware),
        help_of(Hardware),
        Hardware(),
    )
    ClusterOptions = _option_class(
        "ClusterOptions",
        "Where runs are trained.",
        typing.get_type_hints(Cluster),
        help_of(Cluster),
        Cluster(),
    )


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Where data come from and results go."""

    out: Folder = Path("runs")
    """Folder of all runs; each has OUT/RECIPE/METHOD/seed-N."""
    data: DataFolder = None
    """Folder of the data sets."""
    download: Flag = False
    """Fetch the data set if it is missing; CIFAR only."""
    checkpoint_steps: Annotated[int | None, option_help("N", "(default: none)")] = None
    """Save every so many steps too, not only after each epoch."""


RecipeName: TypeAlias = Annotated[str, tyro.conf.Positional, option_help("RECIPE|PATH")]
Seeds: TypeAlias = tuple[int, ...]
# Their options have no prefix, --epochs and not --changes.epochs; help shows them in groups.
ChangesOption: TypeAlias = Annotated[
    Changes, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="recipe")
]
RunOptionsArgument: TypeAlias = Annotated[
    RunOptions, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="run")
]
HardwareArgument: TypeAlias = Annotated[
    HardwareOptions, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="hardware")
]
ClusterArgument: TypeAlias = Annotated[
    ClusterOptions, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="cluster")
]


@dataclasses.dataclass(frozen=True)
class CommonOptions:
    """What `train`, `tune` and `sweep` share."""

    seeds: Seeds = (0,)
    """A run each; for each value or setting that is tried."""
    changes: ChangesOption = dataclasses.field(default_factory=Changes)
    """What to change in the recipe; the rest stays as it is."""
    run: RunOptionsArgument = RunOptions()
    """Where data come from and results go."""
    hardware: HardwareArgument = dataclasses.field(default_factory=HardwareOptions)
    """What to train on."""
    cluster: ClusterArgument = dataclasses.field(default_factory=ClusterOptions)
    """Where runs are trained."""


CommonArgument: TypeAlias = Annotated[
    CommonOptions, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="")
]


def given(options: Any) -> dict[str, Any]:
    """Returns the options that were given, by name."""
    return {
        name: value
        for name, value in vars(options).items()
        if value is not None and value is not False
    }


def changed_fields(changes: Changes) -> dict[str, Any]:
    """Returns what options change in a recipe, by the name of the field."""
    wanted = given(changes)
    for name in ("set", "saliency", "memory", "schedule"):  # of methods
        wanted.pop(name, None)
    if wanted.pop("no_pretrained", False):
        if "pretrained" in wanted or "weights" in wanted:
            raise ValueError(
                "`--no-pretrained` must be left out with --pretrained and --weights, which name "
                "the weights to begin with."
            )
        wanted["pretrained"] = False
    if "classes" in wanted:
        wanted["classes"] = class_list(wanted["classes"])
    if "weights" in wanted:
        wanted["weights"] = str(wanted["weights"])
    check_data_set(wanted.get("data_set"))
    return wanted


# ---- Checks -------------------------------------------------------------------------------------


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


def flags_of(command: Any) -> set[str]:
    """Returns the options of a command, or of a class of options, that have no value.

    >>> flags_of(RunOptions)
    {'--download'}
    """
    flags = set()
    for name, hint in typing.get_type_hints(command).items():
        if hint is bool:
            flags.add(f"--{name.replace('_', '-')}")
        elif dataclasses.is_dataclass(hint):
            flags |= flags_of(hint)
    return flags


def check_words(words: Sequence[str], command: Callable[..., None] | None) -> None:
    """Raises `ValueError` for options given twice, or without a value.

    Of an option given twice the parser would drop the first values without a word, and an option
    for any number of values without one would mean its default.

    Args:
        words: of the command line.
        command: what they call; None shows help.
    """
    flags = {"--help", "--version", "--", *(flags_of(command) if command else ())}
    seen = set()
    for word, following in itertools.pairwise([*words, "--"]):
        if not word.startswith("--"):
            continue
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        if name in seen:
            raise ValueError(
                f"`{name}` must be given once, got it twice. Put all values behind one {name}."
            )
        seen.add(name)
        empty = not value if equals else following.startswith("--")
        if empty and name not in flags:
            raise ValueError(f"`{name}` must be followed by a value, got none.")


def check_writable(name: str, folder: Path) -> None:
    """Raises `OSError` if nothing can be written to a folder, which may not exist yet."""
    every = (folder.absolute(), *folder.absolute().parents)
    there = next(above for above in every if path_exists(above))
    try:
        with contextlib.suppress(FileNotFoundError):  # other errors tell of a name too long
            folder.absolute().stat()
        with tempfile.TemporaryFile(dir=there):  # permissions alone do not tell, least of all root
            pass
    except OSError as error:
        raise OSError(
            f"`{name}` must be a folder to write to, got {str(folder)[:200]}, but nothing can be "
            f"written to {there} ({error.strerror})."
        ) from None


def check_exists(name: str, *paths: Path) -> None:
    """Raises an error for paths that are not there, and if there are none."""
    if not paths:
        raise ValueError(f"`{name}` must be one folder or file at least, got none.")
    for path in paths:
        if not path_exists(path):
            raise FileNotFoundError(f"`{name}` must exist, but there is no {str(path)[:200]}.")


def path_exists(path: Path) -> bool:
    """Whether a path is there; one too long for the system is not."""
    try:
        return path.exists()
    except OSError:
        return False


def find_device(name: str) -> torch.device:
    """Returns a device that can be computed on; "auto" is CUDA's if there is one."""
    import torch  # noqa: PLC0415

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as why:
        reason = str(why).strip().split("\n", 1)[0][:200]
        raise ValueError(
            f"`--device` must be one that torch can compute on here, got {name!r} ({reason})."
        ) from None
    return device
