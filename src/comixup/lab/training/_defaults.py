"""What a run is trained with unless asked otherwise, for those who show it without training."""

import os

WORKERS = min(4, os.cpu_count() or 1)
"""Processes that read images, where nothing else is asked for."""
TIMEOUT_MINUTES = 30.0
"""The longest that a process may keep the others waiting: the first one evaluates the last weights
and writes the results alone, and any may be the one that reads or downloads the data."""
