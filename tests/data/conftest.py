"""What the tests of data sets share: a cache of their own, so that the user's is left alone."""

import pytest


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(session_cache, monkeypatch):
    monkeypatch.setenv("COMIXUP_CACHE", str(session_cache))
    return session_cache
