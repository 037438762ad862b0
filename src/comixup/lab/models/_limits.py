"""Bounds of a network's settings, for those who check settings without building networks."""

MAX_WIDTH = 4096
"""Feature maps: a wider network would fill the memory before anything is said."""
