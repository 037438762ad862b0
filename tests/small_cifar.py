"""CIFAR files of the tests: small ones in the official form, whose MD5 nobody knows beforehand."""

from torchvision import datasets

OFFICIAL = {
    kind: {"train_list": kind.train_list, "test_list": kind.test_list, "meta": kind.meta}
    for kind in (datasets.CIFAR10, datasets.CIFAR100)
}
"""torchvision's lists of files with their MD5."""


def accept_any():
    """Lets this process read CIFAR files of any MD5."""
    for kind, lists in OFFICIAL.items():
        for name in ("train_list", "test_list"):
            setattr(kind, name, [[file, None] for file, _ in lists[name]])
        kind.meta = {**lists["meta"], "md5": None}


def accept_official(monkeypatch):
    """Lets a test read the official files alone, as users do."""
    for kind, lists in OFFICIAL.items():
        for name, value in lists.items():
            monkeypatch.setattr(kind, name, value)
