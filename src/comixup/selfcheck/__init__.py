"""Correctness checks on a user's own device: `comixup check`, and the tests marked `cuda`."""

from comixup.selfcheck._checks import CHECKS as CHECKS
from comixup.selfcheck._report import Report as Report
from comixup.selfcheck._report import check_device as check_device
