"""Targets in, shares of the classes out: always float32, always checked."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from batches import batch
from comixup import InputMixup
from comixup.core.mix import soft_targets
from problems import generator
from rejections import rejects

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_class_indices_become_one_hot(dtype):
    targets = torch.tensor([2, 0, 3, 2], dtype=dtype)
    shares = soft_targets(targets, 4, 5)
    assert shares.dtype == torch.float32
    assert shares.tolist() == [[float(c == t) for c in range(5)] for t in [2, 0, 3, 2]]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool], ids=str
)
@pytest.mark.parametrize("num_classes", [None, 3])
def test_two_columns_and_more_are_shares_already(dtype, num_classes):
    # vision PR#8427: one-hot labels are accepted as they are; so are multi-label ones.
    targets = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 0]]).to(dtype)
    shares = soft_targets(targets, 3, num_classes)
    assert shares.dtype == torch.float32
    assert_close(shares, targets.float(), rtol=0, atol=0)


BAD = {
    "label too high": (torch.tensor([0, 5]), 5, ValueError, r"lie in 0\.\.4 .* from 0 to 5"),
    "negative label": (torch.tensor([0, -1]), 5, ValueError, r"lie in 0\.\.4 .* from -1 to 0"),
    "float labels": (torch.tensor([0.0, 1.0]), 5, TypeError, r"must be integers .* torch\.float32"),
    "bool labels": (torch.tensor([True, False]), 5, TypeError, r"must be integers .* torch\.bool"),
    "complex": (torch.zeros(2, 5, dtype=torch.complex64), 5, TypeError, r"must hold real numbers"),
    "a list": ([0, 1], 5, TypeError, r"must be a torch tensor, got list"),
    "numpy": (np.array([0, 1]), 5, TypeError, r"must be a torch tensor, got ndarray"),
    "three targets": (
        torch.tensor([0, 1, 2]),
        5,
        ValueError,
        r"must have shape \(2,\).* got \(3,\)",
    ),
    "three rows": (torch.rand(3, 5), 5, ValueError, r"a target for each image, got \(3, 5\)"),
    "a scalar": (torch.tensor(1), 5, ValueError, r"must have shape \(2,\)"),
    "3-d": (torch.rand(2, 5, 1), 5, ValueError, r"must have shape \(2,\).* got \(2, 5, 1\)"),
    "four columns": (torch.rand(2, 4), 5, ValueError, r"`num_classes` = 5 columns, got 4"),
}


@pytest.mark.parametrize(("targets", "classes", "error", "message"), BAD.values(), ids=BAD.keys())
def test_rejects(targets, classes, error, message):
    with rejects(error, r"`targets` .*" + message):
        soft_targets(targets, 2, classes)


def test_class_indices_need_num_classes():
    with rejects(ValueError, r"`num_classes` must be given where `targets` are class indices"):
        soft_targets(torch.tensor([0, 1]), 2, None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_class_ids_above_256_are_exact_in_half_precision_batches(dtype):
    # kornia#4657: bfloat16 images round class ids above 256; tensorflow/models#10318: float16.
    images, _, _ = batch(6, dtype=dtype)
    targets = torch.tensor([257, 259, 999, 513, 1001, 258])
    _, soft = InputMixup(1002, generator=generator(0))(images, targets)
    assert soft.dtype == torch.float32
    assert sorted(soft.sum(0).nonzero().flatten().tolist()) == sorted(targets.tolist())


def test_targets_are_float32_under_autocast():
    # kornia#4657 again: mixing is often called inside the autocast block of a training loop.
    images, targets, _ = batch(6)
    _, expected = InputMixup(7, generator=generator(0))(images, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, soft = InputMixup(7, generator=generator(0))(images, targets)
    assert soft.dtype == torch.float32
    assert_close(soft, expected, rtol=0, atol=0)
