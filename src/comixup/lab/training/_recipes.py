"""The recipes as data: the paper's experiments, then our own.

The paper's settings are those of its section 5 and appendices C, E, F; unspecified ones are those
of the official implementation, as `notes` states.
"""

from __future__ import annotations

import dataclasses

from comixup._methods import PAPER
from comixup.lab.training._recipe import CHOICE, Method, Phase, Recipe, Settings

FOLDER = "folder"
"""Name of the recipe for users' own images, and of its data set."""
RECOMMENDED = "input-or-cutmix"
"""Default method for users' own images: half of the batches mixed, by input mixup or CutMix."""
_CIFAR_BLOCKS = {"t_size": 4, "clean_weight": 0.0}
_OFFICIAL_LOSS = (
    "Loss: the mean binary cross-entropy of the official implementation, to which the learning "
    "rate belongs. "
    "Reported: median of the last 10 epochs."
)


def six_methods(
    paper: tuple[float, ...], alphas: tuple[float, float, float], **puzzlemix: float
) -> dict[str, Method]:
    """Returns the six columns of the table of classification errors."""
    input_alpha, manifold_alpha, cutmix_alpha = alphas
    settings: dict[str, dict[str, float]] = {
        "input": {"alpha": input_alpha},
        "manifold": {"alpha": manifold_alpha},
        "cutmix": {"alpha": cutmix_alpha},
        "puzzlemix": puzzlemix,
    }
    errors = dict(zip(PAPER, paper, strict=True)) if paper else {}
    return {name: Method(name, settings.get(name, {}), paper=errors.get(name)) for name in PAPER}


def _cifar100(
    name: str, title: str, source: str, model: str, methods: dict[str, Method], **more: str
) -> Recipe:
    return Recipe(
        name=name,
        title=title,
        source=source,
        data="cifar100",
        model=model,
        methods=methods,
        phases=(Phase(epochs=300, batch_size=100),),
        lr=((0, 0.2), (100, 0.02), (200, 0.002)),
        loss="official",
        notes=_OFFICIAL_LOSS,
        **more,  # type: ignore[arg-type]
    )


CIFAR_ALPHAS = (1.0, 2.0, 1.0)

_MULTI_INPUT = {
    f"{name}-{number}": Method(name, {"num_inputs": number, "alpha": alpha}, paper=paper)
    for name, alpha, errors in (
        ("input", 1.0, (22.43, 23.03, 23.12)),
        ("manifold", 2.0, (21.64, 22.13, 22.07)),
        ("cutmix", 1.0, (21.29, 22.01, 22.20)),
    )
    for number, paper in zip((2, 3, 4), errors, strict=True)
} | {"comixup": Method("comixup", paper=19.87)}

_SENSITIVITY = {
    f"{name}-{value:g}": Method("comixup", {name: value}, paper=paper)
    for name, values, errors in (
        ("beta", (0, 0.16, 0.32, 0.48, 0.64), (20.29, 20.18, 19.87, 20.35, 21.24)),
        ("gamma", (0.6, 0.8, 1.0, 1.2, 1.4), (20.3, 19.99, 19.87, 20.09, 20.13)),
        ("tau", (0.79, 0.81, 0.83, 0.85, 0.87), (20.45, 20.14, 19.87, 20.15, 20.23)),
        ("omega", (0, 5e-4, 1e-3, 5e-3, 1e-2), (20.51, 20.42, 19.87, 20.18, 20.14)),
        ("partition_size", (2, 4, 10, 20, 50), (20.3, 20.22, 20.15, 19.87, 19.96)),
    )
    for value, paper in zip(values, errors, strict=True)
}

_VAT = {
    f"vat-{weight:g}-eps{epsilon}-updates{updates}": Method(
        "vanilla",
        vat={"weight": weight, "epsilon": epsilon, "updates": updates},
        paper=paper,
    )
    for weight, errors in (
        (0.001, (23.38, 23.62, 24.76, 26.22)),
        (0.01, (23.14, 23.67, 28.33, 31.95)),
        (0.1, (23.65, 23.88, 34.75, 39.82)),
    )
    for (updates, epsilon), paper in zip(((0, 1), (0, 2), (1, 1), (1, 2)), errors, strict=True)
} | {"comixup": Method("comixup", paper=19.87)}


def _speech(name: str, model: str, source: str, paper: tuple[float, ...]) -> Recipe:
    return Recipe(
        name=name,
        title=f"Google commands, {model}",
        source=source,
        data="speech-commands",
        model=model,
        methods=six_methods(paper, (0.2, 0.2, 1.0)),
        phases=(Phase(epochs=30, batch_size=100),),
        lr=((0, 3e-3), (10, 3e-4), (20, 3e-5)),
        optimizer="adam",
        weight_decay=0.0,
        unmixed_epochs=5,
        patience=5,
        reported="validation",
        notes="Training as in the mixup paper (arXiv 1710.09412, section 3.3), from which come "
        "Adam's rate, the five unmixed epochs and alpha 0.2; baselines' exact alpha is not "
        "published. For VGG-11 with Co-Mixup the paper's appendix has 3.57 where its main table "
        "has 3.54.",
    )


PAPER_RECIPES = (
    _cifar100(
        "cifar100-preactresnet18",
        "CIFAR-100, PreActResNet18",
        "tab:classification, row 1",
        "preactresnet18",
        six_methods((23.59, 22.43, 21.64, 21.29, 20.62, 19.87), CIFAR_ALPHAS, **_CIFAR_BLOCKS),
    ),
    _cifar100(
        "cifar100-wrn16-8",
        "CIFAR-100, WRN16-8",
        "tab:classification, row 2",
        "wrn16-8",
        six_methods((21.70, 20.08, 20.55, 20.14, 19.24, 19.15), CIFAR_ALPHAS, **_CIFAR_BLOCKS),
    ),
    _cifar100(
        "cifar100-resnext29-4-24",
        "CIFAR-100, ResNeXt29-4-24",
        "tab:classification, row 3",
        "resnext29-4-24",
        six_methods((21.79, 21.70, 22.28, 21.86, 21.12, 19.78), CIFAR_ALPHAS, **_CIFAR_BLOCKS),
    ),
    Recipe(
        name="tiny-imagenet-preactresnet18",
        title="Tiny-ImageNet, PreActResNet18",
        source="tab:classification, row 4",
        data="tiny-imagenet",
        model="preactresnet18",
        methods=six_methods((43.40, 43.48, 40.76, 43.11, 36.52, 35.85), (0.2, 0.2, 0.2), t_size=4),
        phases=(Phase(epochs=1200, batch_size=100),),
        lr=((0, 0.2), (600, 0.02), (900, 0.002)),
        loss="official",
        notes=_OFFICIAL_LOSS,
    ),
    Recipe(
        name="imagenet-resnet50",
        title="ImageNet, ResNet-50, 100 epochs in three phases",
        source="tab:classification, row 5",
        data="imagenet",
        model="resnet50-imagenet",
        methods=six_methods(
            (24.03, 22.97, 23.30, 22.92, 22.49, 22.39),
            (0.2, 0.2, 1.0),
            beta=1.5,
            neighbour=2,
        )
        | {
            "comixup": Method(
                "comixup", {"partition_size": 16, "sweeps": 3, "alpha": 1.0}, paper=22.39
            )
        },
        phases=(
            Phase(epochs=15, batch_size=1024, image_size=128, min_scale=0.08),
            Phase(epochs=25, batch_size=448, image_size=224, min_scale=0.087),
            Phase(epochs=60, batch_size=448, image_size=224, min_scale=0.087),
        ),
        lr=(
            (0, 0.5),
            (8, 1.0),
            (15, 0.125),
            (15, 0.2),
            (40, 0.02),
            (65, 0.002),
            (90, 0.0002),
            (100, 0.00002),
        ),
        lr_interpolation="linear",
        nesterov=False,
        decay_norms=False,
        notes="Three phases as in the official implementation; resize the images to a shorter "
        "side of 160 and 352 beforehand for speed. Partitions of 16, 3 sweeps and Dirichlet(1) are "
        "its too. The batches of 1024 and 448 are shared by all processes. On 8 GPUs "
        "each has 56 images or more: leave the recipe as it is. On 64 it would have 7, few for "
        "batch norm and for partitions: --batch-size 2048 --lr 2 gives each 32. On 512: "
        "--batch-size 8192 --lr 8 --sync-batch-norm, 16 images each. These rates are 1.0 times the "
        "factor of the first phase's batch (that of the others' is 2.3 times as large); neither "
        "of these has been run.",
    ),
    _speech(
        "speech-vgg11",
        "vgg11-speech",
        "tab:classification, row 6",
        (4.84, 3.91, 3.67, 3.76, 3.70, 3.54),
    ),
    _speech(
        "speech-lenet", "lenet", "tab:speech, row 1", (11.24, 10.83, 12.33, 12.80, 10.89, 10.67)
    ),
    _cifar100(
        "cifar100-multi-input",
        "CIFAR-100, PreActResNet18, baselines that mix 2, 3 or 4 inputs",
        "tab:multiple-input",
        "preactresnet18",
        _MULTI_INPUT,
    ),
    _cifar100(
        "cifar100-sensitivity",
        "CIFAR-100, PreActResNet18, each setting of Co-Mixup varied alone",
        "tab:hyperparameter",
        "preactresnet18",
        _SENSITIVITY,
        method="beta-0.32",
    ),
    _cifar100(
        "cifar100-vat",
        "CIFAR-100, PreActResNet18, virtual adversarial training",
        "tab:vat",
        "preactresnet18",
        _VAT,
        method="vat-0.01-eps1-updates0",
    ),
)
"""In the order of the paper."""


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
"""Methods of our comparison on small data; some with several numbers of epochs."""
_VARIED: dict[str, Settings] = {
    "p0.5": {"p": 0.5},
    "hard-clip": {"clip": "hard"},
    "partition-50": {"partition_size": 50},
    "whole-batch": {"partition_size": None},
}
"""Settings of Co-Mixup, varied one at a time."""
_ONE_PASS_FORMS: dict[str, Settings] = {
    "rate0.33": {"rate": 0.33},
    "rate0.67": {"rate": 0.67},
    "momentum": {"momentum": 0.5},
}
"""Variants of one-pass mixing: see docs/one-pass.md."""
_SMALL_DATA |= {f"comixup-{name}": Method("comixup", own) for name, own in _VARIED.items()}
_SMALL_DATA |= {
    f"comixup-one-pass-{name}": Method("comixup", saliency="one-pass", memory=memory)
    for name, memory in _ONE_PASS_FORMS.items()
}
_SMALL_DATA |= {
    "saliencymix-spectral": Method(
        "saliencymix", saliency="one-pass-spectral", memory={"rate": 1.0}
    ),
    "guidedmixup-spectral": Method(
        "guidedmixup", saliency="one-pass-spectral", memory={"rate": 0.5}
    ),
    "guidedmixup-clean": Method("guidedmixup", {"p": 0.8}, epoch_multiplier=1 / 1.8),
    "rmix-half": Method("rmix", epoch_multiplier=0.5),
    **{
        f"{name}-one-pass": Method(name, saliency="one-pass")
        for name in ("saliencymix", "guidedmixup", "rmix")
    },
}
"""Methods beyond the paper's, with their own or remembered maps, at equal passes over the images:
see studies/family."""
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
"""Additional methods of our comparisons on Tiny-ImageNet and Google commands."""
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
        notes="To measure localization and background corruption where no GPU is at hand: last "
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
        notes="For a selection of some thousand clips: fewer epochs than the paper's 30.",
    ),
    Recipe(
        name=FOLDER,
        title="Images of your own: comixup train PATH",
        source="ours",
        data=FOLDER,
        model="resnet18",
        methods=six_methods((), CIFAR_ALPHAS, t_size=4)
        | {
            RECOMMENDED: Method(
                CHOICE,
                {"p": 0.5},
                parts={
                    "input": Method("input", {"alpha": 1.0}),
                    "cutmix": Method("cutmix", {"alpha": 0.2}),
                },
            ),
            "cutmix-p0.5": Method("cutmix", {"alpha": 1.0, "p": 0.5}),
            "comixup-one-pass": Method("comixup", saliency="one-pass"),
        },
        method=RECOMMENDED,
        augment="rand",
        ema=0.982,
        phases=(Phase(epochs=84, batch_size=64, image_size=224, min_scale=0.25),),
        lr=((0, 0.0), (4, 0.1), (84, 0.0)),
        lr_interpolation="cosine",
        weight_decay=1e-3,
        reported="last",
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
        notes="To see that everything works.",
    ),
)


RECIPES = {recipe.name: recipe for recipe in (*PAPER_RECIPES, *OWN_RECIPES)}
"""Every recipe by name."""
