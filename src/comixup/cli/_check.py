"""`comixup check`."""

from __future__ import annotations

from typing import Annotated

from rich.console import Console

from comixup.cli._options import option_help, print_line


def check(
    device: Annotated[str, option_help("NAME", "(default: cuda if there, else cpu)")] = "auto",
    only: Annotated[tuple[str, ...], option_help("CHECK ...", "(default: all)")] = (),
) -> None:
    """Check on your own device that mixing computes what it computes on a CPU: about a minute.

    Prints a report to paste into an issue. The exit code is 1 if a check failed.

    Args:
        device: cpu, cuda, cuda:1, mps, ...
        only: names of checks, as the report has them, in quotes.
    """
    # Here, so that --help does not wait for torch.
    from comixup import selfcheck as diagnostics  # noqa: PLC0415
    from comixup.cli._device import find_device  # noqa: PLC0415
    from comixup.lab._progress import progress_bar  # noqa: PLC0415

    found, total = find_device(device), len(only) or len(diagnostics.CHECKS) + 1
    with progress_bar(Console(stderr=True), "checks", total) as after:
        report = diagnostics.check_device(found, only, after)
    print_line(Console(), report.text())
    if report.failed:
        raise SystemExit(1)
