"""Tensors that claim to be on CUDA and have no values: what runs there copies and reads nothing.

Forward parts alone, with the plan drawn outside: devices must agree, and nothing may depend on
values (`.item()`, boolean indexing, `nonzero`), which do not exist. `on_a_device.py` has values
and backward passes, but a device of its own; here torch believes that it is CUDA.
"""

import re

import pytest
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from batches import CLASSES, METHODS, batch, over, run
from comixup import (
    Labelling,
    Origin,
    SaliencyMemory,
    mix,
    mix_mask_probabilities,
    spectral_residual,
)
from comixup.core.maps import pool, salient_locations
from comixup.core.saliency import channel_norm
from problems import generator

CUDA, SIZE = torch.device("cuda"), (16, 16)


def test_the_mode_notices():
    """What the other tests rely on."""
    with FakeTensorMode() as mode:
        there = torch.rand(3, device="cuda")
        with pytest.raises(DataDependentOutputException):
            there.sum().item()
        with pytest.raises(DynamicOutputShapeException):
            there[there > 0]
        with pytest.raises(RuntimeError, match="at least two devices"):
            there + mode.from_tensor(torch.ones(3))


DTYPES = (torch.float32, torch.float16, torch.bfloat16)


READS_ITS_PLAN = re.compile("cutmix$|^choice|resizemix|puzzle mix")
"""Methods whose plans have corners or sources in host memory that are read when they are applied:
no copy from a device, but the mode hides values of the host, too."""


@over({name: method for name, method in METHODS.items() if not READS_ITS_PLAN.search(name)})
def test_plans_mix_there(method):
    images, targets, saliency = batch(6, SIZE)
    mixer = method(CLASSES, generator=generator(0))
    run(mixer, images, targets, saliency)
    plan, ratio = mixer.last.plan, mixer.last.target_ratio
    with FakeTensorMode(allow_non_fake_inputs=True):
        soft = torch.empty(len(images), CLASSES, device=CUDA)
        for dtype in DTYPES:
            there = torch.empty(images.shape, dtype=dtype, device=CUDA)
            mixed, targets = mix(there, soft, plan, source_ratio=ratio)
            assert (mixed.device.type, mixed.dtype, mixed.shape) == ("cuda", dtype, images.shape)
            assert (targets.device.type, targets.shape) == ("cuda", soft.shape)
        masks = torch.empty(len(images), *SIZE, dtype=torch.long, device=CUDA)
        assert plan.mix_masks(masks).device.type == "cuda"
        assert mix_mask_probabilities(masks, plan, 3).shape == (len(images), 3, *SIZE)


def test_channels_last_is_kept_there():
    labelling = Labelling(torch.randint(6, (6, 2, 4, 4), generator=generator(0)), 6)
    with FakeTensorMode(allow_non_fake_inputs=True):
        there = torch.empty(6, 3, *SIZE, device=CUDA).to(memory_format=torch.channels_last)
        mixed = labelling.mix_images(there)
        assert mixed.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("size", [(16, 16), (15, 17)])
def test_maps_are_summarized_there(size):
    """All that leaves the device is the one copy of these numbers."""
    with FakeTensorMode():
        maps = torch.empty(6, *size, device=CUDA)
        assert pool(maps, (4, 4)).device.type == "cuda"
        assert salient_locations(maps).shape == (6, 2)
        assert channel_norm(torch.empty(6, 3, *size, device=CUDA)).shape == maps.shape
        assert spectral_residual(torch.empty(6, 3, *size, device=CUDA)).shape == maps.shape


def test_memories_are_read_and_written_there():
    with FakeTensorMode():
        memory = SaliencyMemory(6, momentum=0.5, device=CUDA)
        rows, cells = torch.arange(6, device=CUDA), torch.ones(6, *SIZE, device=CUDA).byte()
        memory.write(Origin(rows, cells), torch.empty(6, *SIZE, device=CUDA))
        memory.end_epoch()
        assert memory.read(Origin(rows, cells)).device.type == "cuda"
