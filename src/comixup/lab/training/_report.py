"""Reports of a run: progress bar or lines, TensorBoard, figures of curves and batches."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from comixup import Plan, plot_batch
from comixup._figures import BLUE, GREEN, RED, write_figure
from comixup.lab._progress import Progress, Tell, print_line
from comixup.lab.data import DataSet, Loader
from comixup.mixers import Mixed

_REFRESH_SECONDS = 0.5
"""Interval at which the bar reads the loss, which synchronizes with the device."""
_BAR_WIDTH = 12
_NOT_WHOLE = 0.999
"""Largest fraction of an epoch to show before its evaluation."""
_WIDE = 110
"""Least terminal columns for the bar to show how the last epoch was mixed."""
_EVENTS = "events.out.tfevents"
"""Prefix of TensorBoard's file names."""


class Reporter:
    """Reports the progress of one run; silent in processes other than rank 0.

    Args:
        console: console to print to; None is silent.
        title: the run's name.
        epochs: number of epochs of the recipe.
        first_epoch: number of completed epochs.
        events: folder for TensorBoard; None writes none.
        tell: called with the same reports without a console.
    """

    def __init__(
        self,
        console: Console | None,
        title: str,
        epochs: int,
        first_epoch: int = 0,
        events: Path | None = None,
        tell: Tell | None = None,
    ) -> None:
        self._tell = tell if console is None else None
        self.console, self.title, self.epochs = console, title, epochs
        self._first_epoch, self._folder = first_epoch, events
        self._bar: Bars | None = None
        self._events: SummaryWriter | None = None
        self._task, self._note = TaskID(0), ""
        self._shown = self._images = 0.0

    def __enter__(self) -> Reporter:
        if self.console is None:
            return self
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        self.tell(f"{self.title}, {epochs}")
        if self.console.is_terminal:
            # The title has its own line: the rest then fits into 80 columns.
            self._bar = Bars(
                BarColumn(bar_width=_BAR_WIDTH),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                console=self.console,
            )
            self._task = self._bar.add_task(
                self.title, total=self.epochs, completed=self._first_epoch, note=""
            )
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._events is not None:
            self._events.close()

    def step(self, epoch: int, done: int, steps: int, sums: Tensor) -> None:
        """Shows the progress of an epoch; `sums` begins with the epoch's loss and images."""
        now = time.perf_counter()
        if now - self._shown < _REFRESH_SECONDS:
            return
        if self._tell is not None:
            self._shown = now
            note = self._note.removeprefix(", ")
            self._tell(Progress(epoch + min(done / steps, _NOT_WHOLE), self.epochs, note))
        if self._bar is None:
            return
        loss, images = sums[:2].tolist()
        new = max(images - self._images, 0) if self._shown else 0.0
        speed = new / (now - self._shown)
        self._shown, self._images = now, images
        self._bar.update(
            self._task,
            completed=epoch + done / steps,
            note=f"{speed:,.0f} images/s, loss {loss / max(images, 1):.3f}{self._note}",
        )

    def epoch(self, row: Mapping[str, float]) -> None:
        """Shows the metrics of a completed epoch."""
        if "test_error" in row:
            self._note = f", error {row['test_error']:.2f} %"
            if self.console is not None and self.console.width >= _WIDE:
                self._note += _mixing(row, before=", ")
        self._images = 0.0
        if self._tell is not None:
            self._tell(Progress(row["epoch"], self.epochs, self._note.removeprefix(", ")))
        if self._folder is not None:
            for name, value in row.items():
                self._writer(self._folder).add_scalar(name, value, int(row["epoch"]))
        if self._bar is not None:
            note = f"{row['images_per_second']:,.0f} images/s, loss {row['train_loss']:.3f}"
            self._bar.update(self._task, completed=row["epoch"], note=note + self._note)
        elif self.console is not None:
            between = "".join(
                f"{name} error {row[f'{name}_error']:.2f} %, "
                for name in ("validation", "test")
                if f"{name}_error" in row
            )
            self.tell(
                f"epoch {row['epoch']:.0f}/{self.epochs}: loss {row['train_loss']:.4f}, {between}"
                f"{_mixing(row, after=', ')}{row['seconds']:.1f} s "
                f"({row['images_per_second']:,.0f} images/s)"
            )

    def tell(self, text: str) -> None:
        """Prints a line, above the bar if there is one."""
        if self._tell is not None:
            self._tell(text)
        print_line(self.console, text)

    def _writer(self, folder: Path) -> SummaryWriter:
        """Returns the TensorBoard writer, created at the first step."""
        if self._events is None:
            _keep_in_order(folder)
            # Purges what an interrupted run wrote after its checkpoint.
            self._events = SummaryWriter(str(folder), purge_step=self._first_epoch + 1)
        return self._events


def _keep_in_order(folder: Path) -> None:
    """Renames event files with current or future timestamps, so that new ones sort last.

    TensorBoard sorts files by name, which has the second of their creation. If the clock was set
    back since, the resumed run's file would sort first and be purged.
    """
    found = sorted(folder.glob(f"{_EVENTS}.*.*"))
    parts = [path.name.removeprefix(f"{_EVENTS}.").partition(".") for path in found]
    seconds = [int(stamp) for stamp, _, _ in parts if stamp.isascii() and stamp.isdigit()]
    if len(seconds) < len(found) or max(seconds, default=0) < int(time.time()):
        return
    for number, (path, (_, _, rest)) in enumerate(zip(found, parts, strict=True)):
        path.rename(path.with_name(f"{_EVENTS}.{number:010d}.{rest}"))


def _mixing(row: Mapping[str, float], before: str = "", after: str = "") -> str:
    """Returns how the outputs of an epoch were mixed, as text; empty for unmixed methods."""
    if "inputs_per_output" not in row:
        return ""
    mean, unmixed = row["inputs_per_output"], row["unmixed_outputs"]
    return f"{before}{mean:.1f} inputs per output ({unmixed:.0f} % unmixed){after}"


# ---- Pictures ------------------------------------------------------------------------------------

GREY = "#555555"
LINES = {
    "train": ("training", BLUE, "--"),
    "validation": ("validation", GREEN, ":"),
    "test": ("test", RED, "-"),
}
"""Name, color and dashes of each split; the colors are safe for color-blind readers."""
LOG_RATIO = 30.0
"""Least ratio of losses, or learning rates, for a logarithmic axis."""
LOSS_NOTE = "The training loss is of the images trained on: mixed ones, if the method mixes."


def curves_figure(history: Sequence[Mapping[str, float]], title: str) -> Figure:
    """Returns a figure of errors, losses and the learning rate over the epochs.

    Args:
        history: a row for each epoch with its number under "epoch" and any of "train_error",
            "validation_error" and "test_error", in per cent, "train_loss", "validation_loss",
            "test_loss" and "lr". Other keys, gaps and non-finite values are skipped.
        title: title of the figure.

    >>> rows = [{"epoch": 1, "test_error": 80.0, "lr": 0.2}, {"epoch": 2, "test_error": 70.0}]
    >>> [axes.get_ylabel() for axes in curves_figure(rows, "A short run").axes]
    ['error, %', 'learning rate']
    """
    if not history:
        raise ValueError("`history` must have a row for each epoch, got none. Train one first.")
    units = {"error": "error, %", "loss": "loss", "lr": "learning rate"}
    names = {kind: [f"{split}_{kind}" for split in LINES] for kind in ("error", "loss")}
    names["lr"] = ["lr"]
    drawn = {
        kind: {name: points for name in keys if (points := _points(history, name))}
        for kind, keys in names.items()
    }
    kinds = [kind for kind, lines in drawn.items() if lines]
    if not kinds:
        raise ValueError(
            "`history` must have finite numbers under keys such as 'test_error' or 'train_loss', "
            f"got rows with {sorted(history[0])}."
        )
    heights = [1.0 if kind == "lr" else 3.0 for kind in kinds]
    with style.context("default"):
        figure = Figure((8, 1.1 + 0.95 * sum(heights)), facecolor="white", layout="constrained")
        figure.suptitle(title, weight="bold", parse_math=False, wrap=True)
        panels = figure.subplots(
            len(kinds), 1, sharex=True, squeeze=False, height_ratios=heights
        ).flat
        for kind, ax in zip(kinds, panels, strict=True):
            if kind == "lr":
                epochs, rates = zip(*drawn[kind]["lr"], strict=True)
                # Extended by half an epoch, so that one epoch is a line too.
                edges = [epochs[0] - 0.5, *(epoch + 0.5 for epoch in epochs)]
                ax.step(edges, [rates[0], *rates], where="pre", color=GREY, lw=1.2)
            else:
                _draw_lines(ax, drawn[kind], "{:.2f} %" if kind == "error" else "{:.3g}")
            values = [value for points in drawn[kind].values() for _, value in points]
            _scale(ax, values, {"error": (), "loss": (1.0, 2.0, 5.0), "lr": (1.0,)}[kind])
            if kind == "loss" and "train_loss" in drawn[kind]:
                ax.set_title(LOSS_NOTE, fontsize=8.5, color=GREY, loc="left")
            scale = " (log scale)" if kind == "loss" and ax.get_yscale() == "log" else ""
            ax.set_ylabel(units[kind] + scale)
            ax.grid(color="#dddddd", lw=0.6)
            ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel("epoch")
        ax.set_xlim(history[0]["epoch"] - 0.5, history[-1]["epoch"] + 0.5)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        figure.align_ylabels()
    return figure


def _points(history: Sequence[Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    """Returns the (epoch, value) pairs with finite values."""
    return [
        (row["epoch"], row[name])
        for row in history
        if row.get(name) is not None and math.isfinite(row[name])
    ]


def _draw_lines(ax: Axes, lines: Mapping[str, Sequence[tuple[float, float]]], words: str) -> None:
    """Draws curves of one metric, each labeled with its last value."""
    for name, points in lines.items():
        split, colour, dashes = LINES[name.split("_")[0]]
        epochs, heights = zip(*points, strict=True)
        last = f"{split}: {words.format(heights[-1])} at the end"
        marker = "o" if len(points) == 1 else ""  # a single point has no line
        ax.plot(epochs, heights, color=colour, ls=dashes, lw=1.8, marker=marker, label=last)
    ax.legend(frameon=False, loc="best", fontsize=9)


def _scale(ax: Axes, values: Sequence[float], steps: Sequence[float]) -> None:
    """Starts the axis at zero, or makes it logarithmic if values differ widely.

    `steps` are the labeled multiples in each decade; empty keeps the axis linear.
    """
    low, high = min(0.0, *values), max(0.0, *values)
    if steps and min(values) > 0 and high > LOG_RATIO * min(values):
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=steps))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_ylim(low, high + (0.08 * (high - low) or 1.0))


MAX_INPUTS = 10
WHOLE = 0.95
"""Least share of one input for an output to count as unmixed."""


def draw_mixed_batch(
    path: Path, last: Mixed, data: DataSet, loader: Loader, when: tuple[int, int], title: str
) -> None:
    """Draws a training batch with its saliency and targets.

    Args:
        path: file to write.
        last: `Mixer.last` of its last micro-batch.
        data: data set, for its normalization and class names.
        loader: loader to reload its images with.
        when: the epoch, and its number of completed steps.
        title: title of the run.
    """
    epoch, step = when
    images, targets = next(iter(loader.epoch(epoch, step - 1)))
    count = last.plan.source_ratio().shape[1]  # the micro-batch is the end of the share
    figure = plot_batch(
        data.pixels(images[-count:].cpu()),
        targets[-count:].cpu(),
        last,
        class_names=data.classes,
        title=f"{title}, epoch {epoch + 1}",
        max_inputs=MAX_INPUTS,
    )
    write_figure(figure, path)


def is_mixture(plan: Plan) -> bool:
    """Whether most outputs of a plan have more than one input."""
    largest = plan.source_ratio().amax(1)
    return bool((largest < WHOLE).float().mean() > 0.5)
