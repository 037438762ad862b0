"""CIFAR by torchvision's readers: no file is read unless its MD5 is the official one."""

import hashlib
import os
import pickle
import shutil
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from torchvision import datasets

from comixup.lab.data import load
from data_files import assert_same, batches, write_cifar10, write_cifar100
from small_cifar import accept_official

FOLDER = "cifar-100-python"
FILES = ("meta", "test", "train")


@pytest.fixture
def written(tmp_path):
    return write_cifar100(tmp_path)


@pytest.fixture
def folder(tmp_path, written):
    return tmp_path / FOLDER


@pytest.fixture
def official(monkeypatch):
    """The MD5 that users' files have to have."""
    accept_official(monkeypatch)


def test_cifar100_is_read(tmp_path, written):
    data = load("cifar100", tmp_path)
    assert data.classes == ("thing 0", "thing 1", "thing 2", "thing 3")
    assert (data.name, data.shape, data.validation) == ("cifar100", (3, 32, 32), None)
    for split, name in ((data.train, "train"), (data.test, "test")):
        pixels, labels = written[name]
        images = torch.from_numpy(pixels).view(-1, 3, 32, 32)
        torch.testing.assert_close(split.images, images, rtol=0, atol=0)
        assert split.images.is_contiguous()
        assert split.targets.tolist() == labels
        assert split.targets.dtype == torch.int64
    assert (data.train.pad, data.train.flip) == (2, True)
    assert data.mean == (129.3 / 255, 124.1 / 255, 112.4 / 255)
    assert data.std == (68.2 / 255, 65.4 / 255, 70.4 / 255)


def test_cifar10_is_read_from_all_five_files(tmp_path):
    written = write_cifar10(tmp_path)
    data = load("cifar10", tmp_path)
    pixels = np.concatenate([written[f"data_batch_{i}"][0] for i in range(1, 6)])
    torch.testing.assert_close(data.train.images.flatten(1), torch.from_numpy(pixels))
    torch.testing.assert_close(
        data.test.images.flatten(1), torch.from_numpy(written["test_batch"][0])
    )
    assert data.train.targets[6:12].tolist() == written["data_batch_2"][1]
    assert data.classes == ("kind 0", "kind 1", "kind 2")


def test_the_root_may_be_the_folder_itself(folder, tmp_path):
    folder.rename(tmp_path / "other name")
    assert len(load("cifar100", tmp_path / "other name").test) == 20


# ---- Files that are not the official ones -------------------------------------------------------


class Canary:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def md5(path):
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


@pytest.fixture
def known(folder, monkeypatch):
    """The MD5 of the written files are the official ones."""
    for name in ("train", "test"):
        monkeypatch.setattr(datasets.CIFAR100, f"{name}_list", [[name, md5(folder / name)]])
    meta = {**datasets.CIFAR100.meta, "md5": md5(folder / "meta")}
    monkeypatch.setattr(datasets.CIFAR100, "meta", meta)


@pytest.mark.parametrize("file", FILES)
def test_a_hostile_file_is_rejected_unread(tmp_path, folder, known, file):
    canary = tmp_path / "canary"
    load("cifar100", tmp_path)
    (folder / file).write_bytes(pickle.dumps({"data": Canary(canary)}))
    with pytest.raises(ValueError, match=rf"{file} is damaged or changed: .*it is not read"):
        load("cifar100", tmp_path)
    assert not canary.exists()
    pickle.loads((folder / file).read_bytes())
    assert canary.exists()  # read, it would have run


def test_a_damaged_file_is_named(tmp_path, folder, known):
    content = bytearray((folder / "test").read_bytes())
    content[99] ^= 1
    (folder / "test").write_bytes(content)
    with pytest.raises(ValueError, match=r"test is damaged or changed: .*download=True"):
        load("cifar100", tmp_path)


def test_files_of_one_s_own_are_rejected(tmp_path, folder, official):
    with pytest.raises(ValueError, match="the official file of CIFAR100, 16019d7e3df5f24257cddd93"):
        load("cifar100", tmp_path)


def test_a_missing_file_is_named(tmp_path, folder):
    (folder / "test").unlink()
    with pytest.raises(FileNotFoundError, match="cifar-100-python is incomplete: test missing"):
        load("cifar100", tmp_path)


# ---- Downloads ----------------------------------------------------------------------------------


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


def other_bytes(handler, content):
    whole(handler, content[:-1] + bytes([content[-1] ^ 1]))


def to_a_file(handler, content):
    handler.send_response(302)
    handler.send_header("Location", "file:///etc/passwd")
    handler.end_headers()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server of CIFAR-100's archive, which knows its MD5."""
    write_cifar100(tmp_path / "made")
    archive = tmp_path / "archive"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(tmp_path / "made" / FOLDER, FOLDER)
    shutil.rmtree(tmp_path / "made")
    monkeypatch.setenv("no_proxy", "*")
    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.daemon_threads = True
    served.answer, served.requests, served.content = whole, 0, archive.read_bytes()
    address = f"http://127.0.0.1:{served.server_port}/{FOLDER}.tar.gz"
    monkeypatch.setattr(datasets.CIFAR100, "url", address)
    monkeypatch.setattr(datasets.CIFAR100, "tgz_md5", md5(archive))
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield served
    served.shutdown()
    served.server_close()
    thread.join(timeout=10)


def test_what_is_missing_is_fetched_once(tmp_path, server):
    root = tmp_path / "new" / "root"
    assert len(load("cifar100", root, download=True).train) == 40
    asked = server.requests
    load("cifar100", root, download=True)
    load("cifar100", root / FOLDER, download=True)
    assert server.requests == asked
    (root / FOLDER / "test").unlink()
    load("cifar100", root, download=True)  # from the archive that lies there
    assert server.requests == asked


def test_a_damaged_archive_that_lies_there_is_fetched_again(tmp_path, server):
    (tmp_path / f"{FOLDER}.tar.gz").write_bytes(server.content[:-1])
    load("cifar100", tmp_path, download=True)
    assert server.requests


@pytest.mark.parametrize("answer", [half, other_bytes, to_a_file])
def test_failed_transfers_are_told_and_repeated(tmp_path, server, answer):
    server.answer, root = answer, tmp_path / "root"
    with pytest.raises(RuntimeError, match=r"CIFAR100 could not be fetched from .* other means"):
        load("cifar100", root, download=True)
    assert not (root / FOLDER).exists()  # nothing is unpacked before its MD5 is right
    server.answer = whole
    assert len(load("cifar100", root, download=True).test) == 20


def test_two_at_once_both_succeed(tmp_path, server):
    results = []

    def run():
        results.append(len(load("cifar100", tmp_path, download=True).train))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert results == [40] * 4


# ---- The official files -------------------------------------------------------------------------


@pytest.mark.data
def test_the_official_files(official):
    data = load("cifar100")
    assert (len(data.train), len(data.test), data.num_classes) == (50_000, 10_000, 100)
    assert data.train.targets.bincount().tolist() == [500] * 100
    assert data.test.targets.bincount().tolist() == [100] * 100
    assert (data.classes[0], data.classes[99]) == ("apple", "worm")
    pixels = data.train.images[:5000].float() / 255
    torch.testing.assert_close(pixels.mean((0, 2, 3)), torch.tensor(data.mean), rtol=0, atol=0.01)
    torch.testing.assert_close(pixels.std((0, 2, 3)), torch.tensor(data.std), rtol=0, atol=0.01)
    whole = batches(data.test, 1000)
    assert_same(batches(data.test, 1000, first_step=7), whole[7:])
