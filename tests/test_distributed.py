"""Two processes give the gradients of one; Fabric's and Accelerate's scales are kept."""

import copy
import sys
from pathlib import Path

import accelerate
import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch.testing import assert_close

sys.path.append(str(Path(__file__).parent / "lab" / "training"))

import two_processes
from batches import CLASSES, batch, gradients, net
from comixup import CoMixup, saliency, training_step
from comixup._passes import unwrapped
from problems import generator
from small_runs import WAIT_SECONDS, processes
from two_processes import CASES, co_mixup, cutmix, half, manifold_mixup, whole_batch


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What both processes report, in order of rank."""
    folder = tmp_path_factory.mktemp("processes")
    both = [processes.Process(target=two_processes.run, args=(rank, folder)) for rank in range(2)]
    for process in both:
        process.start()
    try:
        for process in both:
            process.join(WAIT_SECONDS)
        assert [process.exitcode for process in both] == [0, 0]
    finally:
        for process in both:
            process.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_give_the_gradients_of_one_with_the_same_parts(results, case):
    model, (images, targets) = net(norm=False), whole_batch()
    maps = saliency(model, images, targets, **CASES[case])
    halves = []
    for rank in range(2):
        own = half(rank, images, targets)
        halves.append(co_mixup(rank, case)(*own, half(rank, maps, maps)[0]))
    mixed, soft = (torch.cat(parts) for parts in zip(*halves, strict=True))
    F.cross_entropy(model(mixed), soft).backward()
    for result in results:
        assert_close(result[case]["grads"], gradients(model))


@pytest.mark.parametrize("case", CASES)
def test_shards_of_fsdp2_train_as_copies_of_ddp_do(results, case):
    for result in results:
        assert_close(result[f"sharded {case}"]["grads"], result[case]["grads"])
        assert not result[f"sharded {case}"]["exchanged"]  # by the clean pass


def test_a_callers_own_accumulation_over_shards_is_left_alone(results):
    model, (images, targets) = net(norm=False), whole_batch()
    for rank in range(2):
        mixer = co_mixup(rank, "keep")
        for _ in range(2):
            step = training_step(model, mixer, *half(rank, images, targets))
            step.loss.backward()
    for result in results:
        assert_close(result["accumulated"]["grads"], [g / 2 for g in gradients(model)])


def test_the_clean_pass_exchanges_nothing_and_the_mixed_one_the_sum(results):
    for case in ("keep", "drop"):
        assert [result[case]["exchanges"] for result in results] == [(0, 1), (0, 1)]
    mine, others = (result["keep"]["clean"] for result in results)
    assert not torch.equal(mine[0], others[0])  # each process still has its own
    for rank, result in enumerate(results):
        model = net(norm=False)
        saliency(model, *half(rank, *whole_batch()), **CASES["keep"])
        assert_close(result["keep"]["clean"], gradients(model))


def test_a_clean_pass_without_saliency_exchanges_nothing_either(results):
    model, (images, targets) = net(norm=False), whole_batch()
    halves = []
    for rank in range(2):
        own, mixer = half(rank, images, targets), cutmix(rank)
        mixer.clean_pass(net(), *own)
        halves.append(mixer(*own))
    mixed, soft = (torch.cat(parts) for parts in zip(*halves, strict=True))
    clean_loss = F.cross_entropy(model(images), targets)
    ((0.5 * clean_loss + F.cross_entropy(model(mixed), soft)) / 1.5).backward()
    for result in results:
        assert result["cutmix"]["exchanges"] == (0, 1)
        assert_close(result["cutmix"]["grads"], gradients(model))


def test_nothing_is_kept_if_nothing_is_to_be(results):
    for result in results:
        assert result["drop"]["clean"] == [None] * len(result["drop"]["clean"])


def test_manifold_mixup_is_found_inside_a_distributed_model(results):
    # manifold_mixup#2/#4: mixing inside `forward` breaks parallel training.
    model, (images, targets) = net(norm=False), whole_batch()
    for rank in range(2):
        step = training_step(model, manifold_mixup(rank), *half(rank, images, targets))
        (step.loss / 2).backward()
        for module in model.modules():
            module._forward_hooks.clear()
    for result in results:
        assert_close(result["manifold"]["grads"], gradients(model))
        assert result["manifold"]["exchanges"] == (0, 1)


def plain_gradients(model, seed=0):
    images, targets, _ = batch(6)
    mixer = CoMixup(CLASSES, clean_weight=0.5, generator=generator(seed))
    training_step(model, mixer, images, targets).loss.backward()
    return gradients(model)


def test_fabrics_backward():
    fabric = Fabric(accelerator="cpu", devices=1)
    model, (images, targets, _) = net(norm=False), batch(6)
    expected = plain_gradients(copy.deepcopy(model))
    wrapped, _ = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    mixer = CoMixup(CLASSES, clean_weight=0.5, generator=generator(0))
    step = training_step(wrapped, mixer, images, targets, backward=fabric.backward)
    fabric.backward(step.loss)
    assert unwrapped(wrapped) is model
    assert_close(gradients(model), expected)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_accelerate_divides_both_losses_by_its_accumulation_steps(steps):
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=steps)
    model, (images, targets, _) = net(norm=False), batch(6)
    expected = plain_gradients(copy.deepcopy(model))
    prepared, _ = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    mixer = CoMixup(CLASSES, clean_weight=0.5, generator=generator(0))
    with accelerator.accumulate(prepared):
        step = training_step(prepared, mixer, images, targets, backward=accelerator.backward)
        accelerator.backward(step.loss)
    assert_close([g * steps for g in gradients(model)], expected)
