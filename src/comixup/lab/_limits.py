"""Bounds of numbers, for those who check them without importing what they are for."""

from comixup._checks import check_count

MAX_SEED = 2**64 - 1
"""The largest seed of a run, and of any number that `seed_for` takes."""
MAX_WIDTH = 4096
"""Feature maps: a wider network would fill the memory before anything is said."""
MAX_SIDE = 4096
"""Pixels: a file that states larger images would have networks built that fill the memory."""
MAX_WORKERS = 1024
"""Most processes that read images."""


def check_numbers(*, workers: int = 0, seed: int = 0, image_size: int | None = None) -> None:
    """Raises `ValueError` for numbers that no command can have."""
    check_count("workers", workers, low=0, high=MAX_WORKERS)
    check_count("seed", seed, low=0, high=MAX_SEED)
    if image_size is not None:
        check_count("image_size", image_size, high=MAX_SIDE)
