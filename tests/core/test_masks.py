"""Integer masks are mixed like their images: checked against the shares that `plan.masks` tells."""

import functools

import pytest
import torch
from torch.testing import assert_close

from batches import IN_PLACE, METHODS, batch, over, upsampled
from comixup import CoMixup, Labelling, PuzzleMix, mix_mask_probabilities
from comixup.core.masks import leading_class
from comixup.mixers._cutmix import Boxes
from comixup.mixers._input import Blend
from problems import generator
from rejections import rejects

CLASSES, IGNORED = 3, 255
SIZES = [(19,), (9, 14), (5, 6, 7)]


def plan_of(method, m=6, size=(9, 14), seed=0):
    """A plan of a method, drawn for a batch."""
    mixer = method(7, generator=generator(seed))
    mixer(*batch(m, size, seed=seed))
    return mixer.last.plan


def integer_masks(m=6, size=(9, 14), seed=1, dtype=torch.int64, ignored=True):
    masks = torch.randint(CLASSES, (m, *size), generator=generator(seed)).to(dtype)
    if ignored:
        unknown = torch.rand(m, *size, generator=generator(seed + 1)) < 0.2
        masks = torch.where(unknown, torch.tensor(IGNORED, dtype=dtype), masks)
    return masks


def shares(plan, masks):
    """The share of each class, and last of what is ignored, at each pixel, by the definition."""
    full = upsampled(plan.masks, masks.shape[1:]).double()
    return torch.stack(
        [(full * (masks == value)).sum(1) for value in [*range(CLASSES), IGNORED]], 1
    )


def check_against_shares(mixed, of_classes):
    """Each pixel has the class of the largest share; where nothing is larger than ignored: 255."""
    known, unknown = of_classes[:, :CLASSES], of_classes[:, CLASSES]
    tolerance = 1e-6
    is_ignored = mixed == IGNORED
    assert (is_ignored == (unknown >= known.amax(1) - tolerance)).all()
    label = mixed.long().where(~is_ignored, 0).unsqueeze(1)
    chosen = known.gather(1, label).squeeze(1)
    assert ((chosen >= known.amax(1) - tolerance) | is_ignored).all()


@over(IN_PLACE)
def test_every_pixel_has_the_class_of_the_largest_share(method):
    for size in SIZES:
        masks = integer_masks(size=size)
        plan = plan_of(method, size=size)
        mixed = plan.mix_masks(masks)
        assert (mixed.dtype, mixed.shape) == (masks.dtype, masks.shape)
        check_against_shares(mixed, shares(plan, masks))


@over(IN_PLACE)
def test_masks_and_images_agree_pixel_by_pixel(method):
    # Images that show their own masks: with one source per pixel, so must the mixture.
    masks = integer_masks(ignored=False)
    plan = plan_of(method)
    seen = plan.mix_images(masks.unsqueeze(1).double()).squeeze(1)
    one_class = (shares(plan, masks) > 1 - 1e-6).any(1)
    assert one_class.any()
    mixed = plan.mix_masks(masks).double()
    assert_close(mixed[one_class], seen[one_class], rtol=0, atol=1e-5)


@over(METHODS)
def test_channels_dtypes_and_the_callers_tensor(method):
    plan, masks = plan_of(method), integer_masks()
    expected = plan.mix_masks(masks)
    two = torch.stack([masks, masks.flip(0)], 1)
    assert_close(plan.mix_masks(two)[:, 0], expected, rtol=0, atol=0)
    assert_close(plan.mix_masks(two)[:, 1], plan.mix_masks(masks.flip(0)), rtol=0, atol=0)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        narrow = masks.to(dtype)
        mixed = plan.mix_masks(narrow)
        assert mixed.dtype == dtype
        assert_close(mixed.long(), expected, rtol=0, atol=0)
        assert narrow._version == 0
    shown = integer_masks(ignored=False) == 1
    mixed = plan.mix_masks(shown)
    assert mixed.dtype == torch.bool
    assert_close(mixed, plan.mix_masks(shown.long(), None).bool(), rtol=0, atol=0)


def test_one_level_gathers_what_is_seen():
    plan = plan_of(functools.partial(CoMixup, levels=1))
    masks = integer_masks(dtype=torch.uint8)
    who = upsampled(plan.masks, masks.shape[1:]).argmax(1)
    assert_close(plan.mix_masks(masks), masks.gather(0, who), rtol=0, atol=0)


def test_blocks_that_move_take_their_masks_with_them():
    images, targets, saliency = batch(8, (16, 16))
    mixer = PuzzleMix(7, grid=4, eta=0.0, beta=0.1, t_eps=0.01, generator=generator(0))
    mixer(images, targets, saliency)
    plan = mixer.last.plan
    assert (plan.moves != torch.arange(16).view(4, 4)).any()
    masks = integer_masks(8, (16, 16))
    probabilities = mix_mask_probabilities(masks, plan, CLASSES)
    unknown = plan.mix_images((masks == IGNORED).float().unsqueeze(1))
    check_against_shares(plan.mix_masks(masks), torch.cat([probabilities, unknown], 1).double())


class TestTies:
    masks = torch.tensor([[4, 4, IGNORED], [6, IGNORED, IGNORED]])

    def test_a_labelling_takes_the_lowest_input_in_any_order_of_levels(self):
        for pair in ([0, 1], [1, 0]):
            both = Labelling(torch.tensor(pair).view(1, 2, 1).expand(1, 2, 3), num_inputs=2)
            assert both.mix_masks(self.masks).tolist() == [[4, IGNORED, IGNORED]]
            assert both.mix_masks(self.masks, None).tolist() == [[4, 4, IGNORED]]

    def test_a_blend_takes_the_image_itself(self):
        plan = Blend(torch.tensor([[1], [0]]), torch.tensor([[0.5, 0.5]]))
        assert plan.mix_masks(self.masks)[:, 0].tolist() == [4, 6]

    def test_equal_classes_join_their_shares(self):
        rows = [torch.tensor([1]), torch.tensor([2]), torch.tensor([2])]
        assert leading_class(rows, [0.4, 0.3, 0.3], None).tolist() == [2]
        assert leading_class(rows, [0.4, 0.3, 0.1], None).tolist() == [1]

    def test_an_index_beyond_the_dtype_ignores_nothing(self):
        # 255 is -1 in eight bits with a sign: it must not be taken for it.
        rows = [torch.tensor([3], dtype=torch.int8), torch.tensor([-1], dtype=torch.int8)]
        assert leading_class(rows, [0.5, 0.5], IGNORED).tolist() == [3]


@over(IN_PLACE)
def test_probabilities_are_the_shares_of_the_classes(method):
    plan, masks = plan_of(method), integer_masks()
    found = mix_mask_probabilities(masks, plan, CLASSES)
    assert found.dtype == torch.float32
    assert_close(found.double(), shares(plan, masks)[:, :CLASSES], rtol=0, atol=1e-6)


class TestProbabilities:
    def test_what_is_ignored_has_no_loss(self):
        masks = torch.full((2, 4), IGNORED)
        plan = Labelling(torch.tensor([[[0, 1]], [[1, 0]]]), num_inputs=2)
        found = mix_mask_probabilities(masks, plan, CLASSES)
        assert_close(found, torch.zeros(2, CLASSES, 4))

    def test_classes_must_be_there(self):
        plan = Labelling(torch.tensor([[[0, 1]], [[1, 0]]]), num_inputs=2)
        with rejects(ValueError, r"`masks` must lie in 0\.\.2 .* got values from 0 to 3"):
            mix_mask_probabilities(torch.tensor([[0, 3], [0, 0]]), plan, CLASSES)
        with rejects(ValueError, r"`masks` must lie in 0\.\.2"):
            mix_mask_probabilities(torch.tensor([[0, IGNORED], [0, 0]]), plan, 3, ignore_index=None)


PLANS = {
    "Labelling": Labelling(torch.tensor([[[[0, 1], [1, 0]]]]), num_inputs=2),
    "Boxes": Boxes(torch.tensor([[1], [0]]), torch.zeros(1, 1, 2), torch.ones(1, 1, 2), (4, 4)),
    "Blend": Blend(torch.tensor([[1], [0]]), torch.tensor([[0.5, 0.5]])),
}


@pytest.mark.parametrize("name", PLANS)
def test_what_is_no_integer_mask_is_rejected(name):
    plan, masks = PLANS[name], torch.zeros(2, 4, 4, dtype=torch.int64)
    with rejects(TypeError, r"`masks` must be integers .* got torch.float32.*`mix_images`"):
        plan.mix_masks(masks.float())
    with rejects(TypeError, r"`masks` must be a torch tensor, got list.*Boxes and key points"):
        plan.mix_masks([[0, 0, 1, 1]])
    with rejects(TypeError, r"`ignore_index` must be an integer or None, got 'void'"):
        plan.mix_masks(masks, "void")
    with rejects(ValueError, r"`(masks|images)` must have"):
        plan.mix_masks(torch.zeros(3, 4, 4, dtype=torch.int64))
    if name != "Blend":  # which is the same at every pixel, of any number of dimensions
        with rejects(ValueError, r"`masks` must have shape \(m, \*size\) or"):
            plan.mix_masks(masks[..., 0])
