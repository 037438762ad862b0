"""What all methods share: one calling convention, and its promises."""

import itertools

import torch
from torch import nn
from torch.testing import assert_close

from batches import CLASSES, IN_PLACE, METHODS, SALIENT, batch, by_masks, one_hot, over, run
from cases import each_case
from comixup import CoMixup, InputMixup, ManifoldMixup, PuzzleMix
from problems import generator
from rejections import rejects

# timm#1304, PaddleViT#134: odd last batches; BirdSet PR#274, PaddleDetection PR#101: one sample.
BATCHES = [1, 2, 21]
SIZES = [(9,), (1, 1), (3, 5), (17, 6), (2, 3, 4)]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}
TARGETS = {
    "class indices": lambda t: t,
    "one-hot integers": lambda t: one_hot(t).long(),  # vision PR#8427
    "soft": lambda t: 0.8 * one_hot(t) + 0.2 / CLASSES,
    "multi-label": lambda t: one_hot(t) + one_hot((t + 1) % CLASSES),
    "half precision": lambda t: one_hot(t).bfloat16(),
}


def weights_of(mixer, size):
    """The weights of the inputs' targets in the outputs'."""
    last = mixer.last
    return last.plan.source_ratio(size) if last.target_ratio is None else last.target_ratio


def check(mixer, images, targets, saliency):
    """Runs a batch and holds the answer against the plan's masks, in double precision."""
    mixed, soft = run(mixer, images, targets, saliency)
    plan, size = mixer.last.plan, images.shape[2:]
    assert mixed.dtype == images.dtype
    assert mixed.shape == images.shape
    if not getattr(plan, "resized", False):
        assert_close(
            mixed.double(),
            by_masks(plan.masks, images),
            rtol=TOLERANCE[images.dtype],
            atol=TOLERANCE[images.dtype],
        )
    shares = one_hot(targets) if targets.ndim == 1 else targets.float()
    assert soft.dtype == torch.float32
    assert_close(soft, weights_of(mixer, size) @ shares)
    assert_close(soft.sum(1), weights_of(mixer, size) @ shares.sum(1))
    full = by_masks(plan.masks, torch.ones(len(images), 1, *size))
    assert_close(full, torch.ones_like(full))
    area = (
        by_masks(
            plan.masks,
            torch.eye(len(images)).view(len(images), -1, *[1] * len(size)).expand(-1, -1, *size),
        )
        .flatten(2)
        .mean(2)
    )
    assert_close(plan.source_ratio(size).double(), area, rtol=1e-5, atol=1e-6)
    return mixed, soft


@over(METHODS)
@each_case("m", BATCHES)
def test_any_batch_size(method, m):
    check(method(CLASSES, generator=generator(m)), *batch(m, (6, 5)))


@over(METHODS)
@each_case("size", SIZES, ids=str)
def test_any_image_size(method, size):
    check(method(CLASSES, generator=generator(1)), *batch(5, size))


@over(METHODS)
@each_case("dtype", TOLERANCE, ids=str)
def test_any_floating_dtype(method, dtype):
    # PM#5/#6, kornia#4657, tensorflow/models#10318: half precision must mix, and not the targets.
    check(method(CLASSES, generator=generator(2)), *batch(6, (9, 8), dtype=dtype))


@over(METHODS)
@each_case("kind", TARGETS.values(), ids=TARGETS.keys())
def test_any_kind_of_target(method, kind):
    images, targets, saliency = batch(6)
    targets = kind(targets)
    copy, version = targets.clone(), targets._version
    _, soft = check(method(CLASSES, generator=generator(3)), images, targets, saliency)
    assert soft.shape == (6, CLASSES)
    if targets.ndim == 2:  # then `num_classes` is not needed
        _, same = run(method(generator=generator(3)), images, targets, saliency)
        assert_close(same, soft, rtol=0, atol=0)
    assert targets._version == version
    assert_close(targets, copy, rtol=0, atol=0)


@over({**METHODS, "puzzle mix with transport": PuzzleMix})
def test_channels_last_stays(method):
    images, targets, saliency = batch(6)
    images = images.to(memory_format=torch.channels_last)
    mixed, _ = run(method(CLASSES, generator=generator(4)), images, targets, saliency)
    assert mixed.is_contiguous(memory_format=torch.channels_last)


@over(METHODS)
@each_case("p", [0, 1])
def test_the_callers_tensors_are_untouched(method, p):
    # timm#1143: a change in place looks like "not mixing".
    given = batch(6)
    copies, versions = [t.clone() for t in given], [t._version for t in given]
    mixed, soft = run(method(CLASSES, p=p, generator=generator(5)), *given)
    assert mixed.data_ptr() != given[0].data_ptr()
    mixed += 1
    soft += 1
    assert [t._version for t in given] == versions
    for now, then in zip(given, copies, strict=True):
        assert_close(now, then, rtol=0, atol=0)


@over(METHODS)
def test_one_seed_one_result(method):
    # composer#793: not reproducible under a seed.
    given, state = batch(12), torch.get_rng_state()
    runs = []
    for seed in (1, 1, 2):
        mixer = method(CLASSES, p=0.5, generator=generator(seed))
        runs.append([run(mixer, *given) for _ in range(5)])
    assert torch.equal(torch.get_rng_state(), state)  # the global generator is left alone
    for (a, b), (c, d) in zip(runs[0], runs[1], strict=True):
        assert_close(a, c, rtol=0, atol=0)
        assert_close(b, d, rtol=0, atol=0)
    assert any(not torch.equal(a, c) for (a, _), (c, _) in zip(runs[0], runs[2], strict=True))
    assert any(not torch.equal(a, c) for (a, _), (c, _) in itertools.pairwise(runs[0]))


@over(METHODS)
def test_without_a_generator_the_global_seed_rules(method):
    given, mixer = batch(6), method(CLASSES)
    with torch.random.fork_rng():
        torch.manual_seed(8)
        first = run(mixer, *given)
        torch.manual_seed(8)
        second = run(mixer, *given)
    assert_close(first, second, rtol=0, atol=0)


@over(METHODS)
def test_p_is_how_often_a_batch_is_mixed(method):
    # kornia#4649: applied twice, so that the rate was p squared; mmpretrain#875: ignored.
    images, targets, saliency = batch(4, (4, 4))
    p, times = 0.4, 40
    mixer = method(CLASSES, p=p, generator=generator(6))
    mixed = 0
    for _ in range(times):
        out, soft = run(mixer, images, targets, saliency)
        mixed += mixer.last.mixed
        if not mixer.last.mixed:
            assert_close(out, images, rtol=0, atol=0)
            assert_close(soft, one_hot(targets), rtol=0, atol=0)
    assert abs(mixed / times - p) <= 4 * (p * (1 - p) / times) ** 0.5


class Counting(nn.Module):
    """A model that counts its calls."""

    def __init__(self):
        super().__init__()
        self.inner, self.calls = nn.Sequential(nn.Flatten(), nn.Linear(48, CLASSES)), 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x)


@over(SALIENT)
@each_case("p", [0.0, 0.4])
def test_saliency_and_call_share_one_draw(method, p):
    images, targets, _ = batch(4, (4, 4))
    mixer, model = method(CLASSES, p=p, generator=generator(7)), Counting()
    times, mixed = 40, 0
    for _ in range(times):
        before = model.calls
        saliency = mixer.saliency(model, images, targets)
        # No pass over the clean batch where it is not to be mixed.
        assert model.calls - before == (saliency is not None)
        mixer(images, targets, saliency)
        assert mixer.last.mixed == (saliency is not None)
        mixed += mixer.last.mixed
    assert abs(mixed / times - p) <= 4 * (p * (1 - p) / times) ** 0.5


@over(METHODS)
def test_disabled_leaves_batches_and_models_alone(method):
    images, targets, saliency = batch(4, (4, 4))
    mixer, model = method(CLASSES, generator=generator(8)), Counting()
    mixer.enabled = False
    assert mixer.saliency(model, images, targets) is None
    assert model.calls == 0
    for maps in (None, saliency):
        mixed, soft = run(mixer, images, targets, maps)
        assert mixer.last.mixed is False
        assert_close(mixed, images, rtol=0, atol=0)
        assert_close(soft, one_hot(targets), rtol=0, atol=0)
    mixer.enabled = True
    run(mixer, images, targets, saliency)
    assert mixer.last.mixed is True


@over({k: v for k, v in IN_PLACE.items() if "inside" not in k})
def test_the_plan_mixes_other_tensors_alike(method):
    # vision#9215, keras-aug#58: one-hot segmentation masks follow their images.
    images, targets, saliency = batch(6)
    mixer = method(CLASSES, generator=generator(10))
    mixed, _ = mixer(images, targets, saliency)
    assert_close(mixer.last.plan.mix_images(images), mixed, rtol=0, atol=0)
    hot = torch.rand(6, 9, 8, 8, generator=generator(0))
    expected = by_masks(mixer.last.plan.masks, hot)
    assert_close(mixer.last.plan.mix_images(hot).double(), expected, rtol=1e-5, atol=1e-6)


IMAGES = torch.rand(4, 3, 8, 8)
LABELS = torch.arange(4)
BAD = {
    "label too high": ({"targets": LABELS + 4}, ValueError, r"`targets` must lie in 0\.\.6"),
    "negative label": ({"targets": LABELS - 1}, ValueError, r"`targets` must lie in 0\.\.6"),
    "float labels": ({"targets": LABELS.float()}, TypeError, r"`targets` of shape .* integers"),
    "five labels": ({"targets": torch.arange(5)}, ValueError, r"`targets` must have shape \(4,\)"),
    "six classes": ({"targets": torch.rand(4, 6)}, ValueError, r"`num_classes` = 7 columns"),
    "no images": ({"images": torch.rand(0, 3, 8, 8)}, ValueError, r"`images` must have shape"),
    "no pixels": ({"images": torch.rand(4, 3, 0, 8)}, ValueError, r"`images` must have shape"),
    "one image": ({"images": torch.rand(4, 8)}, ValueError, r"`images` must have shape.*whole b"),
    "4-d": ({"images": torch.rand(4, 1, 2, 2, 2, 2)}, ValueError, r"`images` must have shape"),
    "a list": ({"images": [1, 2]}, TypeError, r"`images` must be a torch tensor, got list"),
}


@over(METHODS)
@each_case(("change", "error", "message"), BAD.values(), ids=BAD.keys())
def test_rejects(method, change, error, message):
    given = {"images": IMAGES, "targets": LABELS, "saliency": torch.rand(4, 8, 8)} | change
    with rejects(error, message):
        method(CLASSES)(**given)


MAPS = {
    "missing": (None, ValueError, r"`saliency` must be given to \w+, got None\. Use mixer\.sal"),
    "another batch": (torch.rand(3, 8, 8), ValueError, r"`saliency` must have shape \(4, \*size"),
    "channels": (torch.rand(4, 1, 8, 8), ValueError, r"`saliency` must have shape .* \(4, 1, 8"),
    "empty": (torch.rand(4, 0, 8), ValueError, r"`saliency` must have shape"),
    "a list": ([1.0], TypeError, r"`saliency` must be a torch tensor, got list"),
    "bool": (torch.ones(4, 8, 8) > 0, TypeError, r"`saliency` must hold real numbers"),
}


@over(SALIENT)
@each_case(("maps", "error", "message"), MAPS.values(), ids=MAPS.keys())
def test_rejects_saliency(method, maps, error, message):
    with rejects(error, message):
        method(CLASSES)(IMAGES, LABELS, maps)


SETTINGS = {
    "p above 1": ({"p": 1.5}, ValueError, r"`p` must be a number from 0 to 1, got 1\.5"),
    "p below 0": ({"p": -0.1}, ValueError, r"`p` must be a number from 0 to 1"),
    "p NaN": ({"p": float("nan")}, ValueError, r"`p` must be a number from 0 to 1, got nan"),
    "p a word": ({"p": "often"}, TypeError, r"`p` must be a number from 0 to 1, got 'often'"),
    "no classes": ({"num_classes": 0}, ValueError, r"`num_classes` must be a positive integer"),
    "half a class": ({"num_classes": 2.5}, ValueError, r"`num_classes` must be a positive int"),
}
ALPHAS = {
    "alpha 0": ({"alpha": 0}, ValueError, r"`alpha` must be above 0"),
    "alpha below 0": ({"alpha": -1.0}, ValueError, r"`alpha` must be a number from 0"),
    "alpha a word": ({"alpha": "x"}, TypeError, r"`alpha` must be a number from 0"),
}


@over(METHODS)
@each_case(("change", "error", "message"), SETTINGS.values(), ids=SETTINGS.keys())
def test_rejects_settings_at_construction(method, change, error, message):
    with rejects(error, message):
        method(**change)


@over({name: method for name, method in METHODS.items() if hasattr(method(), "alpha")})
@each_case(("change", "error", "message"), ALPHAS.values(), ids=ALPHAS.keys())
def test_rejects_parameters_of_a_beta_distribution(method, change, error, message):
    with rejects(error, message):
        method(**change)


@each_case("method", [CoMixup, InputMixup, ManifoldMixup])
def test_rejects_a_seed_in_place_of_a_generator(method):
    with rejects(TypeError, r"`generator` must be a torch\.Generator, got"):
        method(CLASSES, generator=5)


@over({name: method for name, method in METHODS.items() if "inside" not in name})
def test_plans_are_made_on_the_host_whatever_the_default_device(method):
    images, targets, saliency = batch(6)
    expected = method(CLASSES, generator=generator(4))(images, targets, saliency)
    with torch.device("meta"):  # a device that holds no numbers: every stray tensor would show
        mixer = method(CLASSES, generator=generator(4))
        answer = mixer(images, targets, saliency)
        plan = mixer.last.plan
        assert_close(plan.mix_images(images), expected[0])
        assert_close(plan.source_ratio().sum(1), torch.ones(6, device="cpu"))
        assert plan.masks.device.type == "cpu"
        masks = targets.view(-1, 1, 1).expand(-1, *images.shape[2:])
        assert plan.mix_masks(masks).shape == masks.shape
    assert_close(answer, expected)
