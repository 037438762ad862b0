"""`comixup explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from comixup.cli._options import option_help
from comixup.lab import explorer


def explore(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, option_help("RUN ...", "")] = (),
    host: Annotated[str, option_help("ADDRESS")] = explorer.HOST,
    port: Annotated[int, option_help("N")] = explorer.PORT,
    browser: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False,
) -> None:
    """Look at Co-Mixup on a web page: move its settings, see outputs and reasons.

    The page is served on this machine alone. Nothing is sent elsewhere, and files that are dropped
    in stay in a temporary folder, which is removed at the end.

    Args:
        runs: folders of runs whose networks are offered as sources of saliency.
        host: where to listen. Behind another address than this machine's own, anybody who can reach
            it can use the page, though not name folders of yours.
        port: 0 takes any that is free.
        browser: open the page in the browser.
    """
    for run in runs:
        if not run.exists():
            raise FileNotFoundError(f"`runs` must be folders of runs, but there is no {run}.")
    explorer.serve([str(run) for run in runs], host=host, port=port, open_browser=browser)
