"""The lines for Hugging Face's Trainer: its traps, and the gradient it steps by."""

import copy
import importlib
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import comixup
from problems import generator

pytestmark = pytest.mark.slow  # importing transformers takes ten seconds
EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("hugging_face_trainer")


def cross_entropy(outputs, targets):
    return torch.nn.functional.cross_entropy(outputs.logits, targets)


def test_hugging_face_trainer(example, capsys):
    results = example.main(24)
    said = capsys.readouterr().out
    for name, (before, after) in results.items():
        assert after < before
        assert f"{name}: test loss {before:.2f} -> {after:.2f}" in said


def test_one_pass_mixing_reads_what_an_epoch_has_written(example):
    memory = comixup.SaliencyMemory(num_examples=512)
    mixup = comixup.OnePass(comixup.CoMixup(4), memory)
    example.train(mixup, num_train_epochs=2)
    assert memory.epoch == 2
    assert memory.known(torch.arange(512)).float().mean() > 0.5


def test_float_labels_given_to_the_model_would_be_a_multi_label_loss(example):
    # What the mixin's docstring says. If this fails, it can be simpler.
    torch.manual_seed(0)
    model, images = example.tiny_resnet(), torch.rand(2, 3, 32, 32)
    soft = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.3, 0.7]])
    with torch.no_grad():
        outputs = model(images, labels=soft)
    assert model.config.problem_type == "multi_label_classification"
    bce = torch.nn.functional.binary_cross_entropy_with_logits(outputs.logits, soft)
    assert_close(outputs.loss, bce)
    assert abs(float(cross_entropy(outputs, soft) - bce)) > 0.1


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_gradient_is_that_of_both_losses(example, tmp_path, accumulate):
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    model, gradients, seen = example.tiny_resnet(), [], []

    class Watch(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **others):
            gradients.append([weight.grad.clone() for weight in model.parameters()])

    class Recorded(example.MixupTrainer):
        def compute_loss(self, model, inputs, return_outputs=False, **others):
            seen.append({name: value.clone() for name, value in inputs.items()})
            return super().compute_loss(model, inputs, return_outputs, **others)

    twin = copy.deepcopy(model).train()
    trainer = Recorded(
        mixup=comixup.CoMixup(4, generator=generator(3)),
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=accumulate,
            max_grad_norm=0.0,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=example.data_set(16),
        callbacks=[Watch()],
    )
    trainer.train()
    assert model.config.problem_type is None  # the model was given no labels
    assert len(seen) == accumulate
    mixup = comixup.CoMixup(4, generator=generator(3))
    for inputs in seen:

        def backward(loss):
            (loss / accumulate).backward()

        step = comixup.training_step(
            twin,
            mixup,
            inputs["pixel_values"],
            inputs["labels"],
            loss_fn=cross_entropy,
            backward=backward,
        )
        backward(step.loss)
    expected = [weight.grad for weight in twin.parameters()]
    assert_close(gradients, [expected])
