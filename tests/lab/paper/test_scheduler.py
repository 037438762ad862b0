"""Running jobs: once each, whoever runs them; what is locked elsewhere is left alone."""

import threading
import time

import pytest

from comixup.lab._locks import held_if_free, locked
from comixup.lab.paper import Job, Workspace, _scheduler, run_jobs, shard_of
from comixup.lab.paper._store import JobResult, is_done, job_folder, read_out, write_result

SIZE = {"kind": "paper", "size": (2, 2, 4)}


def job(name, *needs, seeds=range(1)):
    return Job(f"exhaustive/{name}", "exhaustive", {**SIZE, "seeds": seeds}, needs=needs)


JOBS = [job(name) for name in "abcde"]
BROKEN = Job("exhaustive/x", "exhaustive", {"kind": "paper", "size": (9, 9, 9), "seeds": range(1)})
"""Too large to be solved by exhaustion."""


def test_jobs_are_run_once(tmp_path):
    workspace = Workspace(tmp_path)
    outcome = run_jobs(JOBS[:2], workspace)
    assert outcome.made == ["exhaustive/a", "exhaustive/b"]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("job.json")}
    again = run_jobs(JOBS, workspace)
    assert again.made == ["exhaustive/c", "exhaustive/d", "exhaustive/e"]
    assert not again.failed
    assert not again.elsewhere
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert [row["seed"] for row in read_out(tmp_path)["exhaustive/a"].rows] == [0]


def test_a_job_that_is_locked_elsewhere_is_left_to_them(tmp_path):
    with locked(job_folder(tmp_path, "exhaustive/b")):
        outcome = run_jobs(JOBS, Workspace(tmp_path))
    assert outcome.elsewhere == ["exhaustive/b"]
    assert len(outcome.made) == len(JOBS) - 1
    assert run_jobs(JOBS, Workspace(tmp_path)).made == ["exhaustive/b"]


def test_a_needed_job_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(_scheduler, "POLL_SECONDS", 0.02)
    held = threading.Event()

    def make_elsewhere():
        with held_if_free(job_folder(tmp_path, "exhaustive/a")):
            held.set()
            time.sleep(0.2)
            write_result(tmp_path, "exhaustive/a", JobResult(({"seed": 7},), {}))

    other = threading.Thread(target=make_elsewhere)
    other.start()
    held.wait()
    outcome = run_jobs([job("f", JOBS[0])], Workspace(tmp_path))
    other.join()
    assert outcome.made == ["exhaustive/f"]
    assert not outcome.elsewhere
    assert read_out(tmp_path)["exhaustive/a"].rows == ({"seed": 7},)  # not made twice


def test_what_cannot_be_made_is_told_and_the_rest_is_done(tmp_path):
    dependent = job("g", BROKEN)
    outcome = run_jobs([BROKEN, dependent, JOBS[0]], Workspace(tmp_path))
    assert outcome.made == ["exhaustive/a"]
    assert set(outcome.failed) == {BROKEN.key, dependent.key}
    assert "must have at most" in outcome.failed[BROKEN.key]
    assert outcome.failed[dependent.key] == "it needs exhaustive/x, which could not be made"
    assert not is_done(tmp_path, BROKEN.key)


def test_shards_share_out_the_jobs(tmp_path):
    made = [
        run_jobs(JOBS, Workspace(tmp_path), shard=shard_of(f"{number}/3")).made
        for number in (1, 2, 3)
    ]
    assert [len(own) for own in made] == [2, 2, 1]
    assert sorted(key for own in made for key in own) == [each.key for each in JOBS]


def test_a_shard_runs_what_its_jobs_need(tmp_path):
    outcome = run_jobs([JOBS[0], job("f", JOBS[0])], Workspace(tmp_path), shard=(2, 2))
    assert outcome.made == ["exhaustive/a", "exhaustive/f"]


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2"])
def test_wrong_shards(text):
    with pytest.raises(ValueError, match=r"`--shard` must be i/n with 1 <= i <= n, got"):
        shard_of(text)


def test_wrong_workers(tmp_path):
    with pytest.raises(ValueError, match="`workers` must be"):
        run_jobs(JOBS, Workspace(tmp_path), workers=0)


def test_progress_is_told(tmp_path, capsys):
    from rich.console import Console  # noqa: PLC0415

    run_jobs(JOBS[:3], Workspace(tmp_path, console=Console(width=200)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 of 3 jobs, ")
    assert lines[-1] == "3 of 3 jobs, nothing left: exhaustive/c"


@pytest.mark.slow
def test_processes_work_side_by_side(tmp_path):
    outcome = run_jobs([*JOBS, BROKEN], Workspace(tmp_path), workers=2)
    assert sorted(outcome.made) == [each.key for each in JOBS]
    assert set(outcome.failed) == {BROKEN.key}
    assert all(is_done(tmp_path, each.key) for each in JOBS)
