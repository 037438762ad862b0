"""Virtual adversarial training: against closed forms and finite differences, by the ball."""

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from cases import each_case
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


@over_norms
@pytest.mark.parametrize("updates", [0, 3])
def test_agrees_with_a_slow_computation_image_by_image(norm, updates):
    model, images = Watcher(deep().eval()), images_of(size=(4, 4))
    each = torch.tensor([0.25, 2.0]).double().view(2, 1, 1)
    settings = {"epsilon": 0.4, "xi": 0.5, "norm": norm, "scale": (0.25, 2.0)}
    loss = vat_loss(model, images, updates=updates, generator=generator(5), **settings)
    assert len(model.seen) == updates + 2  # the clean pass and the one that counts
    noise, model = model.seen[-1] - images, model.inner
    start = torch.randn(images.shape, generator=generator(5), dtype=torch.float64)
    for i, image in enumerate(images):
        d = start[i].sign() if norm == "linf" else start[i] / start[i].norm()
        for _ in range(updates):
            d = d.requires_grad_()
            clean = model(image[None]).detach()
            divergence(clean, model((image + 0.2 * each * d)[None])).backward()
            d = d.grad.sign() if norm == "linf" else d.grad / d.grad.norm()
        assert_close(noise[i], 0.4 * each * d)
    assert_close(loss, divergence(model(images), model(images + noise)))


@pytest.mark.parametrize("training", [True, False])
def test_gradient_by_the_weights_is_that_with_clean_answer_and_noise_held_fixed(training):
    model, images = deep().train(training), images_of(size=(4, 4))
    clean = model(images).detach()
    noise, loss = noise_of(model, images, epsilon=0.5, generator=generator(7))
    weights = [model[0].weight, model[4].weight]
    gradients = torch.autograd.grad(loss, weights)
    small = 1e-6
    for layer, entry in ((0, (1, 0, 2, 1)), (0, (4, 1, 0, 0)), (1, (2, 7))):
        values = []
        with torch.no_grad():
            for step in (small, -2 * small):
                weights[layer][entry] += step
                values.append(divergence(clean, model(images + noise)))
            weights[layer][entry] += small
        expected = (values[0] - values[1]) / (2 * small)
        assert_close(gradients[layer][entry], expected, rtol=1e-4, atol=1e-8)


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
    model = deep()
    before, buffers = copy.deepcopy(model.state_dict()), dict(model.named_buffers())
    with pytest.raises(TypeError, match="must return a tensor"):
        vat_loss(model.append(Returns(lambda x: (x,))), images_of(size=(4, 4)), epsilon=0.3)
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


@pytest.mark.parametrize("given", [True, False], ids=["own generator", "global one"])
def test_one_seed_gives_one_result_and_another_gives_another(given):
    model, images = linear(), images_of()
    with torch.random.fork_rng():
        noises = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            draw = generator(seed) if given else None
            noises.append(noise_of(model, images, epsilon=0.3, updates=0, generator=draw)[0])
    assert torch.equal(noises[0], noises[1])
    assert not torch.equal(noises[0], noises[2])


def test_works_inside_the_callers_no_grad():
    model, images = deep(), images_of(size=(4, 4))
    with torch.no_grad():
        loss = vat_loss(model, images, epsilon=0.3, generator=generator(12))
    assert not loss.requires_grad
    assert_close(loss, vat_loss(model, images, epsilon=0.3, generator=generator(12)).detach())


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
    with torch.no_grad():
        model[1].weight[0, 0] = torch.nan  # a broken model is seen in the loss
    assert vat_loss(model, images, epsilon=0.3, norm=norm).isnan()


@pytest.fixture
def one_process(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    destroy_process_group()


@pytest.mark.parametrize(("order", "updates"), [("before", 2), ("after", 0)])
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


class Returns(nn.Module):
    """Makes what it is told to of the images."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, images):
        return self.make(images)


@each_case(
    ("change", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, r"`epsilon` must be above 0, got 0. Leave the loss out"),
        ({"epsilon": float("nan")}, ValueError, r"`epsilon` must be a number.*got nan"),
        ({"updates": -1}, ValueError, r"`updates` must be an integer of at least 0, got -1"),
        ({"norm": "l1"}, ValueError, r"`norm` must be one of \['l2', 'linf'\], got 'l1'"),
        ({"scale": (1, 2, 3)}, ValueError, r"`scale` must be one number or one for each of the 2"),
        ({"generator": 3}, TypeError, r"`generator` must be a torch.Generator, got 3"),
        ({"images": torch.ones(3, 2, 2, 2, dtype=torch.uint8)}, TypeError, r"floating point"),
        ({"images": torch.ones(3, 8)}, ValueError, r"`images` must have shape"),
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
