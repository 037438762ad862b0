"""Virtual adversarial training: against closed forms and finite differences, by the ball."""

import copy
import functools
import itertools

import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from comixup.lab.training._vat import vat_loss

CLASSES = 4
NORMS = ["l2", "linf"]
over_norms = pytest.mark.parametrize("norm", NORMS)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images_of(m=3, channels=2, size=(2, 2), dtype=torch.float64, seed=0):
    return torch.randn(m, channels, *size, generator=generator(seed), dtype=dtype)


def linear(inputs=8, seed=1, dtype=torch.float64):
    model = nn.Sequential(nn.Flatten(), nn.Linear(inputs, CLASSES)).to(dtype)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.randn(weights.shape, generator=generator(seed), dtype=dtype))
    return model


def deep(dtype=torch.float64, norm=True, seed=2):
    """Two layers over images (2, 4, 4), with batch normalization between."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(2, 5, 3),
            nn.BatchNorm2d(5) if norm else nn.Identity(),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(20, CLASSES),
        ).to(dtype)


def divergence(p_logits, q_logits):
    """KL by its definition, the mean over a batch."""
    p, q = p_logits.softmax(1), q_logits.softmax(1)
    return (p * (p / q).log()).sum() / len(p)


class Watcher(nn.Module):
    """Passes calls on, and keeps what it was asked."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.seen = inner, []

    def forward(self, images):
        self.seen.append(images.detach().clone())
        return self.inner(images)


def noise_of(model, images, **settings):
    """Returns the noise of the pass whose answer counts, the last one, and the loss."""
    watcher = Watcher(model)
    loss = vat_loss(watcher, images, **settings)
    return watcher.seen[-1] - images, loss


def hessians(model, images):
    """The divergence's second derivatives by each image, W' (diag p - p p') W, known exactly."""
    weight = model[1].weight.detach()
    for p in model(images).softmax(1).detach():
        yield weight.T @ (p.diag() - p.outer(p)) @ weight


@pytest.mark.parametrize("scale", [1.0, (0.5, 3.0)], ids=str)
def test_power_iteration_finds_the_hessians_first_eigenvector(scale):
    model, images = linear(), images_of()
    settings = {"norm": "l2", "epsilon": 0.3, "scale": scale, "generator": generator(3)}
    noise, _ = noise_of(model, images, updates=300, xi=1e-4, **settings)
    each = torch.tensor(scale if isinstance(scale, tuple) else (scale, scale)).double()
    each = each.repeat_interleave(4)  # of the eight entries of an image
    for r, hessian in zip(noise.flatten(1), hessians(model, images), strict=True):
        # In units of the scale the ball is round.
        _, vectors = torch.linalg.eigh(each[:, None] * hessian * each)
        first = vectors[:, -1]
        assert_close((r / each).norm(), torch.tensor(0.3).double())
        assert_close((r / each).dot(first).abs(), torch.tensor(0.3).double(), rtol=1e-5, atol=0)


def test_iterations_in_the_cube_never_lower_the_quadratic_and_end_at_a_fixed_corner():
    model, images = linear(), images_of()
    values = []
    for updates in (0, 1, 2, 4, 40):
        noise, _ = noise_of(
            model, images, epsilon=1.0, xi=1e-5, updates=updates, generator=generator(4)
        )
        corners = noise.flatten(1).round()
        every = zip(corners, hessians(model, images), strict=True)
        values.append(torch.stack([c @ hessian @ c for c, hessian in every]))
    for before, after in itertools.pairwise(values):
        assert (after >= before - 1e-9).all()
    assert (values[1] > values[0] * 1.01).any()
    for corner, hessian in zip(corners, hessians(model, images), strict=True):
        assert_close((hessian @ corner).sign(), corner)


@over_norms
@pytest.mark.parametrize("updates", [1, 3])
def test_agrees_with_a_slow_computation_image_by_image(norm, updates):
    model, images = deep().eval(), images_of(size=(4, 4))
    noise, loss = noise_of(
        model, images, epsilon=0.4, xi=0.5, updates=updates, norm=norm, generator=generator(5)
    )
    start = torch.randn(images.shape, generator=generator(5), dtype=torch.float64)
    for i, image in enumerate(images):
        d = start[i].sign() if norm == "linf" else start[i] / start[i].norm()
        for _ in range(updates):
            d = d.requires_grad_()
            clean = model(image[None]).detach()
            divergence(clean, model((image + 0.2 * d)[None])).backward()
            d = d.grad.sign() if norm == "linf" else d.grad / d.grad.norm()
        assert_close(noise[i], 0.4 * d)
    assert_close(loss, divergence(model(images), model(images + noise)))


@over_norms
@pytest.mark.parametrize("updates", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_lies_on_the_ball(norm, updates, dtype):
    images = torch.zeros(3, 2, 4, 4, dtype=dtype)  # adding to zeros does not round
    each = torch.tensor([0.25, 2.0], dtype=dtype).view(2, 1, 1)
    noise, _ = noise_of(
        deep(dtype), images, epsilon=1.5, updates=updates, norm=norm, scale=(0.25, 2.0)
    )
    if norm == "linf":
        assert torch.equal(noise.abs(), (1.5 * each).expand_as(noise))
    else:
        assert_close((noise / each).flatten(1).norm(dim=1), torch.full((3,), 1.5, dtype=dtype))


@over_norms
def test_without_updates_the_noise_is_the_random_start(norm):
    images, draw = images_of(m=4), generator(6)
    model = Watcher(linear())
    loss = vat_loss(model, images, epsilon=0.1, updates=0, norm=norm, generator=draw)
    assert len(model.seen) == 2  # the clean pass and the one that counts
    gauss = torch.randn(images.shape, generator=generator(6), dtype=torch.float64)
    length = gauss.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    expected = 0.1 * (gauss.sign() if norm == "linf" else gauss / length)
    assert_close(model.seen[-1] - images, expected)
    assert_close(loss, divergence(model(images), model(images + expected)))


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_number_of_passes(updates):
    model, images = Watcher(linear()), images_of()
    vat_loss(model, images, epsilon=0.1, updates=updates, logits=model.inner(images))
    assert len(model.seen) == updates + 1


@over_norms
def test_an_update_finds_worse_noise_than_chance(norm):
    model, images = deep(), images_of(m=16, size=(4, 4))
    settings = {"epsilon": 0.1, "norm": norm}
    none, one = (
        torch.stack(
            [vat_loss(model, images, updates=u, generator=generator(s), **settings) for s in (0, 1)]
        )
        for u in (0, 1)
    )
    assert (one > 1.5 * none).all()


@over_norms
@pytest.mark.parametrize("training", [True, False])
def test_gradient_by_the_weights_is_that_with_clean_answer_and_noise_held_fixed(norm, training):
    model, images = deep().train(training), images_of(size=(4, 4))
    clean = model(images).detach()
    noise, loss = noise_of(model, images, epsilon=0.5, norm=norm, generator=generator(7))
    weight = model[0].weight
    gradient = dict(
        zip(
            ["conv", "linear"],
            torch.autograd.grad(loss, [weight, model[4].weight]),
            strict=True,
        )
    )
    small = 1e-6
    for name, place in (("conv", (1, 0, 2, 1)), ("conv", (4, 1, 0, 0)), ("linear", (2, 7))):
        entry = {"conv": weight, "linear": model[4].weight}[name]
        values = []
        with torch.no_grad():
            for step in (small, -2 * small):
                entry[place] += step
                values.append(divergence(clean, model(images + noise)))
            entry[place] += small
        expected = (values[0] - values[1]) / (2 * small)
        assert_close(gradient[name][place], expected, rtol=1e-4, atol=1e-8)


def test_no_gradient_goes_through_the_clean_answer():
    model, images = linear(), images_of().requires_grad_()
    logits = model(images)
    logits.retain_grad()
    vat_loss(model, images, epsilon=0.3, logits=logits).backward()
    assert logits.grad is None
    assert images.grad is None
    assert model[1].weight.grad is not None


@pytest.mark.parametrize("training", [True, False])
def test_the_model_and_the_images_stay_as_they_were(training):
    model, images = deep().train(training), images_of(size=(4, 4))
    before, buffers = copy.deepcopy(model.state_dict()), dict(model.named_buffers())
    kept, version = images.clone(), images._version
    vat_loss(model, images, epsilon=0.3, updates=2)
    assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)
    assert all(buffer is buffers[name] for name, buffer in model.named_buffers())
    assert torch.equal(images, kept)
    assert images._version == version
    assert all(weights.grad is None for weights in model.parameters())
    assert model.training is training


def test_buffers_come_back_if_the_model_fails():
    class Fails(nn.Module):
        def forward(self, images):
            raise ArithmeticError("at the end")

    model = deep().append(Fails())
    before, buffers = copy.deepcopy(model.state_dict()), dict(model.named_buffers())
    with pytest.raises(ArithmeticError, match="at the end"):
        vat_loss(model, images_of(size=(4, 4)), epsilon=0.3)
    assert all(buffer is buffers[name] for name, buffer in model.named_buffers())
    assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)


@pytest.mark.parametrize("given", [True, False], ids=["logits given", "logits computed"])
def test_trains_together_with_the_loss_of_the_clean_batch(given):
    model, images, targets = deep(), images_of(size=(4, 4)), torch.tensor([0, 3, 1])
    twin = copy.deepcopy(model)
    logits = model(images)
    extra = vat_loss(
        model, images, epsilon=0.3, logits=logits if given else None, generator=generator(8)
    )
    (F.cross_entropy(logits, targets) + 0.5 * extra).backward()
    F.cross_entropy(twin(images), targets).backward()
    (0.5 * vat_loss(twin, images, epsilon=0.3, generator=generator(8))).backward()
    for weights, same in zip(model.parameters(), twin.parameters(), strict=True):
        assert_close(weights.grad, same.grad)
    assert model[1].num_batches_tracked == 1


@over_norms
def test_one_generator_gives_one_result_and_another_gives_another(norm):
    model, images = linear(), images_of()
    noises = [
        noise_of(model, images, epsilon=0.3, norm=norm, updates=0, generator=generator(seed))[0]
        for seed in (9, 9, 10)
    ]
    assert torch.equal(noises[0], noises[1])
    assert not torch.equal(noises[0], noises[2])


def test_without_a_generator_the_global_one_decides():
    model, images = linear(), images_of()
    with torch.random.fork_rng():
        noises = [
            (torch.manual_seed(seed), noise_of(model, images, epsilon=0.3, updates=0)[0])[1]
            for seed in (1, 1, 2)
        ]
    assert torch.equal(noises[0], noises[1])
    assert not torch.equal(noises[0], noises[2])


@pytest.mark.parametrize("part", ["first layer", "everything"])
def test_frozen_weights(part):
    model, images = deep(), images_of(size=(4, 4))
    free = copy.deepcopy(model)
    (model[0] if part == "first layer" else model).requires_grad_(False)
    loss = vat_loss(model, images, epsilon=0.3, generator=generator(11))
    assert_close(loss, vat_loss(free, images, epsilon=0.3, generator=generator(11)))
    assert loss.requires_grad is (part == "first layer")


@over_norms
def test_works_inside_the_callers_no_grad(norm):
    model, images = deep(), images_of(size=(4, 4))
    settings = {"epsilon": 0.3, "norm": norm}
    with torch.no_grad():
        loss = vat_loss(model, images, generator=generator(12), **settings)
    assert not loss.requires_grad
    assert_close(loss, vat_loss(model, images, generator=generator(12), **settings).detach())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_loss_and_noise_stay_about_the_same(dtype):
    model, images = deep(torch.float32), images_of(m=8, size=(4, 4), dtype=torch.float32)
    settings = {"epsilon": 0.2, "updates": 1}
    full_noise, full = noise_of(model, images, generator=generator(13), **settings)
    with torch.autocast("cpu", dtype):
        noise, loss = noise_of(model, images, generator=generator(13), **settings)
    assert loss.dtype == torch.float32
    assert (noise.sign() == full_noise.sign()).double().mean() > 0.95
    assert_close(loss, full, rtol=0.1, atol=0)
    loss.backward()
    assert all(weights.grad.isfinite().all() for weights in model.parameters())


def test_half_precision_does_not_lose_the_direction_of_a_nearly_certain_model():
    model, images = linear(dtype=torch.float32), images_of(m=20, dtype=torch.float32)
    with torch.no_grad():
        model[1].weight /= 10
        model[1].bias[0] += 20  # the other classes' probabilities are about 1e-9
    settings = {"epsilon": 0.1, "updates": 1}
    full, _ = noise_of(model, images, generator=generator(14), **settings)
    with torch.autocast("cpu", torch.float16):
        half, _ = noise_of(model, images, generator=generator(14), **settings)
    start, _ = noise_of(model, images, epsilon=0.1, updates=0, generator=generator(14))
    assert (full.sign() == start.sign()).double().mean() < 0.8
    assert (half.sign() == full.sign()).double().mean() > 0.9


@over_norms
def test_pixels_that_do_not_matter_keep_the_random_noise(norm):
    model, images = linear(), images_of()
    with torch.no_grad():
        model[1].weight.zero_()
    start, _ = noise_of(model, images, epsilon=1, norm=norm, updates=0, generator=generator(15))
    noise, loss = noise_of(model, images, epsilon=1, norm=norm, generator=generator(15))
    assert_close(noise, start)
    assert_close(loss, torch.zeros_like(loss))


@pytest.mark.parametrize("size", [(16,), (2, 2, 4)], ids=["sound", "volume"])
def test_any_number_of_dimensions(size):
    images = images_of(channels=1, size=size)
    assert vat_loss(linear(16), images, epsilon=0.3, scale=[0.5]) > 0


def test_a_broken_model_is_seen_in_the_loss():
    model = linear()
    with torch.no_grad():
        model[1].weight[0, 0] = torch.nan
    assert vat_loss(model, images_of(), epsilon=0.3).isnan()


@pytest.fixture
def one_process(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    destroy_process_group()


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("updates", [0, 2])
@pytest.mark.usefixtures("one_process")
def test_between_processes_gradients_are_exchanged_once_and_buffers_stay(order, updates):
    plain, images, targets = deep(), images_of(size=(4, 4)), torch.tensor([0, 3, 1])
    model, exchanges = DistributedDataParallel(copy.deepcopy(plain)), []

    def hook(group, bucket):
        exchanges.append(bucket.is_last())
        return allreduce_hook(group, bucket)

    model.register_comm_hook(None, hook)
    extra = functools.partial(vat_loss, epsilon=0.3, updates=updates)
    for module in (plain, model):
        for _ in range(2):  # the second step sees what the first left behind
            if order == "before":
                loss = extra(module, images, generator=generator(16))
                loss = loss + F.cross_entropy(module(images), targets)
            else:
                logits = module(images)
                loss = extra(module, images, logits=logits, generator=generator(16))
                loss = loss + F.cross_entropy(logits, targets)
            assert exchanges in ([], [True])
            loss.backward()
    assert exchanges == [True, True]
    assert model.broadcast_buffers
    for weights, same in zip(plain.parameters(), model.module.parameters(), strict=True):
        assert_close(same.grad, weights.grad)
    for buffer, same in zip(plain.buffers(), model.module.buffers(), strict=True):
        assert_close(same, buffer)


@pytest.mark.usefixtures("one_process")
def test_between_processes_probes_are_quiet_and_no_pass_hands_out_buffers():
    model, seen = DistributedDataParallel(deep()), []
    model.module.register_forward_pre_hook(
        lambda *_: seen.append((model.require_backward_grad_sync, model.broadcast_buffers))
    )
    vat_loss(model, images_of(size=(4, 4)), epsilon=0.3, updates=2)
    assert seen[1:] == [(False, False), (False, False), (True, False)]
    assert model.broadcast_buffers
    assert model.require_backward_grad_sync


def test_fabric_in_mixed_precision():
    fabric = Fabric(accelerator="cpu", precision="bf16-mixed")
    images = images_of(m=8, size=(4, 4), dtype=torch.float32)
    model = deep(torch.float32)
    expected = vat_loss(model, images, epsilon=0.3, generator=generator(17))
    wrapped = fabric.setup(model)
    loss = vat_loss(wrapped, images, epsilon=0.3, generator=generator(17))
    assert_close(loss, expected, rtol=0.1, atol=0)
    fabric.backward(loss)
    assert all(weights.grad.isfinite().all() for weights in model.parameters())


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compiled_models_keep_their_buffers_too():
    model, images = deep(), images_of(size=(4, 4))
    expected = vat_loss(model, images, epsilon=0.3, generator=generator(18))
    before = copy.deepcopy(model.state_dict())
    whole = torch.compile(model, backend="eager")
    for _ in range(2):
        loss = vat_loss(whole, images, epsilon=0.3, generator=generator(18))
        assert_close(loss, expected)
    assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)


class Returns(nn.Module):
    """Makes what it is told to of the images."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, images):
        return self.make(images)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, r"`epsilon` must be above 0, got 0. Leave the loss out"),
        ({"epsilon": "1"}, TypeError, r"`epsilon` must be a number"),
        ({"epsilon": float("nan")}, ValueError, r"`epsilon` must be a number.*got nan"),
        ({"xi": 0.0}, ValueError, r"`xi` must be above 0"),
        ({"updates": -1}, ValueError, r"`updates` must be an integer of at least 0, got -1"),
        ({"updates": 1.5}, ValueError, r"`updates` must be an integer of at least 0, got 1.5"),
        ({"norm": "l1"}, ValueError, r"`norm` must be one of \['l2', 'linf'\], got 'l1'"),
        ({"scale": (1, 2, 3)}, ValueError, r"`scale` must be one number or one for each of the 2"),
        ({"scale": "ab"}, ValueError, r"`scale` must be one number or one for each of the 2"),
        ({"scale": -1.0}, ValueError, r"`scale` must be a number from 0"),
        ({"scale": (0.0, 1.0)}, ValueError, r"`scale` must be above 0"),
        ({"generator": 3}, TypeError, r"`generator` must be a torch.Generator, got 3"),
        ({"images": torch.ones(3, 2, 2, 2, dtype=torch.uint8)}, TypeError, r"floating point"),
        ({"images": torch.ones(3, 8)}, ValueError, r"`images` must have shape"),
        ({"logits": torch.zeros(2, CLASSES)}, ValueError, r"`logits` must have shape \(3, classes"),
        ({"logits": torch.zeros(3, 5)}, ValueError, r"`logits` must have shape \(3, 5\).*\(3, 4\)"),
        (
            {"logits": torch.zeros(3, 5), "updates": 0},
            ValueError,
            r"`logits` must have shape \(3, 5\).*\(3, 4\)",
        ),
        ({"model": Returns(lambda x: (x,))}, TypeError, r"`model` must return a tensor of logits"),
        (
            {"model": Returns(lambda x: x.detach().flatten(1))},
            ValueError,
            r"`model` must pass a gradient on to its images",
        ),
    ],
)
def test_rejects(change, error, message):
    settings = {"model": linear(), "images": images_of(), "epsilon": 0.1} | change
    with pytest.raises(error, match=message):
        vat_loss(settings.pop("model"), settings.pop("images"), **settings)
