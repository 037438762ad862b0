"""What the methods that mix by saliency share."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_choice, warn_caller
from comixup.core.maps import Maps
from comixup.core.saliency import check_scale
from comixup.core.solve import check_settings
from comixup.mixers._mixer import CleanReduction, Mixer

TargetWeight: TypeAlias = Literal["area", "saliency"]


class SaliencyMixer(Mixer):
    """A method that looks at what matters in each image.

    Images without a usable saliency map (zero, constant, NaN or infinite: half-precision gradients
    vanish and overflow) count as uniformly salient; it warns of them once.
    """

    needs_saliency = True

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        p: float,
        clean_weight: float,
        clean_reduction: CleanReduction,
        keep_gradients: bool,
        saliency_scale: float,
        target_weight: TargetWeight,
        num_threads: int | None,
        generator: torch.Generator | None,
        validate: bool,
    ) -> None:
        super().__init__(
            num_classes,
            p=p,
            clean_weight=clean_weight,
            clean_reduction=clean_reduction,
            generator=generator,
            validate=validate,
        )
        check_boolean("keep_gradients", keep_gradients)
        check_scale("saliency_scale", saliency_scale, keep_gradients and clean_weight > 0)
        check_choice("target_weight", target_weight, ("area", "saliency"))
        check_settings(num_threads=num_threads)
        self.keep_gradients = keep_gradients
        self.saliency_scale = saliency_scale
        self.target_weight = target_weight
        self.num_threads = num_threads
        self._warned = False

    def warn_of_uniform(self, maps: Maps) -> None:
        """Warns, the first time, of maps that are not usable."""
        uniform = int(maps.uniform.sum())
        if uniform and not (self._warned or self.uniform_expected):
            self._warned = True
            warn_caller(
                f"{uniform} of {len(maps.cells)} saliency maps are zero, constant, NaN or "
                "infinite: these inputs count as uniformly salient. `last.uniform_maps` counts "
                "them; this warning is shown once. Half-precision gradients can vanish or "
                "overflow: see torch.amp.GradScaler."
            )

    def checked(self, saliency: Tensor | None, images: Tensor) -> Tensor:
        """Returns saliency that has a map for each image."""
        if saliency is None:
            raise ValueError(
                f"`saliency` must be given to {type(self).__name__}, got None. Use "
                "mixer.saliency(model, images, targets), or comixup.spectral_residual(images) "
                "where there is no model."
            )
        if not isinstance(saliency, Tensor):
            raise TypeError(f"`saliency` must be a torch tensor, got {type(saliency).__name__}.")
        if saliency.ndim != images.ndim - 1 or len(saliency) != len(images) or not saliency.numel():
            raise ValueError(
                f"`saliency` must have shape ({len(images)}, *size) with {images.ndim - 2} spatial "
                f"dimensions, a map for each image, got {tuple(saliency.shape)} for images "
                f"{tuple(images.shape)}."
            )
        return saliency
