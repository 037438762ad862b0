"""Files are written whole or not at all."""

import os
import threading

import pytest

from comixup._atomic_write import atomic_write
from small_runs import WAIT_SECONDS, processes


@pytest.mark.parametrize("content", ["text\n", b"\x00bytes", ""])
def test_content_takes_the_place_of_what_was_there(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(b"something longer that was there before")
    atomic_write(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    (tmp_path / ".file.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught:
        atomic_write(path, b"new")
    assert "the old file is unchanged" in str(caught.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"


def test_what_a_killed_process_left_is_replaced(tmp_path):
    (tmp_path / ".file.partial").write_bytes(b"half of something mu")
    atomic_write(tmp_path / "file", b"whole")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"whole")]


def test_a_folder_in_the_files_place(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="could not be written"):
        atomic_write(tmp_path / "file", "text")
    assert os.listdir(tmp_path) == ["file"]


SIZES = (10, 300_000)


def write_often(path, letter, barrier):
    try:
        for number in range(50):
            barrier.wait(WAIT_SECONDS)
            atomic_write(path, letter * SIZES[number % 2])
    except OSError:
        barrier.abort()
        raise


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_writers_at_the_same_instant_leave_the_content_of_one(tmp_path, kind):
    path = tmp_path / "file"
    atomic_write(path, b"a" * SIZES[0])
    if kind == "processes":
        barrier, start = processes.Barrier(2), processes.Process
    else:
        barrier, start = threading.Barrier(2), threading.Thread
    writers = [start(target=write_often, args=(path, letter, barrier)) for letter in (b"a", b"b")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        content = path.read_bytes()
        assert content in [letter * size for letter in (b"a", b"b") for size in SIZES]
    for writer in writers:
        writer.join()
        assert getattr(writer, "exitcode", 0) == 0
    assert list(tmp_path.iterdir()) == [path]
