"""Files are written whole or not at all."""

import os

import pytest

from comixup.training._files import write_whole


@pytest.mark.parametrize("content", ["text\n", b"\x00bytes", ""])
def test_content_takes_the_place_of_what_was_there(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(b"something longer that was there before")
    write_whole(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    (tmp_path / ".file.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(path, b"new")
    assert "what was there before is as it was" in str(caught.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_what_a_killed_process_left_is_replaced(tmp_path):
    (tmp_path / ".file.partial").write_bytes(b"half of something mu")
    write_whole(tmp_path / "file", b"whole")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"whole")]


def test_a_folder_that_is_gone(tmp_path):
    with pytest.raises(OSError, match="could not be written"):
        write_whole(tmp_path / "gone" / "file", "text")


def test_a_folder_in_the_files_place(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="could not be written"):
        write_whole(tmp_path / "file", "text")
    assert os.listdir(tmp_path) == ["file"]
