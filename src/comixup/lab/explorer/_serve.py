"""The page on a port of this machine alone, without telemetry, files in one folder."""

from __future__ import annotations

import ipaddress
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from comixup._checks import check_count
from comixup.lab.explorer._settings import HOST, INSTALL, MAX_BYTES, PORT

_SWITCHES = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "GRADIO_SSR_MODE": "False",
}
"""Environment variables that gradio reads when it is imported."""


def serve(
    runs: Sequence[str] = (),
    *,
    port: int = PORT,
    open_browser: bool = False,
    wait: bool = True,
) -> tuple[str, ExitStack]:
    """Serves the explorer; returns its address, and what stops it when it is closed.

    Args:
        runs: folders of runs to offer as sources of saliency.
        port: 0 takes any that is free.
        open_browser: show the page.
        wait: until Ctrl-C; False returns at once.
    """
    check_count("port", port, 0, 2**16 - 1)
    os.environ.update(_SWITCHES)  # before gradio is imported
    stack = ExitStack()
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="comixup-explorer-"))
    os.environ["GRADIO_TEMP_DIR"] = folder  # where uploads go, and nothing else is written
    try:
        import gradio  # noqa: PLC0415 - an extra, and slow to import
        from starlette.middleware import Middleware  # noqa: PLC0415 - it comes with gradio

        from comixup.lab.explorer._explore import Workbench  # noqa: PLC0415 - it needs torch
        from comixup.lab.explorer._page import CSS, build_page  # noqa: PLC0415 - it needs gradio

        bench = Workbench([str(run) for run in runs])
        page = build_page(bench)
        fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["monospace"]}
        _, address, _ = page.launch(
            server_name=HOST,
            server_port=port or None,
            inbrowser=open_browser,
            prevent_thread_lock=True,
            share=False,
            quiet=True,
            max_file_size=MAX_BYTES,
            footer_links=[],
            run_history=False,
            enable_monitoring=False,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            theme=gradio.themes.Default(**fonts),  # those of gradio are fetched from the web
            css=CSS,
            app_kwargs={"middleware": [Middleware(_LocalOnly)]},
        )
        stack.callback(page.close, verbose=False)
    except BaseException as error:
        stack.close()
        if isinstance(error, ModuleNotFoundError) and error.name == "gradio":
            raise ModuleNotFoundError(
                f"gradio must be installed for the explorer, and it is not. Use {INSTALL}.",
                name="gradio",
            ) from None
        raise
    if wait:
        print(f"The explorer is at {address} (Ctrl-C ends it).", flush=True)
        with stack:
            page.block_thread()
    return address, stack


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Whether a request was sent on behalf of another site.

    Any page can send requests here: its browser says so in `Origin`. A page whose name leads to
    this machine (DNS rebinding) has an origin equal to `Host`, which is no name of this machine.

    >>> is_foreign({"host": "localhost:7860", "origin": "http://localhost:7860"})
    False
    >>> is_foreign({"host": "localhost:7860", "origin": "http://evil.example"})
    True
    """
    host = headers.get("host", "")
    try:
        name, origin = urlsplit(f"//{host}").hostname, urlsplit(headers.get("origin", f"//{host}"))
    except ValueError:
        return True
    try:
        local = name == "localhost" or ipaddress.ip_address(name or "").is_loopback
    except ValueError:
        local = False
    return not local or origin.netloc.lower() != host.lower()


class _LocalOnly:
    """ASGI middleware that rejects requests of other sites."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.responses import PlainTextResponse  # noqa: PLC0415 - it comes with gradio

        answer = self.app
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope.get("headers", ())
        }
        if scope["type"] in ("http", "websocket") and is_foreign(headers):
            message = "The explorer is for this machine's own pages."
            answer = PlainTextResponse(message, status_code=403)
        await answer(scope, receive, send)
