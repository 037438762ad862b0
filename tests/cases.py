"""Many small cases in one test: pytest takes milliseconds for each test that it reports."""

import functools
import inspect

import pytest


def each_case(names, values, ids=None):
    """Like `pytest.mark.parametrize`, but one test goes through all cases and names what failed.

    For cases that take microseconds and leave nothing behind: they share the test's fixtures.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = list(values)
    if callable(ids):
        ids = [ids(value) for value in values]
    labels = [repr(value) for value in values] if ids is None else list(ids)
    cases = [
        (label, dict(zip(names, value if len(names) > 1 else (value,), strict=True)))
        for label, value in zip(labels, values, strict=True)
    ]
    assert cases, "a test without cases cannot fail"

    def decorate(test):
        @functools.wraps(test)
        def through_all(**others):
            for label, case in cases:
                try:
                    test(**case, **others)
                except (Exception, pytest.fail.Exception) as error:
                    raise AssertionError(f"{test.__name__}[{label}]: {error}") from error

        signature = inspect.signature(test)
        kept = [signature.parameters[name] for name in signature.parameters if name not in names]
        through_all.__signature__ = signature.replace(parameters=kept)
        return through_all

    return decorate
