"""Tasks in this process and in others of this machine: results as they come, whatever fails."""

import contextlib
import re
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest
from rich.console import Console

import cluster_tasks
from comixup.lab import _here, _ray, _tasks
from comixup.lab._cluster import Cluster
from comixup.lab._tasks import Task, check_done

HERE = ("here:1", "here:2")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(cluster_tasks.__file__).parent))


def tasks_that_fail():
    return [
        Task("bad", cluster_tasks.fail, ("no data",)),
        Task("after bad", cluster_tasks.double, (1,), needs=("bad",)),
        Task("after good", cluster_tasks.double, (2,), needs=("good",)),
        Task("good", cluster_tasks.double, (3,)),
    ]


@pytest.mark.parametrize("where", [HERE[0], pytest.param(HERE[1], marks=pytest.mark.slow)])
def test_what_fails_is_told_and_the_others_go_on(where, capsys):
    done = list(Cluster(where).run(tasks_that_fail(), Console(width=200)))
    assert {one.key: one.result for one in done if not one.error} == {"good": 6, "after good": 4}
    assert {one.key: one.reason for one in done if one.error} == {
        "bad": "no data",
        "after bad": "it needs bad, which failed",
    }
    keys = [one.key for one in done]
    assert keys.index("good") < keys.index("after good")
    told = capsys.readouterr().out
    assert "good: epoch 1/1, value 3\n" in told
    assert "left: bad failed: no data\n" in told
    assert f"4 of 4 done, nothing left: {keys[-1]}" in told
    with pytest.raises(RuntimeError, match=r"^2 of 4 tasks failed: no data it needs bad, which"):
        check_done(done)
    check_done([one for one in done if not one.error])


def test_one_process_runs_tasks_in_their_order():
    tasks = [Task(str(value), cluster_tasks.double, (value,)) for value in range(4)]
    running = Cluster().run(tasks)
    assert next(running).result == 0  # as they come: the others wait
    assert [one.result for one in running] == [2, 4, 6]


@pytest.mark.slow
def test_processes_share_the_gpus_and_the_cores(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    tasks = [Task(str(k), cluster_tasks.about_process, (0.5,)) for k in range(4)]
    done = list(Cluster("here:2", cpus=1).run(tasks))
    assert len({one.result[0] for one in done}) == 2
    assert {one.result[1:] for one in done} == {("4", 1), ("7", 1)}


def test_shares_of_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert _here._shares_of_gpus(5, None) == ["4", "7", "4", "7", "4"]
    assert _here._shares_of_gpus(4, 0.5) == ["4", "7", "4", "7"]
    assert _here._shares_of_gpus(2, 0) == ["", ""]
    for processes, share in ((3, 1), (5, 0.5), (1, 2)):
        with pytest.raises(ValueError, match=r"`gpus` must be at most 1, and leave a share"):
            _here._shares_of_gpus(processes, share)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _here._shares_of_gpus(2, None) == [None, None]


@pytest.mark.slow
def test_a_task_whose_process_is_killed_is_started_again(tmp_path, capsys):
    tasks = [
        Task("once", cluster_tasks.die_once, (tmp_path,)),
        Task("always", cluster_tasks.die),
        Task("other", cluster_tasks.double, (5,)),
    ]
    done = {one.key: one for one in Cluster("here:2").run(tasks, Console(width=200))}
    assert done["once"].result == "lived"
    assert done["other"].result == 10
    assert "its process was killed" in done["always"].reason
    told = capsys.readouterr().out
    assert told.count("always: its process") == _tasks.RETRIES
    assert told.count("once: its process") == 1


@pytest.mark.parametrize("where", ["", "here:", "there", "here:x", "here:-1", "2", "here:2:3"])
def test_wrong_clusters(where):
    if where == "here:":
        assert Cluster(where).inline
        return
    with pytest.raises(ValueError, match=r"`cluster` must be here:N, ray or ray:HOST:PORT, got"):
        Cluster(where)


def test_wrong_numbers():
    with pytest.raises(ValueError, match="`cluster` must be"):
        Cluster("here:0")
    with pytest.raises(ValueError, match="`cpus` must be"):
        Cluster(cpus=0)
    with pytest.raises(ValueError, match="`gpus` must be"):
        Cluster(gpus=-1)
    with pytest.raises(ValueError, match="`gpus` must be left out with here:1, got 1"):
        Cluster(gpus=1)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "127.0.0.1:port", "nowhere.:6379"])
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_wrong_address_is_told_at_once(address):
    with pytest.raises(ConnectionError, match=r"`cluster` must be a Ray cluster that this machine"):
        list(Cluster(f"ray:{address}").run([Task("a", cluster_tasks.double, (1,))]))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_cluster_that_is_started_here_listens_on_loopback_alone(monkeypatch):
    psutil, _ = pytest.importorskip("psutil"), pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(Path(cluster_tasks.__file__).parent))
    with contextlib.closing(Cluster("ray").run([Task("a", cluster_tasks.double, (1,))])) as running:
        assert next(running).result == 2
        addresses = [
            ip_address(socket.laddr.ip)
            for process in (psutil.Process(), *psutil.Process().children(recursive=True))
            for socket in process.net_connections("inet")
            if socket.status == psutil.CONN_LISTEN
        ]
    assert len(addresses) > 5  # its servers, the driver and a worker
    for address in addresses:
        assert (getattr(address, "ipv4_mapped", None) or address).is_loopback, addresses


def test_without_ray_it_is_said_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs Ray, .*'comixup\[cluster\]'"):
        list(Cluster("ray").run([Task("a", cluster_tasks.double, (1,))]))


def test_no_other_file_imports_ray():
    source = Path(_ray.__file__).parents[1]
    lines = r"^\s*(from|import) ray\b"
    found = [path for path in source.rglob("*.py") if re.search(lines, path.read_text(), re.M)]
    assert found == [Path(_ray.__file__)]
