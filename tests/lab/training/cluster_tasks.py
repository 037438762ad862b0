"""What the tests of clusters run, in processes that import it."""

import os
import resource
import signal
import time
from pathlib import Path

from comixup.lab._locks import locked
from comixup.lab._progress import Progress


def double(tell, value):
    tell(Progress(1.0, 1, f"value {value}"))
    return 2 * value


def about_process(tell, seconds=0.0):
    """Returns the process and what it sees of the machine."""
    import torch  # noqa: PLC0415

    time.sleep(seconds)
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"), torch.get_num_threads()


def fail(tell, message):
    raise ValueError(message)


def die_once(tell, folder):
    """Kills its process unless it has done so before; nothing that it holds is let go of first."""
    mark = Path(folder) / "died"
    with locked(Path(folder) / "locked"):
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "lived"


def die(tell):
    os.kill(os.getpid(), signal.SIGKILL)


def train_on_a_full_disk(tell, recipe, out):
    """Trains where no file can grow beyond a kilobyte, and lets the process write again."""
    from comixup.lab.training import Hardware, train  # noqa: PLC0415

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        train(recipe, out=out, hardware=Hardware(accelerator="cpu"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fail_in_the_second(tell, seconds):
    """Fails in the second of the processes that run it, while the first one waits."""
    if os.environ["RANK"] == "1":
        raise FileNotFoundError("no data here")
    time.sleep(seconds)
