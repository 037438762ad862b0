"""Many tasks on one machine or on a cluster: the one way in which several runs are trained.

A task calls a function in a process of its own choosing: this one (`here:1`), one of several that
are started on this machine (`here:N`), or one on any machine of a Ray cluster (`ray`). What a task
returns does not depend on where it runs. Nothing but this file imports Ray.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from comixup._atomic_write import make_folder
from comixup._checks import check_count, check_number
from comixup.lab._locks import InUseError
from comixup.lab._progress import Board, Progress, Tell

if TYPE_CHECKING:
    from rich.console import Console

HERE = "here:1"
MAX_PROCESSES = 1024
MAX_GPUS = 1024
RETRIES = 3
"""Of a task whose process or machine was lost."""
_LOCK_SECONDS = 60.0
_CONNECT_SECONDS = 5.0
_REFRESH_SECONDS = 0.5
_STOP_SECONDS = 30.0
"""From Ctrl-C to the end of tasks that do not save and stop by themselves."""
_MISTAKES = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError)
"""What missing data or a full disk raise: their message says enough."""


TellOf: TypeAlias = Callable[[str, str, "Progress | str"], None]
"""Shows what a task tells: its key, its machine, and what it said."""


@dataclass(frozen=True)
class Task:
    """A call, and what has to be done before it.

    Attributes:
        key: its name.
        call: a function of a module; it is called with `tell` and the arguments. `tell` shows a
            line of text, or how far the task is.
        arguments: of the call. They and what it returns can be pickled, but for `here:1`.
        needs: keys of the tasks that have to be done first.
        trains: whether it computes on a GPU, where there is one.
    """

    key: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ()
    trains: bool = False


@dataclass(frozen=True)
class Done:
    """What became of a task.

    Attributes:
        key: its name.
        result: what it returned; None if it failed.
        error: why it failed.
        host: machine that it ran on, if it was another.
    """

    key: str
    result: Any = None
    error: Exception | None = None
    host: str = ""

    @property
    def reason(self) -> str:
        """Why it failed, in a line."""
        text = " ".join(str(self.error).split()) or type(self.error).__name__
        if not isinstance(self.error, _MISTAKES):
            text = f"{type(self.error).__name__}: {text}"
        return f"{text} (on {self.host})" if self.host else text


def check_done(done: Sequence[Done]) -> None:
    """Raises `RuntimeError` that says why tasks failed, if any did."""
    failed = [one for one in done if one.error is not None]
    if failed:
        reasons = " ".join(dict.fromkeys(one.reason for one in failed))
        raise RuntimeError(f"{len(failed)} of {len(done)} tasks failed: {reasons}")


class LostError(RuntimeError):
    """The process or the machine of a task is gone; the task can be run again."""


@dataclass(frozen=True)
class Cluster:
    """Where tasks run.

    Attributes:
        cluster: "here:N" for N processes of this machine, which share its GPUs; "ray" for the Ray
            cluster that this machine belongs to, or else one on this machine alone; "ray:HOST:PORT"
            for another.
        cpus: cores, and so threads, of each task. By default the cores of this machine divided by
            N, and 1 with Ray.
        gpus: GPUs of each task that trains: 1, or a fraction to let several share one. By default
            the N processes share those of this machine, and with Ray each has one if there are any.
    """

    cluster: str = HERE
    cpus: int | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        kind, _, rest = self.cluster.partition(":")
        plain = rest.isascii() and rest.isdigit()
        if not ((kind == "here" and (plain or not rest)) or kind == "ray"):
            raise ValueError(
                "`cluster` must be here:N, ray or ray:HOST:PORT, got "
                f"{self.cluster[:200]!r}. For instance here:2 for two processes of this machine."
            )
        if kind == "here":
            check_count("cluster", int(rest or 1), high=MAX_PROCESSES)
        if self.cpus is not None:
            check_count("cpus", self.cpus, high=MAX_PROCESSES)
        if self.gpus is not None:
            check_number("gpus", self.gpus, high=MAX_GPUS)
            if self.inline:
                raise ValueError(
                    f"`gpus` must be left out with here:1, got {self.gpus:g}: its runs take the "
                    "device of --accelerator. Start several processes with --cluster here:N."
                )

    @property
    def processes(self) -> int | None:
        """How many are started on this machine; None with Ray."""
        kind, _, rest = self.cluster.partition(":")
        return int(rest or 1) if kind == "here" else None

    @property
    def inline(self) -> bool:
        """Whether tasks run in this process, one by one."""
        return self.processes == 1

    def run(
        self, tasks: Sequence[Task], console: Console | None = None, folder: Path | None = None
    ) -> Iterator[Done]:
        """Yields what becomes of each task, as they come.

        Those that fail or need one that failed are yielded with their error, and the others go on.
        Closing the iterator, or Ctrl-C, stops all tasks.

        Args:
            tasks: what to run.
            console: where to tell how far they are; None is silent.
            folder: what they write to; all machines have to see it.
        """
        kind = _Inline if self.inline else _Processes if self.processes else _RayTasks
        with kind(self, folder) as executor, Board(console, [task.key for task in tasks]) as board:
            yield from _run(tasks, executor, board)

    def train_together(
        self,
        task: Task,
        devices: int,
        nodes: int,
        minutes: float,
        folder: Path,
        console: Console | None = None,
    ) -> None:
        """Calls a task in many processes at once, by Ray Train: one run on several machines.

        They start together, find each other as those of torchrun do, and all start again when one
        is lost; the task goes on from its last checkpoint.

        Args:
            task: what each of them calls.
            devices: processes on each machine.
            nodes: machines.
            minutes: after which a process that does not answer counts as lost.
            folder: what the task writes to; all machines have to see it.
            console: where to tell how far the first process is; None is silent.
        """
        with _RayTasks(self, folder) as executor, Board(console, [task.key]) as board:
            executor.train_together(task, devices, nodes, minutes, folder, board.tell)


def _run(tasks: Sequence[Task], executor: _Executor, board: Board) -> Iterator[Done]:
    """Yields what becomes of tasks; those that are ready are started in their order."""
    pending = {task.key: task for task in tasks}
    failed: set[str] = set()
    running: dict[str, Task] = {}
    attempts: dict[str, int] = {}
    while pending or running:
        for key, task in list(pending.items()):
            lost = [other for other in task.needs if other in failed]
            if lost:
                del pending[key]
                done = Done(key, error=RuntimeError(f"it needs {lost[0]}, which failed"))
            elif executor.full or any(other in pending or other in running for other in task.needs):
                continue
            else:
                running[key] = pending.pop(key)
                executor.start(task, attempts.get(key, 0))
                continue
            failed.add(key)
            board.finish(key, done.reason)
            yield done
        for done in executor.results(board.tell) if running else ():
            task = running.pop(done.key)
            attempts[done.key] = attempts.get(done.key, 0) + 1
            if isinstance(done.error, LostError) and attempts[done.key] <= RETRIES:
                board.tell(done.key, "", f"{done.reason}; it is started again.")
                pending = {done.key: task, **pending}
                continue
            if done.error is not None:
                failed.add(done.key)
            board.finish(done.key, None if done.error is None else done.reason)
            yield done


# ---- Executors -----------------------------------------------------------------------------------


_Kind = TypeVar("_Kind", bound="_Executor")


class _Executor:
    """Runs tasks; leaving it stops those that are running."""

    def __enter__(self: _Kind) -> _Kind:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def full(self) -> bool:
        """Whether a task that is started now would have to wait for another."""
        raise NotImplementedError

    def start(self, task: Task, attempt: int) -> None:
        """Starts a task; attempts are counted from 0."""
        raise NotImplementedError

    def results(self, tell: TellOf) -> list[Done]:
        """Waits a moment for tasks that are done, and returns them; tells what others tell."""
        raise NotImplementedError


class _Inline(_Executor):
    """Runs a task in this process, when its result is asked for."""

    def __init__(self, cluster: Cluster, folder: Path | None) -> None:
        self.task: Task | None = None
        if cluster.cpus is not None:
            _set_threads(cluster.cpus)

    @property
    def full(self) -> bool:
        return self.task is not None

    def start(self, task: Task, attempt: int) -> None:
        self.task = task

    def results(self, tell: TellOf) -> list[Done]:
        task, self.task = self.task, None
        if task is None:
            return []
        try:
            return [
                Done(task.key, task.call(lambda said: tell(task.key, "", said), *task.arguments))
            ]
        except Exception as error:
            if getattr(error, "signal_number", None) is not None:  # the user stopped it: all stop
                raise
            return [Done(task.key, error=error)]


class _Processes(_Executor):
    """Runs tasks in processes of this machine: one pool for each, so that one may be killed."""

    def __init__(self, cluster: Cluster, folder: Path | None) -> None:
        self.count = cluster.processes or 1
        self.gpus = _shares_of_gpus(self.count, cluster.gpus)
        cores = int(os.environ.get("OMP_NUM_THREADS", "0").partition(",")[0])
        self.threads = cluster.cpus or cores or max(1, (os.cpu_count() or 1) // self.count)
        self.idle = list(reversed(range(self.count)))
        self.pools: dict[int, tuple[ProcessPoolExecutor, Connection, Future[int]]] = {}
        self.running: dict[Future[Any], tuple[str, int]] = {}

    @property
    def full(self) -> bool:
        return not self.idle

    def start(self, task: Task, attempt: int) -> None:
        number = self.idle.pop()
        if number not in self.pools:
            reader, writer = multiprocessing.Pipe(duplex=False)
            pool = ProcessPoolExecutor(
                1,
                multiprocessing.get_context("spawn"),
                _begin,
                (writer, self.gpus[number], self.threads, sys.argv),
            )
            self.pools[number] = pool, reader, pool.submit(os.getpid)
        future = self.pools[number][0].submit(_perform, task, attempt)
        self.running[future] = task.key, number

    def results(self, tell: TellOf) -> list[Done]:
        finished = wait(self.running, _REFRESH_SECONDS, FIRST_COMPLETED).done
        for _, reader, _ in self.pools.values():
            with contextlib.suppress(EOFError, OSError):
                while reader.poll():
                    key, said = reader.recv()
                    tell(key, "", said)
        done = []
        for future in finished:
            key, number = self.running.pop(future)
            self.idle.append(number)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                pool, reader, _ = self.pools.pop(number)
                pool.shutdown()
                reader.close()
                error = LostError("its process was killed")
            if error is not None and not isinstance(error, Exception):
                raise error
            done.append(Done(key, None if error else future.result(), error))
        return done

    def __exit__(self, *error: object) -> None:
        try:
            self._signal(signal.SIGTERM)  # runs save, and stop
            wait(self.running, _STOP_SECONDS)
        finally:
            self._signal(signal.SIGKILL)
            for pool, reader, _pid in self.pools.values():
                pool.shutdown(cancel_futures=True)
                reader.close()

    def _signal(self, number: int) -> None:
        """Sends a signal to the processes whose tasks are not done."""
        for future, (_, slot) in self.running.items():
            if not future.done():
                # A process that has just been started is waited for; one may have died meanwhile.
                with contextlib.suppress(BrokenProcessPool, ProcessLookupError):
                    os.kill(self.pools[slot][2].result(), number)


_writer: Connection | None = None
"""Of a process of `here:N`: to the one that started it."""


def _begin(writer: Connection, gpu: str | None, threads: int, command: list[str]) -> None:
    """Sets up a process of `here:N`."""
    global _writer
    _writer, sys.argv = writer, command  # which a run's metadata repeat
    if hasattr(os, "setsid"):  # Ctrl-C is for the parent, which passes it on
        os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # before CUDA is first used
    _set_threads(threads)


def _end_with_parent() -> None:
    """Ends a process of `here:N` whose parent was killed: nobody would ever end it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _perform(task: Task, attempt: int) -> Any:
    """Runs a task in a process of `here:N`."""

    def tell(said: Progress | str) -> None:
        assert _writer is not None
        _writer.send((task.key, said))

    return _call(task, attempt, tell)


def _call(task: Task, attempt: int, tell: Tell) -> Any:
    """Returns what a task returns; in another attempt it waits for the locks of the lost one.

    A process can outlive the machine that Ray has given up for lost.
    """
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return task.call(tell, *task.arguments)
        except InUseError:
            if not attempt or time.monotonic() > end:
                raise
            time.sleep(_REFRESH_SECONDS)


def _set_threads(count: int) -> None:
    import torch  # noqa: PLC0415 - slow to import

    torch.set_num_threads(count)


def _shares_of_gpus(processes: int, share: float | None) -> list[str | None]:
    """Returns the GPU of each process, in words of CUDA_VISIBLE_DEVICES; None where there is none.

    Args:
        processes: how many share those of this machine.
        share: of a GPU for each of them; None shares them out whatever there are.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        import torch  # noqa: PLC0415 - slow to import

        gpus = [str(k) for k in range(torch.cuda.device_count())]
    else:
        gpus = [word for word in named.split(",") if word]
    if share == 0:
        return [""] * processes
    if share is not None and (share > 1 or processes > int(1 / share) * len(gpus)):
        raise ValueError(
            f"`gpus` must be at most 1, and leave a share to each process of here:{processes}, got "
            f"{share:g} of {len(gpus)} GPUs. Start fewer processes, or leave --gpus out."
        )
    return [gpus[k % len(gpus)] if gpus else None for k in range(processes)]


# ---- Ray -----------------------------------------------------------------------------------------


class _RayTasks(_Executor):
    """Runs tasks on the machines of a Ray cluster."""

    def __init__(self, cluster: Cluster, folder: Path | None) -> None:
        self.ours = connect(cluster)
        import ray  # noqa: PLC0415 - of the extra `cluster`

        self.ray, self.cpus = ray, cluster.cpus or 1
        gpus = cluster.gpus
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
        finished, _ = self.ray.wait(list(self.running), timeout=_REFRESH_SECONDS)
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

        over = threading.Event()

        mistakes: list[Exception] = []

        def take() -> None:
            for key, host, said in self.ray.get(self.channel.take.remote()):
                if isinstance(said, Exception):
                    mistakes.append(said)
                else:
                    tell(key, host, said)

        def relay() -> None:
            while not over.wait(_REFRESH_SECONDS):
                take()

        settings = {"task": task, "threads": self.cpus, "channel": self.channel, "words": sys.argv}
        # Ray Train's own notes, which it wants all machines to see; runs have their folders.
        with tempfile.TemporaryDirectory(dir=folder) as notes:
            trainer = TorchTrainer(
                _perform_together,
                train_loop_config=settings,
                torch_config=TorchConfig(timeout_s=round(60 * minutes)),
                scaling_config=ray_train.ScalingConfig(
                    num_workers=devices * nodes,
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
        take()
        if mistakes:
            raise mistakes[0]

    def __exit__(self, *_: object) -> None:
        try:
            for ref in self.running:
                self.ray.cancel(ref)  # as by Ctrl-C: a run saves, and stops
            if self.running:
                refs = list(self.running)
                self.ray.wait(refs, num_returns=len(refs), timeout=_STOP_SECONDS)
        finally:
            for ref in self.running:
                self.ray.cancel(ref, force=True)
            self.ray.kill(self.channel)
            if self.ours:
                self.ray.shutdown()


_Said: TypeAlias = "tuple[str, str, Progress | str | Exception]"


class _Channel:
    """An actor on the driver's machine that keeps what tasks tell until the driver takes it."""

    def __init__(self) -> None:
        self.said: list[_Said] = []

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
    _set_threads(threads)
    try:
        return (
            host,
            _call(task, attempt, lambda said: channel.put.remote((task.key, host, said))),
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
    task, channel, host = settings["task"], settings["channel"], socket.gethostname()
    sys.argv = settings["words"]
    _set_threads(settings["threads"])

    def tell(said: Progress | str) -> None:
        channel.put.remote((task.key, host, said))

    try:
        _call(task, 1, tell)  # not its first attempt, perhaps
    except (ValueError, TypeError, FileNotFoundError, ImportError) as error:
        # Every process raises it, and would again: Ray Train is not to start them again.
        reason = Done(task.key, error=error, host=host).reason
        import ray  # noqa: PLC0415 - of the extra `cluster`

        ray.get(channel.put.remote((task.key, host, ValueError(reason))))


def connect(cluster: Cluster) -> bool:
    """Connects this process with a Ray cluster; returns whether it was not connected before.

    A cluster that is started here, where there is none, listens on this machine's loopback alone.
    """
    try:
        import ray  # noqa: PLC0415 - of the extra `cluster`
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"`--cluster {cluster.cluster}` needs Ray, which is not installed. Use pip install "
            "'comixup[cluster]'."
        ) from missing
    if ray.is_initialized():
        return False
    # Workers would run at niceness 15, and the cluster report its use; both are decided at a start.
    for name, value in {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}.items():
        os.environ.setdefault(name, value)
    address = cluster.cluster.partition(":")[2]
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
            f"`cluster` must be a Ray cluster that this machine belongs to, got {cluster.cluster} "
            f"({_first_line(why)}). Start one on its first machine by ray start --head, join it "
            "here by ray start --address=HOST:6379, and see docs/cluster.md."
        ) from why
    return True


def _check_nodes(ray: Any, folder: Path | None, cpus: float, gpus: float) -> None:
    """Raises an error if no machine is large enough for a task, or one cannot run any.

    Each machine needs this version of comixup, and has to see the output folder.
    """
    nodes = [node for node in ray.nodes() if node["Alive"]]
    sizes = [node["Resources"] for node in nodes]
    if not any(size.get("CPU", 0) >= cpus and size.get("GPU", 0) >= gpus for size in sizes):
        have = ", ".join(f"{s.get('CPU', 0):g} and {s.get('GPU', 0):g}" for s in sizes)
        raise ValueError(
            f"`cpus` and `gpus` must be what one machine has, got {cpus:g} and {gpus:g}, but the "
            f"machines of the cluster have {have}."
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


def _on_node(remote: Any, node: str) -> Any:
    """Returns a remote function or class that runs on a certain machine, and takes no core."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return remote.options(num_cpus=0, scheduling_strategy=where)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
