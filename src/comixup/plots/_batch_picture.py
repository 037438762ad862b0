"""What `plot_batch` draws of a batch, in colours and words; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure
from torch import Tensor

from comixup.core.labelling import Labelling
from comixup.core.mix import Plan, mix_targets, soft_targets
from comixup.mixers import Boxes, Mixed, Puzzle
from comixup.plots._batch_page import Inputs, Look, Output, batch_figure
from comixup.plots._page import tinted
from comixup.plots._palette import colour_of

MAX_GRID = 32
"""Cells per side up to which lines are drawn between them."""
_TOLERANCE = 1e-3
"""By which means of colours may leave [0, 1]."""
_BORDERS = "Borders: the input of each cell, dashed where several are blended. Bar: the target."
_INSIDE = "Mixed in the model, after {layer}: images stay as they are. Bar: the target."
_SCALED = "Colours are scaled to the batch's range; `mean` and `std` undo normalisation."


class BatchPicture:
    """A batch and what was decided for it, checked; see `plot_batch` for the arguments."""

    def __init__(
        self,
        images: Tensor,
        targets: Tensor,
        decided: Mixed,
        class_names: Sequence[str] | None,
        num_classes: int | None,
    ) -> None:
        plan = decided.plan
        if images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(
                "`images` must have shape (batch, 1 or 3, height, width) to be drawn, got "
                f"{tuple(images.shape)}. Choose the channels or the slice to draw."
            )
        if len(images) != plan.num_inputs:
            raise ValueError(
                f"`images` must be the {plan.num_inputs} that were mixed, got {len(images)}. Give "
                "those that the mixer got, not those that it returned."
            )
        self.decided = decided
        self.pixels, self.look = images.detach().float().cpu(), Look()
        columns = num_classes if class_names is None else len(class_names)
        self.soft = soft_targets(
            targets.cpu() if isinstance(targets, Tensor) else targets, len(images), columns
        )
        self.names = [
            str(name).replace("_", " ") for name in class_names or range(self.soft.shape[1])
        ]
        ratio = decided.target_ratio
        self.ratio = (plan.source_ratio(images.shape[2:]) if ratio is None else ratio).cpu()

    def prepare_pixels(
        self, mean: Sequence[float] | None, std: Sequence[float] | None, *, tint: bool
    ) -> None:
        """Turns images into colours to draw."""
        channels = self.pixels.shape[1]
        if (mean is None) != (std is None):
            raise ValueError(f"`mean` and `std` must be given together, got {mean} and {std}.")
        if mean is not None and std is not None:
            for name, values in (("mean", mean), ("std", std)):
                if len(values) not in (1, channels):
                    raise ValueError(
                        f"`{name}` must have a number for each of the {channels} channels, got "
                        f"{len(values)}."
                    )
            scale, shift = (torch.tensor(values).view(-1, 1, 1) for values in (std, mean))
            self.pixels = self.pixels * scale + shift
        low, high = (float(bound) for bound in self.pixels.aminmax())
        colours = mean is not None or (low >= -_TOLERANCE and high <= 1 + _TOLERANCE)
        if tint:
            if channels != 1:
                raise ValueError(
                    f"`tint` must be False for images of {channels} channels, got True. Only "
                    "images of one channel can be drawn in ink."
                )
            self.pixels = tinted(self.pixels if colours else _scaled(self.pixels))
        elif not colours and channels == 1:  # no colours: a spectrogram
            self.look = Look("viridis", (low, high))
        elif not colours:
            self.pixels, self.look = _scaled(self.pixels), Look(note=_SCALED)

    def figure(
        self,
        title: str | None,
        max_inputs: int | None,
        max_outputs: int | None,
        saliency: Tensor | None,
    ) -> Figure:
        """Returns the figure, with at most so many inputs and outputs; None leaves them out."""
        layer = self.decided.layer
        inputs = None if max_inputs is None else self._inputs(max_inputs, saliency)
        outputs = [] if max_outputs is None else self._outputs(max_outputs)
        told = _BORDERS if layer is None else _INSIDE.format(layer=layer)
        return batch_figure(title, inputs, outputs, len(self.ratio), self.look, told)

    def _inputs(self, most: int, given: Tensor | None) -> Inputs:
        shown = self.pixels[:most]
        cells = self._saliency(given)
        grid = None
        if cells is not None and max(cells.shape[1:]) <= MAX_GRID and given is None:
            grid = (cells.shape[1], cells.shape[2])
        return Inputs(
            images=shown,
            names=[self._input_name(target) for target in self.soft[:most]],
            count=len(self.pixels),
            saliency=None if cells is None else cells[:most],
            shadows=_scaled(shown) if self.look.cmap else shown,
            grid=grid,
        )

    def _saliency(self, given: Tensor | None) -> Tensor | None:
        """Returns the maps to show, (m, rows, columns); None if there are none."""
        if given is None:
            cells = self.decided.cells
            return None if cells is None else cells.float().cpu()
        count = len(self.pixels)
        if not isinstance(given, Tensor) or given.ndim != 3 or len(given) != count:
            kind = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(
                f"`saliency` must have shape ({count}, height, width), a map for each image, got "
                f"{kind}."
            )
        return given.detach().float().cpu()

    def _input_name(self, target: Tensor) -> str:
        """Returns the name of an input's class: of the largest, and how many more it has."""
        more = int((target > 0).sum()) - 1
        return self.names[int(target.argmax())] + (f" + {more}" if more > 0 else "")

    def _outputs(self, most: int) -> list[Output]:
        plan, inside = self.decided.plan, self.decided.layer is not None
        images = self.pixels if inside else plan.mix_images(self.pixels)
        targets = mix_targets(self.soft, self.ratio)
        outputs = []
        for j, image in enumerate(images[:most]):
            inputs, shares = output_shares(plan, j)
            present = targets[j].nonzero().flatten().tolist()
            # A class has the colour of the input that brings most of it.
            brings = (self.ratio[j].unsqueeze(1) * self.soft).argmax(0)
            outputs.append(
                Output(
                    image=image,
                    inputs=inputs,
                    shares=None if inside else shares,
                    weights=[float(targets[j, index]) for index in present],
                    names=[self.names[index] for index in present],
                    colours=[colour_of(int(brings[index])) for index in present],
                )
            )
        return outputs


def _scaled(images: Tensor) -> Tensor:
    """Returns images in [0, 1], by the range of them all."""
    low, high = images.aminmax()
    return (images - low) / (high - low).clamp_min(torch.finfo(images.dtype).tiny)


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
    masks = plan.masks[output].cpu()
    masks = masks.view(len(masks), *[1] * (3 - masks.ndim), *masks.shape[1:])
    inputs = masks.flatten(1).amax(1).nonzero().flatten()
    return inputs.tolist(), masks[inputs].double().numpy()


def _counted(sources: Tensor) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Returns inputs and their shares of sources, (levels, rows, columns)."""
    inputs = torch.tensor(sorted(set(sources.flatten().tolist())), device="cpu")
    shares = (sources.unsqueeze(0) == inputs.view(-1, 1, 1, 1)).double().mean(1)
    return inputs.tolist(), shares.numpy()
