"""What the tests of rejected arguments share."""

import re

import pytest

NAN, INF = float("nan"), float("inf")


def rejects(error, message):
    """The call must fail with this type, and with a message in which this pattern is found."""
    return pytest.raises(error, match=re.compile(message, re.DOTALL))
