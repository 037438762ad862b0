import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from comixup.lab.data import load
from comixup.lab.data._folder import MEAN, STD
from data_files import assert_same, batches, write_folder

SIZE = 16
# Newer Pythons warn when a process with threads forks; torch's own loader does so.
forks = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return load("folder", write_folder(tmp_path_factory.mktemp("pictures")))


def run(split, **settings):
    return batches(split, 4, **{"image_size": SIZE, "augment": "crop-flip", "seed": 2, **settings})


def opened(split, index):
    return Image.open(split.files[index].decode()).convert("RGB")


def test_evaluation_is_resize_and_centre_crop_in_order(pictures):
    view = v2.Compose([v2.Resize(round(SIZE * 256 / 224)), v2.CenterCrop(SIZE), v2.ToImage()])
    end = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    split = pictures.test
    expected = torch.stack(
        [end(view(opened(split, i))).as_subclass(torch.Tensor) for i in range(6)]
    )
    got = run(split, augment=None)
    assert [len(images) for images, _ in got] == [4, 2]
    images, targets = (torch.cat(part) for part in zip(*got, strict=True))
    torch.testing.assert_close(images, expected, rtol=0, atol=2e-6)
    assert targets.tolist() == [0, 0, 0, 1, 1, 1]


def test_training_images_are_random_crops(pictures):
    # A crop of nearly the whole picture shows its colours: nothing is invented.
    for images, targets in run(pictures.train, min_scale=1.0):
        assert images.shape == (len(targets), 3, SIZE, SIZE)
        pixels = pictures.pixels(images)
        assert 0 <= pixels.min() < pixels.max() <= 1
    tight = torch.cat([images for images, _ in run(pictures.train, min_scale=0.01)])
    wide = torch.cat([images for images, _ in run(pictures.train, min_scale=0.9)])
    # A part of a picture has fewer colours than all of it.
    assert tight.std((2, 3)).mean() < 0.8 * wide.std((2, 3)).mean()


def test_the_crop_of_an_image_depends_on_seed_epoch_and_index(pictures):
    def by_index(size, **settings):
        split = pictures.train
        loader = split.loader(
            size, augment="crop-flip", image_size=SIZE, seed=settings.get("seed", 2)
        )
        order = loader._order.indices(settings.get("epoch", 0))
        shown = torch.cat([images for images, _ in loader.epoch(settings.get("epoch", 0))])
        return shown[np.argsort(order)]

    torch.testing.assert_close(by_index(7), by_index(14), rtol=0, atol=0)
    for other in (by_index(7, seed=3), by_index(7, epoch=1)):
        assert ((other != by_index(7)).flatten(1).any(1)).all()


@pytest.mark.parametrize("augment", [None, "crop-flip", "rand"])
def test_going_on_in_mid_epoch_and_processes_change_nothing(pictures, augment):
    whole = run(pictures.train, augment=augment, epoch=1)
    assert len(whole) == 4
    assert_same(run(pictures.train, augment=augment, epoch=1, first_step=2), whole[2:])
    shares = [
        run(pictures.train, augment=augment, epoch=1, rank=rank, world_size=2) for rank in range(2)
    ]
    joined = [
        tuple(torch.cat(pieces) for pieces in zip(*step, strict=True))
        for step in zip(*shares, strict=True)
    ]
    # Two images are left at the end: enough for one process to train on, not for two.
    assert_same(joined, whole[:3] if augment else whole)


@forks
@pytest.mark.parametrize("workers", [0, 2])
def test_workers_change_nothing_and_the_global_generator_is_left_alone(pictures, workers):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = run(pictures.train, augment="rand")
    assert torch.get_rng_state().equal(before)
    torch.manual_seed(1)
    assert_same(run(pictures.train, augment="rand", workers=workers), first)


@forks
def test_a_damaged_image_is_named(tmp_path):
    split = load("folder", write_folder(tmp_path)).test
    path = tmp_path / "val" / "bee" / "01.png"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"bee.01\.png cannot be read as an image: .* Replace"):
        run(split, augment=None, workers=1)
