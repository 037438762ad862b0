"""On a device that is not there: equal results, counted copies, and nothing the host waits for.

Everything but compiled graphs, streams and a real device's kernels, which `comixup check` tries.
test_devices.py runs this in a process of its own, since the device is registered for all of it;
for yourself: COMIXUP_PRETEND_DEVICE=1 pytest tests/on_a_device.py.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import comixup
from batches import CLASSES, METHODS, batch, net, run
from comixup import (
    CoMixup,
    ManifoldMixup,
    NoMix,
    OnePass,
    Origin,
    PuzzleMix,
    SaliencyMemory,
    _native,
    training_step,
)
from comixup.core import gather, maps, memory, puzzle, solve
from comixup.lab.paper import baseline_solvers
from comixup.selfcheck._report import run_check
from pretend_device import DEVICE, Elsewhere, counted, on_host
from problems import generator

SIZE = (16, 16)


@pytest.fixture(autouse=True)
def parameters_are_swapped() -> Iterator[None]:
    """`model.to(device)` puts other tensors in the place of parameters, which data cannot hold."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def assert_same(device, host):
    for one, other in zip(device, host, strict=True):
        assert isinstance(one, Elsewhere)
        torch.testing.assert_close(on_host(one), other)


# ---- The device itself ---------------------------------------------------------------------------


def test_the_device_counts_and_hides():
    """What the other tests rely on."""
    with counted() as counts:
        there = torch.ones(3).to(DEVICE)
        assert counts == {"to device": 1, "waits": 1}
        there = torch.ones(3).to(DEVICE, non_blocking=True)
        assert counts == {"to device": 2, "waits": 1}
        with pytest.raises(RuntimeError, match="of the device and of the host"):
            there + torch.ones(3)
        with pytest.raises(RuntimeError, match="numpy"):
            there.numpy()
        with pytest.raises(TypeError, match="device='cpu'"):  # the kernel is given no pointer
            _native.read_maps(there, there, there, there)
        there.cpu()
        assert counts == {"to device": 2, "to host": 1, "waits": 1}
        assert float(there.sum()) == 3
        there[there > 0]
        assert counts["waits"] == 3


# ---- The compiled kernel -------------------------------------------------------------------------


def kernel_calls(monkeypatch):
    """Returns arguments that each function of the kernel was called with."""
    calls = {}

    class Recorder:
        def __getattr__(self, name):
            def call(*args):
                calls.setdefault(name, args)
                return getattr(_native, name)(*args)

            return call

    for module in (gather, maps, memory, puzzle, solve, baseline_solvers):
        monkeypatch.setattr(module, "_native", Recorder())
    images, targets, saliency = batch(6, SIZE, seed=1)
    CoMixup(CLASSES)(images, targets, saliency)
    PuzzleMix(CLASSES, grid=4, std=(1.0,))(images, targets, saliency)
    remembered = SaliencyMemory(6)
    remembered.write_gradient(torch.arange(6), images)
    remembered.read(torch.arange(6), SIZE)
    baseline_solvers.narasimhan_bilmes(comixup.Problem.from_saliency(saliency))
    labels = np.zeros(4, dtype=np.int32)
    Recorder().minimize(np.zeros((2, 4)), np.eye(2), [4], labels, labels.copy())
    return calls


def moved(value):
    """Returns an array, a tensor or a list of arrays on the device; None for anything else."""
    if isinstance(value, list) and isinstance(value[0], np.ndarray):
        return [moved(one) for one in value]
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return torch.tensor(np.asarray(value)).to(DEVICE)
    return None


def test_no_function_of_the_kernel_takes_a_pointer_of_the_device(monkeypatch):
    """Each argument in turn: what should get there by mistake is an error, before any access."""
    calls = kernel_calls(monkeypatch)
    assert set(calls) == {name for name in dir(_native) if not name.startswith("_")}
    with counted():
        for name, args in calls.items():
            getattr(_native, name)(*args)  # the arguments are right
            for k, value in enumerate(args):
                there = moved(value)
                if there is not None:
                    with pytest.raises(TypeError, match=r"incompatible function arguments|device"):
                        getattr(_native, name)(*args[:k], there, *args[k + 1 :])


# ---- Methods -------------------------------------------------------------------------------------

# Copies of a batch to the host (saliency, on the grid) and to the device (who is where and the
# weights of the targets, together). A new method is one line here.
COPIES = {
    "co-mixup": (1, 1),
    "co-mixup, saliency targets": (1, 1),
    "cutmix": (0, 1),
    "cutmix, 3 inputs, per sample": (0, 2),
    "input mixup": (0, 1),
    "input mixup, 3 inputs, per sample": (0, 1),
    "manifold mixup at the input": (0, 1),
    "manifold mixup inside": (0, 3),
    "choice of cutmix and input mixup": (0, 1),
    "puzzle mix": (2, 3),
    "puzzle mix, saliency targets": (2, 3),
    "saliencymix": (2, 2),
    "saliencymix, per sample": (2, 2),
    "resizemix": (0, 1),
    "resizemix, per sample": (0, 1),
    "fmix": (0, 1),
    "fmix, per sample": (0, 1),
    "guided mixup": (2, 5),
    "r-mix": (1, 1),
    "r-mix, per sample": (1, 1),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_is_mixed_alike(name):
    images, targets, saliency = batch(23, SIZE, seed=1)
    expected = run(METHODS[name](CLASSES, generator=generator(0)), images, targets, saliency)
    with counted() as counts:
        there = [value.to(DEVICE) for value in (images, targets, saliency)]
        counts.clear()
        mixed = run(METHODS[name](CLASSES, generator=generator(0)), *there)
    assert (counts["to host"], counts["to device"], counts["waits"]) == (*COPIES[name], 0)
    assert_same(mixed, expected)


STEPS = 2


def trained(mixer, device):
    """Returns the state of a network after some steps, and what crossed between the devices."""
    images, targets, _ = batch(23, SIZE, seed=1)
    model = net(SIZE)
    with counted() as counts:
        model, images, targets = model.to(device), images.to(device), targets.to(device)
        if mixer.mixes_inside:
            mixer.attach(model)
        origin = Origin(torch.arange(23)) if mixer.needs_origin else None
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        counts.clear()
        for _ in range(STEPS):
            optimizer.zero_grad()
            training_step(model, mixer, images, targets, origin=origin).loss.backward()
            optimizer.step()
        return list(model.state_dict().values()), counts


@pytest.mark.parametrize("name", METHODS)
def test_a_network_is_trained_alike(name):
    """Neither the clean pass, nor its saliency, nor the mixed pass copies or waits for more."""
    settings = {"layers": ["0"]} if name.startswith("manifold") else {}
    make = ManifoldMixup if settings else METHODS[name]
    weights, counts = trained(make(CLASSES, generator=generator(0), **settings), DEVICE)
    expected, _ = trained(make(CLASSES, generator=generator(0), **settings), "cpu")
    inside = "manifold mixup inside" if settings else name
    to_host, to_device = (STEPS * count for count in COPIES[inside])
    assert (counts["to host"], counts["to device"], counts["waits"]) == (to_host, to_device, 0)
    assert_same(weights, expected)


def test_one_pass_mixing_trains_alike():
    """With its maps in host memory: they are read there, and refreshed by one copy per batch."""

    def make():
        mixup = CoMixup(CLASSES, generator=generator(0))
        return OnePass(mixup, SaliencyMemory(23, momentum=0.5))

    ours, theirs = make(), make()
    weights, counts = trained(ours, DEVICE)
    expected, _ = trained(theirs, "cpu")
    # A clean and a mixed step. To the host: new maps, and how many are unusable, of the clean one.
    # To the device: maps, and who is where.
    assert (counts["to host"], counts["to device"], counts["waits"]) == (2, 3, 0)
    assert_same(weights, expected)
    one, other = (mixer.memory.state_dict()["next"] for mixer in (ours, theirs))
    torch.testing.assert_close(one, other, rtol=0, atol=1)  # bytes


def test_a_batch_that_workers_mixed_costs_nothing():
    """The training process computes a loss of soft targets, and that is all."""
    images, targets, saliency = batch(23, SIZE, seed=1)
    images, soft = CoMixup(CLASSES)(images, targets, saliency)
    with counted() as counts:
        model, images, soft = net(SIZE).to(DEVICE), images.to(DEVICE), soft.to(DEVICE)
        counts.clear()
        training_step(model, NoMix(), images, soft).loss.backward()
    assert (counts["to host"], counts["waits"]) == (0, 0)


# ---- The core, call by call ----------------------------------------------------------------------


def test_the_road_step_by_step():
    """Each public function takes tensors of the device and returns what it returns on the host."""
    images, targets, _ = batch(12, SIZE, seed=1)
    masks = torch.randint(3, (12, *SIZE), generator=generator(2))

    def road(device):
        model, x, y, m = net(SIZE).to(device), *(v.to(device) for v in (images, targets, masks))
        maps = comixup.saliency(model, x, y)
        problem = comixup.Problem.from_saliency(maps, generator=generator(0))
        labelling = comixup.solve(problem, generator=generator(1))
        mixed, soft = comixup.mix(x, y, labelling, num_classes=CLASSES)
        shares = comixup.mix_mask_probabilities(m, labelling, 3)
        residual = comixup.spectral_residual(x)
        tensors = (maps, mixed, soft, shares, residual, labelling.mix_masks(m), labelling.masks)
        return tensors, comixup.objective(problem, labelling)

    with counted():
        tensors, terms = road(DEVICE)
    expected, its_terms = road("cpu")
    assert_same(tensors, expected)
    assert vars(terms) == pytest.approx(vars(its_terms))


def test_a_memory_on_the_device():
    """Maps are read and written there, with no copies at all."""
    saliency = batch(6, SIZE, seed=1)[2]
    indices = torch.arange(6)
    with counted() as counts:
        memory = SaliencyMemory(6, device=DEVICE)
        there, rows = saliency.to(DEVICE), indices.to(DEVICE)
        counts.clear()
        memory.write(rows, there)
        memory.end_epoch()
        read = memory.read(rows, SIZE)
    assert not counts
    other = SaliencyMemory(6)
    other.write(indices, saliency)
    other.end_epoch()
    assert_same([read], [other.read(indices, SIZE)])


# ---- Batches of the training commands ------------------------------------------------------------


@pytest.mark.parametrize("augment", ["crop-flip", "trivial"])
def test_batches_are_made_without_waiting(augment):
    """Images in memory are on the device, or are augmented on the host and copied there."""
    pytest.importorskip("torchvision", reason="of the extra `train`")
    from comixup.lab.data._in_memory import MemorySplit  # noqa: PLC0415

    images = torch.randint(256, (8, 3, *SIZE), dtype=torch.uint8, generator=generator(0))
    split = MemorySplit(images, torch.arange(8), (0.5,) * 3, (0.25,) * 3, pad=2, flip=True)
    with counted() as counts:
        loader = split.loader(4, augment=augment, device=DEVICE)
        counts.clear()
        there = [value for pair in loader.epoch(0) for value in pair]
    assert (counts["to host"], counts["waits"]) == (0, 0)
    assert_same(
        there, [value for pair in split.loader(4, augment=augment).epoch(0) for value in pair]
    )


def test_vat_does_not_wait():
    pytest.importorskip("lightning_fabric", reason="of the extra `train`")
    from comixup.lab.training._vat import vat_loss  # noqa: PLC0415

    images, _, _ = batch(6, SIZE, seed=1)

    def loss(device):
        model, values = net(SIZE).to(device), images.to(device)
        counts.clear()
        found = vat_loss(model, values, epsilon=1.0, scale=(0.2, 0.3, 0.4), generator=generator(0))
        found.backward()
        return found.detach()

    with counted() as counts:
        there = loss(DEVICE)
    assert (counts["to host"], counts["waits"]) == (0, 0)
    assert_same([there], [loss("cpu")])


# ---- comixup check -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "mixing equals the CPU's",
        "saliency equals the CPU's",
        "one-pass maps equal the CPU's",
        "channels_last",
    ],
)
def test_the_checks_pass_here_too(name):
    """As a rehearsal: on a GPU they are the first that is known of it."""
    with counted():
        outcome = run_check(name, DEVICE)
    assert outcome.status == "passed", outcome.detail
