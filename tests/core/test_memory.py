"""Saliency maps remembered from epoch to epoch."""

import itertools

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torchvision import tv_tensors
from torchvision.transforms import v2

from comixup import Origin, SaliencyMemory


def memory_of(maps, cells, **options):
    """Returns a memory that holds maps (n, *cells), one per example."""
    memory = SaliencyMemory(len(maps), cells=cells, **options)
    memory.write(Origin(torch.arange(len(maps))), maps)
    memory.end_epoch()
    return memory


def brute_force_read(maps, origin):
    """Returns each pixel's value by following its cell number, one pixel at a time."""
    found = np.zeros(origin.cells.shape)
    for place in itertools.product(*map(range, found.shape)):
        number = int(origin.cells[place])
        if number:
            found[place] = maps[int(origin.indices[place[0]])].flatten()[number - 1]
    return torch.from_numpy(found).float()


def proportions(maps):
    return maps / maps.flatten(1).sum(1).view(-1, *[1] * (maps.ndim - 1))


@pytest.mark.parametrize("cells", [(5,), (3, 4), (2, 3, 2)])
def test_what_was_written_is_read_back_in_proportion(cells):
    maps = 0.2 + torch.rand(4, *cells)
    memory = memory_of(maps, cells)
    size = [3 * side for side in cells]
    read = memory.read(Origin(torch.tensor([2, 0])), size)
    expected = maps[[2, 0]]
    for axis in range(1, expected.ndim):
        expected = expected.repeat_interleave(3, axis)
    assert_close(proportions(read), proportions(expected), rtol=0.02, atol=0)


def test_examples_never_written_are_uniform_and_padding_shows_nothing():
    memory = SaliencyMemory(3, cells=2)
    cells = torch.tensor([[[0, 1], [2, 4]]])
    read = memory.read(Origin(torch.tensor([1]), cells))
    assert read.tolist() == [[[0, 1], [1, 1]]]
    assert memory.known(torch.tensor([0, 1, 2])).tolist() == [False, False, False]


def test_maps_are_read_as_they_were_at_the_start_of_the_epoch():
    memory = memory_of(torch.tensor([[[1.0, 3.0]]]), (1, 2))
    origin = Origin(torch.tensor([0]))
    before = memory.read(origin, (1, 2))
    memory.write(origin, torch.tensor([[[3.0, 1.0]]]))
    assert_close(memory.read(origin, (1, 2)), before)
    memory.end_epoch()
    assert_close(memory.read(origin, (1, 2)), before.flip(2))


@pytest.mark.parametrize("seed", range(6))
def test_cell_numbers_follow_random_pipelines_to_the_pixel(seed):
    torch.manual_seed(seed)
    memory = memory_of(0.1 + torch.rand(3, 4, 4), (4, 4))
    kinds = [
        v2.RandomCrop(24, padding=5),
        v2.RandomHorizontalFlip(),
        v2.RandomVerticalFlip(),
        v2.RandomResizedCrop((20, 28), scale=(0.2, 1), antialias=True),
        v2.RandomRotation(40),
        v2.RandomAffine(20, translate=(0.2, 0.2), shear=10),
        v2.Resize((18, 30), antialias=True),
        v2.RandomPerspective(p=1),
        v2.ColorJitter(0.5),
    ]
    chosen = [kinds[k] for k in torch.randperm(len(kinds))[:4]]
    transform = v2.Compose([*chosen, v2.Resize((16, 16), antialias=True)])
    indices, moved, pictures = torch.tensor([2, 0, 1]), [], []
    for index in indices.tolist():
        numbers = memory.cell_numbers((32, 40))
        # The numbers as a picture too, without interpolation: what the transform really did.
        cells = transform(tv_tensors.Mask(numbers))
        moved.append(cells.as_subclass(torch.Tensor))
        pictures.append(index)
    origin = Origin(indices, torch.stack(moved))
    read = memory.read(origin)
    assert_close(read, brute_force_read(memory.state_dict()["maps"].float(), origin))


@pytest.mark.parametrize("seed", range(4))
def test_gradients_land_on_the_cells_that_are_shown(seed):
    generator = torch.Generator().manual_seed(seed)
    n, m, cells = 6, 4, 9
    memory = SaliencyMemory(n, cells=3)
    indices = torch.randperm(n, generator=generator)[:m]
    numbers = torch.randint(0, cells + 1, (m, 7, 5), generator=generator)
    saliency = torch.rand(m, 7, 5, generator=generator)
    memory.write(Origin(indices, numbers), saliency)
    memory.end_epoch()
    for row, index in enumerate(indices.tolist()):
        expected = np.full(cells, np.nan)
        for number in range(1, cells + 1):
            shown = numbers[row] == number
            if shown.any():
                expected[number - 1] = saliency[row][shown].mean()
        # A first map is uniform where nothing was shown: the mean of what was.
        expected[np.isnan(expected)] = np.nanmean(expected)
        found = memory.state_dict()["maps"][index].numpy() / 255
        np.testing.assert_allclose(found, expected / expected.max(), atol=0.003)
    left = sorted(set(range(n)) - set(indices.tolist()))
    assert not memory.known(torch.tensor(left)).any()


@pytest.mark.parametrize("how", ["kernel", "torch"])
def test_cells_that_had_no_saliency_can_get_some(how):
    memory = memory_of(torch.tensor([[[255.0, 0.0, 0.0, 0.0]]]), (1, 4))
    shown = Origin(torch.tensor([0]), torch.tensor([[[3, 4]]]))
    fresh = torch.tensor([[[1.0, 3.0]]])
    for _ in range(2):
        if how == "kernel":
            memory.write_gradient(shown, fresh.unsqueeze(1))
        else:
            memory.write(shown, fresh)
        memory.end_epoch()
    read = memory.read(Origin(torch.tensor([0])), (1, 4))
    assert read[0, 0, 3] > 0
    assert read[0, 0, 0] == 255  # what was not shown keeps the most


def test_the_order_of_writing_does_not_matter():
    first, second = torch.rand(5, 4, 4), torch.rand(5, 4, 4)
    indices = torch.tensor([0, 1, 2, 2, 4])  # an example may come twice
    states = []
    for pair in ((first, second), (second, first)):
        memory = SaliencyMemory(5, cells=4)
        for maps in pair:
            memory.write(Origin(indices), maps)
        memory.end_epoch()
        states.append(memory.state_dict()["maps"])
    assert torch.equal(*states)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0])
def test_unusable_maps_leave_what_was_known(bad):
    memory = memory_of(torch.tensor([[[1.0, 3.0]], [[2.0, 1.0]]]), (1, 2))
    before = memory.state_dict()["maps"]
    maps = torch.tensor([[[bad, bad]], [[1.0, 2.0]]])
    memory.write(Origin(torch.tensor([0, 1])), maps)
    memory.end_epoch()
    assert int(memory.skipped) == 1
    after = memory.state_dict()["maps"]
    assert torch.equal(after[0], before[0])
    assert after[1].tolist() == [128, 255]


def test_a_state_is_restored_within_an_epoch_too():
    memory = memory_of(torch.rand(4, 3, 3), (3, 3))
    memory.write(Origin(torch.tensor([1])), torch.rand(1, 3, 3))
    other = SaliencyMemory(4, cells=3)
    other.load_state_dict(memory.state_dict())
    for each in (memory, other):
        each.write(Origin(torch.tensor([2])), torch.ones(1, 3, 3) + torch.eye(3))
        each.end_epoch()
    assert torch.equal(memory.state_dict()["maps"], other.state_dict()["maps"])


def test_wrong_use_is_told():
    memory = SaliencyMemory(10, cells=4)
    indices = torch.tensor([0, 1])
    maps = torch.rand(2, 8, 8)
    with pytest.raises(IndexError, match=r"`origin.indices` must lie in 0\.\.9.*grown"):
        memory.write(Origin(torch.tensor([0, 10])), maps)
    with pytest.raises(ValueError, match=r"`origin.indices` must be a tensor of integers"):
        memory.read(Origin(torch.tensor([0.0])), (8, 8))
    with pytest.raises(ValueError, match=r"`origin.cells` must lie in 0\.\.16"):
        memory.read(Origin(indices, torch.full((2, 8, 8), 17)))
    with pytest.raises(ValueError, match=r"`origin.cells` must be integers of shape \(2, "):
        memory.read(Origin(indices, torch.rand(2, 8, 8)))
    with pytest.raises(ValueError, match=r"`size` must be given"):
        memory.read(Origin(indices))
    with pytest.raises(ValueError, match=r"`saliency` must have a value for each"):
        memory.write(Origin(indices, torch.ones(2, 8, 8, dtype=torch.int64)), torch.rand(2, 4, 8))
    with pytest.raises(ValueError, match=r"`saliency` must have shape"):
        memory.write(Origin(indices), torch.rand(2, 8))
    with pytest.raises(ValueError, match=r"`cells` must give a map of at most 254"):
        SaliencyMemory(10, cells=16)
    with pytest.raises(ValueError, match=r"`state` must be of a memory of 11 examples"):
        SaliencyMemory(11, cells=4).load_state_dict(memory.state_dict())
    with pytest.raises(ValueError, match=r"`state` must be of a memory of 10 examples"):
        SaliencyMemory(10, cells=(2, 8)).load_state_dict(memory.state_dict())
    with pytest.raises(ValueError, match=r"`state` must be what SaliencyMemory.state_dict"):
        memory.load_state_dict({})
