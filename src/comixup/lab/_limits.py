"""Bounds of numeric options, checked without importing torch."""

from comixup._checks import check_count

MAX_SEED = 2**64 - 1
"""The largest seed of a run, and the largest argument of `seed_for`."""
MAX_WIDTH = 4096
"""Most feature maps: a wider network would fill the memory before any error message."""
MAX_SIDE = 4096
"""Most pixels per side: networks for larger images would fill the memory."""
MAX_WORKERS = 1024
"""Most data loader workers."""


def check_numbers(*, workers: int = 0, seed: int = 0, image_size: int | None = None) -> None:
    """Raises `ValueError` for numbers that no command accepts."""
    check_count("workers", workers, low=0, high=MAX_WORKERS)
    check_count("seed", seed, low=0, high=MAX_SEED)
    if image_size is not None:
        check_count("image_size", image_size, high=MAX_SIDE)
