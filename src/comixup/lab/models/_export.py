"""Trained networks for other programs: ONNX, and torch.export's programs."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from comixup._atomic_write import make_folder
from comixup._checks import check_choice
from comixup.lab._networks import check_finite
from comixup.lab._preprocess import per_channel
from comixup.lab.models._libraries import import_library
from comixup.lab.models._load import Classifier

FORMATS = {"onnx": "model.onnx", "pt2": "model.pt2"}
"""What a network can be exported to, with the usual name of the file."""
METADATA = "comixup"
"""Name of the JSON with resize, crop and classes, in ONNX's metadata and (.json) in a .pt2."""
INPUT, OUTPUT, BATCH = "images", "logits", "batch"
RELATIVE = 1e-3
"""Of the largest logit: other programs add in another order, but not by more."""
SMALLEST = 1e-5
"""Differences of logits below this are rounding, however small all logits are."""
_RANDOM_IMAGES = 4

_Run = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Exported:
    """A network that was written for another program, and compared with the original.

    Attributes:
        path: the file.
        images: how many it was run on.
        difference: the largest absolute difference of its logits from the network's.
    """

    path: Path
    images: int
    difference: float


class Normalized(nn.Module):
    """A network with its normalization: logits of images in [0, 1]."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        # A copy in the usual memory format: other programs know no other.
        model = copy.deepcopy(classifier.model).cpu().to(memory_format=torch.contiguous_format)
        self.model: nn.Module = model
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", per_channel(classifier.preprocessing.mean, torch.empty(0)))
        self.register_buffer("std", per_channel(classifier.preprocessing.std, torch.empty(0)))
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits, (n, classes), of images (n, C, H, W) in [0, 1]."""
        logits: Tensor = self.model((images - self.mean) / self.std)
        return logits


def export(
    classifier: Classifier, path: str | Path, to: str, images: Tensor | None = None
) -> Exported:
    """Returns where a network was written for another program, after running what was written.

    ONNX files and torch.export's programs take float images in [0, 1] of the crop's size, any
    number at a time, normalize them themselves, and return logits.

    Args:
        classifier: from `load`.
        path: the file to write.
        to: "onnx" or "pt2".
        images: (n, C, H, W) in [0, 1] to compare both on, two at least; None for random ones.
    """
    check_choice("to", to, tuple(FORMATS))
    if images is None:
        generator = torch.Generator().manual_seed(0)
        shape = classifier.preprocessing.shape
        images = torch.rand(_RANDOM_IMAGES, *shape, generator=generator)
    write, read = {"onnx": (_write_onnx, _read_onnx), "pt2": (_write_pt2, _read_pt2)}[to]
    path = Path(path)
    make_folder(path.parent)
    # Beside its place until it is known to be right: a wrong file is not left behind.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        new = Path(folder) / path.name
        write(classifier, new)
        difference = _difference(classifier, read(new), images, path)
        os.replace(new, path)
    return Exported(path, len(images), difference)


@torch.no_grad()
def _difference(classifier: Classifier, exported: _Run, images: Tensor, path: Path) -> float:
    """Returns the largest difference of two networks' logits; a large one raises."""
    expected = Normalized(classifier)(images)
    check_finite(expected.isfinite().all(1), classifier.path)
    found = exported(images)
    one = exported(images[:1])  # the number of images may vary
    whole = torch.cat((found, one))
    wanted = torch.cat((expected, expected[:1]))
    if whole.shape != wanted.shape:
        raise RuntimeError(
            f"`path` must give the network's logits, but {path} gave {tuple(found.shape)} instead "
            f"of {tuple(expected.shape)}. Export to another format."
        )
    difference = float((whole - wanted).abs().max())
    if not difference <= max(RELATIVE * float(expected.abs().max()), SMALLEST):  # NaN is not
        raise RuntimeError(
            f"`path` must give the network's logits, but those of {path} differ by up to "
            f"{difference:.3g} on {len(images)} images. Export to another format."
        )
    return difference


def _about(classifier: Classifier) -> str:
    """Returns what a program has to know besides the graph, as JSON."""
    preprocessing = classifier.preprocessing
    return json.dumps(
        {
            "model": classifier.name,
            "classes": list(classifier.classes),
            "probabilities": "sigmoid" if classifier.multi_label else "softmax",
            "input": f"float32 RGB or grey in [0, 1], ({BATCH}, *shape)",
            "shape": list(preprocessing.shape),
            **preprocessing.as_dict(),
        }
    )


# ---- torch.export --------------------------------------------------------------------------------


def _program(classifier: Classifier) -> torch.export.ExportedProgram:
    # Two images: a dimension of 1 would be taken for a constant.
    example = torch.zeros(2, *classifier.preprocessing.shape)
    sizes = {INPUT: {0: torch.export.Dim(BATCH, min=1)}}
    return torch.export.export(
        Normalized(classifier), (example,), dynamic_shapes=sizes, strict=False
    )


def _write_pt2(classifier: Classifier, path: Path) -> None:
    about = {f"{METADATA}.json": _about(classifier)}
    torch.export.save(_program(classifier), path, extra_files=about)


def _read_pt2(path: Path) -> _Run:
    run: _Run = torch.export.load(path).module()
    return run


# ---- ONNX ----------------------------------------------------------------------------------------


def _write_onnx(classifier: Classifier, path: Path) -> None:
    onnx = import_library("onnx")
    import_library("onnxscript")
    torch.onnx.export(
        _program(classifier),
        (),
        path,
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = BATCH
    onnx.helper.set_model_props(model, {METADATA: _about(classifier)})
    onnx.checker.check_model(model)
    onnx.save(model, path)


def _read_onnx(path: Path) -> _Run:
    runtime = import_library("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run([OUTPUT], {INPUT: images.numpy()})[0])
