"""The compiled kernel; see native/bindings. Arrays are C-contiguous and in host memory."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

_Floats = npt.NDArray[np.float64]

def solve(
    costs: Sequence[_Floats],
    compatibilities: Sequence[_Floats],
    weights: Sequence[tuple[float, float, float, str, float, str]],
    starts: Sequence[npt.NDArray[np.int32]],
    grid: Sequence[int],
    sweeps: int,
    levels: int,
    resolve: bool,
    threads: int,
    sources: npt.NDArray[np.int64],
    objective_values: _Floats,
) -> None: ...
def minimize(
    unary: _Floats,
    pairwise: _Floats,
    grid: Sequence[int],
    start: npt.NDArray[np.int32],
    labels: npt.NDArray[np.int32],
) -> bool: ...
def narasimhan_bilmes(
    cost: _Floats,
    compatibility: _Floats,
    beta: float,
    gamma: float,
    total_clip: float,
    start: npt.NDArray[np.int32],
    grid: Sequence[int],
    iterations: int,
    seed: int,
    labels: npt.NDArray[np.int32],
) -> int: ...
def mix_blocks(
    images: Tensor,
    sources: Tensor,
    row_cell: npt.NDArray[np.int64],
    column_begin: npt.NDArray[np.int64],
    threads: int,
    out: Tensor,
) -> None: ...
def puzzle_masks(
    unary: _Floats,
    weights: _Floats,
    grid: Sequence[int],
    threads: int,
    labels: npt.NDArray[np.int32],
) -> None: ...
def puzzle_transport(
    saliency: npt.NDArray[np.float32],
    granted: npt.NDArray[np.uint8],
    grid: Sequence[int],
    eps: float,
    threads: int,
    block_at: npt.NDArray[np.int32],
) -> None: ...
def summarize_maps(
    maps: Tensor,
    grid: Sequence[int],
    window: Sequence[int],
    threads: int,
    out: _Floats,
) -> None: ...
def read_maps(maps: Tensor, rows: Tensor, numbers: Tensor, out: Tensor) -> None: ...
def write_maps(
    gradients: Tensor,
    numbers: Tensor,
    channels_last: bool,
    rows: Tensor,
    maps: Tensor,
    momentum: float,
    threads: int,
    next: Tensor,
) -> int: ...
