import pytest

from comixup.lab.data import load
from comixup.lab.data._roots import data_root


def test_the_root_is_given_or_named_by_the_environment_or_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMIXUP_DATA", str(tmp_path / "named"))
    assert data_root(tmp_path / "given") == tmp_path / "given"
    assert data_root(None) == tmp_path / "named"
    monkeypatch.delenv("COMIXUP_DATA")
    assert data_root(None) == tmp_path / "data"


def test_a_file_is_no_root(tmp_path):
    archive = tmp_path / "cifar-100-python.tar.gz"
    archive.write_bytes(b"")
    with pytest.raises(ValueError, match=r"`root` must be a folder, got the file .*tar.gz. Unpack"):
        load("cifar100", archive)
