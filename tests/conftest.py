"""Settings that all tests share: hypothesis draws the same examples on every run."""

from hypothesis import settings

settings.register_profile("same-every-time", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("same-every-time")
