"""Networks that begin with trained weights: a new last layer, and the others frozen if wanted."""

from __future__ import annotations

from pathlib import Path
from types import MethodType

from torch import Tensor, nn

from comixup.lab._weights_file import find_weights, read_weights, without_wrapper
from comixup.lab.models._residual import STRIDES

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def load_matching(model: nn.Module, path: str | Path, num_classes: int) -> list[str]:
    """Loads all weights that fit a network, and returns the names of those that stay new.

    The last layer is new where it has other classes. What else does not fit raises `ValueError`:
    the file is of another network.

    Args:
        model: with its initial weights.
        path: a run's folder, or a file of weights of comixup, torchvision or timm.
        num_classes: number of classes of the model.
    """
    file = find_weights(Path(path))
    given = without_wrapper(read_weights(file).weights)
    own = {name: tensor for name, tensor in model.state_dict().items() if name != STRIDES}
    fitting: dict[str, Tensor] = {
        name: given[name]
        for name, tensor in own.items()
        if name in given and given[name].shape == tensor.shape
    }
    new = [name for name in own if name not in fitting]
    head = head_name(model, num_classes)
    others = [name for name in new if not name.startswith(f"{head}.")]
    if others:
        name = others[0]
        got = f"of shape {tuple(given[name].shape)}" if name in given else "absent"
        raise ValueError(
            f"`weights` must be of the network that is trained, but in {file} {name}, of shape "
            f"{tuple(own[name].shape)} here, is {got} ({len(others)} of {len(own)} do not fit). "
            "Name the network that they are of with --model, and --width if it has another."
        )
    model.load_state_dict(fitting, strict=False)
    return new


def head_name(model: nn.Module, num_classes: int) -> str:
    """Returns the name of a network's last layer: its last linear one with a row for each class.

    >>> head_name(nn.Sequential(nn.Flatten(), nn.Linear(8, 10), nn.Linear(10, 3)), 3)
    '2'
    """
    linear: list[str] = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == num_classes
    ]
    if not linear:
        raise ValueError(
            f"`model` must end in a linear layer with {num_classes} outputs, got "
            f"{type(model).__name__}, which has none. Train all of it, from random weights."
        )
    return linear[-1]


def freeze(model: nn.Module, what: str, num_classes: int) -> None:
    """Keeps a part of a network as its initial weights have it.

    Args:
        model: a network.
        what: "none"; "norms", the statistics of batch normalisation; "features", all but the last
            layer, these statistics included.
        num_classes: its number of classes.
    """
    if what == "features":
        head = head_name(model, num_classes)
        for name, weight in model.named_parameters():
            weight.requires_grad_(name.startswith(f"{head}."))
    for module in model.modules() if what != "none" else ():
        if isinstance(module, _BATCH_NORMS):
            # `model.train()` calls this, which would let batches move the statistics.
            module.train = MethodType(_stay_in_evaluation, module)  # type: ignore[method-assign]
            module.eval()


def _stay_in_evaluation(self: nn.Module, mode: bool = True) -> nn.Module:
    """Leaves a frozen layer in evaluation mode, whatever mode its network is put in."""
    self.training = False
    return self
