"""Correctness checks on a user's own device: `comixup check`, and the tests marked `cuda`."""

from comixup.diagnostics._checks import CHECKS as CHECKS
from comixup.diagnostics._report import Report as Report
from comixup.diagnostics._report import check_device as check_device
from comixup.diagnostics._report import run_check as run_check
from comixup.diagnostics._scenes import CheckError as CheckError
from comixup.diagnostics._scenes import NotRunError as NotRunError
from comixup.diagnostics._times import step_times as step_times
