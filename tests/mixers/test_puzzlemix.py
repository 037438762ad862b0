"""Puzzle Mix as a mixer: its plan, its draws, and what it must not depend on."""

import warnings

import pytest
import torch
from torch.nn.functional import avg_pool2d
from torch.testing import assert_close

from cases import each_case
from comixup import PuzzleMix
from comixup.core.puzzle import best_masks, border_differences, mask_energy, transport
from comixup.mixers import Puzzle
from comixup.mixers._puzzlemix import saliency_ratio
from problems import generator


def batch(m=6, size=(32, 32), seed=0, channels=3):
    images = torch.rand(m, channels, *size, generator=generator(seed))
    targets = torch.arange(m) % 5
    coarse = [min(8, side) for side in size]  # patches, few of them salient
    saliency = torch.rand(m, *coarse, generator=generator(seed + 100)) ** 12
    for axis, (side, patches) in enumerate(zip(size, coarse, strict=True), 1):
        saliency = saliency.index_select(axis, torch.arange(side) * patches // side)
    return images, targets, saliency


def run(mixer, *tensors):
    mixed, targets = mixer(*tensors)
    return mixed, targets, mixer.last.plan


def puzzle(**settings):
    return PuzzleMix(5, **{"generator": generator(1), **settings})


def mixture(plan, images):
    """The output of a plan by its definition, pixel by pixel, for images whose sides divide."""
    expected = torch.empty_like(images)
    size, grid = images.shape[2:], plan.labels.shape[1:]
    for j in range(len(images)):
        sources = [images[j], images[plan.partners[j]]]
        if plan.moves is not None:
            blocks = plan.moves.shape[2:]
            moved = []
            for source, block_at in zip(sources, plan.moves[:, j], strict=True):
                out = torch.empty_like(source)
                h, w = (p // c for p, c in zip(size, blocks, strict=True))
                for y in range(blocks[0]):
                    for x in range(blocks[1]):
                        a, b = divmod(int(block_at[y, x]), blocks[1])
                        out[:, y * h : y * h + h, x * w : x * w + w] = source[
                            :, a * h : a * h + h, b * w : b * w + w
                        ]
                moved.append(out)
            sources = moved
        for y in range(size[0]):
            for x in range(size[1]):
                cell = plan.labels[j, y * grid[0] // size[0], x * grid[1] // size[1]]
                z = float(cell) / plan.levels
                expected[j, :, y, x] = z * sources[0][:, y, x] + (1 - z) * sources[1][:, y, x]
    return expected


@pytest.mark.parametrize(
    "settings", [{}, {"t_size": 2}, {"transport": False}, {"levels": 3}], ids=str
)
@pytest.mark.parametrize("grid", [2, 4, 8])
def test_images_are_what_the_plan_says(settings, grid):
    images, targets, saliency = batch(4, (16, 24))
    mixed, _, plan = run(puzzle(grid=grid, **settings), images, targets, saliency)
    assert isinstance(plan, Puzzle)
    assert (plan.moves is None) == ("transport" in settings)
    assert_close(mixed, mixture(plan, images))


def test_masks_and_moves_are_those_of_the_images_and_their_partners():
    images, targets, saliency = batch(6)
    mixer = puzzle(grid=4, t_size=4, beta=0.4, eta=0.0, std=(1.0,))
    _, _, plan = run(mixer, images, targets, saliency)
    partners = plan.partners
    cells, blocks = (avg_pool2d(saliency, side) for side in (8, 4))
    cells, blocks = (maps / maps.sum((1, 2), keepdim=True) for maps in (cells, blocks))
    differences = border_differences(images, partners, (4, 4), 4, torch.ones(1))
    settings = {"levels": 2, "beta": 0.4, "gamma": 0.5, "eta": 0.0}
    unary, weights = mask_energy(cells, partners, differences, 0.5, **settings)
    assert_close(plan.labels, best_masks(unary, weights, (4, 4)))
    assert len(plan.labels.unique()) == 3
    z = (plan.labels / 2).repeat_interleave(2, 1).repeat_interleave(2, 2)
    own = transport(blocks, z > 0, 0.8)
    other = transport(blocks[partners], 1 - z > 0, 0.8)
    assert not torch.equal(own, other)
    assert_close(plan.moves, torch.stack([own, other]))


def shown_saliency(plan, maps):
    """The saliency of each input that each output shows, block by block: (m, m)."""
    shown = torch.zeros(len(maps), len(maps), dtype=torch.float64)
    blocks, grid = maps.shape[1:], plan.labels.shape[1:]
    for j in range(len(maps)):
        inputs = (j, int(plan.partners[j]))
        for y in range(blocks[0]):
            for x in range(blocks[1]):
                z = float(plan.labels[j, y * grid[0] // blocks[0], x * grid[1] // blocks[1]])
                z /= plan.levels
                for k, share in enumerate((z, 1 - z)):
                    a, b = y, x
                    if plan.moves is not None:
                        a, b = divmod(int(plan.moves[k, j, y, x]), blocks[1])
                    shown[j, inputs[k]] += share * maps[inputs[k], a, b]
    return shown


@pytest.mark.parametrize(
    ("settings", "blocks"),
    [({}, 4), ({"t_size": 2}, 16), ({"transport": False}, 4), ({"levels": 3}, 4)],
    ids=str,
)
def test_targets_weighted_by_the_saliency_that_is_shown(settings, blocks):
    images, targets, saliency = batch(5)
    mixer = puzzle(grid=4, target_weight="saliency", **settings)
    moved = False
    for _ in range(4):
        _, soft, plan = run(mixer, images, targets, saliency)
        maps = torch.nn.functional.adaptive_avg_pool2d(saliency, blocks).double()
        maps = maps / maps.sum((1, 2), keepdim=True)
        shown = shown_saliency(plan, maps)
        weights = (shown / shown.sum(1, keepdim=True)).float()
        assert_close(mixer.last.target_ratio, weights, rtol=1e-4, atol=1e-6)
        assert_close(soft, weights @ torch.eye(5)[targets], rtol=1e-4, atol=1e-6)
        unmoved = Puzzle(plan.partners, plan.labels, plan.levels)
        moved = moved or not torch.allclose(shown, shown_saliency(unmoved, maps), atol=1e-3)
    assert moved == ("transport" not in settings)


def test_an_output_that_shows_no_saliency_counts_its_pixels():
    maps = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    hidden = Puzzle(torch.tensor([1, 0]), torch.tensor([[2, 0], [1, 1]]), 2)
    found = saliency_ratio(hidden, maps, (6,))
    assert_close(found, torch.tensor([[0.5, 0.5], [0.5, 0.5]]))
    uneven = saliency_ratio(hidden, maps, (5,))
    assert_close(uneven[0], hidden.source_ratio((5,))[0])
    assert not torch.equal(uneven[0], found[0])


@pytest.mark.parametrize("size", [(32, 32), (16, 48), (3, 5), (1, 1), (17, 9)], ids=str)
def test_masks_tell_whose_pixels_are_seen(size):
    m = 5
    tells = torch.eye(m).view(m, m, 1, 1).expand(m, m, *size)  # channel i is 1 in input i alone
    _, _, saliency = batch(m, size)
    mixer = puzzle()
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sides that no grid divides
            shown, _, plan = run(mixer, tells, torch.arange(m), saliency)
        assert_close(shown.mean((2, 3)), plan.source_ratio(size))
        assert_close(plan.source_ratio(), plan.masks.flatten(2).mean(2))
        grid = plan.masks.shape[2:]
        rows = torch.arange(size[0]) * grid[0] // size[0]
        columns = torch.arange(size[1]) * grid[1] // size[1]
        assert_close(shown, plan.masks[:, :, rows][:, :, :, columns])


def test_one_grid_is_drawn_per_batch():
    images, targets, saliency = batch(3)
    mixer = puzzle(grid=(2, 8))
    sides = {run(mixer, images, targets, saliency)[2].labels.shape[1:] for _ in range(20)}
    assert sides == {(2, 2), (8, 8)}
    default = puzzle()
    sides = {run(default, images, targets, saliency)[2].labels.shape[1] for _ in range(40)}
    assert sides == {2, 4, 8, 16}


@pytest.mark.parametrize("size", [(24,), (8, 12, 16)], ids=["wave", "volume"])
def test_other_dimensions_mix_too(size):
    images, targets, saliency = batch(4, size, channels=2)
    mixed, soft, plan = run(puzzle(grid=4, t_size=2), images, targets, saliency)
    assert plan.labels.shape == (4, *[4] * len(size))
    assert plan.moves is not None
    assert mixed.shape == images.shape
    assert_close(soft.sum(1), torch.ones(4))
    assert not torch.equal(mixed, images)


def test_a_plan_mixes_other_tensors_alike():
    images, targets, saliency = batch()
    mixed, _, plan = run(puzzle(grid=4), images, targets, saliency)
    assert_close(plan.mix_images(2 * images), 2 * mixed)
    small = images[:, :, ::4, ::4]  # a teacher's maps: 8 x 8, two a block
    assert_close(plan.mix_images(small), mixture(plan, small))
    with pytest.raises(
        ValueError, match=r"`images` must have sides that are multiples of \(4, 4\)"
    ):
        plan.mix_images(images[:, :, :30])
    with pytest.raises(ValueError, match=r"`images` must have shape \(6, channels, \*, \*\)"):
        plan.mix_images(images[:5])
    with pytest.raises(TypeError, match="`images` must be floating point"):
        plan.mix_images(images.long())


def test_uneven_cells_are_mixed_without_transport_and_told_of_once():
    images, targets, saliency = batch(4, (30, 32))
    mixer = puzzle(grid=4)
    with pytest.warns(UserWarning, match=r"size \(30, 32\) on a grid \(4, 4\) are mixed without"):
        mixed, soft, plan = run(mixer, images, targets, saliency)
    assert plan.moves is None
    assert_close(mixed, mixture(plan, images))
    assert_close(soft, plan.source_ratio((30, 32)) @ torch.eye(5)[targets])
    mixer(images, targets, saliency)
    puzzle(grid=4, transport=False)(images, targets, saliency)


@each_case(
    ("setting", "error", "message"),
    [
        ({"grid": (4, 2.5)}, ValueError, "`grid` must be a positive integer"),
        ({"grid": ()}, ValueError, "`grid` must hold at least one number"),
        ({"levels": 0}, ValueError, "`levels` must be a positive integer"),
        ({"beta": -1}, ValueError, "`beta` must be a number from 0"),
        ({"gamma": float("nan")}, ValueError, "`gamma` must be a number from 0"),
        ({"eta": "much"}, TypeError, "`eta` must be a number from 0"),
        ({"t_eps": -0.1}, ValueError, "`t_eps` must be a number from 0"),
        ({"neighbour": 0}, ValueError, "`neighbour` must be a positive integer"),
        ({"t_size": 0}, ValueError, "`t_size` must be a positive integer"),
        ({"std": (0.2, 0.0, 0.2)}, ValueError, "`std` must be above 0"),
        ({"num_threads": 0}, ValueError, "`num_threads` must be a positive integer"),
    ],
)
def test_bad_settings_are_rejected(setting, error, message):
    with pytest.raises(error, match=message):
        PuzzleMix(5, **setting)


def test_bad_calls_are_rejected():
    images, targets, saliency = batch()
    with pytest.raises(ValueError, match="`saliency` must be given to PuzzleMix"):
        puzzle()(images, targets)
    with pytest.raises(ValueError, match="`std` must have one number, or one for each of the 3"):
        puzzle(std=(0.2, 0.2))(images, targets, saliency)
    puzzle(std=(0.5,))(images, targets, saliency)
    puzzle(std=[0.2, 0.2, 0.3])(images, targets, saliency)
