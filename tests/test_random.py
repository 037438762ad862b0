"""Draws that take a generator, and only that generator."""

import pytest
import torch
from torch.testing import assert_close

from comixup._random import coin, numpy_generator
from comixup._random import dirichlet as numpys_dirichlet
from problems import generator


def dirichlet(alpha, parts, generator=None, rows=1):
    return numpys_dirichlet(alpha, parts, numpy_generator(generator), rows)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_dirichlet_has_its_mean_and_variance(alpha, parts):
    draws = dirichlet(alpha, parts, generator(1), rows=20_000)
    assert draws.shape == (20_000, parts)
    assert_close(draws.sum(1), torch.ones(20_000, dtype=torch.float64))
    mean = 1 / parts
    variance = mean * (1 - mean) / (alpha * parts + 1)
    error = (variance / 20_000) ** 0.5
    assert_close(draws.mean(0), torch.full((parts,), mean).double(), rtol=0, atol=4.5 * error)
    assert_close(draws.var(0), torch.full((parts,), variance).double(), rtol=0.06, atol=0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_coin_falls_as_often_as_asked(p):
    draw = generator(2)
    heads = sum(coin(p, draw) for _ in range(4000))
    assert abs(heads / 4000 - p) < 4.5 * (p * (1 - p) / 4000) ** 0.5


@pytest.mark.parametrize("p", [0, 1, 0.0, 1.0])
def test_certain_outcomes_use_up_no_randomness(p):
    draw = generator(2)
    state = draw.get_state()
    assert all(coin(p, draw) is bool(p) for _ in range(50))
    assert torch.equal(draw.get_state(), state)
