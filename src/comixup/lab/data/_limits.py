"""Bounds of numbers, for those who check them without drawing any."""

MAX_SEED = 2**64 - 1
"""The largest seed of a run, and of any number that `seed_for` takes."""
