"""Our own recipes as data: small ones for CPU cores, and images of one's own."""

from __future__ import annotations

import dataclasses

from comixup.lab.training._method import Method, Settings
from comixup.lab.training._paper_recipes import CIFAR_ALPHAS, TUNING_GRID, six_methods
from comixup.lab.training._phases import Phase
from comixup.lab.training._recipe import Recipe

_CLEAN_MEAN = {"clean_weight": 1.0, "clean_reduction": "mean"}
_SMALL_DATA = {
    "vanilla": Method("vanilla"),
    "cutmix": Method("cutmix", {"alpha": 0.2}),
    "cutmix-p0.5": Method("cutmix", {"alpha": 0.2, "p": 0.5}),
    "cutmix-clean": Method("cutmix", {"alpha": 0.2, "clean_weight": 1.0}),
    "cutmix-clean-mean": Method("cutmix", {"alpha": 0.2, **_CLEAN_MEAN}),
    "input": Method("input", {"alpha": 1.0}),
    "input-p0.5": Method("input", {"alpha": 1.0, "p": 0.5}),
    "manifold": Method("manifold", {"alpha": 2.0}),
    "puzzlemix": Method("puzzlemix", {"t_size": 4}),
    "comixup": Method("comixup"),
    "comixup-shuffled": Method("comixup-shuffled"),
    "comixup-clean-mean": Method("comixup", {"clean_reduction": "mean"}),
    "comixup-no-clean": Method("comixup", {"clean_weight": 0.0}),
    "comixup-small": Method("comixup", {"p": 0.5, "keep_gradients": False, "saliency_scale": 0.5}),
    "comixup-one-pass": Method("comixup", saliency="one-pass"),
    "comixup-one-pass-shuffled": Method("comixup", saliency="one-pass-shuffled"),
    "comixup-one-pass-spectral": Method("comixup", saliency="one-pass-spectral"),
}
"""The arms of our comparison on small data; the first and others come in several lengths."""
_VARIED: dict[str, Settings] = {
    "p0.5": {"p": 0.5},
    "hard-clip": {"clip": "hard"},
    "partition-50": {"partition_size": 50},
    "whole-batch": {"partition_size": None},
}
"""Settings of Co-Mixup, one at a time."""
_ONE_PASS_FORMS: dict[str, Settings] = {
    "rate0.33": {"rate": 0.33},
    "rate0.67": {"rate": 0.67},
    "recycle": {"recycle": True},
    "every-batch": {"rate": 1.0, "recycle": True},
    "within-batch": {"unit": "image"},
    "momentum": {"momentum": 0.5},
}
"""Other forms of one-pass mixing: see docs/one-pass.md."""
_SMALL_DATA |= {f"comixup-{name}": Method("comixup", own) for name, own in _VARIED.items()}
_SMALL_DATA |= {
    f"comixup-one-pass-{name}": Method("comixup", saliency="one-pass", memory=memory)
    for name, memory in _ONE_PASS_FORMS.items()
}
_LENGTHS = {"half": 0.5, "double": 2.0}
_SMALL_DATA |= {
    f"{name}-{length}": dataclasses.replace(_SMALL_DATA[name], epoch_multiplier=multiplier)
    for name in (
        "vanilla",
        "input-p0.5",
        "cutmix-p0.5",
        "comixup",
        "comixup-one-pass",
        "comixup-one-pass-shuffled",
    )
    for length, multiplier in _LENGTHS.items()
}

_OTHER_SETS = {
    "cutmix-p0.5": Method("cutmix", {"alpha": 0.2, "p": 0.5}),
    "comixup-half": Method("comixup", epoch_multiplier=0.5),
    "comixup-one-pass": Method("comixup", saliency="one-pass"),
}
"""Arms of our comparisons on Tiny-ImageNet and Google commands, beside those of the paper."""
_SECOND_CLASSES = (
    "miniskirt", "neck brace", "parking meter", "pill bottle", "police van", "punching bag",
    "rocking chair", "sewing machine", "space heater", "sunglasses", "syringe", "tractor",
    "turnstile", "viaduct", "wooden spoon", "ice lolly", "bell pepper", "lemon", "espresso",
    "coral reef",
)  # fmt: skip

OWN_RECIPES = (
    Recipe(
        name="cifar100-low-data",
        title="CIFAR-100, a small network, 20 images per class: minutes on two cores",
        source="ours",
        data="cifar100",
        model="small",
        methods=six_methods((), CIFAR_ALPHAS, t_size=4),
        phases=(Phase(epochs=30, batch_size=100),),
        lr=((0, 0.0), (3, 0.2), (30, 0.0)),
        lr_interpolation="linear",
        weight_decay=5e-4,
        images_per_class=20,
        evaluate_every=10,
        reported="last",
        tuning_grid=TUNING_GRID,
        notes="Few images make a network overfit within minutes, which is what mixing is against. "
        "Plain cross-entropy with a triangular learning rate: few epochs call for it.",
    ),
    Recipe(
        name="cifar100-small-data",
        title="CIFAR-100, 20 classes, a small network trained to the end: minutes on one core",
        source="ours",
        data="cifar100",
        model="small",
        width=24,
        methods=_SMALL_DATA,
        phases=(Phase(epochs=60, batch_size=100),),
        lr=((0, 0.0), (6, 0.1), (60, 0.0)),
        lr_interpolation="linear",
        weight_decay=4e-3,
        classes=tuple(range(50, 70)),
        images_per_class=100,
        validation=0.2,
        validation_seed=0,
        evaluate_every=60,
        reported="last",
        tuning_grid=TUNING_GRID,
        notes="Where our comparison of the methods is made. Chosen with vanilla training alone, on "
        "seeds and images that are not reported: see docs/results/rules.md.",
    ),
    Recipe(
        name="tiny-imagenet-small",
        title="Tiny-ImageNet, 20 classes, a small network trained to the end: minutes on one core",
        source="ours",
        data="tiny-imagenet",
        model="small-os8",
        width=24,
        methods=six_methods((), (0.2, 0.2, 0.2), t_size=4) | _OTHER_SETS,
        phases=(Phase(epochs=90, batch_size=100),),
        lr=((0, 0.0), (9, 0.1), (90, 0.0)),
        lr_interpolation="linear",
        weight_decay=4e-3,
        classes=_SECOND_CLASSES,
        images_per_class=100,
        validation=0.2,
        validation_seed=0,
        evaluate_every=90,
        reported="last",
        tuning_grid=TUNING_GRID,
        notes="To measure localisation and background corruption where no GPU is at hand: last "
        "feature maps of 8 x 8. Chosen with vanilla training alone, on a seed and images that are "
        "not reported: see docs/results/rules.md. Baselines' alpha is the paper's for this set.",
    ),
    Recipe(
        name="speech-small",
        title="Google commands, LeNet, few clips: minutes on two cores",
        source="ours",
        data="speech-commands",
        model="lenet",
        methods=six_methods((), (0.2, 0.2, 1.0)) | _OTHER_SETS,
        phases=(Phase(epochs=15, batch_size=100),),
        lr=((0, 1e-3), (8, 3e-4), (12, 1e-4)),
        optimizer="adam",
        weight_decay=0.0,
        unmixed_epochs=2,
        patience=5,
        reported="validation",
        tuning_grid=TUNING_GRID,
        notes="For a selection of some thousand clips: fewer epochs than the paper's 30.",
    ),
    Recipe(
        name="folder",
        title="Images of your own: comixup train PATH",
        source="ours",
        data="folder",
        model="resnet18",
        methods=six_methods((), CIFAR_ALPHAS, t_size=4)
        | {
            "cutmix-p0.5": Method("cutmix", {"alpha": 1.0, "p": 0.5}),
            "comixup-one-pass": Method("comixup", saliency="one-pass"),
        },
        phases=(Phase(epochs=84, batch_size=64, image_size=224, min_scale=0.25),),
        lr=((0, 0.0), (4, 0.1), (84, 0.0)),
        lr_interpolation="cosine",
        weight_decay=1e-3,
        reported="last",
        tuning_grid=TUNING_GRID,
        notes="Shown as for 1,000 photographs. Image size, network, batch, epochs and learning "
        "rate are chosen by the images that it is given, and printed; options change them. A fifth "
        "of each class's images is held out where there is no part to test on.",
    ),
    Recipe(
        name="digits",
        title="5,000 handwritten digits that come with the package: seconds",
        source="ours",
        data="digits",
        model="small",
        methods=six_methods((), CIFAR_ALPHAS),
        phases=(Phase(epochs=5, batch_size=100),),
        lr=((0, 0.0), (1, 0.1), (5, 0.0)),
        lr_interpolation="linear",
        weight_decay=5e-4,
        images_per_class=50,
        reported="last",
        tuning_grid=TUNING_GRID,
        notes="To see that everything works.",
    ),
)
