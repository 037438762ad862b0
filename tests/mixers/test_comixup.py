"""Co-Mixup as a method: parts, outputs, settings, and maps that are no use."""

import warnings

import pytest
import torch
from torch.testing import assert_close

from batches import CLASSES, SALIENT, batch, one_hot, over
from cases import each_case
from comixup import CoMixup, Origin, SaliencyMemory, spectral_residual
from comixup.mixers._comixup import partitions
from problems import generator
from rejections import INF, NAN, rejects

WARNS = r"saliency maps are zero, constant, NaN or infinite"


def mixup(seed=0, **settings):
    return CoMixup(CLASSES, generator=generator(seed), **settings)


# --- maps that are no use ---------------------------------------------------------------------


def one_pixel(value):
    def change(saliency):
        saliency[1, 3, 3] = value

    return change


def whole(value):
    def change(saliency):
        saliency[1] = value

    return change


UNUSABLE = {
    "zero": whole(0.0),
    "constant": whole(0.7),
    "all NaN": whole(NAN),
    "one NaN": one_pixel(NAN),
    "one infinity": one_pixel(INF),
    "one minus infinity": one_pixel(-INF),
    "all infinite": whole(INF),
    "absurdly large": whole(3e38),
}


@each_case("change", UNUSABLE.values(), ids=UNUSABLE.keys())
@each_case("target_weight", ["area", "saliency"])
def test_unusable_maps_become_uniform_and_are_counted(change, target_weight):
    images, targets, saliency = batch(6)
    change(saliency)
    copy = saliency.clone()
    mixer = mixup(target_weight=target_weight)
    with pytest.warns(UserWarning, match=r"^1 of 6 " + WARNS):
        mixed, soft = mixer(images, targets, saliency)
    assert mixer.last.uniform_maps == 1
    assert bool(mixed.isfinite().all())
    assert_close(soft.sum(1), torch.ones(6))
    assert_close(saliency, copy, rtol=0, atol=0, equal_nan=True)
    # Same as a uniform map of one's own.
    saliency[1] = 1.0
    other = mixup(target_weight=target_weight)
    with pytest.warns(UserWarning, match=WARNS):
        same, _ = other(images, targets, saliency)
    assert_close(same, mixed, rtol=0, atol=0)


def test_the_warning_comes_once_and_the_count_every_time():
    images, targets, saliency = batch(6)
    bad = saliency.clone()
    bad[:2] = 0
    mixer = mixup()
    mixer(images, targets, saliency)
    assert mixer.last.uniform_maps == 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for maps, count in [(bad, 2), (saliency, 0), (bad * NAN, 6), (bad, 2)]:
            mixer(images, targets, maps)
            assert mixer.last.uniform_maps == count
    assert len(caught) == 1
    assert caught[0].filename == __file__  # it points at the caller


@over(SALIENT)
def test_nothing_is_warned_of_where_an_image_shows_nothing_of_its_example(method):
    images, targets, _ = batch(6)
    images[2] = torch.tensor([0.5, 0.1, 0.3]).view(3, 1, 1)  # shifted away: the colour of the fill
    memory = SaliencyMemory(6, cells=4)
    memory.write(torch.arange(6), torch.rand(6, 8, 8, generator=generator(0)))
    memory.end_epoch()
    cells = memory.cell_numbers((8, 8)).repeat(6, 1, 1)
    cells[2] = 0
    mixer = method(CLASSES)
    for maps in (memory.read(Origin(torch.arange(6), cells)), spectral_residual(images)):
        mixer(images, targets, maps)  # says nothing: warnings are errors here
        assert mixer.last.uniform_maps == 1
    maps[3] = 0  # a gradient that vanished
    maps[2] = NAN  # and one that overflowed
    with pytest.warns(UserWarning, match=r"^2 of 6 saliency maps.*GradScaler"):
        mixer(images, targets, maps)


@each_case("value", [-1.0, -1e-30], ids=str)
def test_negative_maps_are_rejected(value):
    images, targets, saliency = batch(6)
    saliency[4, 2, 2] = value
    with rejects(ValueError, r"`saliency` must not be negative, got -.* for input 4\. Take"):
        mixup()(images, targets, saliency)


# --- parts and outputs ------------------------------------------------------------------------


@each_case("m", [1, 2, 19, 20, 21, 39, 41, 100, 101])
@each_case("partition_size", [1, 3, 20, 200])
def test_parts_are_near_equal_and_at_most_as_large_as_asked(m, partition_size):
    parts = partitions(m, partition_size, m)
    sizes = [inputs for inputs, _ in parts]
    assert sum(sizes) == m
    assert max(sizes) <= partition_size
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == -(-m // partition_size)
    assert [outputs for _, outputs in parts] == sizes


@each_case(
    ("m", "partition_size", "num_outputs"),
    [
        (21, 20, None),
        (20, 5, None),
        (21, 20, 5),
        (21, 20, 50),
        (9, 2, 20),
        (9, None, 4),
        (6, 1, None),
    ],
)
def test_outputs_take_inputs_of_their_own_part(m, partition_size, num_outputs):
    images, targets, saliency = batch(m)
    mixer = mixup(partition_size=partition_size, num_outputs=num_outputs)
    mixed, soft = mixer(images, targets, saliency)
    outputs = num_outputs or m
    assert len(mixed) == len(soft) == outputs
    ratio = mixer.last.plan.source_ratio()
    row = column = 0
    crossed = torch.ones(outputs, m, dtype=torch.bool)
    parts = 1 if partition_size is None else -(-m // partition_size)
    for k in range(parts):
        inputs = m // parts + (k < m % parts)
        rows = outputs // parts + (k < outputs % parts)
        crossed[row : row + rows, column : column + inputs] = False
        row, column = row + rows, column + inputs
    assert float(ratio[crossed].sum()) == 0
    assert_close(ratio.sum(1), torch.ones(outputs))


@each_case("num_outputs", [1, 4, 10, 25])
def test_num_outputs_also_where_nothing_is_mixed(num_outputs):
    images, targets, saliency = batch(10)
    mixer = mixup(num_outputs=num_outputs, p=0)
    seen = set()
    for _ in range(100):
        mixed, soft = mixer(images, targets, saliency)
        own = mixer.last.plan.sources.flatten()
        assert len(mixed) == len(own) == num_outputs
        assert_close(mixed, images[own], rtol=0, atol=0)
        assert_close(soft, one_hot(targets)[own], rtol=0, atol=0)
        counts = torch.bincount(own, minlength=10)
        assert int(counts.max() - counts.min()) <= 1  # as evenly as can be
        seen |= set(own.tolist())
    assert seen == set(range(10))  # not always the first ones


# --- settings ---------------------------------------------------------------------------------


@each_case("levels", [1, 2, 3])
@each_case("size", [(8, 8), (9, 7)], ids=str)
def test_targets_weighted_by_the_saliency_that_is_shown(levels, size):
    images, targets, saliency = batch(8, size)
    mixer = mixup(target_weight="saliency", levels=levels)
    _, soft = mixer(images, targets, saliency)
    cells = torch.nn.functional.adaptive_avg_pool2d(saliency, 4)
    cells = cells / cells.sum((1, 2), keepdim=True)
    shown = torch.einsum("jirc,irc->ji", mixer.last.plan.masks, cells)
    weights = shown / shown.sum(1, keepdim=True)
    assert_close(soft, weights @ one_hot(targets), rtol=1e-4, atol=1e-6)
    assert_close(soft.sum(1), torch.ones(8))
    assert not torch.equal(soft, mixer.last.plan.source_ratio(size) @ one_hot(targets))


def blocks(m):
    """A compatibility matrix that penalizes some pairs more than others."""
    root = torch.rand(m, m, generator=generator(3))
    return root @ root.T / m


@each_case("partition_size", [20, 4])
def test_compatibility_as_a_matrix_and_as_a_function(partition_size):
    images, targets, saliency = batch(8)
    matrix, seen = blocks(8), []

    def function(part):
        seen.append(part)
        first = sum(len(s) for s in seen[:-1])
        return matrix[first : first + len(part), first : first + len(part)]

    settings = {"partition_size": partition_size}
    a, _ = mixup(**settings, compatibility=matrix)(images, targets, saliency)
    b, _ = mixup(**settings, compatibility=function)(images, targets, saliency)
    assert_close(a, b, rtol=0, atol=0)
    assert_close(torch.cat(seen), saliency)
    assert len(seen) == -(-8 // partition_size)
    c, _ = mixup(**settings)(images, targets, saliency)
    assert not torch.equal(a, c)


def test_a_matrix_of_another_size_is_rejected():
    with rejects(ValueError, r"`compatibility` must have shape \(5, 5\).* got \(4, 4\).*function"):
        mixup(compatibility=torch.eye(4))(*batch(5))


SETTINGS = {
    "partition_size": [0, -1, 2.5, True, "all"],
    "num_outputs": [0, -3, 1.5],
    "clean_weight": [-1, NAN, INF, "x", True],
    "target_weight": ["pixels", None],
    "sweeps": [0, 1.5, "x"],
    "levels": [0, 17, 2.0],
    "num_threads": [0, -1],
    "beta": [-0.1, NAN, INF, "x"],
    "gamma": [-0.1, NAN],
    "tau": [-1, NAN],
    "eta": [-1, INF],
    "omega": [-0.1, 1.1, NAN],
    "alpha": [0, -1, NAN],
    "clip": ["firm", 1],
    "smoothness": ["rough", None],
    "grid": [0, -4, True, (4, 0), (2.5, 4), "44", 2.5, None, ()],
    "compatibility": ["x"],
}
CASES = [(name, value) for name, values in SETTINGS.items() for value in values]


@each_case(("name", "value"), CASES)
def test_a_bad_setting_is_rejected_at_construction(name, value):
    with rejects((ValueError, TypeError), rf"`{name}` must "):
        CoMixup(CLASSES, **{name: value})
