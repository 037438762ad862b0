import pytest
import torch

from comixup.lab.data import load
from data_files import write_cifar100


@pytest.fixture
def root(tmp_path):
    write_cifar100(tmp_path)  # 40 images to train on, 10 of each of 4 classes
    return tmp_path


def rows(split):
    return [tuple(image) for image in split.images.flatten(1).tolist()]


def test_unknown_names_are_met_with_known_ones():
    with pytest.raises(ValueError, match=r"`name` must be one of .*Did you mean cifar100"):
        load("cifar-100")


def test_few_labels_are_drawn_by_the_seed(root):
    whole = rows(load("cifar100", root).train)
    data = load("cifar100", root, images_per_class=3, seed=1)
    assert data.train.targets.bincount().tolist() == [3, 3, 3, 3]
    places = [whole.index(row) for row in rows(data.train)]
    assert places == sorted(places)  # in their own order
    again = load("cifar100", root, images_per_class=3, seed=1)
    assert rows(again.train) == rows(data.train)
    other = load("cifar100", root, images_per_class=3, seed=2)
    assert rows(other.train) != rows(data.train)
    assert len(data.test) == 20


def test_validation_images_are_held_out_of_each_class(root):
    whole = load("cifar100", root).train
    data = load("cifar100", root, validation=0.2, seed=3)
    assert data.validation.targets.bincount().tolist() == [2, 2, 2, 2]
    assert data.train.targets.bincount().tolist() == [8, 8, 8, 8]
    assert sorted(rows(data.train) + rows(data.validation)) == sorted(rows(whole))
    other = load("cifar100", root, validation=0.2, seed=4)
    assert rows(other.validation) != rows(data.validation)


def test_fewer_labels_leave_the_validation_images_as_they_are(root):
    data = load("cifar100", root, validation=0.3, images_per_class=2)
    whole = load("cifar100", root, validation=0.3)
    assert rows(data.validation) == rows(whole.validation)
    assert set(rows(data.train)) < set(rows(whole.train))
    assert len(data.train) == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"images_per_class": 0}, "`images_per_class` must be a positive integer, got 0"),
        ({"images_per_class": 11}, "must be at most 10, .* class 'thing 0', got 11"),
        ({"validation": 0}, "`validation` must be between 0 and 1, got 0"),
        ({"seed": -1}, "`seed` must be an integer of at least 0, got -1"),
    ],
)
def test_wrong_settings_are_rejected(root, settings, message):
    with pytest.raises(ValueError, match=message):
        load("cifar100", root, **settings)


def test_the_global_generator_is_left_alone(root):
    state = torch.get_rng_state()
    load("cifar100", root, validation=0.2, images_per_class=2)
    assert torch.get_rng_state().equal(state)


# ---- Classes and images held out ----------------------------------------------------------------


def test_a_subset_of_classes_is_numbered_anew_in_every_split(root):
    whole = load("cifar100", root)
    data = load("cifar100", root, classes=[3, whole.classes[1]], validation=0.2)
    assert data.classes == (whole.classes[1], whole.classes[3])
    assert data.num_classes == 2
    for name, split in data.splits.items():
        source = whole.test if name == "test" else whole.train
        by_row = dict(zip(rows(source), source.targets.tolist(), strict=True))
        assert [by_row[row] for row in rows(split)] == [(1, 3)[t] for t in split.targets.tolist()]
    assert len(data.train) + len(data.validation) == 20


def test_indices_may_be_words_and_names_come_first(root):
    digits = load("digits", classes=["7", 3])
    assert digits.classes == ("3", "7")
    assert load("cifar100", root, classes=["0", "2"]).num_classes == 2


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([], "different classes, one at least"),
        ([1, 1], "different classes"),
        ([4], "names or indices, from 0 to 3"),
        ([True], "names or indices"),
        (["thing"], "names or indices"),
    ],
    ids=str,
)
def test_classes_that_are_none_are_rejected(root, classes, message):
    with pytest.raises(ValueError, match=f"`classes` must .*{message}"):
        load("cifar100", root, classes=classes)


def test_images_held_out_by_a_seed_of_their_own_are_the_same_for_all_seeds(root):
    def held(**settings):
        data = load("cifar100", root, validation=0.3, images_per_class=4, **settings)
        assert not set(rows(data.validation)) & set(rows(data.train))
        return rows(data.validation), rows(data.train)

    (first, kept), (second, others) = (held(seed=s, validation_seed=9) for s in (0, 1))
    assert first == second
    assert kept != others
    assert held(seed=0)[0] != held(seed=1)[0]
    assert held(seed=9)[0] == first
