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
"""Class of what `Fabric.setup` returns for a model."""
FORWARD_MODULE = "_forward_module"
"""Where such an object keeps the model that it passes calls on to."""
_IN_BACKWARD = "_in_fabric_backward"
"""Flag of its module: unless set, a gradient taken past `Fabric.backward` raises."""
_LIGHTNING_MODULE = "LightningModule"
_TRAINER = "_trainer"
"""Where a LightningModule keeps the Trainer that runs it; None under Fabric."""
_KEEPS = "keeps_clean_gradient"
"""Attribute of our own mixin (adapters/lightning.py), which zeroes gradients after the step."""
_LAST_WORDS_SECONDS = 30.0
"""A process notices that another has exited when their next collective fails: within a step."""


@contextlib.contextmanager
def in_fabric_backward(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Allows gradients of Fabric's modules to be computed other than by `Fabric.backward`."""
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

    Of the one whose training_step is running: the network that a mixer is given is mostly a child
    of it that knows nothing of its parent, but the parent is on the call stack.
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
    """Gives processes time to print their error after another has exited, then ends them.

    Fabric checks every five seconds whether one has exited and then kills all others: perhaps one
    that is about to print its error message. What hangs is still killed, a little later. Fabric no
    longer checks once this process itself exits: a child that is stopped would remain for ever.
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
