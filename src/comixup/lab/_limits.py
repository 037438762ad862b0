"""Bounds of numbers, for those who check them without importing what they are for."""

MAX_SEED = 2**64 - 1
"""The largest seed of a run, and of any number that `seed_for` takes."""
MAX_WIDTH = 4096
"""Feature maps: a wider network would fill the memory before anything is said."""
MAX_SIDE = 4096
"""Pixels: a file that states larger images would have networks built that fill the memory."""
