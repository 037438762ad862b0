"""Manifold mixup: blends at a layer of the model, by hooks, and is found out when it does not."""

import copy
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from batches import CLASSES, batch, net, one_hot
from comixup import ManifoldMixup, training_step
from problems import generator
from rejections import rejects

LAYERS = ("input", "0", "2", "4")


def mixer_for(model, layers=("2",), seed=0, **settings):
    mixer = ManifoldMixup(CLASSES, layers=layers, generator=generator(seed), **settings)
    return mixer.attach(model)


def by_hand(model, images, layer, blend):
    """Runs a Sequential in two pieces with the mean of the middle in between."""
    cut = 0 if layer == "input" else int(layer) + 1
    middle = model[:cut](images)
    ratios = blend.ratios.expand(len(images), -1)
    shape = (-1, *[1] * (middle.ndim - 1))
    mean = middle * ratios[:, 0].view(shape)
    for k in range(blend.partners.shape[1]):
        mean = mean + middle[blend.partners[:, k]] * ratios[:, k + 1].view(shape)
    return model[cut:](mean)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("settings", [{}, {"num_inputs": 3, "per_sample": True}], ids=str)
def test_mixes_at_the_named_layer_exactly(layer, settings):
    model, (images, targets, _) = net(), batch(6)
    mixer = mixer_for(model, (layer,), **settings)
    for _ in range(3):
        plain = copy.deepcopy(model)
        plain[int(layer) if layer != "input" else 0]._forward_hooks.clear()
        mixed, soft = mixer(images, targets)
        outputs = model(mixed)
        blend = mixer.last.plan
        assert_close(outputs, by_hand(plain, images, layer, blend))
        assert_close(soft, blend.source_ratio() @ one_hot(targets))
        assert not torch.equal(outputs, plain(images))


def test_every_layer_has_its_turn():
    model, (images, targets, _) = nn.Sequential(*[nn.Identity() for _ in range(5)]), batch(4)
    mixer = mixer_for(model, LAYERS)
    counts = dict.fromkeys(LAYERS, 0)
    for _ in range(200):
        mixed, _ = mixer(images, targets)
        counts[mixer.last.layer or "input"] += 1
        model(mixed)
    assert min(counts.values()) > 25  # 50 are expected of each


def backpropagated(weights, images, soft, mixture, cut):
    """Returns the loss of tanh layers, and its gradients by weights and images, by the chain rule.

    Args:
        weights: (matrix, bias) of each linear layer; all but the last are followed by a tanh.
        images: (m, inputs).
        soft: (m, classes) targets.
        mixture: (m, m) shares of the inputs in each output.
        cut: after how many layers the mixture is taken.
    """
    value, before = mixture @ images if cut == 0 else images, []
    for number, (matrix, bias) in enumerate(weights, start=1):
        before.append(value)
        value = value @ matrix.T + bias
        if number < len(weights):
            value = np.tanh(value)
        if number == cut:
            value = mixture @ value
    exponentials = np.exp(value - value.max(1, keepdims=True))
    probabilities = exponentials / exponentials.sum(1, keepdims=True)
    loss = -(soft * np.log(probabilities)).sum(1).mean()
    slope, found = (probabilities * soft.sum(1, keepdims=True) - soft) / len(soft), []
    for number, (matrix, bias) in reversed(list(enumerate(weights, start=1))):
        if number == cut:
            slope = mixture.T @ slope
        if number < len(weights):
            slope = slope * (1 - np.tanh(before[number - 1] @ matrix.T + bias) ** 2)
        found = [slope.T @ before[number - 1], slope.sum(0), *found]
        slope = slope @ matrix
    return loss, found, mixture.T @ slope if cut == 0 else slope


@pytest.mark.parametrize("clean_weight", [0.0, 0.75])
@pytest.mark.parametrize("cut", [0, 1, 2])
@pytest.mark.parametrize("settings", [{}, {"num_inputs": 3, "per_sample": True}], ids=str)
def test_gradients_are_those_of_the_chain_rule(cut, settings, clean_weight):
    torch.manual_seed(0)
    widths = [12, 9, 8, CLASSES]
    linear = [nn.Linear(a, b).double() for a, b in itertools.pairwise(widths)]
    model = nn.Sequential(nn.Flatten(), linear[0], nn.Tanh(), linear[1], nn.Tanh(), linear[2])
    images, targets, _ = batch(5, size=(2, 2), dtype=torch.float64)
    mixer = ManifoldMixup(
        CLASSES,
        layers=[("input", "2", "4")[cut]],
        clean_weight=clean_weight,
        generator=generator(3),
        **settings,
    )
    step = training_step(model, mixer, images, targets)
    step.loss.backward()

    weights = [(w.weight.detach().numpy(), w.bias.detach().numpy()) for w in linear]
    given = images.flatten(1).numpy()
    shares = mixer.last.plan.source_ratio().double().numpy()
    hard, whole = one_hot(targets).double().numpy(), np.eye(5)
    loss, mixed, _ = backpropagated(weights, given, shares @ hard, shares, cut)
    clean_loss, clean, _ = backpropagated(weights, given, hard, whole, cut)
    np.testing.assert_allclose(float(step.mixed_loss), loss, rtol=1e-6)
    for weight, one, other in zip(model.parameters(), mixed, clean, strict=True):
        np.testing.assert_allclose(weight.grad, one + clean_weight * other, rtol=1e-5, atol=1e-8)
    if clean_weight:
        np.testing.assert_allclose(float(step.clean_loss), clean_loss, rtol=1e-6)

    vars(mixer)["clean_weight"] = 0
    inputs = images.clone().requires_grad_()
    found, soft = mixer(inputs, targets)  # another mixture
    F.cross_entropy(model(found), soft.double()).backward()
    shares = mixer.last.plan.source_ratio().double().numpy()
    _, _, of_images = backpropagated(weights, given, shares @ hard, shares, cut)
    np.testing.assert_allclose(inputs.grad.flatten(1), of_images, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("layer", "suggestion"), [("layer1.con", "layer1.conv"), ("laier2", "layer2"), ("3", "layer1")]
)
def test_an_unknown_layer_gets_a_suggestion(layer, suggestion):
    model = nn.ModuleDict({"layer1": nn.ModuleDict({"conv": nn.Identity()}), "layer2": nn.ReLU()})
    message = (
        rf"`layers` must name submodules of the model, got '{layer}'\. Did you .*'{suggestion}'"
    )
    with rejects(ValueError, message):
        ManifoldMixup(CLASSES, layers=["input", layer]).attach(model)


@pytest.mark.parametrize("layers", ["layer1", [], (), [1], ["input", None]], ids=str)
def test_layers_are_a_list_of_names(layers):
    with rejects(ValueError, r"`layers` must be a list of names, at least one"):
        ManifoldMixup(CLASSES, layers=layers)


def test_forgetting_to_attach_is_found_out():
    images, targets, _ = batch(4)
    with rejects(RuntimeError, r"must know the model whose layers.*mixer\.attach\(model\)"):
        ManifoldMixup(CLASSES, layers=["layer1"])(images, targets)
    # The images need no model.
    ManifoldMixup(CLASSES, layers=["input"])(images, targets)


@pytest.mark.parametrize("run", ["not at all", "in eval mode", "another model"])
@pytest.mark.parametrize("p", [1, 0], ids=["mixed next", "left next"])
def test_a_layer_that_did_not_run_is_found_out_at_the_next_call(run, p):
    # tsai#791, turned round: targets were mixed and the images were not.
    model, (images, targets, _) = net(), batch(4)
    mixer = mixer_for(model)
    mixed, _ = mixer(images, targets)
    if run == "in eval mode":
        model.eval()(mixed)
    elif run == "another model":
        net()(mixed)
    vars(mixer)["p"] = p
    with rejects(RuntimeError, r"mixed the targets .* layer '2' has not run in training mode"):
        mixer(images, targets)
    mixer(images, targets)  # said once, then work goes on


def test_cancel_is_the_way_to_leave_a_batch_out():
    model, (images, targets, _) = net(norm=False), batch(4)
    plain = copy.deepcopy(model)
    mixer = mixer_for(model)
    mixer(images, targets)
    mixer.cancel()
    assert_close(model(images), plain(images))
    mixer(images, targets)
    assert not torch.equal(model(images), plain(images))


def test_eval_mode_is_untouched():
    model, (images, targets, _) = net(norm=False), batch(4)
    plain = copy.deepcopy(model)
    mixed, _ = mixer_for(model)(images, targets)
    model(mixed)
    model.eval()
    assert_close(model(images), plain(images), rtol=0, atol=0)
    assert_close(model(images[:1]), plain(images[:1]), rtol=0, atol=0)  # of any batch size


def test_batches_that_are_left_are_not_mixed_inside_either():
    model, (images, targets, _) = net(norm=False), batch(4)
    plain = copy.deepcopy(model)
    mixer = mixer_for(model)
    model(mixer(images, targets)[0])
    mixer.enabled = False
    left, soft = mixer(images, targets)
    assert_close(model(left), plain(images))
    assert_close(soft, one_hot(targets))


def count_hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_detach_removes_every_hook():
    model, (images, targets, _) = net(), batch(4)
    mixer = mixer_for(model, LAYERS)
    assert count_hooks(model) == 3 + 2  # one for each layer; two where a forward pass begins, ends
    mixer.attach(model)  # again: nothing happens
    assert count_hooks(model) == 3 + 2
    other = net()
    mixer.attach(other)  # another model: the first is set free
    assert count_hooks(model) == 0
    mixer.detach()
    assert count_hooks(other) == 0
    vars(mixer)["layers"] = ("2",)
    with rejects(RuntimeError, r"must know the model"):
        mixer(images, targets)


def test_another_batch_in_training_mode_is_rejected():
    model, (images, targets, _) = net(), batch(4)
    mixer_for(model)(images, targets)
    with rejects(ValueError, r"`model` must be run on the batch .* layer '2' saw 3 .* 4\. Call"):
        model(images[:3])


def test_a_layer_must_return_a_tensor():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    model = nn.Sequential(Pair())
    images, targets, _ = batch(4)
    mixer_for(model, ("0",))(images, targets)
    with rejects(TypeError, r"`layers` must return one tensor, but layer '0' returned tuple"):
        model(images)


def test_a_rejected_batch_does_not_activate_the_hook():
    images, targets, _ = batch(6)
    mixer = ManifoldMixup(CLASSES, layers=["0"], generator=generator(3)).attach(net())
    with rejects(ValueError, r"`targets` must lie in"):
        mixer(images, targets + CLASSES)
    mixer(images, targets)  # would complain of a layer that has not run
