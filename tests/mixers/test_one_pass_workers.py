"""One-pass mixing in the workers of a data loader."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from batches import CLASSES
from comixup import CoMixup, OnePass, OnePassCollate, Origin, SaliencyMemory
from problems import generator

EXAMPLES = 24


class Pictures(Dataset):
    """Random images that are flipped every other time, with where they come from."""

    def __init__(self):
        self.images = torch.rand(EXAMPLES, 3, 8, 8, generator=generator(0))
        self.numbers = SaliencyMemory(1, cells=4).cell_numbers((8, 8))

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        image, numbers = self.images[index], self.numbers
        if index % 2:
            image, numbers = image.flip(2), numbers.flip(1)
        return image, index % CLASSES, Origin(torch.tensor(index), numbers)


class Shuffled(Sampler):
    """Another order every epoch, the same with any number of workers."""

    def __init__(self):
        self.generator = generator(1)

    def __iter__(self):
        return iter(torch.randperm(EXAMPLES, generator=self.generator).tolist())

    def __len__(self):
        return EXAMPLES


def anneal_mixup(mixup, epoch):
    mixup.fraction = (1.0, 1.0, 0.5, 0.75)[epoch]


def anneal_mixer(mixup, epoch):
    mixup.mixer.fraction = (1.0, 0.75, 0.25, 0.0)[epoch]


def train(workers=0, context=None, epochs=4, persistent=None, begin_epoch=None):
    """Returns the batches of all epochs, the maps, and how many batches were mixed."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, CLASSES))
    mixup = OnePass(CoMixup(CLASSES), SaliencyMemory(EXAMPLES, cells=4))
    loader = DataLoader(
        Pictures(),
        6,
        sampler=Shuffled(),
        collate_fn=OnePassCollate(mixup, seed=3),
        num_workers=workers,
        multiprocessing_context=context,
        persistent_workers=workers > 0 if persistent is None else persistent,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mixed, batches = 0, []
    for epoch in range(epochs):
        if begin_epoch is not None:
            begin_epoch(mixup, epoch)
        for images, targets, origin in loader:
            inputs = mixup.track(images, origin)
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            mixed += origin is None
            batches.append((images.clone(), targets.clone()))
        mixup.end_epoch()
    return batches, mixup.memory.state_dict()["maps"], mixed


def check_same(found, expected):
    """Compares what `train` returned for two loaders, batch by batch."""
    assert found[2] == expected[2]
    assert torch.equal(found[1], expected[1])
    for (images, targets), (wanted, soft) in zip(found[0], expected[0], strict=True):
        assert torch.equal(images, wanted)
        assert torch.equal(targets, soft)


@pytest.fixture(scope="module")
def alone():
    return train()


def test_some_batches_are_mixed_and_every_example_gets_a_map(alone):
    batches, maps, mixed = alone
    assert 4 <= mixed <= 12
    assert maps.any(1).all()
    assert any((targets.amax(1) < 1).any() for _, targets in batches)


@pytest.mark.slow
def test_spawned_workers_change_nothing(alone):
    check_same(train(workers=2, context="spawn"), alone)


@pytest.mark.parametrize("begin_epoch", [anneal_mixup, anneal_mixer])
def test_persistent_workers_give_the_same_batches_as_others(begin_epoch):
    expected = train(epochs=3, begin_epoch=begin_epoch)
    for persistent in (False, True):
        check_same(train(2, epochs=3, persistent=persistent, begin_epoch=begin_epoch), expected)


def test_wrong_use_is_told():
    memory = SaliencyMemory(EXAMPLES)
    with pytest.raises(TypeError, match="`mixup` must be a OnePass"):
        OnePassCollate(CoMixup(CLASSES))
    collate = OnePassCollate(OnePass(CoMixup(CLASSES), memory))
    with pytest.raises(ValueError, match=r"`samples` must be \(image, target, index\)"):
        collate([(torch.rand(3, 8, 8), 1)])


def test_the_same_batch_is_mixed_otherwise_in_another_epoch():
    mixup = OnePass(CoMixup(CLASSES), SaliencyMemory(EXAMPLES, cells=4), rate=1.0)
    collate, samples = OnePassCollate(mixup), [Pictures()[index] for index in range(6)]
    first, again = collate(samples)[0], collate(samples)[0]
    assert torch.equal(first, again)
    mixup.end_epoch()
    assert not torch.equal(first, collate(samples)[0])


def test_origins_need_no_cell_numbers():
    class Indices(Pictures):
        def __getitem__(self, index):
            return self.images[index], index % CLASSES, Origin(torch.tensor(index))

    collate = OnePassCollate(OnePass(CoMixup(CLASSES), SaliencyMemory(EXAMPLES), rate=0.0))
    _, _, origin = next(iter(DataLoader(Indices(), 6, collate_fn=collate)))
    assert origin.indices.tolist() == list(range(6))
    assert origin.cells is None

    def own(samples):  # gets the samples as they are
        images, targets, origins = zip(*samples, strict=True)
        indices = torch.stack([origin.indices for origin in origins])
        return torch.stack(images), torch.tensor(targets), Origin(indices)

    collate = OnePassCollate(collate.mixup, collate=own)
    _, _, origin = next(iter(DataLoader(Indices(), 6, collate_fn=collate)))
    assert origin.indices.tolist() == list(range(6))
    with pytest.raises(ValueError, match="`samples` must be"):
        OnePassCollate(collate.mixup)([()])
