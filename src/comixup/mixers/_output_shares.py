"""Who is where in one output, from any method's plan."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup.core.labelling import Labelling
from comixup.core.mix import Plan
from comixup.mixers._cutmix import Boxes
from comixup.mixers._input import Blend
from comixup.mixers._puzzlemix import Puzzle


def output_shares(plan: Plan, output: int) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Returns the inputs of an output, and the share of each at each location, (k, rows, columns).

    `plan.masks` holds the same for all inputs and outputs: for boxes in a batch of large images
    that would be gigabytes.

    >>> halves = Labelling(torch.tensor([[[[0, 4]]]]), num_inputs=5)
    >>> inputs, shares = output_shares(halves, 0)
    >>> inputs, shares.tolist()
    ([0, 4], [[[1.0, 0.0]], [[0.0, 1.0]]])
    """
    if isinstance(plan, Puzzle):
        plan = plan.labelling
    if isinstance(plan, Labelling):
        return _counted(plan.sources[output].cpu())
    if isinstance(plan, Boxes):
        owner = plan.owner[output if len(plan.begin) > 1 else 0]
        who = torch.cat([torch.tensor([output], device="cpu"), plan.partners[output].cpu()])
        return _counted(who[owner].unsqueeze(0))
    if isinstance(plan, Blend):
        ratio = plan.source_ratio()[output].cpu()
        inputs = ratio.nonzero().flatten()
        return inputs.tolist(), ratio[inputs].view(-1, 1, 1).double().numpy()
    masks = plan.masks[output].cpu()
    inputs = masks.flatten(1).amax(1).nonzero().flatten()
    return inputs.tolist(), masks[inputs].double().numpy()


def _counted(sources: Tensor) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Returns inputs and their shares of sources, (levels, rows, columns)."""
    inputs = torch.tensor(sorted(set(sources.flatten().tolist())), device="cpu")
    shares = (sources.unsqueeze(0) == inputs.view(-1, 1, 1, 1)).double().mean(1)
    return inputs.tolist(), shares.numpy()
