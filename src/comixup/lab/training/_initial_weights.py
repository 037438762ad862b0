"""What a file of initial weights says of the network that they are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comixup.lab import models


def network_of(weights: str | Path) -> dict[str, Any]:
    """Returns the changes of a recipe that make its network that of a file: its model and width.

    Args:
        weights: a run's folder or a file of weights. One that does not say what network it is of
            changes nothing.
    """
    header = models.read_header(weights)
    return {} if header.model is None else {"model": header.model, "width": header.width}
