"""What a run shows while it trains: a progress bar for people, lines for logs, TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

_REFRESH_SECONDS = 0.5
"""How often the bar reads the loss: a reading makes the host wait for the device."""
_BAR_WIDTH = 12
_WIDE = 110
"""Columns of a terminal from which on the bar also shows how the last epoch was mixed."""
_EVENTS = "events.out.tfevents"
"""How names of TensorBoard's files begin."""


class Reporter:
    """Tells of one run; a process other than the first is given a silent one.

    Args:
        console: where to; None is silent.
        title: the run's name.
        epochs: of the recipe.
        first_epoch: epochs that are done already.
        events: folder for TensorBoard; None writes none.
    """

    def __init__(
        self,
        console: Console | None,
        title: str,
        epochs: int,
        first_epoch: int = 0,
        events: Path | None = None,
    ) -> None:
        self.console, self.title, self.epochs = console, title, epochs
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._shown = 0.0
        self._note = ""
        self._images = 0.0
        self._first_epoch = first_epoch
        self._folder = events
        self._events: SummaryWriter | None = None

    def __enter__(self) -> Reporter:
        if self.console is None:
            return self
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        self.console.print(f"{self.title}, {epochs}", highlight=False, markup=False, soft_wrap=True)
        if self.console.is_terminal:
            # The title has a line of its own: what changes fits into eighty columns without it.
            self._bar = Progress(
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._events is not None:
            self._events.close()

    def step(self, epoch: int, done: int, steps: int, sums: Tensor) -> None:
        """Shows how far an epoch is; `sums` are the epoch's, the loss and the images first."""
        now = time.perf_counter()
        if self._bar is None or now - self._shown < _REFRESH_SECONDS:
            return
        loss, images = sums[:2].tolist()
        since, before = self._shown, self._images
        speed = max(images - before, 0) / (now - since) if since and images > before else 0.0
        self._shown, self._images = now, images
        self._bar.update(
            self._task,
            completed=epoch + done / steps,
            note=_note(speed, loss / max(images, 1)) + self._note,
        )

    def epoch(self, row: Mapping[str, float]) -> None:
        """Shows the metrics of an epoch that is done."""
        if "test_error" in row:
            self._note = f", error {row['test_error']:.2f} %"
            if self.console is not None and self.console.width >= _WIDE:
                self._note += _mixing(row, before=", ")
        self._images = 0.0
        if self._folder is not None:
            self._write_events(self._folder, row)
        if self._bar is not None:
            note = _note(row["images_per_second"], row["train_loss"]) + self._note
            self._bar.update(self._task, completed=row["epoch"], note=note)
        elif self.console is not None:
            between = "".join(
                f"{name} error {row[f'{name}_error']:.2f} %, "
                for name in ("validation", "test")
                if f"{name}_error" in row
            )
            self.console.print(
                f"epoch {row['epoch']:.0f}/{self.epochs}: loss {row['train_loss']:.4f}, {between}"
                f"{_mixing(row, after=', ')}{row['seconds']:.1f} s "
                f"({row['images_per_second']:,.0f} images/s)",
                highlight=False,
                soft_wrap=True,
            )

    def tell(self, text: str) -> None:
        """Prints a line, above the bar if there is one."""
        if self.console is not None:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def pictures(self, pictures: Mapping[str, Tensor], epochs: int) -> None:
        """Writes batches of pictures, (n, C, H, W) in [0, 1] with 1 or 3 channels.

        Args:
            pictures: by their names.
            epochs: that are done.
        """
        if self._folder is not None:
            for name, batch in pictures.items():
                self._writer(self._folder).add_images(name, batch, epochs)

    def _write_events(self, folder: Path, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self._writer(folder).add_scalar(name, value, int(row["epoch"]))

    def _writer(self, folder: Path) -> SummaryWriter:
        """Returns what writes events; not before a step is done: rejected runs leave no trace."""
        if self._events is None:
            _keep_in_order(folder)
            # Whatever an interrupted run wrote after its checkpoint is taken back.
            self._events = SummaryWriter(str(folder), purge_step=self._first_epoch + 1)
        return self._events


def _keep_in_order(folder: Path) -> None:
    """Renames files of events that seem to be of now or the future, so that new ones come last.

    TensorBoard reads files by their names, which have the second they were begun in. Where the
    clock was set back since then, the resumed run would come first and then be purged.
    """
    found = sorted(folder.glob(f"{_EVENTS}.*.*"))
    parts = [path.name.removeprefix(f"{_EVENTS}.").partition(".") for path in found]
    seconds = [int(stamp) for stamp, _, _ in parts if stamp.isascii() and stamp.isdigit()]
    if len(seconds) < len(found) or max(seconds, default=0) < int(time.time()):
        return
    for number, (path, (_, _, rest)) in enumerate(zip(found, parts, strict=True)):
        path.rename(path.with_name(f"{_EVENTS}.{number:010d}.{rest}"))


def _note(speed: float, loss: float) -> str:
    return f"{speed:,.0f} images/s, loss {loss:.3f}"


def _mixing(row: Mapping[str, float], before: str = "", after: str = "") -> str:
    """Returns how the outputs of an epoch were mixed; nothing for a method that mixes none."""
    if "inputs_per_output" not in row:
        return ""
    mean, unmixed = row["inputs_per_output"], row["unmixed_outputs"]
    return f"{before}{mean:.1f} inputs per output ({unmixed:.0f} % unmixed){after}"
