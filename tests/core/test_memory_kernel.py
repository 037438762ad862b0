"""Maps that the kernel writes to a saliency memory and reads, against torch and plain loops."""

import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

from cases import each_case
from comixup import Origin, SaliencyMemory, _native
from comixup.core.memory import looked_up
from comixup.core.saliency import channel_norm
from problems import generator

SIZES = {"1-d": (13,), "2-d": (7, 9), "3-d": (2, 5, 3), "more than a chunk": (40, 50)}
GRIDS = {1: (6,), 2: (2, 3), 3: (1, 3, 2)}
CELLS, EXAMPLES, M = 6, 9, 4


def drawn(size, channels=3, seed=0):
    """Gradients, and where their images come from: every other pixel's cell at random."""
    source = generator(seed)
    gradient = torch.randn(M, channels, *size, generator=source)
    numbers = torch.randint(0, CELLS + 1, (M, *size), generator=source, dtype=torch.uint8)
    numbers[0] = 1  # an image that shows a single cell
    return gradient, Origin(torch.tensor([5, 0, 8, 5]), numbers)  # one example twice


def memory(size, momentum=0.0):
    return SaliencyMemory(EXAMPLES, cells=GRIDS[len(size)], momentum=momentum)


def maps_of(memory):
    return memory.state_dict()["maps"]


def written(how, size, momentum, *batches):
    """Returns the memory after an epoch for each batch."""
    kept = memory(size, momentum)
    for gradient, origin in batches:
        if how == "kernel":
            kept.write_gradient(origin, gradient)
        else:
            kept.write(origin, channel_norm(gradient))
        kept.end_epoch()
    return kept


@each_case("size", SIZES.values(), ids=SIZES.keys())
@each_case("channels", [1, 3, 5])
@each_case("momentum", [0.0, 0.6])
def test_the_kernel_writes_what_torch_does(size, channels, momentum):
    batches = [drawn(size, channels, seed) for seed in range(2)]
    ours = written("kernel", size, momentum, *batches)
    theirs = written("torch", size, momentum, *batches)
    # Sums are added in another order: a byte may be rounded the other way.
    difference = maps_of(ours).int() - maps_of(theirs).int()
    assert difference.abs().max() <= 1
    assert (difference != 0).sum() <= 1
    assert ours.known(torch.arange(EXAMPLES)).tolist() == [k in (0, 5, 8) for k in range(EXAMPLES)]


@each_case("size", SIZES.values(), ids=SIZES.keys())
def test_the_kernel_reads_what_torch_does(size):
    gradient, origin = drawn(size)
    kept = written("kernel", size, 0.0, (gradient, origin))
    rows = torch.tensor([5, 1, 0, 5])  # one of them has no map
    expected = looked_up(maps_of(kept)[rows], origin.cells)
    assert_close(kept.read(Origin(rows, origin.cells)), expected, rtol=0, atol=0)
    assert_close(kept.read(Origin(rows, origin.cells.long())), expected, rtol=0, atol=0)
    assert (expected[1] == (origin.cells[1] > 0)).all()
    numbers = kept.cell_numbers(size).expand(M, *size)
    assert_close(kept.read(rows, size), looked_up(maps_of(kept)[rows], numbers), rtol=0, atol=0)


@each_case("layout", ["channels last", "strided", "double", "part"])
def test_other_layouts(layout):
    size = (7, 9)
    gradient, origin = drawn(size)
    last = gradient.to(memory_format=torch.channels_last)
    forms = {
        "channels last": last,
        "strided": gradient.repeat_interleave(2, dim=3)[..., ::2],
        "double": gradient.double(),
        "part": last[:2],  # the clean images of a batch that is half mixed
    }
    if layout == "part":
        gradient, origin = gradient[:2], Origin(origin.indices[:2], origin.cells[:2])
    ours = written("kernel", size, 0.0, (forms[layout], origin))
    assert not forms[layout].is_contiguous() or layout == "double"
    expected = written("kernel", size, 0.0, (gradient, origin))
    assert_close(maps_of(ours), maps_of(expected))


def test_images_that_were_not_moved_need_no_cell_numbers():
    size = (8, 9)
    gradient, (indices, _) = drawn(size)
    cells = memory(size).cell_numbers(size).expand(M, *size).contiguous()
    ours = written("kernel", size, 0.0, (gradient, Origin(indices)))
    expected = written("kernel", size, 0.0, (gradient, Origin(indices, cells)))
    assert_close(maps_of(ours), maps_of(expected))


def test_gradients_that_cannot_be_used_leave_the_map_of_before():
    size = (7, 9)
    gradient, origin = drawn(size)
    bad = gradient.clone()
    bad[0, 1, 3, 3], bad[1] = float("nan"), 0  # examples 5 (once of twice) and 0
    kept = memory(size)
    kept.write_gradient(origin, gradient)
    kept.end_epoch()
    before = maps_of(kept)
    kept.write_gradient(origin, bad)
    kept.end_epoch()
    assert int(kept.skipped) == 2
    assert_close(maps_of(kept)[0], before[0])
    assert maps_of(kept)[5].any()


@pytest.mark.slow
def test_rows_that_another_thread_changes_meanwhile_are_those_that_were_checked():
    """A subprocess, since what is read beyond the maps ends it."""
    code = """
import threading, torch
from comixup import SaliencyMemory
memory = SaliencyMemory(64, cells=4)
indices, gradient = torch.zeros(64, dtype=torch.int64), torch.rand(64, 3, 64, 64)
stop = threading.Event()
def reuse():
    while not stop.is_set():
        indices.fill_(2**40)
        indices.fill_(0)
other = threading.Thread(target=reuse)
other.start()
done = 0
for _ in range(300):
    for call in (lambda: memory.write_gradient(indices, gradient),
                 lambda: memory.read(indices, (64, 64))):
        try:
            call()
            done += 1
        except (IndexError, ValueError):
            pass
stop.set()
other.join()
print("calls", done)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-500:]
    assert ran.stdout.startswith("calls ")


def test_any_number_of_threads_gives_the_same_maps():
    size = (300, 310)  # large enough for several
    gradient, origin = drawn(size)
    rows, numbers = origin.indices, origin.cells.flatten(1)
    maps = torch.zeros(EXAMPLES, CELLS, dtype=torch.uint8)
    found = []
    for threads in (1, 4):
        found.append(torch.zeros_like(maps))
        skipped = _native.write_maps(
            gradient.flatten(2), numbers, False, rows, maps, 0.0, threads, found[-1]
        )
        assert skipped == 0
    assert_close(found[0], found[1], rtol=0, atol=0)
    assert found[0].any()


def test_a_gradient_of_other_images_is_rejected():
    gradient, origin = drawn((7, 9))
    with pytest.raises(ValueError, match="`gradient` must have a value for each of the pixels"):
        memory((7, 9)).write_gradient(origin, gradient[..., :8].contiguous())
    with pytest.raises(ValueError, match="`gradient` must have shape"):
        memory((7, 9)).write_gradient(origin, gradient[:, 0])


@each_case("how", ["kernel", "torch"])
def test_images_that_show_nothing_of_their_example_write_no_map_and_are_not_counted(how):
    size = SIZES["2-d"]
    gradient, origin = drawn(size)
    before = written(how, size, 0.0, (gradient, origin))
    origin.cells[1:3] = 0  # of examples 0 and 8
    gradient[1] = float("nan")  # what their gradient is plays no part
    after = written(how, size, 0.0, drawn(size), (gradient, origin))
    assert int(after.skipped) == 0
    assert_close(maps_of(after)[[0, 8]], maps_of(before)[[0, 8]], rtol=0, atol=0)
