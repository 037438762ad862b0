"""Downloads from a server on this machine: hostile archives, and transfers that break off."""

import contextlib
import dataclasses
import errno
import gzip
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from torchvision import datasets

from comixup.lab.data import _cifar, _download, load
from comixup.lab.data._download import Archive, fetch
from data_files import write_cifar100

FOLDER = "cifar-100-python"
FILES = ("train", "test", "meta")


class Handler(BaseHTTPRequestHandler):
    """Sends what the server holds, in the server's way."""

    def do_GET(self):
        self.server.requests += 1
        self.server.answer(self, self.server.content)

    def log_message(self, *_):
        """Nothing."""


def whole(handler, content):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def half(handler, content):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])


def half_without_a_length(handler, content):
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])


def without_end(handler, content):
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(1000):
            handler.wfile.write(bytes(10**5))


def other_bytes(handler, content):
    whole(handler, content[:-1] + bytes([content[-1] ^ 1]))


def nothing(handler, content):
    whole(handler, b"")


def missing(handler, content):
    handler.send_error(404)


def no_http(handler, content):
    handler.wfile.write(b"\x1b[2J\xff\n\n")


def reset(handler, content):
    handler.connection.close()


def silence(handler, content):
    handler.server.quiet.wait(20)


def round_and_round(handler, content):
    handler.send_response(302)
    handler.send_header("Location", handler.path)
    handler.end_headers()


def to_a_file(handler, content):
    handler.send_response(302)
    handler.send_header("Location", "file:///etc/passwd")
    handler.end_headers()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(_download, "TIMEOUT", 5.0)
    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.daemon_threads = True
    served.answer, served.requests, served.quiet = whole, 0, threading.Event()
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield served
    served.quiet.set()
    served.shutdown()
    served.server_close()
    thread.join(timeout=10)


@pytest.fixture
def files(tmp_path):
    """The contents of the data set's files, by name."""
    write_cifar100(tmp_path / "made")
    contents = {name: (tmp_path / "made" / FOLDER / name).read_bytes() for name in FILES}
    shutil.rmtree(tmp_path / "made")
    return contents


def member(name, content=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def packed(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def usual(files):
    return [member(f"{FOLDER}/{name}", content) for name, content in files.items()]


def served_by(server, content, **changes):
    """An archive that the server holds."""
    server.content = content
    known = Archive(
        url=f"http://127.0.0.1:{server.server_port}/{FOLDER}.tar.gz",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        folder=FOLDER,
    )
    return dataclasses.replace(known, **changes)


@pytest.fixture
def publish(server, monkeypatch):
    """Lets `load` find an archive on the server."""

    def publish(content, **changes):
        archive = served_by(server, content, **changes)
        kind = dataclasses.replace(_cifar.KINDS["cifar100"], archive=archive)
        monkeypatch.setitem(_cifar.KINDS, "cifar100", kind)
        return archive

    return publish


def tree(folder):
    return sorted(os.path.relpath(path, folder) for path in folder.rglob("*"))


WHOLE = sorted([FOLDER, *(f"{FOLDER}/{name}" for name in FILES)])


def test_what_is_missing_is_fetched_once(tmp_path, server, files, publish):
    publish(packed(usual(files)))
    root = tmp_path / "new" / "root"
    data = load("cifar100", root, download=True)
    assert len(data.train) == 40
    assert tree(root) == WHOLE
    for name, content in files.items():
        assert (root / FOLDER / name).read_bytes() == content
    load("cifar100", root, download=True)
    load("cifar100", root / FOLDER, download=True)
    assert server.requests == 1


def test_an_archive_that_lies_there_is_not_fetched(tmp_path, server, files, publish):
    archive = publish(packed(usual(files)))
    (tmp_path / archive.filename).write_bytes(server.content)
    load("cifar100", tmp_path, download=True)
    assert server.requests == 0


@pytest.mark.parametrize("damage", [lambda c: c[:-1], lambda c: c[:-1] + b"x", lambda c: b""])
def test_a_damaged_archive_that_lies_there_is_fetched_again(
    tmp_path, server, files, publish, damage
):
    archive = publish(packed(usual(files)))
    (tmp_path / archive.filename).write_bytes(damage(server.content))
    load("cifar100", tmp_path, download=True)
    assert server.requests == 1


def test_files_that_are_there_are_left_alone(tmp_path, server, files, publish):
    publish(packed(usual({**files, "meta": b"another"})))
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "meta").write_bytes(files["meta"])
    load("cifar100", tmp_path, download=True)
    assert (tmp_path / FOLDER / "meta").read_bytes() == files["meta"]


# ---- Transfers that break off -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (half, r"it broke off after \d+ of \d+ bytes"),
        (half_without_a_length, r"it broke off after \d+ of \d+ bytes"),
        (nothing, r"it broke off after 0 of \d+ bytes"),
        (without_end, r"it has more than the \d+ bytes that it should have"),
        (other_bytes, r"its SHA-256 is [0-9a-f]{64} instead of"),
        (missing, "HTTP Error 404"),
        (no_http, r"\?\[2J"),
        (reset, ""),
        (silence, "timed out"),
        (round_and_round, "HTTP Error 302"),
        (to_a_file, "HTTP Error 302"),
    ],
)
def test_failed_transfers_leave_nothing_and_are_repeated(
    tmp_path, server, files, publish, monkeypatch, answer, reason
):
    monkeypatch.setattr(_download, "TIMEOUT", 0.5 if answer is silence else 5.0)
    archive = publish(packed(usual(files)))
    server.answer = answer
    expected = rf"CIFAR100 could not be fetched from {archive.url}: .*{reason}.* other means"
    with pytest.raises(RuntimeError, match=expected):
        load("cifar100", tmp_path, download=True)
    assert tree(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="cifar100 was not found"):
        load("cifar100", tmp_path)
    server.answer = whole
    assert len(load("cifar100", tmp_path, download=True).test) == 20
    assert tree(tmp_path) == WHOLE


def test_nobody_listens(tmp_path, server, files, publish):
    publish(packed(usual(files)), url="http://127.0.0.1:9/a.tar.gz")
    with pytest.raises(RuntimeError, match="could not be fetched"):
        load("cifar100", tmp_path, download=True)
    assert tree(tmp_path) == []


@pytest.mark.parametrize("step", ["_download", "_unpack", "_copy"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=repr
)
def test_interruptions_leave_nothing(tmp_path, files, publish, monkeypatch, step, error):
    publish(packed(usual(files)))
    step_itself = getattr(_download, step)

    def interrupted(*arguments):
        step_itself(*arguments)
        raise error

    monkeypatch.setattr(_download, step, interrupted)
    with pytest.raises((KeyboardInterrupt, RuntimeError)):
        load("cifar100", tmp_path, download=True)
    assert tree(tmp_path) == []
    monkeypatch.undo()


def test_an_interruption_between_two_files_is_made_good(tmp_path, files, publish, monkeypatch):
    publish(packed(usual(files)))
    replace, moved = os.replace, []

    def interrupted(source, target):
        if moved:
            raise KeyboardInterrupt
        moved.append(target)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load("cifar100", tmp_path, download=True)
    assert tree(tmp_path) == [FOLDER, f"{FOLDER}/train"]
    with pytest.raises(FileNotFoundError, match="not whole: test, meta missing"):
        load("cifar100", tmp_path)
    assert len(load("cifar100", tmp_path, download=True).test) == 20


def test_what_a_kill_left_is_removed_after_a_day(tmp_path, files, publish):
    publish(packed(usual(files)))
    old, new, future = (tmp_path / FOLDER / f".comixup-download-{name}" for name in "onf")
    for folder, age in ((old, 10**6), (new, 0), (future, -(10**6))):
        folder.mkdir(parents=True)
        (folder / "archive").write_bytes(b"x")
        os.utime(folder, (time.time() - age,) * 2)
    load("cifar100", tmp_path, download=True)
    assert not old.exists()
    assert new.exists()  # perhaps another process is at work
    assert future.exists()  # the clock was set back


def test_two_at_once_both_succeed(tmp_path, files, publish):
    publish(packed(usual(files)))
    results = []

    def run():
        results.append(len(load("cifar100", tmp_path, download=True).train))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert results == [40] * 4
    assert tree(tmp_path) == WHOLE


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
def test_a_kill_leaves_nothing_that_passes_for_the_data(tmp_path, server, files, publish):
    archive = publish(packed(usual(files)))

    def half_then_silence(handler, content):
        half(handler, content)
        handler.wfile.flush()
        handler.server.quiet.wait(60)

    server.answer = half_then_silence
    program = f"""
        from pathlib import Path
        from comixup.lab.data._download import Archive, fetch
        fetch({archive!r}, {FILES!r}, Path({str(tmp_path)!r}), "CIFAR100")
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.rglob("archive")) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.3)
    finally:
        process.kill()
        process.wait(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.rglob("archive"))
    with pytest.raises(FileNotFoundError, match="not whole: train, test, meta missing"):
        load("cifar100", tmp_path)
    server.answer = whole
    assert len(load("cifar100", tmp_path, download=True).test) == 20


# ---- Hostile archives ---------------------------------------------------------------------------


def climbing(target, files):
    names = ["../evil", "/tmp/evil", f"{FOLDER}/../../evil", f"{FOLDER}/../evil", "C:\\evil"]
    names += [f"{target}/evil", "./././../evil", f"{FOLDER}/sub/evil", "evil", "..\\evil"]
    return [member(name, b"evil") for name in names] + usual(files)


def links(target, files):
    link, hard = {"type": tarfile.SYMTYPE}, {"type": tarfile.LNKTYPE}
    return [
        member(f"{FOLDER}/out", linkname=str(target), **link),
        member(f"{FOLDER}/out/evil", b"evil"),
        member(f"{FOLDER}/up", linkname="../..", **link),
        member(f"{FOLDER}/up/evil", b"evil"),
        member(f"{FOLDER}/passwd", linkname="/etc/passwd", **hard),
        *usual(files),
    ]


def devices(target, files):
    kinds = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    odd = [member(f"{FOLDER}/device{n}", type=kind) for n, kind in enumerate(kinds)]
    return [*odd, member("evil", b"#!", mode=0o6777, uid=0), *usual(files)]


@pytest.mark.parametrize("hostile", [climbing, links, devices])
def test_what_is_not_expected_is_not_written(tmp_path, server, files, hostile):
    target, root = tmp_path / "target", tmp_path / "root"
    target.mkdir()
    root.mkdir()
    archive = served_by(server, packed(hostile(target, files)))
    before = tree(tmp_path)
    fetch(archive, FILES, root, "CIFAR100")
    assert tree(root) == WHOLE
    assert tree(tmp_path) == sorted([*before, *(f"root/{path}" for path in WHOLE)])
    assert not os.path.exists("/tmp/evil")
    for name, content in files.items():
        assert (root / FOLDER / name).read_bytes() == content
        assert not (root / FOLDER / name).is_symlink()


ODD = {
    "link": lambda files: member(f"{FOLDER}/train", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "hard link": lambda files: member(f"{FOLDER}/train", type=tarfile.LNKTYPE, linkname="meta"),
    "device": lambda files: member(f"{FOLDER}/train", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "pipe": lambda files: member(f"{FOLDER}/train", type=tarfile.FIFOTYPE),
    "folder": lambda files: member(f"{FOLDER}/train", type=tarfile.DIRTYPE),
    "twice": lambda files: member(f"{FOLDER}/test", files["test"]),
    "absent": lambda files: member(f"{FOLDER}/train.txt", b"x"),
    "below": lambda files: member(f"deeper/{FOLDER}/train", files["train"]),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_takes_the_place_of_a_file_is_rejected(tmp_path, server, files, kind):
    rest = usual({name: files[name] for name in ("test", "meta")})
    archive = served_by(server, packed([*rest, ODD[kind](files)]))
    with pytest.raises(RuntimeError, match=r"no regular file, or comes twice|it has no .*train"):
        fetch(archive, FILES, tmp_path, "CIFAR100")
    assert tree(tmp_path) == []


def pax_bomb(files):
    """A header that says that a gigabyte of headers follows."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 2**30
    return info.tobuf(tarfile.USTAR_FORMAT) + bytes(10**6)


def long_names(files):
    """Headers for long names, one in front of the other."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1
    return (info.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")) * 3000


def sparse(files):
    """A file of 8 gigabytes of which nothing is stored."""
    info = tarfile.TarInfo(f"{FOLDER}/train")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 0
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[483:495] = b"%011o\0" % (8 * 2**30)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def large(files):
    """A file that says that it has a gigabyte, and has."""
    info = tarfile.TarInfo(f"{FOLDER}/train")
    info.size = 2**30
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(3 * 10**7)


def large_elsewhere(files):
    info = tarfile.TarInfo(f"{FOLDER}/notes")
    info.size = 2**30
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(3 * 10**7)


def many(files):
    return b"".join(tarfile.TarInfo(f"{n}").tobuf(tarfile.GNU_FORMAT) for n in range(3000))


def negative(files):
    """A member of negative size leads back to itself."""
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" * 10 + b"\xfc\x00"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) * 2


@pytest.mark.parametrize(
    "bomb", [pax_bomb, long_names, sparse, large, large_elsewhere, many, negative]
)
def test_bombs_are_rejected_soon(tmp_path, server, files, bomb):
    content = gzip.compress(bomb(files) + bytes(1024))
    archive = served_by(server, content)
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="CIFAR100 could not be fetched") as caught:
        fetch(archive, FILES, tmp_path, "CIFAR100")
    assert time.perf_counter() - start < 30
    assert len(str(caught.value)) < 1000
    assert tree(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b" + bytes(50)])
def test_what_is_no_archive_is_rejected(tmp_path, server, content):
    archive = served_by(server, content)
    with pytest.raises(RuntimeError, match="CIFAR100 could not be fetched"):
        fetch(archive, FILES, tmp_path, "CIFAR100")
    assert tree(tmp_path) == []


@pytest.mark.parametrize("part", [0.3, 0.7, 0.999])
def test_a_cut_archive_is_rejected(tmp_path, server, files, part):
    content = packed(usual(files))
    archive = served_by(server, content[: round(part * len(content))])
    with pytest.raises(RuntimeError, match="CIFAR100 could not be fetched"):
        fetch(archive, FILES, tmp_path, "CIFAR100")
    assert tree(tmp_path) == []


def test_a_root_that_cannot_be_written_to_is_named(tmp_path, server, files):
    archive = served_by(server, packed(usual(files)))
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match=r"CIFAR100 could not be fetched .*Not a directory"):
        fetch(archive, FILES, tmp_path / "file", "CIFAR100")


def test_links_in_the_way_are_replaced_and_not_followed(tmp_path, server, files):
    archive = served_by(server, packed(usual(files)))
    other = tmp_path / "precious"
    other.write_text("precious")
    (tmp_path / "root" / FOLDER).mkdir(parents=True)
    (tmp_path / "root" / FOLDER / "train").symlink_to(other)
    fetch(archive, FILES, tmp_path / "root", "CIFAR100")
    assert other.read_text() == "precious"
    assert (tmp_path / "root" / FOLDER / "train").read_bytes() == files["train"]


def test_the_official_archives_are_those_of_torchvision():
    for kind in _cifar.KINDS.values():
        listed = getattr(datasets, kind.title)
        assert kind.archive.url == listed.url
        assert kind.archive.filename == listed.filename
        assert kind.archive.folder == listed.base_folder
        assert kind.archive.url.startswith("https://")
