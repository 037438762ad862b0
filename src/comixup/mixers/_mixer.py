"""The base class of all methods, and the record of how a batch was mixed."""

import contextlib
import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal, ParamSpec, TypeAlias, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from comixup._checks import SetOnce, check_boolean, check_choice, check_count, check_number
from comixup._random import coin
from comixup.core.labelling import Labelling
from comixup.core.memory import SaliencyMemory
from comixup.core.mix import Plan, mix_checked, mix_targets, soft_targets
from comixup.core.problem import Problem
from comixup.core.saliency import Backward, CleanPass, LossFn, clean_pass
from comixup.core.tensors import check_images, check_model, check_no_transform
from comixup.mixers._hooks import KeptGradient, check_and_cancel, layer_hooks, uncompiled

CleanReduction: TypeAlias = Literal["sum", "mean"]
_M = TypeVar("_M", bound="Mixer")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def eager(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Returns a function that runs eagerly, with one graph break, under torch.compile.

    Decisions in host memory cannot be traced. Without torch.compile the compiler, which takes as
    long to import as torch, is not imported.
    """
    plain = uncompiled(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return (plain if torch.compiler.is_compiling() else function)(*args, **kwargs)

    return call


@dataclass(frozen=True, eq=False)
class Mixed:
    """How a batch was mixed.

    Attributes:
        plan: how it is mixed, in host memory. `plan.mix_images` mixes other tensors the same way (a
            teacher's maps), `plan.mix_masks` integer segmentation masks; `plan.masks` and
            `plan.source_ratio()` are the inputs' shares.
        mixed: False if the batch was left as it was, by chance `p` or because mixing is off.
        layer: the layer of the model that mixes (manifold mixup); None if the images are mixed.
        target_ratio: (m', m) weights of the inputs' targets, if not their shares of the pixels.
        uniform_maps: inputs whose saliency was zero, constant, NaN or infinite; they count as
            uniformly salient.
        cells: (m, *grid) the inputs' saliency on the method's grid, each summing to 1, in host
            memory; None for methods without saliency.
        problems: Co-Mixup's problems, one per partition of the batch, for
            `comixup.objective(problems, plan)`; empty for other methods.
        loss_weight: weight of the mixed loss relative to the clean loss (see `Mixer.mixed_weight`).
        chosen: index of the method in `Choice.mixers`; None for other mixers and for unmixed
            batches.
    """

    plan: Plan
    mixed: bool = True
    layer: str | None = None
    target_ratio: Tensor | None = None
    uniform_maps: int = 0
    cells: Tensor | None = None
    problems: tuple[Problem, ...] = ()
    loss_weight: float = 1.0
    chosen: int | None = None


@dataclass
class NextBatch:
    """What is drawn for a batch before its clean pass.

    Attributes:
        method: the mixer itself, or the drawn method of a `Choice`.
        mixed: False leaves the batch unmixed.
        chosen: index of the method in `Choice.mixers`.
        loss_weight: weight of the mixed loss relative to the clean one; None without a clean pass.
    """

    method: "Mixer"
    mixed: bool
    chosen: int | None = None
    loss_weight: float | None = None

    @property
    def needs_saliency(self) -> bool:
        """Whether the call needs saliency maps."""
        return self.mixed and self.method.needs_saliency

    @property
    def takes_clean_pass(self) -> bool:
        """Whether a clean pass is run first."""
        return self.mixed and (self.method.needs_saliency or self.method.clean_weight > 0)


@dataclass(eq=False, repr=False)
class Mixer(SetOnce, ABC):
    """Base class of all methods: `images, targets = mixer(images, targets, saliency)`.

    Attributes state what a method needs: `needs_saliency`, `needs_clean_pass`, `needs_origin`,
    `mixes_inside`. Between a clean pass and the call for the same batch, the mixer keeps the
    batch's draws (`next_batch`), and warns if the clean gradient is zeroed.

    Its arguments are read-only attributes. `fraction`, `enabled`, `step` and `uniform_expected` can
    be set at any time.

    Args:
        num_classes: number of classes; None if targets are (m, classes).
        p: probability that a batch is mixed, at a `fraction` of 1. An unmixed batch has no clean
            pass either: its only loss has weight 1.
        clean_weight: weight of the clean loss relative to the mixed one. Above 0, mixed batches
            need a clean pass: `training_step` runs it, or `clean_pass` (or `saliency`) in your own
            loop.
        clean_reduction: how the losses are combined: clean_weight * clean + mixed ("sum"), or that
            divided by 1 + clean_weight ("mean"). In your own loop multiply the mixed loss by
            `mixed_weight`; `clean_pass` weights the clean one.
        generator: random generator on the CPU; None means torch's global one.
        validate: check class indices on other devices too, which synchronizes with them.

    Attributes:
        keep_gradients: whether the clean pass trains the model; if not, the mixed loss has weight
            1.
        saliency_scale: relative size of the images that saliency is computed on.
        needs_saliency: whether the call needs saliency maps; for a `Choice`, whether it may.
        mixes_inside: whether a layer of the model mixes (`attach`), not the call.
        mixes_nothing: whether no batch is ever mixed.
        recalls: whether the last batch is mixed into the next, so that one process must see them in
            order.
        memory: the saliency memory of `OnePass`; otherwise None.
        num_outputs: number of mixed images per batch; None: the batch size.
    """

    num_classes: int | None = None
    _: KW_ONLY
    p: float = 1.0
    clean_weight: float = 0.0
    clean_reduction: CleanReduction = "sum"
    generator: torch.Generator | None = None
    validate: bool = False

    needs_saliency = mixes_inside = mixes_nothing = recalls = False
    keep_gradients = True
    saliency_scale = 1.0
    memory: SaliencyMemory | None = field(default=None, init=False)
    num_outputs: int | None = field(default=None, init=False)
    _step = 0
    _uniform_expected = False

    def __post_init__(self) -> None:
        check_no_transform(type(self).__name__)
        if self.num_classes is not None:
            check_count("num_classes", self.num_classes)
        check_number("p", self.p, high=1)
        check_number("clean_weight", self.clean_weight)
        check_choice("clean_reduction", self.clean_reduction, ("sum", "mean"))
        check_boolean("validate", self.validate)
        if not isinstance(self.generator, torch.Generator | None):
            raise TypeError(
                f"`generator` must be a torch.Generator, got {self.generator!r}. Use "
                "torch.Generator().manual_seed(seed)."
            )
        if self.generator is not None and self.generator.device.type != "cpu":
            raise ValueError(
                "`generator` must be on the CPU, where all draws are made, got one on "
                f"{self.generator.device}. Use torch.Generator().manual_seed(seed)."
            )
        # A tensor, so that worker processes can share it.
        self._fraction = torch.ones((), dtype=torch.float64, device="cpu")
        self._last: Mixed | None = None
        self._next: NextBatch | None = None
        self._kept = KeptGradient()
        self._previous: dict[str, Tensor] = {}

    @eager
    def __call__(
        self, images: Tensor, targets: Tensor, saliency: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the mixed images and their soft targets, (m', classes) float32.

        Args:
            images: (m, C, *size). Not changed.
            targets: (m,) class indices, or (m, classes) class probabilities, or multi-label. Not
                changed.
            saliency: for methods that need it: the result of `mixer.saliency(...)`, or your own
                maps (m, *size) >= 0 of any size.
        """
        try:
            check_images(images)
            check_no_transform(type(self).__name__)
            # Targets are validated before anything is drawn.
            return self.apply(images, self.soft_targets(targets, len(images)), saliency)
        except BaseException:
            self.forget_clean_pass()  # of this batch: the next one has its own
            raise

    def apply(self, images: Tensor, soft: Tensor, saliency: Tensor | None) -> tuple[Tensor, Tensor]:
        """Same as `__call__`, for checked images and soft targets."""
        with host_by_default():
            self._last = decided = self.decide(images, saliency)
            if decided.layer is not None:  # a hook mixes them inside the model
                return images, mix_targets(soft, decided.plan.source_ratio())
            if not self.recalls:
                return mix_checked(images, soft, decided.plan, decided.target_ratio)
            plan, ratio = decided.plan, decided.target_ratio
            if ratio is None:
                ratio = plan.source_ratio(images.shape[2:])
            soft = self.mix_also("targets", soft, lambda own: mix_targets(own, ratio))
            return self.mix_also("images", images, plan.mix_images), soft

    @property
    def previous(self) -> Mapping[str, Tensor]:
        """The last mixed batch, for methods that mix it into the next."""
        return self._previous

    def mix_also(self, name: str, values: Tensor, mix: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns another tensor of the last batch (masks, a second image) mixed by the same plan.

        It calls `mix(values)`, a method of `last.plan`. Methods with `recalls` append the previous
        batch's tensor of the same name to `values`, and store the result for the next batch.
        """
        if not self.recalls:
            return mix(values)
        count = self.last.plan.num_inputs - len(values)
        if count:
            before = self._previous.get(name)
            if before is None or len(before) < count or before.shape[1:] != values.shape[1:]:
                got = "none" if before is None else f"one of shape {tuple(before.shape)}"
                raise ValueError(
                    f"`{name}` must be in every batch, with {tuple(values.shape[1:])} for each "
                    f"image, got {got} in the last. Call end_epoch() where batches change."
                )
            values = torch.cat([values, before[:count].to(values)])
        mixed = mix(values)
        self._previous[name] = mixed.detach().clone()
        return mixed

    def soft_targets(self, targets: Tensor, num_inputs: int) -> Tensor:
        """Returns the soft targets of a clean batch, (m, classes) float32."""
        return soft_targets(targets, num_inputs, self.num_classes, validate=self.validate)

    @property
    def last(self) -> Mixed:
        """How the last batch was mixed."""
        if self._last is None:
            raise RuntimeError(
                f"`last` must be read after the first batch, got none so far. Call the "
                f"{type(self).__name__} on a batch first."
            )
        return self._last

    @property
    def fraction(self) -> float:
        """The fraction of `p`: each batch is mixed with probability p * fraction.

        1 by default. Set it each epoch, for instance by a `Schedule`; `state_dict` includes it.
        """
        return float(self._fraction)

    @fraction.setter
    def fraction(self, value: float) -> None:
        check_number("fraction", value, high=1)
        self._fraction.fill_(value)

    @property
    def enabled(self) -> bool:
        """Whether batches are mixed: False sets `fraction` to 0, True to 1."""
        return bool(self._fraction)

    @enabled.setter
    def enabled(self, value: bool) -> None:
        check_boolean("enabled", value)
        self.fraction = float(value)

    def _set_step(self, value: int) -> None:
        check_count("step", value, low=0)
        self._step = value

    step = property(
        attrgetter("_step"),
        _set_step,
        doc="Batches so far, for methods whose clean and mixed batches take turns.",
    )

    @property
    def uniform_expected(self) -> bool:
        """Whether constant saliency maps are expected and raise no warning."""
        return self._uniform_expected

    @uniform_expected.setter
    def uniform_expected(self, value: bool) -> None:
        check_boolean("uniform_expected", value)
        self._uniform_expected = value

    @property
    def needs_clean_pass(self) -> bool:
        """Whether mixing requires a clean pass first.

        With saliency from elsewhere there is no clean loss.
        """
        return self.clean_weight > 0 and not self.needs_saliency

    @property
    def needs_origin(self) -> bool:
        """Whether the call takes the images' `Origin` in place of saliency."""
        return self.memory is not None

    @property
    def mixed_weight(self) -> float:
        """The factor to multiply the mixed loss of the last batch by, in your own loop.

        1 / (1 + clean_weight) if `clean_reduction` is "mean" and the batch had a clean pass that
        trains the model (`clean_pass`, `saliency`). Otherwise 1: with your own maps, for unmixed
        batches, and with "sum". `training_step` applies it itself.
        """
        return 1.0 if self._last is None else self._last.loss_weight

    def next_batch(self) -> NextBatch:
        """Returns whether, and by which method, the next batch is mixed.

        Use it to compute saliency maps only for batches that need them.
        """
        if self._next is None:
            self._next = self._draw_next()
        return self._next

    def _draw_next(self) -> NextBatch:
        return NextBatch(self, mixed=coin(self.p * float(self._fraction), self.generator))

    def decide(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns how to mix a batch, and the weight of its loss."""
        drawn, self._next = self.next_batch(), None
        method = drawn.method
        if not (drawn.mixed and bool(self._fraction)):
            return Mixed(method.identity_plan(images), mixed=False)
        if drawn.loss_weight is None and method.needs_clean_pass:
            raise RuntimeError(
                f"{type(method).__name__} with `clean_weight` = {method.clean_weight:g} must have "
                "a clean pass before every batch that is mixed, got none for this one. Call "
                "mixer.clean_pass(model, images, targets) first, or use comixup.training_step."
            )
        decided = method.draw(images, saliency)
        if drawn.loss_weight is not None:
            self._kept.watch()
            decided = replace(decided, loss_weight=drawn.loss_weight)
        return decided if drawn.chosen is None else replace(decided, chosen=drawn.chosen)

    @abstractmethod
    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns how to mix a batch; every random choice of the method is made here."""

    def identity_plan(self, images: Tensor) -> Plan:
        """Returns the identity plan."""
        own = torch.arange(len(images), device="cpu").view(-1, *[1] * (images.ndim - 1))
        return Labelling(own, num_inputs=len(images))

    @eager
    def saliency(
        self,
        model: nn.Module,
        images: Tensor,
        targets: Tensor,
        *,
        loss_fn: LossFn | None = None,
        backward: Backward | None = None,
    ) -> Tensor | None:
        """Returns the saliency of a batch, from a clean pass over the model.

        None for methods that need no saliency, and for unmixed batches (`p`, `fraction`). Call
        either this or `clean_pass`: they run the same pass.
        """
        clean = self.clean_pass(model, images, targets, loss_fn=loss_fn, backward=backward)
        return None if clean is None else clean.saliency

    @eager
    def clean_pass(
        self,
        model: nn.Module,
        images: Tensor,
        targets: Tensor,
        *,
        loss_fn: LossFn | None = None,
        backward: Backward | None = None,
    ) -> CleanPass | None:
        """Returns saliency, loss and outputs of the clean batch; None if no pass is needed.

        The pass adds the weighted gradient of the clean loss to the weights' `.grad`. No pass is
        needed for unmixed batches (`p`, `fraction`), nor with `clean_weight` 0 for methods without
        saliency. Call it, or `saliency`, once for each batch, after zeroing the gradients and
        before the mixer. See `comixup.saliency` for the arguments.
        """
        check_model(model, "model, images, targets", (Mixer,))
        self.forget_clean_pass()
        if self.next_batch().takes_clean_pass:
            try:
                check_and_cancel(layer_hooks(model))  # the clean pass must not be mixed
            except RuntimeError:
                self.forget_clean_pass()
                raise
        return self.run_clean_pass(model, images, targets, loss_fn, backward)

    def run_clean_pass(
        self,
        model: nn.Module,
        images: Tensor,
        targets: Tensor,
        loss_fn: LossFn | None,
        backward: Backward | None,
    ) -> CleanPass | None:
        """Same as `clean_pass`, for a model without active layer hooks."""
        # Whether to mix is drawn here already, to skip unneeded passes; the call then uses this
        # draw. Without a call in between, the next pass draws again: one draw per batch.
        drawn = self.next_batch()
        if not drawn.takes_clean_pass:
            return None
        method = drawn.method
        total = 1.0 + method.clean_weight if method.clean_reduction == "mean" else 1.0
        clean = method.clean_weight / total
        try:
            made = clean_pass(
                model,
                images,
                self.clean_targets(targets),
                loss_fn=loss_fn,
                backward=backward,
                keep_gradients=method.keep_gradients,
                clean_weight=clean,
                with_saliency=method.needs_saliency,
                scale=method.saliency_scale,
            )
        except BaseException:
            self.forget_clean_pass()
            raise
        drawn.loss_weight = 1.0 / total if method.keep_gradients else 1.0
        if method.keep_gradients and clean > 0:
            self._kept.remember(model)
        return made

    def clean_targets(self, targets: Tensor) -> Tensor:
        """Returns the targets for the clean loss."""
        return targets

    def forget_clean_pass(self) -> None:
        """Discards what was drawn for the next batch, and its clean pass."""
        self._next = None
        self._kept.forget()

    def attach(self, model: nn.Module) -> "Mixer":
        """Registers hooks on a model, for methods that mix hidden features; returns itself."""
        return self

    def cancel(self) -> None:  # most have nothing to do
        """Stops mixing inside the model until the next call."""

    def end_epoch(self) -> None:
        """Ends an epoch: new maps become readable, the last batch is discarded."""
        self._previous.clear()

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """The generators that it draws from, without duplicates."""
        return () if self.generator is None else (self.generator,)

    def with_generator(self: _M, generator: torch.Generator) -> _M:
        """Returns a copy that draws from another generator."""
        mixer = copy.copy(self)
        vars(mixer).update(generator=generator, _next=None)
        return mixer

    def state_dict(self) -> dict[str, Any]:
        """Returns the generators' states and `fraction`, for a checkpoint.

        Includes `previous` for methods with `recalls`. torch's global generator (`generator=None`)
        is not included.
        """
        states = [generator.get_state() for generator in self.generators]
        state = {"generators": states, "fraction": self.fraction}
        return {**state, "previous": dict(self._previous)} if self.recalls else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a `state_dict` of a mixer with the same number of generators."""
        if not isinstance(state, Mapping) or not {"generators", "fraction"} <= state.keys():
            raise ValueError("`state` must be what a mixer's state_dict() returned.")
        own, saved = self.generators, state["generators"]
        if len(own) != len(saved):
            raise ValueError(
                f"`state` must be of a mixer with as many generators of its own, {len(own)}, got "
                f"{len(saved)}. Make both alike."
            )
        self.fraction = state["fraction"]
        for generator, saved_state in zip(own, saved, strict=True):
            generator.set_state(saved_state)
        self._previous.clear()
        self._previous.update(state.get("previous", {}))

    def __repr__(self) -> str:
        """Returns the constructor call, without arguments at their defaults.

        Mixers keep each argument as an attribute of the same name.
        """
        arguments = [
            f"{name}={_shown(own)}"
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if not _same(own := getattr(self, name), parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(arguments)})"


@dataclass(eq=False, repr=False)
class NoMix(Mixer):
    """No mixing: images are returned unchanged, targets as (batch, classes).

    >>> images, targets = NoMix(num_classes=3)(torch.rand(2, 3, 8, 8), torch.tensor([1, 0]))
    >>> targets.tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """

    mixes_nothing = True
    clean_weight: float = field(default=0.0, init=False)
    clean_reduction: CleanReduction = field(default="sum", init=False)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns an unmixed batch."""
        return Mixed(self.identity_plan(images), mixed=False)


def mixes_images(mixer: object) -> TypeGuard[Mixer]:
    """Whether an object is a mixer that needs images, targets and saliency only.

    `ManifoldMixup` needs the model too, `OnePass` the images' origins.
    """
    return isinstance(mixer, Mixer) and not (mixer.mixes_inside or mixer.needs_origin)


def _same(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, Tensor) and bool(value == default))


def _shown(value: Any) -> str:
    """Returns a value as source code."""
    if isinstance(value, torch.Generator):
        return f"torch.Generator().manual_seed({value.initial_seed()})"
    if isinstance(value, Tensor):
        return f"torch.{value!r}"
    return getattr(value, "__name__", None) or repr(value)


def host_by_default() -> contextlib.AbstractContextManager[object]:
    """Returns a context in which torch's default device is the CPU."""
    if torch.empty(0).device.type == "cpu":  # torch 2.3's get_default_device ignores contexts
        return contextlib.nullcontext()
    return torch.device("cpu")
