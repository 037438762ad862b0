"""The exponential moving average (EMA) of a network's weights, which evaluation and export use."""

from __future__ import annotations

import copy
import itertools

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WeightAverage:
    """A network's weights and buffers, averaged over the steps of its optimiser.

    `torch.optim.swa_utils.AveragedModel` would average counts too, and has no warm-up.

    Args:
        trained: the network; it has no hooks yet, which the copy would have too.
        decay: weight of the average in the next one, in [0, 1), once the warm-up is over.

    Attributes:
        model: a copy of the network with the averages. Their type is float32 at least: in half
            precision, a decay near 1 would round every step away.
        steps: how many were averaged.
    """

    def __init__(self, trained: nn.Module, decay: float) -> None:
        self._trained, self._decay = trained, decay
        dtype = torch.promote_types(next(trained.parameters()).dtype, torch.float32)
        self.model = copy.deepcopy(trained).to(dtype).requires_grad_(False)
        self.steps = 0

    @property
    def decay(self) -> float:
        """The decay of the next step, (1 + steps) / (10 + steps) at first.

        The initial weights are soon forgotten, also where a run has a few hundred steps.
        """
        return min(self._decay, (1 + self.steps) / (10 + self.steps))

    @torch.no_grad()
    def update(self) -> None:
        """Averages in what the optimiser's last step made; integers are copied."""
        averages: list[Tensor] = []
        current: list[Tensor] = []
        pairs = zip(_tensors(self.model), _tensors(self._trained), strict=True)
        for average, tensor in pairs:
            if average.is_floating_point():
                averages.append(average)
                current.append(tensor.detach().to(average.dtype))
            else:
                average.copy_(tensor)
        update = get_ema_multi_avg_fn(self.decay)  # type: ignore[no-untyped-call]
        update(averages, current, self.steps)
        self.steps += 1


def _tensors(model: nn.Module) -> itertools.chain[Tensor]:
    return itertools.chain(model.parameters(), model.buffers())
