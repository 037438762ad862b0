"""The commit of the running source, for records of runs and measurements."""

from __future__ import annotations

import subprocess
from pathlib import Path


def source_commit() -> str | None:
    """Returns the commit of the source tree that comixup runs from; None where there is none."""
    here = Path(__file__).resolve().parent.parent
    try:
        git = ["git", "-C", str(here), "describe", "--always", "--dirty", "--exclude=*"]
        described = subprocess.run(git, capture_output=True, text=True, timeout=10, check=True)
        top = subprocess.run(
            [*git[:3], "rev-parse", "--show-toplevel"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # Inside another project's tree, the commit would be that project's.
    ours = Path(top.stdout.strip()).resolve() / "src" / "comixup" == here
    return described.stdout.strip() if ours else None
