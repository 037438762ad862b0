"""Correctness checks on a user's own device: `comixup check`, and the tests marked `cuda`."""

from comixup.selfcheck._checks import CHECKS as CHECKS
from comixup.selfcheck._checks import CheckError as CheckError
from comixup.selfcheck._checks import NotRunError as NotRunError
from comixup.selfcheck._report import Report as Report
from comixup.selfcheck._report import check_device as check_device
from comixup.selfcheck._report import run_check as run_check
from comixup.selfcheck._report import step_times as step_times
