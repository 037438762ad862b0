"""The adapters, called as the libraries' own transforms are, and beside them."""

import copy

import numpy as np
import pytest
import timm.data
import torch
import torch.nn.functional as F
from timm.loss import SoftTargetCrossEntropy
from torch import nn
from torch.testing import assert_close
from torch.utils.data import DataLoader, TensorDataset, default_collate
from torchvision import tv_tensors
from torchvision.transforms import v2

import comixup
from comixup._methods import METHODS as LISTED
from comixup.adapters.timm import MinMaxCutMix, Mixup
from comixup.adapters.torchvision import BatchMix
from comixup.mixers._input import Blend
from comixup.mixers._mixer import Mixed

CLASSES = 5


def batch(m=8, seed=0, size=(16, 16)):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(m, 3, *size, generator=generator)
    return images, torch.randint(CLASSES, (m,), generator=generator)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, CLASSES))


METHODS = [comixup.CoMixup, comixup.CutMix, comixup.InputMixup]


ALL = [listed.mixer for name, listed in LISTED.items() if name not in ("vanilla", "manifold")]
"""Every method that mixes images."""


@pytest.mark.parametrize("name", ALL)
def test_timms_mixup_takes_every_method(name):
    mixer = getattr(comixup.mixers, name)(CLASSES)
    mixup_fn = Mixup(mixup_alpha=0, mixer=mixer, num_classes=CLASSES, generator=seeded())
    twin = getattr(comixup.mixers, name)(CLASSES, generator=seeded())
    for seed in range(2):
        images, labels = batch(seed=seed)
        mixed, soft = mixup_fn(images, labels)
        maps = comixup.spectral_residual(images) if twin.needs_saliency else None
        expected, plain = twin(images, labels, maps)
        assert_close(mixed, expected, rtol=0, atol=0)
        assert_close(soft, 0.1 / CLASSES + 0.9 * plain)
    assert mixup_fn.last.mixed


@pytest.mark.parametrize("name", ALL)
def test_batches_with_masks_are_mixed_by_every_method(name):
    transform = BatchMix(getattr(comixup.mixers, name)(CLASSES, generator=seeded()))
    for seed in range(2):
        images, labels = batch(seed=seed)
        masks = torch.arange(8).view(8, 1, 1).expand(8, 16, 16) + 8 * seed  # tell whose they are
        sample = {"image": tv_tensors.Image(images), "labels": labels}
        mixed = transform(sample | {"mask": tv_tensors.Mask(masks)})
    assert transform.mixer.last.mixed
    assert mixed["image"].shape == images.shape
    ratio = transform.mixer.last.plan.source_ratio((16, 16))
    own = torch.cat([torch.arange(8, 16), torch.arange(8)])  # of RecursiveMix the last batch's too
    # Every class that is seen is of an input that has a share.
    for j in range(8):
        shown = set(mixed["mask"][j].unique().tolist())
        assert shown <= {int(own[i]) for i in ratio[j].nonzero().flatten()}


class TestBatchMix:
    def test_is_the_mixer_with_spectral_residual_saliency(self):
        images, labels = batch()
        ours = BatchMix(comixup.CoMixup(CLASSES, generator=seeded()))(images, labels)
        mixer = comixup.CoMixup(CLASSES, generator=seeded())
        theirs = mixer(images, labels, comixup.spectral_residual(images))
        for one, other in zip(ours, theirs, strict=True):
            assert_close(one, other, rtol=0, atol=0)

    def test_takes_any_saliency_function(self):
        seen = []

        def brightness(images):
            seen.append(images)
            return images.mean(1)

        BatchMix(comixup.CoMixup(CLASSES), brightness)(*batch())
        BatchMix(comixup.CutMix(CLASSES), brightness)(*batch())  # needs none, so asks for none
        assert len(seen) == 1

    def test_keeps_image_type_and_passes_the_rest_through(self):
        images, labels = batch()
        sample = {
            "image": tv_tensors.Image(images),
            "labels": labels,
            "index": torch.arange(8),
            "name": "a",
        }
        mixed = BatchMix(comixup.CoMixup(CLASSES))(sample)
        assert isinstance(mixed["image"], tv_tensors.Image)
        assert mixed["labels"].shape == (8, CLASSES)
        assert mixed["index"] is sample["index"]
        assert mixed["name"] == "a"

    def test_second_images_and_masks_follow_the_first_image(self):
        images, labels = batch()
        masks = F.one_hot(torch.randint(3, (8, 16, 16), generator=seeded()), 3)
        masks = masks.movedim(-1, 1).float()
        transform = BatchMix(comixup.CoMixup(CLASSES))
        twin = {"labels": labels, "mask": tv_tensors.Mask(masks)}
        out = transform((tv_tensors.Image(images), twin, tv_tensors.Image(2 * images)))
        assert_close(out[2].as_subclass(torch.Tensor), 2 * out[0].as_subclass(torch.Tensor))
        assert isinstance(out[1]["mask"], tv_tensors.Mask)
        plan = transform.mixer.last.plan
        assert_close(out[1]["mask"].as_subclass(torch.Tensor), plan.mix_images(masks))

    def test_videos_keep_time_before_channels(self):
        video = torch.rand(4, 6, 3, 16, 16, generator=seeded())
        transform = BatchMix(comixup.CoMixup(CLASSES))
        mixed, _ = transform(tv_tensors.Video(video), torch.arange(4))
        assert isinstance(mixed, tv_tensors.Video)
        plan = transform.mixer.last.plan
        expected = plan.mix_images(video.transpose(1, 2)).transpose(1, 2)
        assert_close(mixed.as_subclass(torch.Tensor), expected)

    def test_a_choice_computes_maps_only_for_methods_that_need_them(self):
        calls = []

        def maps(images):
            calls.append(len(images))
            return comixup.spectral_residual(images)

        mixer = comixup.Choice(
            [comixup.CoMixup(CLASSES), comixup.CutMix(CLASSES)], p=0.8, generator=seeded()
        )
        transform, chosen = BatchMix(mixer, maps), []
        for _ in range(20):
            mixed, soft = transform(*batch())
            assert_close(mixed, mixer.last.plan.mix_images(batch()[0]))
            assert_close(soft.sum(1), torch.ones(8))
            chosen.append(mixer.last.chosen)
        assert set(chosen) == {None, 0, 1}
        assert len(calls) == chosen.count(0)


class Collate:
    def __init__(self, transform):
        self.transform = transform

    def __call__(self, samples):
        return self.transform(*default_collate(samples))


class TestWorkers:
    def epoch(self, generator, loader_seed, choice=False):
        same = TensorDataset(batch(8)[0].repeat(2, 1, 1, 1), batch(8)[1].repeat(2))
        mixer = comixup.CutMix(CLASSES, generator=generator)
        collate = Collate(BatchMix(comixup.Choice([mixer]) if choice else mixer))
        loader = DataLoader(
            same, 8, num_workers=2, collate_fn=collate, generator=seeded(loader_seed)
        )
        return [images for images, _ in loader]

    @pytest.mark.parametrize(("own", "choice"), [(False, False), (True, True)])
    def test_each_worker_and_epoch_draws_its_own_and_can_be_repeated(self, own, choice):
        def run(seed):
            return self.epoch(seeded(7) if own else None, seed, choice)

        first, second = run(0)
        assert not torch.equal(first, second)  # equal batches, one from each worker
        again = run(0)
        assert_close(again, [first, second], rtol=0, atol=0)
        assert not torch.equal(run(1)[0], first)

    def test_a_generators_seed_counts_in_workers(self):
        assert not torch.equal(self.epoch(seeded(7), 0)[0], self.epoch(seeded(8), 0)[0])


PLAIN, CLEAN = comixup.CutMix(2), comixup.CutMix(2, clean_weight=0.5)


class TestBatchMixRejects:
    @pytest.mark.parametrize(
        ("mixer", "settings", "message"),
        [
            (v2.MixUp(num_classes=2), {}, "`mixer` must be one of comixup's methods"),
            (
                comixup.ManifoldMixup(2, layers=["0"]),
                {},
                "`mixer` must be .*that mix images by themselves.*got ManifoldMixup.*inside the",
            ),
            (
                comixup.OnePass(comixup.CoMixup(2), comixup.SaliencyMemory(9)),
                {},
                "`mixer` must be .*that mix images by themselves.*got OnePass.*where images come",
            ),
            (CLEAN, {}, "`mixer` must have clean_weight = 0 in a transform"),
            (comixup.Choice([comixup.CoMixup(2), CLEAN]), {}, "`mixer` must have clean_weight = 0"),
            (PLAIN, {"saliency_fn": None}, "`saliency_fn` must be a function"),
            (PLAIN, {"labels_getter": "last"}, '`labels_getter` must be "default" or a function'),
        ],
    )
    def test_wrong_settings(self, mixer, settings, message):
        with pytest.raises((TypeError, ValueError), match=message):
            BatchMix(mixer, **settings)

    @pytest.mark.parametrize(
        ("sample", "message"),
        [
            ((torch.rand(2, 3, 8, 8), "ab"), "must hold the labels as a tensor, .* got str"),
            ({"image": torch.rand(2, 3, 8, 8)}, "must hold the labels .* got NoneType"),
            (("a", torch.arange(2)), "must hold a batch of images"),
            ((torch.rand(3, 8, 8), torch.tensor(1)), "`targets` must have shape"),
            ((torch.rand(3, 8), torch.arange(3)), "Mix whole batches"),
        ],
    )
    def test_samples_without_images_or_labels(self, sample, message):
        with pytest.raises(ValueError, match=message):
            BatchMix(comixup.CutMix(CLASSES))(sample)

    @pytest.mark.parametrize("where", ["beside", "in a dictionary", "as a plain tensor"])
    def test_boxes_and_key_points(self, where):
        images, labels = batch()
        boxes = tv_tensors.BoundingBoxes(
            torch.tensor([[0, 0, 1, 1]]), format="XYXY", canvas_size=(16, 16)
        )
        points = tv_tensors.KeyPoints(torch.tensor([[1, 2]]), canvas_size=(16, 16))
        samples = {
            "beside": [(images, labels, boxes), (images, labels, points)],
            "in a dictionary": [
                (images, {"labels": labels, "found": boxes}),
                (images, {"labels": labels, "joints": points}),
            ],
            "as a plain tensor": [
                {"image": images, "labels": labels, "boxes": torch.rand(8, 4)},
                {"image": images, "labels": labels, "key_points": torch.rand(8, 5, 2)},
            ],
        }
        for sample in samples[where]:
            with pytest.raises(ValueError, match=r"must be left out .* have no mixture"):
                BatchMix(comixup.CutMix(CLASSES))(sample)

    @pytest.mark.parametrize("shape", [(8, 16, 16), (8, 2, 16, 16)])
    def test_plain_tensors_of_the_images_size_which_would_pass_through(self, shape):
        images, labels = batch()
        sample = {"image": images, "labels": labels, "segmentation": torch.zeros(shape).long()}
        with pytest.raises(ValueError, match=r"segmentation.* must be wrapped in tv_tensors"):
            BatchMix(comixup.CutMix(CLASSES))(sample)


class TestIntegerMasks:
    """What vision#9215 and kornia#4493 ask for: masks mixed with their images."""

    def test_need_no_labels(self):
        images, _ = batch()
        masks = tv_tensors.Mask(torch.randint(4, (8, 16, 16), generator=seeded()))
        transform = BatchMix(comixup.CutMix(generator=seeded(1)))
        mixed, mixed_masks = transform(images, masks)
        same = BatchMix(comixup.CutMix(generator=seeded(1)))({"image": images, "mask": masks})
        assert_close(same["mask"], mixed_masks, rtol=0, atol=0)
        assert_close(same["image"], mixed, rtol=0, atol=0)
        assert not torch.equal(mixed, images)
        assert not torch.equal(mixed_masks, masks)

    def test_ignore_index_is_the_transforms(self):
        images, labels = batch(2)
        masks = torch.stack([torch.zeros(16, 16), torch.full((16, 16), 9)]).long()
        for ignore_index, expected in ((9, [9, 9]), (255, [0, 9])):
            transform = BatchMix(comixup.InputMixup(CLASSES), ignore_index=ignore_index)
            transform.mixer.draw = lambda *_: HALVES
            mixed = transform(images, {"labels": labels, "mask": tv_tensors.Mask(masks)})[1]
            assert mixed["mask"].flatten(1).amax(1).tolist() == expected


HALVES = Mixed(Blend(torch.tensor([[1], [0]]), torch.tensor([[0.5, 0.5]])))


@pytest.mark.parametrize(
    "make", [BatchMix, lambda mixer, **given: Mixup(0, num_classes=CLASSES, mixer=mixer, **given)]
)
def test_a_warning_points_at_the_line_of_the_caller(make):
    images = torch.rand(8, 3, 16, 16, generator=seeded())
    transform = make(comixup.CoMixup(CLASSES), saliency_fn=lambda images: 0 * images[:, 0])
    with pytest.warns(UserWarning, match="maps are zero") as caught:
        transform(images, torch.arange(8) % CLASSES)
    assert caught[0].filename == __file__


class TestTimm:
    @pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
    def test_smooths_exactly_as_timm_while_off(self, smoothing):
        images, targets = batch()
        settings = {"label_smoothing": smoothing, "num_classes": CLASSES}
        ours, theirs = Mixup(**settings), timm.data.Mixup(**settings)
        ours.mixup_enabled = theirs.mixup_enabled = False
        for mixup_fn in (ours, theirs):
            assert mixup_fn(images.clone(), targets)[1].shape == (8, CLASSES)
        x, soft = ours(images, targets)
        assert_close(soft, theirs(images.clone(), targets)[1], rtol=0, atol=1e-7)
        assert_close(x, images, rtol=0, atol=0)

    def test_same_ratio_same_targets_as_timm(self, monkeypatch):
        images, targets = batch()
        monkeypatch.setattr(np.random, "beta", lambda *_, **__: 0.25)
        theirs = timm.data.Mixup(num_classes=CLASSES)(images.clone(), targets)
        mixup_fn = Mixup(num_classes=CLASSES, comixup_prob=0)
        mixup_fn.input_mixup.draw_ratios = lambda _: torch.tensor([[0.25, 0.75]])
        mixup_fn.input_mixup.draw_partners = lambda m: torch.arange(m).flip(0).unsqueeze(1)
        for one, other in zip(mixup_fn(images, targets), theirs, strict=True):
            assert_close(one, other)

    def test_methods_come_in_the_proportions_asked_for(self):
        images, targets = batch(4)
        mixup_fn = Mixup(
            0.8,
            1.0,
            prob=0.8,
            switch_prob=0.25,
            num_classes=CLASSES,
            comixup_prob=0.5,
            generator=seeded(),
        )
        names = []
        for _ in range(160):
            mixup_fn(images, targets)
            last = mixup_fn.last
            names.append(type(last.plan).__name__ if last.mixed else "none")
        expected = {"none": 32, "Labelling": 64, "Boxes": 16, "Blend": 48}
        for name, count in expected.items():
            assert abs(names.count(name) - count) < 25, name  # about four standard errors

    def test_saliency_of_the_model_keeps_the_gradient_of_the_smoothed_clean_loss(self):
        images, targets = batch()
        model, loss_fn = small_model(), SoftTargetCrossEntropy()
        mixup_fn = Mixup(0, 0, num_classes=CLASSES, generator=seeded())
        saliency = mixup_fn.saliency(model, images, targets, loss_fn=loss_fn)
        kept = model[3].weight.grad.clone()
        model.zero_grad()
        F.cross_entropy(model(images), targets, label_smoothing=0.1).backward()
        assert_close(kept, model[3].weight.grad)
        _, soft = mixup_fn(images, targets, saliency)
        assert soft.shape == (8, CLASSES)

    @pytest.mark.parametrize("method", [comixup.CoMixup, comixup.CutMix])
    def test_the_chosen_methods_clean_weight_holds(self, method):
        images, targets = batch()
        model, loss_fn = small_model(), SoftTargetCrossEntropy()
        other = copy.deepcopy(model)
        mixer = method(CLASSES, clean_weight=3.0, clean_reduction="mean")
        mixup_fn = Mixup(1.0, 0, num_classes=CLASSES, comixup_prob=0.5, mixer=mixer)
        weights = set()
        for _ in range(20):
            model.zero_grad()
            step = comixup.training_step(model, mixup_fn, images, targets, loss_fn=loss_fn)
            kept = model[3].weight.grad
            weights.add((mixup_fn.mixed_weight, kept is not None, step.clean_loss is not None))
            assert_close(step.loss, mixup_fn.mixed_weight * step.mixed_loss)
            if kept is not None:
                other.zero_grad()
                (0.75 * loss_fn(other(images), mixup_fn.smooth(targets))).backward()
                assert_close(kept, other[3].weight.grad)
        assert weights == {(1.0, False, False), (0.25, True, True)}

    def test_targets_are_smoothed_in_one_pass_mixing_too(self):
        mixup_fn = Mixup(0.8, num_classes=CLASSES, generator=seeded())
        mixup = comixup.OnePass(mixup_fn, comixup.SaliencyMemory(8))
        for mixed in (False, True):
            _, soft = mixup(*batch(), comixup.Origin(torch.arange(8)))
            assert mixup.last.mixed == mixed
            assert_close(soft.sum(1), torch.ones(8))
            assert float(soft.min()) == pytest.approx(0.1 / CLASSES)

    @pytest.mark.parametrize("per_sample", [False, True])
    @pytest.mark.parametrize("size", [(16, 16), (9, 30), (1, 1)])
    def test_boxes_have_sides_within_minmax_and_lie_inside(self, per_sample, size):
        cutmix = MinMaxCutMix(CLASSES, (0.25, 0.75), per_sample=per_sample, generator=seeded())
        for _ in range(20):
            images, targets = batch(6, size=size)
            _, soft = cutmix(images, targets)
            boxes = cutmix.last.plan
            sides = torch.tensor(size)
            assert (boxes.begin >= 0).all()
            assert (boxes.end <= sides).all()
            cut = boxes.end - boxes.begin
            assert (cut >= (0.25 * sides).long()).all()
            assert (cut <= 0.75 * sides).all()
            assert_close(soft.sum(1), torch.ones(6))

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"mode": "pair"}, '`mode` must be "batch" or "elem"'),
            ({"correct_lam": False}, "`correct_lam` must be True"),
            ({"cutmix_minmax": (0.8, 0.2)}, "`cutmix_minmax` must be two numbers"),
            ({"cutmix_minmax": (0.2,)}, "`cutmix_minmax` must be two numbers"),
            ({"mixup_alpha": -1}, "`mixup_alpha` must be a number from 0"),
            ({"prob": 2}, "`prob` must be a number from 0 to 1"),
            ({"label_smoothing": 2}, "`label_smoothing` must be a number from 0 to 1"),
            ({"mixup_alpha": 0, "comixup_prob": 0.5}, "`comixup_prob` must be 1 where neither"),
            ({"mixer": comixup.CoMixup(p=0.5)}, "`mixer` must have p = 1"),
            ({"mixer": comixup.CoMixup(7)}, "`mixer` must have num_classes = 1000"),
            ({"mixer": comixup.Choice([comixup.CutMix()])}, "`mixer` must be a method that mixes"),
            ({"mixer": comixup.ManifoldMixup(layers=["0"])}, "`mixer` must be a method that mixes"),
        ],
    )
    def test_senseless_arguments_are_rejected(self, settings, message):
        with pytest.raises((TypeError, ValueError), match=message):
            Mixup(**settings)


def test_a_resumed_mixup_draws_what_it_would_have_drawn():
    def make():
        mixer = comixup.CoMixup(CLASSES, generator=seeded(1))
        return Mixup(num_classes=CLASSES, mixer=mixer, generator=seeded(2))

    images, targets = batch()
    first, second = make(), make()
    first(images, targets)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(3):
        assert_close(first(images, targets), second(images, targets), rtol=0, atol=0)
