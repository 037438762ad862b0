"""How many batches to mix, epoch by epoch."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from comixup._checks import check_boolean, check_count

ALTERNATING = 6
"""Tenths of the epochs after which an annealed schedule leaves out every other epoch."""
FALLING = 9
"""Tenths of the epochs after which it falls to zero."""


@dataclass(frozen=True)
class Schedule:
    """The fraction of the batches to mix in each epoch: `mixup.fraction = schedule(epoch)`.

    It is relative to the method's own (`p`, or `rate` of `OnePass`). A resumed run sets it from the
    epoch again, like any other.

    Attributes:
        epochs: of the whole training.
        first_epoch: the first that is mixed, counted from 0; those before it are a warm-up.
        off_epoch: the first that is no longer mixed, as timm's `mixup_off_epoch`; None: mix to the
            end.
        annealed: Mixup Without Hesitation (Yu, Wang and Wu, 2021): all batches until 60 % of the
            epochs, then those of even epochs until 90 %, then a fraction that falls from 1 to 0 in
            a straight line.

    >>> schedule = Schedule(10, off_epoch=8)
    >>> [schedule(epoch) for epoch in (0, 7, 8, 9)]
    [1.0, 1.0, 0.0, 0.0]
    >>> schedule = Schedule(100, annealed=True)
    >>> [schedule(epoch) for epoch in (59, 60, 61, 90, 95, 99)]
    [1.0, 1.0, 0.0, 1.0, 0.5, 0.1]
    """

    epochs: int
    _: KW_ONLY
    first_epoch: int = 0
    off_epoch: int | None = None
    annealed: bool = False

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_count("first_epoch", self.first_epoch, low=0)
        if self.off_epoch is not None:
            check_count("off_epoch", self.off_epoch, low=0, high=self.epochs)
        end = self.epochs if self.off_epoch is None else self.off_epoch
        if self.first_epoch >= end:
            raise ValueError(
                f"`first_epoch` must be below {end}, where mixing ends, got {self.first_epoch}: no "
                "epoch would be mixed. Use NoMix to train without mixing."
            )
        check_boolean("annealed", self.annealed)

    def __call__(self, epoch: int) -> float:
        """Returns the fraction, from 0 to 1, for an epoch counted from 0."""
        check_count("epoch", epoch, low=0, high=self.epochs - 1)
        if epoch < self.first_epoch or (self.off_epoch is not None and epoch >= self.off_epoch):
            return 0.0
        if not self.annealed or 10 * epoch < ALTERNATING * self.epochs:
            return 1.0
        if 10 * epoch < FALLING * self.epochs:
            return float(epoch % 2 == 0)
        return 10 * (self.epochs - epoch) / ((10 - FALLING) * self.epochs)
