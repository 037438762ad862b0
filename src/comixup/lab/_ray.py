"""Tasks on the machines of a Ray cluster. Nothing but this file imports Ray."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import tempfile
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from comixup._atomic_write import make_folder
from comixup.lab._progress import Progress
from comixup.lab._tasks import (
    REFRESH_SECONDS,
    RETRIES,
    STOP_SECONDS,
    Done,
    Executor,
    LostError,
    Task,
    TellOf,
    call_task,
    set_threads,
)

_CONNECT_SECONDS = 5.0


class RayTasks(Executor):
    """Runs tasks on the machines of a Ray cluster."""

    def __init__(
        self, address: str, cpus: int | None, gpus: float | None, folder: Path | None
    ) -> None:
        self.ours = connect(address)
        import ray  # noqa: PLC0415 - of the extra `cluster`

        self.ray, self.cpus = ray, cpus or 1
        self.gpus = min(1, ray.cluster_resources().get("GPU", 0)) if gpus is None else gpus
        self.running: dict[Any, str] = {}
        here = ray.get_runtime_context().get_node_id()
        self.channel = _on_node(ray.remote(_Channel), here).remote()
        try:
            _check_nodes(ray, folder, self.cpus, self.gpus)
        except BaseException:
            self.__exit__()
            raise

    @property
    def full(self) -> bool:
        return False  # Ray itself lets tasks wait for cores and GPUs

    def start(self, task: Task, attempt: int) -> None:
        remote = self.ray.remote(_perform_on_ray).options(
            name=task.key,
            num_cpus=self.cpus,
            num_gpus=self.gpus if task.trains else 0,
            max_retries=0,  # lost tasks are started again by `Cluster.run`, with either executor
        )
        ref = remote.remote(task, attempt, self.cpus, self.channel, sys.argv)
        self.running[ref] = task.key

    def results(self, tell: TellOf) -> list[Done]:
        finished, _ = self.ray.wait(list(self.running), timeout=REFRESH_SECONDS)
        for said in self.ray.get(self.channel.take.remote()):
            tell(*said)
        return [self._done(ref, self.running.pop(ref)) for ref in finished]

    def _done(self, ref: Any, key: str) -> Done:
        lost = self.ray.exceptions
        try:
            host, result, error = self.ray.get(ref)
        except (lost.WorkerCrashedError, lost.NodeDiedError, lost.ObjectLostError) as why:
            return Done(key, error=LostError(f"its process is lost ({_first_line(why)})"))
        except lost.OutOfMemoryError as why:
            return Done(key, error=LostError(f"it was out of memory ({_first_line(why)})"))
        except lost.RayError as why:
            return Done(key, error=RuntimeError(_first_line(why)))
        return Done(key, result, error, host)

    def train_together(
        self, task: Task, devices: int, nodes: int, minutes: float, folder: Path, tell: TellOf
    ) -> None:
        """Calls a task in all processes of Ray Train, and waits for them; see `Cluster`."""
        from ray import train as ray_train  # noqa: PLC0415
        from ray.train.torch import TorchConfig, TorchTrainer  # noqa: PLC0415

        cpus, gpus, (_, have) = devices * self.cpus, devices * self.gpus, _machines(self.ray)
        if sum(c >= cpus and g >= gpus for c, g in have) < nodes:  # Ray would wait for more
            raise ValueError(
                f"`devices` and `num_nodes` must be what the cluster has, got {devices} on each of "
                f"{nodes}, {cpus:g} cores and {gpus:g} GPUs of a machine, but its machines have "
                f"{_listed(have)}."
            )
        over = threading.Event()

        def relay() -> None:
            while not over.wait(REFRESH_SECONDS):
                for said in self.ray.get(self.channel.take.remote()):
                    tell(*said)

        settings = {"task": task, "threads": self.cpus, "channel": self.channel, "words": sys.argv}
        # Ray Train's own notes, which it wants all machines to see; runs have their folders.
        with tempfile.TemporaryDirectory(dir=folder) as notes:
            trainer = TorchTrainer(
                _perform_together,
                train_loop_config=settings,
                torch_config=TorchConfig(timeout_s=round(60 * minutes)),
                scaling_config=ray_train.ScalingConfig(
                    num_workers=devices * nodes,
                    # Else Ray fills one machine after the other.
                    placement_strategy=(
                        "STRICT_PACK" if nodes == 1 else "STRICT_SPREAD" if devices == 1 else "PACK"
                    ),
                    use_gpu=self.gpus > 0,
                    resources_per_worker={"CPU": self.cpus}
                    | ({"GPU": self.gpus} if self.gpus else {}),
                ),
                run_config=ray_train.RunConfig(
                    storage_path=notes, failure_config=ray_train.FailureConfig(max_failures=RETRIES)
                ),
            )
            thread = threading.Thread(target=relay, daemon=True)
            thread.start()
            try:
                trainer.fit()
            except (ray_train.ControllerError, ray_train.WorkerGroupError) as why:
                failures = getattr(why, "worker_failures", {})
                raise RuntimeError(_first_line(next(iter(failures.values()), why))) from why
            finally:
                over.set()
                thread.join()
        failure = self.ray.get(self.channel.failure.remote())
        if failure is not None:
            raise ValueError(failure)

    def __exit__(self, *_: object) -> None:
        try:
            for ref in self.running:
                self.ray.cancel(ref)  # as by Ctrl-C: a run saves, and stops
            if self.running:
                refs = list(self.running)
                self.ray.wait(refs, num_returns=len(refs), timeout=STOP_SECONDS)
        finally:
            for ref in self.running:
                self.ray.cancel(ref, force=True)
            self.ray.kill(self.channel)
            if self.ours:
                self.ray.shutdown()


_Said: TypeAlias = "tuple[str, str, Progress | str]"


class _Channel:
    """An actor on the driver's machine that keeps what tasks tell until the driver takes it.

    Of a task in many processes also why one of them must not be started again.
    """

    def __init__(self) -> None:
        self.said: list[_Said] = []
        self.why: str | None = None

    def fail(self, why: str) -> None:
        self.why = self.why or why

    def failure(self) -> str | None:
        return self.why

    def put(self, said: _Said) -> None:
        self.said.append(said)

    def take(self) -> list[_Said]:
        said, self.said = self.said, []
        return said


def _perform_on_ray(
    task: Task, attempt: int, threads: int, channel: Any, command: list[str]
) -> tuple[str, Any, Exception | None]:
    """Runs a task in a worker of Ray; returns the machine's name, and the result or the error."""
    sys.argv, host = command, socket.gethostname()
    set_threads(threads)
    try:
        return (
            host,
            call_task(task, attempt, lambda said: channel.put.remote((task.key, host, said))),
            None,
        )
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # whatever its class does
            error = RuntimeError(f"{type(error).__name__}: {error}")
        return host, None, error


def _perform_together(settings: dict[str, Any]) -> None:
    """Runs a task in one of the processes that Ray Train has started, as torchrun would have."""
    os.environ |= {"TORCHELASTIC_RUN_ID": "ray", "GROUP_RANK": os.environ["NODE_RANK"]}
    import ray  # noqa: PLC0415 - of the extra `cluster`

    task, channel, host = settings["task"], settings["channel"], socket.gethostname()
    sys.argv = settings["words"]
    set_threads(settings["threads"])

    def tell(said: Progress | str) -> None:
        channel.put.remote((task.key, host, said))

    if ray.get(channel.failure.remote()) is not None:  # started again, though it is of no use
        return
    try:
        call_task(task, 1, tell)  # not its first attempt, perhaps
    except (ConnectionError, TimeoutError):  # another process is lost
        raise
    except (ValueError, TypeError, OSError, ImportError) as error:
        # It would come again. The other processes may be waiting for this one: Ray Train ends them.
        ray.get(channel.fail.remote(Done(task.key, error=error, host=host).reason))
        raise


def connect(address: str) -> bool:
    """Connects this process with a Ray cluster; returns whether it was not connected before.

    Without an address it is the one that this machine belongs to, or else a new one, which listens
    on this machine's loopback alone.
    """
    try:
        import ray  # noqa: PLC0415 - of the extra `cluster`
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"`--cluster {_word(address)}` needs Ray, which is not installed. Use pip install "
            "'comixup[cluster]'."
        ) from missing
    if ray.is_initialized():
        return False
    # Workers would run at niceness 15, and the cluster report its use; both are decided at a start.
    for name, value in {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}.items():
        os.environ.setdefault(name, value)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            host, _, port = address.rpartition(":")
            with socket.create_connection((host, int(port)), _CONNECT_SECONDS):
                pass
        ray.init(address=address or "auto", **quiet)
    except (OSError, RuntimeError, ValueError) as why:
        if not address and isinstance(why, ConnectionError):
            from ray._private import ray_constants  # noqa: PLC0415

            # As Ray does on Windows and macOS: else it takes the machine's own address, whatever
            # is asked for, and its ports are open to all who reach them.
            ray_constants.ENABLE_RAY_CLUSTER = False
            ray.init(address="local", include_dashboard=False, **quiet)
            return True
        raise ConnectionError(
            f"`cluster` must be a Ray cluster that this machine belongs to, got {_word(address)} "
            f"({_first_line(why)}). Start one on its first machine by ray start --head, join it "
            "here by ray start --address=HOST:6379, and see docs/cluster.md."
        ) from why
    return True


def _check_nodes(ray: Any, folder: Path | None, cpus: float, gpus: float) -> None:
    """Raises an error if no machine is large enough for a task, or one cannot run any.

    Each machine needs this version of comixup, and has to see the output folder.
    """
    nodes, have = _machines(ray)
    if not any(c >= cpus and g >= gpus for c, g in have):
        raise ValueError(
            f"`cpus` and `gpus` must be what one machine has, got {cpus:g} and {gpus:g}, but the "
            f"machines of the cluster have {_listed(have)}."
        )

    def probe(path: str | None) -> tuple[str, str, bool]:  # pickled with its code: no comixup there
        import importlib.metadata  # noqa: PLC0415
        import os  # noqa: PLC0415
        import socket  # noqa: PLC0415

        try:
            version = importlib.metadata.version("comixup")
        except importlib.metadata.PackageNotFoundError:
            version = "none"
        return socket.gethostname(), version, path is None or os.path.exists(path)

    with contextlib.ExitStack() as stack:
        marker = None
        if folder is not None:
            make_folder(folder)
            marker = stack.enter_context(tempfile.NamedTemporaryFile(dir=folder)).name
        call = ray.remote(probe)
        probes = [_on_node(call, node["NodeID"]).remote(marker) for node in nodes]
        for host, found, sees in ray.get(probes):
            if found != version("comixup"):
                raise RuntimeError(
                    f"every machine of the cluster must have comixup {version('comixup')}, but "
                    f"{host} has {found}. Install it there, in the environment that runs Ray."
                )
            if not sees:
                raise RuntimeError(
                    f"`--out` must be a folder that all machines share, but {host} does not see "
                    f"{folder}. Choose one on a shared file system."
                )


def _machines(ray: Any) -> tuple[list[dict[str, Any]], list[tuple[float, float]]]:
    """Returns the nodes that are there, and the cores and GPUs of each."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    sizes = (node["Resources"] for node in nodes)
    return nodes, [(size.get("CPU", 0), size.get("GPU", 0)) for size in sizes]


def _listed(have: list[tuple[float, float]]) -> str:
    return ", ".join(f"{cpus:g} and {gpus:g}" for cpus, gpus in have)


def _on_node(remote: Any, node: str) -> Any:
    """Returns a remote function or class that runs on a certain machine, and takes no core."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return remote.options(num_cpus=0, scheduling_strategy=where)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


def _word(address: str) -> str:
    """Returns what names a cluster on the command line."""
    return f"ray:{address}" if address else "ray"
