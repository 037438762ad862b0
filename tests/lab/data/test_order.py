import numpy as np
import pytest
import torch

from cases import each_case
from comixup.lab.data._split import Order


@each_case("parts", [1, 2, 3, 5])
@each_case("shuffled", [False, True])
def test_shares_are_those_of_tensor_split(parts, shuffled):
    count, size = 64, 17
    whole = Order(count, size, 3, shuffled)
    indices = torch.from_numpy(whole.indices(4))
    mine = [Order(count, size, 3, shuffled, part, parts) for part in range(parts)]
    for step in range(len(mine[0])):
        batch = indices[step * size : (step + 1) * size]
        for order, expected in zip(mine, batch.tensor_split(parts), strict=True):
            share = order.share(step)
            assert share.batch == len(batch)
            assert share.stop - share.start == len(share) == len(expected)
            assert share.start == step * size + share.first
            got = order.indices(4)[share.start : share.stop]
            np.testing.assert_array_equal(got, expected.numpy())


@each_case(
    ("count", "size", "parts", "shuffled", "steps"),
    [
        (10, 4, 1, False, 3),
        (10, 4, 3, False, 3),
        (1, 4, 3, False, 1),
        (8, 4, 1, True, 2),
        (10, 4, 1, True, 3),  # two are left: enough for one process
        (10, 4, 2, True, 2),  # and too few for two
        (9, 4, 1, True, 2),
        (11, 6, 2, True, 2),
        (9, 100, 4, True, 1),  # a small set is one small batch
        (2, 2, 1, True, 1),
    ],
)
def test_steps_of_an_epoch(count, size, parts, shuffled, steps):
    assert len(Order(count, size, 0, shuffled, 0, parts)) == steps


def test_every_process_trains_on_two_images_or_more():
    for count in range(6, 40):
        for size in range(6, 14):
            for parts in (1, 2, 3):
                orders = [Order(count, size, 0, True, part, parts) for part in range(parts)]
                for step in range(len(orders[0])):
                    assert min(len(order.share(step)) for order in orders) >= 2


@each_case(("count", "size", "parts"), [(1, 4, 1), (50, 1, 1), (50, 5, 3), (5, 9, 3)])
def test_too_few_images_to_train_on_are_rejected(count, size, parts):
    with pytest.raises(ValueError, match="at least 2 images to train on, got batches of"):
        Order(count, size, 0, True, 0, parts)


def test_the_order_depends_on_seed_and_epoch_alone():
    orders = [
        Order(100, size, seed, True, 0, parts).indices(epoch)
        for seed, epoch, size, parts in [(0, 0, 10, 1), (0, 0, 20, 4), (1, 0, 10, 1), (0, 1, 10, 1)]
    ]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert (orders[0] != orders[2]).any()
    assert (orders[0] != orders[3]).any()
    assert (orders[2] != orders[3]).any()


def test_without_shuffling_the_order_is_the_original():
    np.testing.assert_array_equal(Order(7, 3, seed=5).indices(2), np.arange(7))


@each_case(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be a positive integer, got 0"),
        ({"rank": 2, "world_size": 2}, "`rank` must be below `world_size`, got rank 2 of 2"),
        ({"rank": -1}, "`rank` must be an integer of at least 0, got -1"),
    ],
)
def test_wrong_settings_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        Order(**{"count": 10, "batch_size": 4, **settings})


def test_steps_begin_where_wanted():
    order = Order(10, 4)
    assert list(order.steps(1)) == [1, 2]
    assert list(order.steps(3)) == []
    with pytest.raises(ValueError, match=r"`first_step` must be at most 3, .* got 4"):
        order.steps(4)
    with pytest.raises(ValueError, match="`first_step` must be an integer of at least 0, got -1"):
        order.steps(-1)
    with pytest.raises(ValueError, match="`epoch` must be an integer of at least 0, got -1"):
        order.indices(-1)
