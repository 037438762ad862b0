"""The page: controls on the left, images in, outputs and reasons on the right. Needs gradio."""

from __future__ import annotations

import html
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gradio as gr

from comixup.lab._augmentation import AUGMENTATIONS
from comixup.lab.explorer._explore import Workbench, python_lines
from comixup.lab.explorer._figures import (
    baselines_html,
    inputs_html,
    numbers_html,
    outputs_html,
    why_html,
)
from comixup.lab.explorer._settings import (
    MAX_BYTES,
    MAX_FILES,
    RANGES,
    SAMPLES,
    SPECTRAL,
    Settings,
)

CSS = """
.gradio-container { max-width: none !important; padding: 0 !important; }
main.fillable { max-width: none !important; padding: 6px 20px !important; }
.figure { width: 100%; max-width: 1000px; display: block; }
#controls { max-width: 372px; min-width: 372px; gap: 6px; position: sticky; top: 4px; }
#controls .block { padding: 4px 10px !important; overflow: hidden !important; }
#controls .row, #controls .form { gap: 4px !important; }
#controls .min_value, #controls .max_value { display: none; }
#controls .head { align-items: center; }
#controls .head input { width: 68px; }
#controls input[type=range] { min-width: 0; width: 100%; }
#controls .tabitem { padding: 4px !important; }
#right { gap: 6px; }
#right .html-container { padding: 0 !important; }
#numbers { font-size: 15px; margin: 0; }
#problem { border-left: 5px solid #D55E00; padding: 8px 12px; background: #fff4ec; color: #222; }
h1, h3, h4, p { margin: 2px 0 !important; }
"""
_NETWORKS = ("torchvision:resnet18", "timm:mobilenetv3_small_100")
_ROWS: Sequence[Mapping[str, float]] = (
    {"tau": 0.01, "gamma": 0.05},
    {"beta": 0.02, "omega": 0.001},
    {"eta": 0.01, "grid": 1},
    {"partition_size": 1, "levels": 1},
    {"sweeps": 1, "seed": 1},
)
"""Rows of sliders, and their steps."""
_MISTAKES = (ValueError, TypeError, OSError, ImportError, RuntimeError)
_ABOUT = (
    "Each output takes the salient cells of several inputs. Move a slider: **tau** lets more "
    "inputs into an output, **beta** makes regions smoother, **gamma** keeps outputs apart."
)
_INSTALL = ". pip install 'comixup[pretrained]' brings a network trained on ImageNet"
_VISITORS, _AT_ONCE = 1000, 8
"""Whose last moves are remembered, and who are served at the same time."""


def build_page(bench: Workbench) -> gr.Blocks:
    """Returns the page, to be launched."""
    with gr.Blocks(title="Co-Mixup explorer", analytics_enabled=False) as page:
        gr.Markdown(f"## Co-Mixup explorer\n{_ABOUT}")
        with gr.Row():
            with gr.Column(scale=0, elem_id="controls", min_width=372):
                controls, files = _controls(bench)
            with gr.Column(scale=1, min_width=600, elem_id="right"):
                problem = gr.HTML(elem_id="status")
                inputs = gr.HTML(elem_id="inputs")
                numbers = gr.HTML()
                outputs = gr.HTML(elem_id="outputs")
                lines = gr.Button("Python lines for this batch", elem_id="lines", size="sm")
                code = gr.Textbox(
                    label="Python: makes the same batch, bit by bit",
                    lines=8, max_lines=30, visible=False, elem_id="code", buttons=["copy"],
                )  # fmt: skip
                gr.Markdown("### Why: what the solver was given, and what it did")
                why = gr.HTML(elem_id="why")
                gr.Markdown("### The same batch by other methods, at their own settings")
                baselines = gr.HTML(elem_id="baselines")
        drawn = gr.State(())  # what of the slower figures is on the page
        values = list(controls.values())
        quick, slow = [problem, numbers, outputs, code], [inputs, why, baselines, drawn]
        events = _Events(bench)
        hidden: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        changes = [control.input for control in values] + [files.change]
        moved = gr.on(
            changes, events.mix, [files, *values], quick, trigger_mode="always_last", **hidden
        )
        opened = page.load(events.mix, [files, *values], quick, **hidden)
        for first in (moved, opened):
            first.then(
                events.explain, [files, *values, drawn], slow, trigger_mode="always_last", **hidden
            )
        lines.click(events.give_code, [files, *values], code, api_visibility="private")
    page.queue(default_concurrency_limit=_AT_ONCE)
    return page


def _controls(bench: Workbench) -> tuple[dict[str, Any], gr.File]:
    """Returns a control for each of the settings, in their order, and the files."""
    default = Settings()
    found: dict[str, Any] = {}
    gr.Markdown("### 1 Images")
    with gr.Tab("Samples"):
        found["sample"] = gr.Radio(list(SAMPLES), value=default.sample, show_label=False)
        with gr.Row():
            found["count"] = _slider("count", 1, "how many")
            found["draw"] = _slider("draw", 1, "which ones")
    with gr.Tab("Your own", elem_id="own"):
        files = gr.File(
            file_count="multiple", file_types=["image"], height=120, elem_id="files",
            label=f"{MAX_FILES} files at most, of {MAX_BYTES // 2**20} MB",
        )  # fmt: skip
        found["side"] = _slider("side", 16, "pixels per side, of photos too")
    gr.Markdown("### 2 Saliency")
    known = [default.saliency, SPECTRAL, *bench.runs, *_NETWORKS]
    install = "" if default.saliency != SPECTRAL else _INSTALL
    found["saliency"] = gr.Dropdown(
        list(dict.fromkeys(known)), value=default.saliency, allow_custom_value=True,
        elem_id="saliency", show_label=False,
        info=f"or a network's name, or a run's folder{install}",
    )  # fmt: skip
    found["augment"] = gr.Dropdown(
        list(AUGMENTATIONS), value=default.augment, elem_id="augment",
        label="augmentation (saliency follows)",
    )  # fmt: skip
    gr.Markdown("### 3 Co-Mixup")
    for row in _ROWS:
        with gr.Row():
            for name, step in row.items():
                found[name] = _slider(name, step, name.replace("_", " "))
    return {name: found[name] for name in vars(default)}, files


def _slider(name: str, step: float, label: str) -> gr.Slider:
    value, (low, high) = getattr(Settings(), name), RANGES[name]
    return gr.Slider(
        low, high, value=value, step=step, label=label, min_width=130, elem_id=name, buttons=[]
    )


class _Events:
    """What happens when a visitor opens the page or moves a control.

    The outputs come at once. The figures that take longer to draw follow, unless they are on the
    page already or the visitor has moved on.
    """

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self._moves: OrderedDict[str, int] = OrderedDict()

    def mix(self, request: gr.Request, files: list[str] | None, *values: Any) -> list[Any]:
        """Returns error messages, numbers, outputs, and no code."""
        session = str(request.session_hash)
        self._moves[session] = self._moves.pop(session, 0) + 1
        while len(self._moves) > _VISITORS:
            self._moves.popitem(last=False)
        try:
            result, problems = self.bench.result(Settings.from_controls(values), files or [])
        except _MISTAKES as error:
            return [_problem(str(error)), *[gr.skip()] * 3]
        return [
            _problem("\n".join(problems)) if problems else "",
            numbers_html(result),
            outputs_html(result.batch, result.mixed, "Co-Mixup"),
            gr.update(visible=False),
        ]

    def explain(
        self, request: gr.Request, files: list[str] | None, *values: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Yields inputs, reasons and other methods, and what is on the page then."""
        *chosen, drawn = values
        session = str(request.session_hash)
        moves = self._moves.get(session)
        try:
            settings = Settings.from_controls(chosen)
            result, _ = self.bench.result(settings, files or [])
        except _MISTAKES:  # which `mix` shows
            return
        source = (
            *(result.whole.call, settings.saliency, settings.grid),
            *(settings.augment, settings.augment != "none" and settings.seed),
        )
        wanted = (source, (*source, settings.seed))
        on_page = list(drawn) or [None, None]
        if on_page[0] != wanted[0]:
            on_page[0] = wanted[0]
            yield inputs_html(result), gr.skip(), gr.skip(), list(on_page)
        if self._moves.get(session) == moves:
            yield gr.skip(), why_html(result), gr.skip(), gr.skip()
        if self._moves.get(session) == moves and on_page[1] != wanted[1]:
            on_page[1] = wanted[1]
            yield gr.skip(), gr.skip(), baselines_html(result), list(on_page)

    def give_code(self, files: list[str] | None, *values: Any) -> Any:
        """Returns the Python lines that make the batch."""
        try:
            settings = Settings.from_controls(values)
            batch, _ = self.bench.batch(settings, files or [])
            return gr.update(value=python_lines(batch, settings), visible=True)
        except _MISTAKES as error:
            message = str(error).replace("\n", "\n# ")
            return gr.update(value=f"# {message}", visible=True)


def _problem(messages: str) -> str:
    """Returns error messages, a line each, as HTML; they may hold names of a visitor's files."""
    return f'<div id="problem">{html.escape(messages).replace(chr(10), "<br>")}</div>'
