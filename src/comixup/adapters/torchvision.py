"""Mixing as a torchvision transform of batches, like `v2.MixUp` and `v2.CutMix`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import PIL.Image
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten
from torch.utils.data import get_worker_info
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms import v2  # type: ignore[import-untyped]

from comixup import spectral_residual
from comixup._checks import SetOnce
from comixup.core.masks import IGNORE_INDEX, check_mixable
from comixup.mixers import Mixer, mixes_images

SaliencyFn = Callable[[Tensor], Tensor]
"""Returns maps (m, *size) of images (m, C, *size)."""

_SEEDS = 2**63
"""Exclusive upper bound of the drawn seeds."""


class BatchMix(SetOnce, v2.Transform):  # type: ignore[misc]  # torchvision ships no types
    """Mixes whole batches by any method of this package: `images, labels = mix(images, labels)`.

    Use it like `v2.MixUp`: after the data loader or in its collate function, alone or in
    `v2.Compose` and `v2.RandomChoice`. In a nested sample every `tv_tensors.Image` and
    `tv_tensors.Video`, or the first plain tensor if there is none, is mixed by the same plan, and
    so is every `tv_tensors.Mask`: integers (batch, height, width) by `mix_masks`, floating-point
    class weights (batch, classes, height, width) as images. Saliency is that of the first image. A
    sample with masks needs no labels: `images, masks = mix(images, masks)`.

    Boxes, key points and plain tensors of the images' size raise an error. File names, indices and
    the like are returned unchanged.

    In data loader workers, draws come from torch's global generator, which the loader seeds per
    worker. A mixer's own generator would repeat its draws in every worker and epoch, so its seed is
    combined with the worker's.

    Args:
        mixer: the method. Its `num_classes` is required if labels are class indices.
        saliency_fn: function of images that returns maps (batch, *size), for methods with saliency.
        labels_getter: returns the labels of a sample; "default" means its second item, or the entry
            under "labels" or a key with "label" there or in the sample itself.
        ignore_index: the value of pixels without a class in integer masks; None if every value is a
            class.

    >>> import torch
    >>> from comixup import CoMixup
    >>> mix = BatchMix(CoMixup(num_classes=10))
    >>> images, labels = mix(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> images.shape, labels.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    def __init__(
        self,
        mixer: Mixer,
        saliency_fn: SaliencyFn = spectral_residual,
        *,
        labels_getter: Callable[[Any], Any] | str = "default",
        ignore_index: int | None = IGNORE_INDEX,
    ) -> None:
        super().__init__()
        if not mixes_images(mixer):
            raise TypeError(
                "`mixer` must be one of comixup's methods that mix images by themselves, such as "
                f"comixup.CoMixup(num_classes), got {type(mixer).__name__}. ManifoldMixup mixes "
                "inside the model, OnePass must know where images come from: use "
                "comixup.training_step."
            )
        if mixer.needs_clean_pass:
            raise ValueError(
                "`mixer` must have clean_weight = 0 in a transform, which has no model to make a "
                "clean pass with, got a method with a higher one. Use comixup.training_step."
            )
        if not callable(saliency_fn):
            raise TypeError(
                "`saliency_fn` must be a function that returns the maps of images, got "
                f"{saliency_fn!r}."
            )
        self.labels_getter = labels_getter
        if labels_getter == "default":
            labels_getter = default_labels
        if not callable(labels_getter):
            raise ValueError(
                '`labels_getter` must be "default" or a function that returns the labels of a '
                f"sample, got {labels_getter!r}."
            )
        self.mixer = mixer
        self.saliency_fn = saliency_fn
        self.ignore_index = ignore_index
        self._labels_getter = labels_getter
        self._worker_seed: int | None = None

    def forward(self, *inputs: Any) -> Any:
        """Returns the sample with mixed images and masks, and labels (batch, classes) float32."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        paths, spec = tree_flatten_with_path(sample)
        flat = [item for _, item in paths]
        labels = self._labels_getter(sample)
        if labels is None or isinstance(labels, tv_tensors.Mask):
            labels = None if any(isinstance(x, tv_tensors.Mask) for x in flat) else labels
        images = images_among(flat, labels)
        _check_labels(flat, labels)
        batch = channels_first(flat[images[0]])
        for index, (path, item) in enumerate(paths):
            _check_item(keystr(path), item, batch, index in images or item is labels)
        self._part_from_other_workers()

        maps = self.saliency_fn(batch) if self.mixer.next_batch().needs_saliency else None
        targets = labels
        if labels is None:  # the mixer requires targets; these are not used
            targets = batch.new_zeros(len(batch), self.mixer.num_classes or 1)
        mixed, soft = self.mixer(batch, targets, maps)
        outputs = list(flat)
        outputs[images[0]] = as_before(mixed, flat[images[0]])
        for index, (path, item) in enumerate(paths):
            if index in images[1:] or isinstance(item, tv_tensors.Mask):
                outputs[index] = self._mixed_alike(f"inputs{keystr(path)}", item)
            elif labels is not None and item is labels:
                outputs[index] = soft
        return tree_unflatten(outputs, spec)

    def _mixed_alike(self, name: str, item: Tensor) -> Tensor:
        """Returns another image or mask of the batch, mixed by the same plan."""
        mixer, plan = self.mixer, self.mixer.last.plan
        if isinstance(item, tv_tensors.Mask) and not item.is_floating_point():
            mixed = mixer.mix_also(
                name, item.as_subclass(Tensor), lambda own: plan.mix_masks(own, self.ignore_index)
            )
            wrapped: Tensor = tv_tensors.wrap(mixed, like=item)
            return wrapped
        return as_before(mixer.mix_also(name, channels_first(item), plan.mix_images), item)

    def extra_repr(self) -> str:
        """Returns the arguments for `repr`: the method and its source of saliency."""
        name = getattr(self.saliency_fn, "__name__", repr(self.saliency_fn))
        return f"mixer={type(self.mixer).__name__}, saliency_fn={name}"

    def _part_from_other_workers(self) -> None:
        """Reseeds the copy of the mixer in a worker process."""
        worker = get_worker_info()
        if worker is None or self._worker_seed == worker.seed:
            return
        self._worker_seed = worker.seed
        for generator in self.mixer.generators:
            seed = (generator.initial_seed() + worker.seed) % _SEEDS
            generator.manual_seed(seed)  # in place, since other methods may share it


def default_labels(sample: Any) -> Any:
    """Returns the labels of a sample, by the same rule as torchvision's transforms.

    >>> default_labels({"image": 1, "label": 2})
    2
    """
    if isinstance(sample, tuple | list) and len(sample) > 1:
        sample = sample[1]
    if isinstance(sample, Mapping):
        keys = sorted(sample, key=lambda key: str(key).lower() != "labels")
        return next((sample[key] for key in keys if "label" in str(key).lower()), None)
    return sample


def images_among(flat: list[Any], labels: Any) -> list[int]:
    """Returns the indices of the images in a flat sample, by torchvision's rule for plain tensors.

    If no item is a `tv_tensors.Image` or `Video`, the first plain tensor is the image.
    """
    images = [k for k, x in enumerate(flat) if isinstance(x, tv_tensors.Image | tv_tensors.Video)]
    plain = (k for k, x in enumerate(flat) if type(x) is Tensor and x is not labels)
    images = images or [next(plain, -1)]
    if images == [-1]:
        raise ValueError(
            "`inputs` must hold a batch of images as a tensor, got "
            f"{[type(item).__name__ for item in flat]}. Call the transform on batches: after the "
            "data loader, or after default_collate in its collate function."
        )
    return images


def channels_first(images: Tensor) -> Tensor:
    """Returns images or a video as a plain tensor (batch, channels, *size)."""
    plain = images.as_subclass(Tensor)
    return plain.transpose(1, 2) if isinstance(images, tv_tensors.Video) else plain


def as_before(mixed: Tensor, images: Tensor) -> Tensor:
    """Returns mixed images in their original type and layout."""
    if isinstance(images, tv_tensors.Video):
        mixed = mixed.transpose(1, 2)
    if isinstance(images, tv_tensors.TVTensor):
        wrapped: Tensor = tv_tensors.wrap(mixed, like=images)
        return wrapped
    return mixed


def _check_labels(flat: list[Any], labels: Any) -> None:
    """Raises for samples with neither labels nor masks."""
    if labels is None and any(isinstance(item, tv_tensors.Mask) for item in flat):
        return
    if not isinstance(labels, Tensor) or not any(item is labels for item in flat):
        raise ValueError(
            "`inputs` must hold the labels as a tensor, second or under the key 'labels', got "
            f"{type(labels).__name__} there. Give a `labels_getter` if they are elsewhere, or wrap "
            "masks of segmentation in tv_tensors.Mask."
        )


def _check_item(name: str, item: Any, images: Tensor, mixed: bool) -> None:
    """Raises for an item that cannot be mixed and must not be left unmixed."""
    kind = type(item).__name__
    check_mixable(f"inputs{name}", item)
    if isinstance(item, PIL.Image.Image):
        raise ValueError(
            f"`inputs{name}` must be a batch as a tensor, got {kind}. Convert PIL images first, by "
            "v2.ToImage()."
        )
    if isinstance(item, tv_tensors.Mask):
        without_channels = item.ndim == images.ndim - 1 and not item.is_floating_point()
        if not (without_channels or item.ndim == images.ndim):
            raise ValueError(
                f"`inputs{name}` must hold masks as integers (batch, *size), or as floating-point "
                f"class weights (batch, classes, *size), got {item.dtype} {tuple(item.shape)}."
            )
    elif isinstance(item, Tensor) and not mixed and len(images) == item.shape[:1].numel():
        size = images.shape[2:]
        if item.shape[1:] == size or item.shape[2:] == size:
            raise ValueError(
                f"`inputs{name}` must be wrapped in tv_tensors.Mask or tv_tensors.Image, got a "
                f"plain tensor {tuple(item.shape)} of the images' size, which would pass through "
                "unmixed."
            )
