"""What tests of training share."""

import pytest

from small_runs import write_images


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The small CIFAR-100 of `small_runs`; tests only read it."""
    return write_images(tmp_path_factory.mktemp("images"))
