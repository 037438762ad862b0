"""One of two processes that train together; test_distributed.py starts both and compares."""

import os
import warnings

import torch
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from batches import CLASSES, batch, gradients, net
from comixup import CoMixup, CutMix, ManifoldMixup, training_step
from problems import generator

PER_PROCESS = 5
CASES = {"keep": {"keep_gradients": True, "clean_weight": 0.5}, "drop": {"keep_gradients": False}}


def half(rank, images, targets):
    """The part of a batch that a process gets."""
    part = slice(rank * PER_PROCESS, (rank + 1) * PER_PROCESS)
    return images[part], targets[part]


def whole_batch():
    images, targets, _ = batch(2 * PER_PROCESS)
    return images, targets


def co_mixup(rank, case):
    return CoMixup(CLASSES, generator=generator(100 + rank), **CASES[case])


def manifold_mixup(rank):
    return ManifoldMixup(CLASSES, layers=["0"], generator=generator(200 + rank))


def cutmix(rank):
    return CutMix(
        CLASSES, clean_weight=0.5, clean_reduction="mean", generator=generator(300 + rank)
    )


def parallel():
    """A model between processes, and a list that grows with every exchange of gradients."""
    model, exchanges = DistributedDataParallel(net(norm=False)), []

    def hook(group, bucket):
        exchanges.append(1)
        return allreduce_hook(group, bucket)

    model.register_comm_hook(None, hook)
    return model, exchanges


def sharded():
    """The same model between processes by FSDP2: a shard inside another."""
    model = net(norm=False)
    mesh = init_device_mesh("cpu", (2,))
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def accumulated(rank, images, targets):
    """Gradients of two batches of which the caller lets the last alone exchange them."""
    model, mixer = sharded(), co_mixup(rank, "keep")
    for last in (False, True):
        model.set_requires_gradient_sync(last)
        training_step(model, mixer, images, targets).loss.backward()
        if not last and any(weight.grad is not None for weight in model.parameters()):
            raise AssertionError("the first batch exchanged its gradients")
    return [weight.grad.full_tensor() for weight in model.parameters()]


def train(rank):
    """What each case leaves in `.grad`, before and after the mixed batch's backward pass."""
    images, targets = half(rank, *whole_batch())
    results = {}
    for case in CASES:
        model, exchanges = parallel()
        mixer = co_mixup(rank, case)
        saliency = mixer.saliency(model, images, targets)
        clean, before = gradients(model), len(exchanges)
        mixed, soft = mixer(images, targets, saliency)
        F.cross_entropy(model(mixed), soft).backward()
        results[case] = {
            "clean": clean,
            "grads": gradients(model),
            "exchanges": (before, len(exchanges)),
        }
    model, exchanges = parallel()
    training_step(model, manifold_mixup(rank), images, targets).loss.backward()
    results["manifold"] = {"grads": gradients(model), "exchanges": (0, len(exchanges))}
    model, exchanges = parallel()
    step = training_step(model, cutmix(rank), images, targets)
    before = len(exchanges)
    step.loss.backward()
    results["cutmix"] = {"grads": gradients(model), "exchanges": (before, len(exchanges))}
    for case in CASES:
        model = sharded()
        mixer = co_mixup(rank, case)
        saliency = mixer.saliency(model, images, targets)
        exchanged = any(weight.grad is not None for weight in model.parameters())
        mixed, soft = mixer(images, targets, saliency)
        F.cross_entropy(model(mixed), soft).backward()
        results[f"sharded {case}"] = {
            "exchanged": exchanged,
            "grads": [weight.grad.full_tensor() for weight in model.parameters()],
        }
    results["accumulated"] = {"grads": accumulated(rank, images, targets)}
    return results


def run(rank, folder):
    """Trains, and saves what came of it."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    warnings.filterwarnings("error", category=UserWarning, module="comixup")
    torch.set_num_threads(1)
    init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save(train(rank), folder / f"{rank}.pt")
    destroy_process_group()
