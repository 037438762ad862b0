"""Co-Mixup under DistributedDataParallel: two processes on the CPU.

Starts its own processes, or uses those of `torchrun --nproc-per-node 2 examples/ddp_training.py`.
"""

from __future__ import annotations

import itertools
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import comixup
from tiny_data import BATCH, CLASSES, parse_steps, small_net, test_loss, train_set

PROCESSES = 2


def train(rank: int, processes: int, steps: int) -> None:
    """Trains in one of the processes; the first prints the test loss before and after."""
    torch.set_num_threads(1)  # the processes share the cores
    dist.init_process_group("gloo", rank=rank, world_size=processes)
    torch.manual_seed(rank)
    model = DistributedDataParallel(small_net())  # every process gets the first one's weights
    before = test_loss(model.module)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    data = train_set()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH // processes, sampler=sampler)

    # Each process mixes its own part of the batch, by its own draws.
    generator = torch.Generator().manual_seed(1000 + rank)
    mixup = comixup.CoMixup(len(CLASSES), generator=generator, num_threads=1)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for step, (images, targets) in enumerate(itertools.islice(batches, steps)):
        if step % len(loader) == 0:
            sampler.set_epoch(step // len(loader))
        optimizer.zero_grad()
        # The clean backward pass exchanges nothing; the mixed one exchanges the sum of both.
        loss = comixup.training_step(model, mixup, images, targets).loss
        loss.backward()
        optimizer.step()

    weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    others = [torch.empty_like(weights) for _ in range(processes)]
    dist.all_gather(others, weights)
    if rank == 0:
        same = all(torch.equal(weights, other) for other in others)
        print(f"test loss {before:.2f} -> {test_loss(model.module):.2f} after {steps} steps")
        print(f"same weights in {processes} processes: {same}")
    dist.destroy_process_group()


def main(steps: int = 60) -> None:
    """Trains in two processes of its own, or as one of torchrun's."""
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), steps)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    mp.spawn(train, args=(PROCESSES, steps), nprocs=PROCESSES)


if __name__ == "__main__":
    main(parse_steps(__doc__))
