"""Predictions of a network, and what is measured of them: error, calibration, a temperature.

Of each image a few numbers are kept: the logits of all are never there at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from scipy import stats  # type: ignore[import-untyped]
from torch import Tensor, nn

from comixup.lab._calibration import Bin, error_and_calibration, reliability_bins
from comixup.lab._networks import MEMORY_FORMAT, check_finite

TOP = 5
LEVEL = 0.95
"""Of confidence intervals."""
LOWEST, HIGHEST = 0.01, 100.0
"""Bounds of the temperature: where every prediction is correct, none is low enough."""
_STEPS = 100
"""Halvings of the interval on a logarithmic scale: more than float64 can tell apart."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What metrics need of each image's logits, in host memory: 48 bytes per image.

    Attributes:
        num_classes: number of classes.
        targets: (n,) int64, the true classes.
        predicted: (n,) int64, the classes with the highest logits; the first of equals.
        ranks: (n,) int64, how many classes come before the true one: 0 means correct. Of classes
            with equal logits those of lower index come first.
        confidences: (n,) float64, the predicted classes' probabilities.
        losses: (n,) float64, minus the logarithm of the true classes' probabilities.
        briers: (n,) float64, squared distances from the probabilities to the one-hot targets,
            summed over the classes: from 0 to 2.
    """

    num_classes: int
    targets: Tensor
    predicted: Tensor
    ranks: Tensor
    confidences: Tensor
    losses: Tensor
    briers: Tensor

    def __len__(self) -> int:
        return len(self.targets)


@torch.no_grad()
def predict(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    device: torch.device | str = "cpu",
    after: Callable[[int], object] | None = None,
    path: object = None,
) -> Predictions:
    """Returns what a model makes of all images, in evaluation mode; its own mode comes back.

    The host waits for the device once, at the end.

    Args:
        model: on the device.
        batches: of images and classes, such as `split.loader(250, device=device).epoch(0)`.
        device: where to compute.
        after: called with the number of images done, after each batch.
        path: what the model was read from, for error messages.

    >>> model = nn.Sequential(nn.Flatten(), nn.Identity())
    >>> found = predict(model, [(torch.tensor([[[[0.0, 9.0]]]]), torch.tensor([1]))])
    >>> found.predicted, found.ranks
    (tensor([1]), tensor([0]))
    """
    counts, numbers, classes, done = [], [], 0, 0
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        for images, targets in batches:
            if not len(images):  # a process's share of the last batch may be empty
                continue
            layout = MEMORY_FORMAT if images.ndim == 4 else torch.contiguous_format
            logits = model(images.to(device).contiguous(memory_format=layout))
            classes = _classes_of(logits, len(images), classes)
            whole, fractional = _statistics(logits.float(), targets.to(device))
            counts.append(whole)
            numbers.append(fractional)
            done += len(images)
            if after is not None:
                after(done)
    finally:
        for module, training in modes.items():
            module.training = training
    if not done:
        raise ValueError("`batches` must have images, got none. Choose a split that has some.")
    targets, predicted, ranks = torch.cat(counts, 1).cpu()
    confidences, losses, briers = torch.cat(numbers, 1).cpu().double()
    _check(targets, confidences, classes, path)
    return Predictions(classes, targets, predicted, ranks, confidences, losses, briers)


def predictions_of(logits: Tensor, targets: Tensor) -> Predictions:
    """Returns what logits that were computed before say of each image.

    Args:
        logits: (n, classes).
        targets: (n,) class indices.

    >>> predictions_of(torch.tensor([[0.0, 9.0]]), torch.tensor([1])).ranks
    tensor([0])
    """
    classes = _classes_of(logits, len(targets), 0)
    (targets, predicted, ranks), numbers = _statistics(logits.double(), targets)
    confidences, losses, briers = numbers
    _check(targets, confidences, classes)
    return Predictions(classes, targets, predicted, ranks, confidences, losses, briers)


def _statistics(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (3, batch) whole numbers and (3, batch) fractional ones; see `Predictions`."""
    # An index out of range would end a CUDA process: it is clamped here, and rejected
    # once the host reads the targets.
    index = targets.clamp(0, logits.shape[1] - 1)[:, None]
    log_p = logits.log_softmax(1)
    p = log_p.exp()
    # Ordered by logits and not by probabilities, which round many logits to the same number.
    predicted = logits.argmax(1)
    own = logits.gather(1, index)
    before = torch.arange(logits.shape[1], device=logits.device) < index
    ranks = ((logits > own) | ((logits == own) & before)).sum(1)
    briers = p.square().sum(1) - 2 * p.gather(1, index)[:, 0] + 1
    losses = -log_p.gather(1, index)[:, 0]
    whole = torch.stack((targets, predicted, ranks))
    # One -inf among the logits would leave no trace in the confidence.
    confidences = p.amax(1).masked_fill(~logits.isfinite().all(1), math.nan)
    return whole, torch.stack((confidences, losses, briers.clamp(min=0)))


def _classes_of(logits: object, images: int, before: int) -> int:
    """Returns the number of classes of a batch of logits."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != images:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"`model` must return logits of shape ({images}, classes) for {images} images, got "
            f"{got}. Evaluate a classifier."
        )
    if before not in (0, logits.shape[1]):
        raise ValueError(
            f"`model` must return as many logits for every image, got {before} and then "
            f"{logits.shape[1]}."
        )
    return logits.shape[1]


def _check(targets: Tensor, confidences: Tensor, classes: int, path: object = None) -> None:
    """Raises `ValueError` for classes without a logit, and logits that are no numbers."""
    wrong = (targets < 0) | (targets >= classes)
    if wrong.any():
        raise ValueError(
            f"`batches` must have classes from 0 to {classes - 1}, those that the model knows, "
            f"got {int(targets[wrong][0])}. Evaluate on the data set it was trained on."
        )
    check_finite(confidences.isfinite(), path)


# ---- Metrics -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metrics:
    """How good, and how sure, a classifier is. Fractions are in percent, except in `bins`.

    Attributes:
        images: how many it was measured on.
        error: top-1 error.
        error_interval: its confidence interval (Wilson's, 95 %): for other images of this kind,
            not for other seeds.
        top5_error: fraction of images whose class is not among the five first; 0 with five classes.
        top5_interval: its confidence interval.
        ece: expected calibration error: ten bins, mean absolute difference of confidence and
            accuracy, weighted by the bins' counts.
        nll: mean negative log-likelihood, in nats.
        brier: mean Brier score, summed over the classes: from 0 to 2.
        confidence: mean confidence. Above the accuracy the classifier is too sure of itself.
        bins: for reliability diagrams.
    """

    images: int
    error: float
    error_interval: tuple[float, float]
    top5_error: float
    top5_interval: tuple[float, float]
    ece: float
    nll: float
    brier: float
    confidence: float
    bins: tuple[Bin, ...]

    @property
    def summary(self) -> dict[str, float]:
        """The single numbers by their names: what a table of comparisons is made of."""
        names = ("error", "top5_error", "ece", "nll", "brier", "confidence")
        return {name: getattr(self, name) for name in names}


def measure(predictions: Predictions) -> Metrics:
    """Returns the metrics of predictions."""
    count = len(predictions)
    correct = predictions.ranks == 0
    far = int((predictions.ranks >= TOP).sum())
    top5_error, top5_interval = percent_and_interval(far, count)
    return Metrics(
        images=count,
        **error_and_calibration(correct, predictions.losses, predictions.confidences),
        error_interval=percent_and_interval(int((~correct).sum()), count)[1],
        top5_error=top5_error,
        top5_interval=top5_interval,
        brier=float(predictions.briers.mean()),
        confidence=100 * float(predictions.confidences.mean()),
        bins=reliability_bins(predictions.confidences, correct),
    )


def wilson_interval(hits: int, count: int) -> tuple[float, float]:
    """Returns Wilson's 95 % confidence interval of a fraction, valid at 0 and 1 too.

    >>> [round(end, 3) for end in wilson_interval(0, 10)]
    [0.0, 0.278]
    """
    found = stats.binomtest(hits, count).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


def percent_and_interval(hits: int, count: int) -> tuple[float, tuple[float, float]]:
    """Returns a fraction and Wilson's interval of it, in percent.

    >>> fraction, (low, high) = percent_and_interval(5, 10)
    >>> round(low, 1), fraction, round(high, 1)
    (23.7, 50.0, 76.3)
    """
    low, high = wilson_interval(hits, count)
    return 100 * hits / count, (100 * low, 100 * high)


# ---- Temperature scaling (Guo et al., ICML 2017) -------------------------------------------------


def fit_temperature(logits: Tensor, targets: Tensor) -> float:
    """Returns the temperature with the lowest NLL, from 0.01 to 100.

    Logits are divided by it, so that confidence is corrected by one number; it is fitted on images
    that were neither trained nor tested on. The predicted classes stay, and so does the error. The
    NLL is convex in 1 / T, so its slope has one zero, which is found by bisection.

    Args:
        logits: (n, classes), finite.
        targets: (n,) class indices.

    >>> import torch
    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 0.0]])
    >>> print(f"{fit_temperature(logits, torch.tensor([0, 0, 0, 1])):.3f}")  # log 3 = 4 / T
    3.641
    """
    if logits.ndim != 2 or targets.shape != logits.shape[:1] or not len(logits):
        raise ValueError(
            "`logits` must have shape (n, classes) and `targets` (n,), with one image at least, "
            f"got {tuple(logits.shape)} and {tuple(targets.shape)}."
        )
    if not logits.isfinite().all():
        raise ValueError("`logits` must be finite, got NaN or infinite ones.")
    scores = logits.double()
    own = scores.gather(1, targets.long()[:, None])[:, 0]

    def slope(inverse: float) -> float:
        """Returns the derivative of the NLL by 1 / T."""
        expected = ((scores * inverse).softmax(1) * scores).sum(1)
        return float((expected - own).mean())

    low, high = 1 / HIGHEST, 1 / LOWEST
    if slope(low) >= 0:
        return HIGHEST
    if slope(high) <= 0:
        return LOWEST
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return 1 / math.sqrt(low * high)
