"""Private names of Lightning that this package uses; they may change without notice.

Written for the versions of lightning-fabric that pyproject.toml allows, up to 2.6. After an update,
`tests/test_lightning.py` is the first test to fail if one of these names has changed. The module
imports no Lightning by itself: the core works without it.
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.wrappers import _FabricModule as FabricModule
    from lightning_fabric.wrappers import _FabricOptimizer as FabricOptimizer

    __all__ = ["FabricModule", "FabricOptimizer"]

FABRIC_MODULE = "_FabricModule"
"""Class of the wrapper that `Fabric.setup` returns for a model."""
FORWARD_MODULE = "_forward_module"
"""The wrapper's attribute for the model that it forwards calls to."""
_IN_BACKWARD = "_in_fabric_backward"
"""The wrapper's flag: unless set, gradients computed without `Fabric.backward` raise an error."""
_LIGHTNING_MODULE = "LightningModule"
_TRAINER = "_trainer"
"""A LightningModule's attribute for its Trainer; None under Fabric."""
_KEEPS = "keeps_clean_gradient"
"""Attribute of our own mixin (adapters/lightning.py), which zeroes gradients after the step."""
_LAST_WORDS_SECONDS = 30.0
"""Time for a process to fail at its next collective, within a step, and to print its error."""


@contextlib.contextmanager
def in_fabric_backward(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Allows gradients of Fabric's modules to be computed without `Fabric.backward`."""
    homes = {
        sys.modules[type(module).__module__]
        for module in modules
        if type(module).__name__ == FABRIC_MODULE
    }
    before = {home: home.__dict__.get(_IN_BACKWARD) for home in homes}
    try:
        for home in homes:
            home.__dict__[_IN_BACKWARD] = True
        yield
    finally:
        for home, value in before.items():
            home.__dict__[_IN_BACKWARD] = value


def automatic_optimization() -> str | None:
    """Returns the name of the LightningModule under automatic optimization, or None.

    It is the module whose `training_step` is running, looked up on the call stack: a mixer is
    mostly given one of its children, which has no reference to its parent.
    """
    if not {"lightning", "pytorch_lightning"} & sys.modules.keys():
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self") if frame.f_code.co_name == "training_step" else None
        if (
            any(kind.__name__ == _LIGHTNING_MODULE for kind in type(owner).__mro__)
            and getattr(owner, _TRAINER, None) is not None
        ):
            zeroed = getattr(owner, "automatic_optimization", False)
            return type(owner).__name__ if zeroed and not getattr(owner, _KEEPS, False) else None
        frame = frame.f_back
    return None


def set_timeout(fabric: Fabric, minutes: float) -> None:
    """Sets the timeout of collectives; call it before `Fabric.launch`."""
    from lightning_fabric.strategies.ddp import DDPStrategy  # noqa: PLC0415

    if isinstance(fabric.strategy, DDPStrategy):
        fabric.strategy._timeout = timedelta(minutes=minutes)


def delay_kill() -> None:
    """Delays Fabric's kill of the other processes after one has exited.

    Fabric checks every five seconds whether a process has exited, then kills the others, perhaps
    before they print their error. Those that hang are still killed, a little later. Fabric stops
    checking when this process exits: `_end_children` then ends stopped children.
    """
    from lightning_fabric.strategies.launchers.subprocess_script import (  # noqa: PLC0415
        _ChildProcessObserver,
    )

    for thread in threading.enumerate():
        if isinstance(thread, _ChildProcessObserver):
            atexit.register(_end_children, thread._child_processes)
            kill = thread._terminate_all

            def wait_and_kill(kill: Callable[[], None] = kill) -> None:
                time.sleep(_LAST_WORDS_SECONDS)
                kill()

            thread._terminate_all = wait_and_kill  # type: ignore[method-assign]


def _end_children(children: list[subprocess.Popen[bytes]]) -> None:
    """Waits for child processes; kills those that do not end."""
    end = time.monotonic() + _LAST_WORDS_SECONDS
    for child in children:
        try:
            child.wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
