"""Manifold mixup in blocks under gradient checkpointing: mixed as in the forward pass, again."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint_sequential, set_checkpoint_early_stop

from batches import batch
from rejections import rejects
from repeats import assert_same_gradients, mixer_for, once, once_reentrant, repeats

BOTH = pytest.mark.parametrize("run", [once, once_reentrant], ids=["not reentrant", "reentrant"])


def nested(function, x):
    return once(lambda h: once(function, h), x)


def nested_reentrant(function, x):
    return once_reentrant(lambda h: once_reentrant(function, h), x)


def without_early_stop(function, x):
    with set_checkpoint_early_stop(False):
        return once(function, x)


def in_sequence(function, x):
    return checkpoint_sequential([function, nn.Identity()], 2, x, use_reentrant=False)


RUNS = {
    "not reentrant": once,
    "reentrant": once_reentrant,
    "nested": nested,
    "nested, reentrant": nested_reentrant,
    "mixed": lambda function, x: once(lambda h: once_reentrant(function, h), x),
    "no early stop": without_early_stop,
    "checkpoint_sequential": in_sequence,
}
BLOCKS = {
    "all": [(0, 1, 2)],
    "one each": [(0,), (1,), (2,)],
    "first": [(0,)],
    "first two": [(0, 1)],
    "last two": [(1, 2)],
    "first and last": [(0,), (2,)],
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS.keys())
def test_checkpointing_mixes_the_same_run_again(blocks, run):
    model, (images, targets, _) = repeats(blocks, run), batch(5)
    mixer = mixer_for(model)
    mixed, soft = mixer(images, targets)
    loss = F.cross_entropy(model(mixed), soft)
    loss.backward()
    assert_same_gradients(model, loss, images, soft, mixer.last.plan)


def cancel(model, mixer):
    mixer.cancel()


def leave_the_next_batch(model, mixer):
    mixer.enabled = False
    mixer(*batch(5)[:2])


def evaluate(model, mixer):
    model.eval()


def next_batch(model, mixer):
    images, targets, _ = batch(5, seed=1)
    model(mixer(images, targets)[0])


@BOTH
@pytest.mark.parametrize("meanwhile", [cancel, leave_the_next_batch, evaluate, next_batch])
def test_a_block_is_recomputed_as_it_was_whatever_happened_since(meanwhile, run):
    model, (images, targets, _) = repeats([(0, 1)], run), batch(5)
    mixer = mixer_for(model)
    mixed, soft = mixer(images, targets)
    blend = mixer.last.plan
    loss = F.cross_entropy(model(mixed), soft)
    meanwhile(model, mixer)
    loss.backward()
    assert_same_gradients(model, loss, images, soft, blend)


@BOTH
def test_a_block_that_was_not_mixed_is_not_mixed_when_it_is_recomputed(run):
    model, (images, targets, _) = repeats([(0,), (1, 2)], run), batch(5)
    mixer = mixer_for(model)
    loss = F.cross_entropy(model(images), targets)
    mixer(images, targets)  # gives the hook its plan
    loss.backward()
    assert_same_gradients(model, loss, images, targets, None)
    mixer.cancel()


class HomeMade(torch.autograd.Function):
    """Gradient checkpointing that is not torch's."""

    @staticmethod
    def forward(ctx, function, x):
        ctx.function = function
        ctx.save_for_backward(x)
        with torch.no_grad():
            return function(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.function(x)
        y.backward(gradient)
        return None, x.grad


@pytest.mark.parametrize("when", ["before the pass", "after the pass"])
def test_other_checkpointing_works_for_layers_that_run_once(when):
    model, plain, (images, targets, _) = repeats([(0,)], HomeMade.apply), repeats(), batch(5)
    losses = []
    for one in (model, plain):
        mixer = mixer_for(one, ("convs.0",))
        if when == "before the pass":
            mixer(images, targets)
        losses.append(F.cross_entropy(one(images), targets))
        if when == "after the pass":  # which was not mixed, and is not to be when recomputed
            mixer(images, targets)
        losses[-1].backward()
    assert_close(*losses)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert_close(p.grad, q.grad)


def test_other_checkpointing_is_an_error_for_layers_that_run_twice():
    model, (images, targets, _) = repeats([(0, 1)], HomeMade.apply), batch(5)
    mixer = mixer_for(model)
    mixed, soft = mixer(images, targets)
    loss = F.cross_entropy(model(mixed), soft)
    with rejects(RuntimeError, r"must know which run of a layer to mix, but layer 'act' runs sev"):
        loss.backward()


@pytest.fixture
def one_process():
    """A process group of this process alone."""
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("attach", ["before", "after"])
def test_distributed_data_parallel(attach):
    model, (images, targets, _) = repeats([(0, 1)], once), batch(5)
    early = mixer_for(model) if attach == "before" else None
    wrapped = nn.parallel.DistributedDataParallel(model)
    mixer = early or mixer_for(wrapped)
    for _ in range(2):
        model.zero_grad()
        mixed, soft = mixer(images, targets)
        loss = F.cross_entropy(wrapped(mixed), soft)
        loss.backward()
        assert_same_gradients(model, loss, images, soft, mixer.last.plan)
