"""Tasks on a Ray cluster of two nodes, all of it on this machine's loopback.

Each node has one core, so that two tasks run on different nodes.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

import cluster_tasks
from comixup.lab import _ray
from comixup.lab._cluster import Cluster
from comixup.lab._locks import locked
from comixup.lab._tasks import Task, check_done
from comixup.lab.training import RECIPES, Hardware, train_all
from small_runs import WAIT_SECONDS, assert_same_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
ray = pytest.importorskip("ray") if sys.version_info < (3, 11) else __import__("ray")

RECIPE = RECIPES["digits"].changed(model="lenet", epochs=12, batch_size=8, images_per_class=5)
METHODS, SEEDS = ["vanilla", "comixup"], (0, 1)
HOME, SECOND = "127.0.0.1", "127.0.0.2"
"""The nodes' addresses: Ray Train takes nodes of one address for one machine."""


@pytest.fixture(scope="module")
def nodes():
    """Two nodes; workers find the modules of the tests as this process does."""
    from ray.cluster_utils import Cluster as Nodes  # noqa: PLC0415 - imports much

    monkeypatch = pytest.MonkeyPatch()
    paths = [str(Path(cluster_tasks.__file__).parent), *filter(None, sys.path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    # A node that is gone counts as lost after 15 seconds, and one that has to wait for a core not.
    monkeypatch.setenv("RAY_health_check_period_ms", "1500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "10")
    # Else Ray puts the machine's own address in the place of 127.0.0.1.
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    settings = {"num_cpus": 1, "node_ip_address": HOME, "include_dashboard": False}
    found = Nodes(initialize_head=True, head_node_args=settings)
    try:
        found.add_node(num_cpus=1, node_ip_address=SECOND)
        ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
        yield found
    finally:
        ray.shutdown()
        found.shutdown()
        monkeypatch.undo()


def train_on(cluster, out, **options):
    options = {"seeds": SEEDS, "hardware": Hardware(accelerator="cpu"), **options}
    results, done = train_all(RECIPE, METHODS, cluster, out=out, **options)
    check_done(done)
    return results


def when(happened, action):
    """Does something in a thread as soon as something else has happened; returns the thread."""

    def watch():
        end = time.monotonic() + 5 * WAIT_SECONDS  # Ray Train starts a dozen processes first
        while not happened() and time.monotonic() < end:
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def busy_processes(out):
    """Returns the processes that train: those that hold a lock file of a run open."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            files = [os.readlink(entry) for entry in (folder / "fd").iterdir()]
        except OSError:
            continue
        if any(name.startswith(str(out)) and name.endswith("lock") for name in files):
            found.append(int(folder.name))
    return found


def test_tasks_fail_and_are_lost_as_on_one_machine(nodes, tmp_path, capsys, monkeypatch):
    tasks = [
        Task("bad", cluster_tasks.fail, ("no data",)),
        Task("after bad", cluster_tasks.double, (1,), needs=("bad",)),
        Task("good", cluster_tasks.double, (2,)),
        Task("once", cluster_tasks.die_once, (tmp_path,)),
        Task("process", cluster_tasks.about_process),
    ]
    done = {one.key: one for one in Cluster("ray").run(tasks, Console(width=200), tmp_path)}
    assert done["bad"].reason == f"no data (on {os.uname().nodename})"
    assert done["after bad"].reason == "it needs bad, which failed"
    assert (done["good"].result, done["once"].result) == (4, "lived")
    assert done["process"].result[0] != os.getpid()
    assert done["process"].result[2] == 1
    told = capsys.readouterr().out
    assert f"good on {os.uname().nodename}: epoch 1/1, value 2" in told
    assert told.count("is started again") == 1
    addresses = {node["NodeManagerAddress"] for node in ray.nodes()}
    assert addresses == {HOME, SECOND}
    with pytest.raises(ValueError, match=r"`cpus` and `gpus` must be what one machine has, got 2"):
        list(Cluster("ray", cpus=2).run(tasks))
    monkeypatch.chdir(tmp_path)  # which is another folder for the workers
    with pytest.raises(RuntimeError, match="`--out` must be a folder that all machines share"):
        list(Cluster("ray").run(tasks, folder=Path("/proc/self/cwd")))
    monkeypatch.setattr(_ray, "version", lambda name: "9.9")
    with pytest.raises(RuntimeError, match=r"every machine of the cluster must have comixup 9\.9"):
        list(Cluster("ray").run(tasks))


def test_what_a_machine_lacks_is_told_with_its_name_and_the_others_go_on(nodes, tmp_path):
    # All nodes are on this machine: what is missing is missing on each.
    here, missing = f"(on {os.uname().nodename})", tmp_path / "no data"
    options = {"out": tmp_path, "hardware": Hardware(accelerator="cpu")}
    cifar = RECIPES["cifar100-low-data"]
    _, done = train_all(cifar, METHODS, Cluster("ray"), data_root=missing, **options)
    for one in done:
        assert "cifar100 was not found" in one.reason
        assert one.reason.endswith(here)
    # Another driver is training one of two runs.
    short = RECIPE.changed(epochs=1)
    with locked(tmp_path / "digits" / "vanilla" / "seed-0"):
        results, done = train_all(short, ["vanilla"], Cluster("ray"), seeds=SEEDS, **options)
    (reason,) = [one.reason for one in done if one.error]
    assert "`folder` must not be in use, but another process" in reason
    assert reason.endswith(here)
    assert list(results["vanilla"]) == [1]
    task = Task("full", cluster_tasks.train_on_a_full_disk, (short, tmp_path / "full"))
    (full,) = Cluster("ray").run([task], folder=tmp_path)
    assert "could not be written (File too large)" in full.reason
    assert full.reason.endswith(here)


@pytest.fixture(scope="module")
def by_torchrun(tmp_path_factory):
    """The folder of a run in two processes that torchrun has started."""
    out = tmp_path_factory.mktemp("torchrun")
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "comixup"]
    words += ["train", "digits", "--model", "lenet", "--epochs", "12", "--batch-size", "8"]
    words += ["--images-per-class", "5", "--method", "comixup", "--accelerator", "cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run([*words, "--out", out], check=True, env=environment)
    return out / "digits" / "comixup" / "seed-0"


def train_in_two_processes(out, **hardware):
    hardware = Hardware(accelerator="cpu", **hardware)
    options = {"seeds": (0,), "out": out, "hardware": hardware}
    results, done = train_all(RECIPE, ["comixup"], Cluster("ray"), **options)
    check_done(done)
    return results["comixup"][0].folder


def test_one_run_on_two_nodes_is_what_torchrun_trains_though_a_worker_is_killed(
    nodes, tmp_path, by_torchrun
):
    killed = []

    def kill_worker():
        # The first process holds the lock; the other one is lost with it.
        killed.append(max(busy_processes(tmp_path)))
        os.kill(killed[0], signal.SIGKILL)

    saved = tmp_path / "digits" / "comixup" / "seed-0" / "checkpoint.pt"
    worker = when(lambda: saved.exists() and busy_processes(tmp_path), kill_worker)
    folder = train_in_two_processes(tmp_path, devices=1, num_nodes=2)
    worker.join()
    assert killed
    about = json.loads((folder / "run.json").read_text())
    assert (about["hardware"]["devices"], about["hardware"]["num_nodes"]) == (1, 2)
    assert len(about["starts"]) == 2
    assert_same_run(folder, by_torchrun)


def test_what_cannot_be_is_told_and_not_tried_again(nodes, tmp_path):
    for sizes in ({"devices": 2}, {"devices": 1, "num_nodes": 3}):  # Ray would wait for ever
        with pytest.raises(ValueError, match="`devices` and `num_nodes` must be what the cluster"):
            train_in_two_processes(tmp_path, **sizes)
    # Both processes raise it, and would again.
    with pytest.raises(ValueError, match=r"`sync_batch_norm` must be left out on CPUs") as told:
        train_in_two_processes(tmp_path, devices=1, num_nodes=2, sync_batch_norm=True)
    assert "(on " in str(told.value)


def test_what_one_of_the_processes_lacks_ends_all_of_them(nodes, tmp_path):
    task = Task("together", cluster_tasks.fail_in_the_second, (24 * 3600,))
    with pytest.raises(ValueError, match=r"^no data here \(on "):
        Cluster("ray").train_together(task, 1, 2, 30.0, tmp_path)


def test_a_grid_survives_a_killed_worker_and_a_killed_node(nodes, tmp_path):
    out, killed = tmp_path / "ray", []
    second = next(node for node in nodes.list_all_nodes() if not node.head)

    def kill_worker():
        killed.append(max(busy_processes(out)))
        os.kill(killed[0], signal.SIGKILL)

    def checkpoints():
        return len(list(out.rglob("checkpoint.pt")))

    worker = when(lambda: checkpoints() >= 1 and busy_processes(out), kill_worker)
    node = when(lambda: killed and checkpoints() >= 2, lambda: nodes.remove_node(second, False))
    results = train_on(Cluster("ray"), out)
    worker.join()
    node.join()
    assert killed
    assert len([one for one in ray.nodes() if one["Alive"]]) == 1
    alone = train_on(Cluster(cpus=1), tmp_path / "here")
    for method in METHODS:
        for seed in SEEDS:
            errors = [found[method][seed].metrics["error"] for found in (results, alone)]
            assert errors[0] == errors[1]
            assert_same_run(*(found[method][seed].folder for found in (results, alone)))
