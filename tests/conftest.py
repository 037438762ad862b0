"""What all tests share: the same examples on every run, and no trace in the user's cache."""

import sys

import pytest
from hypothesis import settings

if sys.platform == "win32":  # forked processes, signals and limits that Windows does not have
    collect_ignore = [
        f"training/test_{name}.py" for name in ("atomic_write", "processes", "survival")
    ]

settings.register_profile("same-every-time", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("same-every-time")


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(session_cache, monkeypatch):
    """Data sets are cached here: see `comixup.data`."""
    monkeypatch.setenv("COMIXUP_CACHE", str(session_cache))
    return session_cache
