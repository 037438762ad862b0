"""Running jobs: once each; what somebody else is working on is left alone."""

from rich.console import Console

from comixup.lab._locks import locked
from comixup.lab.paper import Job, Workspace, run_jobs
from comixup.lab.paper._store import JobResult, is_done, job_folder, read_out, write_result

SIZE = {"kind": "paper", "size": (2, 2, 4)}


def job(name, *needs, seeds=range(1)):
    return Job(f"exhaustive/{name}", "exhaustive", {**SIZE, "seeds": seeds}, needs=needs)


JOBS = [job(name) for name in "abcde"]
BROKEN = Job("exhaustive/x", "exhaustive", {"kind": "paper", "size": (9, 9, 9), "seeds": range(1)})
"""Too large to be solved by exhaustion."""


def made(done):
    return [one.key for one in done if one.error is None]


def failed(done):
    return {one.key: one.reason for one in done if one.error is not None}


def test_jobs_are_run_once(tmp_path):
    workspace = Workspace(tmp_path)
    assert made(run_jobs(JOBS[:2], workspace)) == ["exhaustive/a", "exhaustive/b"]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("job.json")}
    again = run_jobs(JOBS, workspace)
    assert made(again) == ["exhaustive/c", "exhaustive/d", "exhaustive/e"]
    assert not failed(again)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert [row["seed"] for row in read_out(tmp_path)["exhaustive/a"].rows] == [0]


def test_a_job_that_is_locked_elsewhere_is_left_to_them(tmp_path):
    with locked(job_folder(tmp_path, "exhaustive/b")):
        done = run_jobs([*JOBS, job("f", JOBS[1])], Workspace(tmp_path))
    assert len(made(done)) == len(JOBS) - 1
    assert "another process (or thread) is working in" in failed(done)["exhaustive/b"]
    assert failed(done)["exhaustive/f"] == "it needs exhaustive/b, which failed"
    assert made(run_jobs(JOBS, Workspace(tmp_path))) == ["exhaustive/b"]


def test_a_needed_job_is_run_first_unless_it_is_done(tmp_path):
    dependent = job("f", JOBS[0])
    assert made(run_jobs([dependent], Workspace(tmp_path))) == ["exhaustive/a", "exhaustive/f"]
    other = tmp_path / "other"
    job_folder(other, "exhaustive/a").mkdir(parents=True)
    write_result(other, "exhaustive/a", JobResult(({"seed": 7},), {}))
    assert made(run_jobs([dependent], Workspace(other))) == ["exhaustive/f"]
    assert read_out(other)["exhaustive/a"].rows == ({"seed": 7},)  # not made twice


def test_what_cannot_be_made_is_told_and_the_rest_is_done(tmp_path):
    done = run_jobs([BROKEN, job("g", BROKEN), JOBS[0]], Workspace(tmp_path))
    assert made(done) == ["exhaustive/a"]
    assert "must have at most" in failed(done)[BROKEN.key]
    assert not is_done(tmp_path, BROKEN.key)


def test_progress_is_told(tmp_path, capsys):
    run_jobs(JOBS[:3], Workspace(tmp_path, console=Console(width=200)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 of 3 done, ")
    assert lines[-1] == "3 of 3 done, nothing left: exhaustive/c"
