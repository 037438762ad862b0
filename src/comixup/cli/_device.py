"""The device that an option names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def find_device(name: str) -> torch.device:
    """Returns a device that can be computed on; "auto" is CUDA's if there is one."""
    import torch  # noqa: PLC0415

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as why:
        reason = str(why).strip().split("\n", 1)[0][:200]
        raise ValueError(
            f"`--device` must be one that torch can compute on here, got {name!r} ({reason})."
        ) from None
    return device
