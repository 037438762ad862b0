"""Tasks on a Ray cluster of two nodes, all of it on this machine's loopback.

Each node has one core, so that two tasks run on different nodes.
"""

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
from comixup.lab import _cluster
from comixup.lab._cluster import Cluster, Task, check_done
from comixup.lab.training import RECIPES, Hardware, train_all
from small_runs import WAIT_SECONDS, assert_same_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
ray = pytest.importorskip("ray") if sys.version_info < (3, 11) else __import__("ray")

RECIPE = RECIPES["digits"].changed(model="lenet", epochs=12, batch_size=8, images_per_class=5)
METHODS, SEEDS = ["vanilla", "comixup"], (0, 1)
HOME = "127.0.0.1"


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
    # A node that is gone counts as lost after seconds, not half a minute.
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "4")
    # Else Ray puts the machine's own address in the place of 127.0.0.1.
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    settings = {"num_cpus": 1, "node_ip_address": HOME, "include_dashboard": False}
    found = Nodes(initialize_head=True, head_node_args=settings)
    try:
        found.add_node(num_cpus=1, node_ip_address=HOME)
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
        end = time.monotonic() + WAIT_SECONDS
        while not happened() and time.monotonic() < end:
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


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
    assert addresses == {HOME}
    with pytest.raises(ValueError, match=r"`cpus` and `gpus` must be what one machine has, got 2"):
        list(Cluster("ray", cpus=2).run(tasks))
    monkeypatch.setattr(_cluster, "version", lambda name: "9.9")
    with pytest.raises(RuntimeError, match=r"every machine of the cluster must have comixup 9\.9"):
        list(Cluster("ray").run(tasks))


def test_one_run_in_two_processes_is_what_torchrun_trains(nodes, tmp_path):
    # By their address, which they share, Ray takes both nodes for one machine.
    hardware = Hardware(accelerator="cpu", devices=2)
    options = {"seeds": (0,), "out": tmp_path / "ray", "hardware": hardware}
    results, done = train_all(RECIPE, ["comixup"], Cluster("ray"), **options)
    check_done(done)
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "comixup"]
    words += ["train", "digits", "--model", "lenet", "--epochs", "12", "--batch-size", "8"]
    words += ["--images-per-class", "5", "--method", "comixup", "--accelerator", "cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run([*words, "--out", tmp_path / "torchrun"], check=True, env=environment)
    assert_same_run(results["comixup"][0].folder, tmp_path / "torchrun" / "digits/comixup/seed-0")


def test_a_grid_survives_a_killed_worker_and_a_killed_node(nodes, tmp_path):
    out, killed = tmp_path / "ray", []
    second = next(node for node in nodes.list_all_nodes() if not node.head)

    def kill_worker():
        pid = max(int(line) for line in (tmp_path / "pids").read_text().split())
        killed.append(pid)
        os.kill(pid, signal.SIGKILL)

    def checkpoints():
        return len(list(out.rglob("checkpoint.pt")))

    def busy_workers():
        """Writes the processes that train: those that hold a lock file open."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                files = [os.readlink(entry) for entry in (folder / "fd").iterdir()]
            except OSError:
                continue
            if any(name.startswith(str(out)) and name.endswith("lock") for name in files):
                found.append(folder.name)
        (tmp_path / "pids").write_text("\n".join(found))
        return found

    worker = when(lambda: checkpoints() >= 1 and busy_workers(), kill_worker)
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
