"""Cell numbers through Hugging Face's `with_transform`, and the Trainer's trap with columns."""

import importlib

import numpy as np
import pytest
import torch
from torchvision import transforms

from comixup import CoMixup, OnePass, Origin, SaliencyMemory
from comixup.adapters.hugging_face import MixesBatches, OriginTransform
from coordinates import coordinates, expected_numbers

pytestmark = pytest.mark.slow  # importing the libraries takes seconds
SIZE = (40, 34)
NEAREST = transforms.InterpolationMode.NEAREST


@pytest.fixture(scope="module")
def dataset():
    library = importlib.import_module("datasets")
    images = [coordinates(SIZE, pil=True) for _ in range(4)]
    columns = {"image": images, "label": [3, 2, 1, 0], "index": list(range(4))}
    return library.Dataset.from_dict(columns)


def augmentation():
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(28, interpolation=NEAREST),
            transforms.RandomHorizontalFlip(),
            transforms.RandomRotation(20),
            transforms.PILToTensor(),
        ]
    )


def test_every_pixel_is_tracked(dataset):
    memory = SaliencyMemory(4)
    moved = dataset.with_transform(OriginTransform(augmentation(), memory))
    plain = augmentation()
    for seed in range(6):
        torch.manual_seed(seed)
        examples = moved[:4]
        torch.manual_seed(seed)
        shown = [plain(coordinates(SIZE, pil=True)) for _ in range(4)]
        assert examples["label"] == [3, 2, 1, 0]
        assert examples["index"] == [0, 1, 2, 3]
        assert "image" not in examples
        for pixels, cells, image in zip(
            examples["pixel_values"], examples["cells"], shown, strict=True
        ):
            assert torch.equal(pixels, image)
            expected = expected_numbers(image, SIZE, memory.grid)
            np.testing.assert_array_equal(cells.numpy(), expected.numpy())
        memory.read(Origin(torch.tensor(examples["index"]), torch.stack(examples["cells"])))


def test_a_data_set_without_indices_is_rejected(dataset):
    moved = dataset.remove_columns("index").with_transform(
        OriginTransform(augmentation(), SaliencyMemory(4))
    )
    with pytest.raises(ValueError, match=r"`examples` must have the columns 'image' and 'index'"):
        moved[0]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_trainer_that_drops_columns_is_rejected(tmp_path):
    library = importlib.import_module("transformers")

    class MixupTrainer(MixesBatches, library.Trainer):
        pass

    settings = library.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    mixup = OnePass(CoMixup(4), SaliencyMemory(4))
    with pytest.raises(ValueError, match="`args` must have remove_unused_columns=False, got True"):
        MixupTrainer(torch.nn.Linear(2, 2), settings, mixup=mixup)
    MixupTrainer(torch.nn.Linear(2, 2), settings, mixup=CoMixup(4))
