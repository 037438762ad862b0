"""Runs of the tables: trained by the trainer, measured on their test images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from comixup.lab import data as data_sets
from comixup.lab import evaluation, training
from comixup.lab.data import DataSet
from comixup.lab.paper._small_recipes import recipe_named
from comixup.lab.paper._store import Row
from comixup.lab.paper._trained_tables import Run
from comixup.lab.training import Recipe

if TYPE_CHECKING:
    from comixup.lab.paper._make_cell import Workspace

_TINY = "tiny-imagenet"
_ANNOTATIONS = "**/Annotations/CLS-LOC/val"
"""ImageNet's boxes, as they are unpacked."""


def measured_run(
    workspace: Workspace, recipe: Recipe, method: str, seed: int, *, boxes: bool
) -> Row:
    """Returns a run's metrics by name, training it as far as it is not trained.

    The error is what the recipe reports (the median of the last ten epochs in the paper's), the
    other metrics are of the final weights.

    Args:
        workspace: where to train.
        recipe: what to train.
        method: one of its methods.
        seed: of the run.
        boxes: measure localisation and background corruption too.
    """
    result = training.train(
        recipe,
        method=method,
        seeds=(seed,),
        out=workspace.out / "runs",
        data_root=workspace.data_root,
        console=workspace.console,
    )[seed]
    folder = training.RunFolder(workspace.run_folder(Run(recipe.name, method, seed)))
    if boxes:
        found = _evaluated(workspace, folder.path)
        metrics, row = found.metrics, {**found.summary, **_baselines(found)}
    else:
        metrics = evaluation.measure(
            evaluation.predictions_of(*training.read_logits(folder.logits)["test"])
        )
        # From the run itself where it has them: its logits are kept in half precision.
        final = result.final.get("test", {})
        row = {**metrics.summary, **{name: final[name] for name in ("nll", "ece") if name in final}}
    bins = " ".join(f"{b.count}:{b.confidence:.5g}:{b.accuracy:.5g}" for b in metrics.bins)
    result_fields = {name: getattr(result, name) for name in ("cpu_seconds", "error", "epochs")}
    return {**row, **result_fields, "bins": bins}


def _baselines(found: evaluation.Evaluation) -> dict[str, float]:
    """Returns what boxes localise that know nothing of the image: the whole of it, its centre."""
    boxes = () if found.localisation is None else found.localisation.baselines
    return {
        f"{box.name.split()[0]}_{name}": value
        for box in boxes
        for name, value in box.summary.items()
    }


def draw_corruption(workspace: Workspace, recipe: str) -> None:
    """Draws images of a recipe's data set with corrupted backgrounds (Figure 10)."""
    name = recipe_named(recipe).data
    data = data_sets.load(name, workspace.data_root)
    boxes = boxes_of(data, data_sets.data_root(workspace.data_root))
    if boxes is None:
        raise FileNotFoundError(
            f"Boxes of {name} were not found. Put ImageNet's Annotations/CLS-LOC/val into its "
            "folder."
        )
    evaluation.draw_corruptions(
        data,
        data.test,
        boxes,
        workspace.figures / f"corruption-{recipe}.png",
        f"Background corruption of {name}",
    )


def boxes_of(data: DataSet, root: Path) -> Tensor | None:
    """Returns the boxes of a data set's test images; None where there are none."""
    if data.name == _TINY:
        own = evaluation.read_tiny_imagenet_boxes(root, "test")
        return own if data.test_indices is None else own[data.test_indices]
    folders = sorted(root.glob(_ANNOTATIONS))
    if not folders:
        return None
    return evaluation.read_boxes(folders[0], data.test.paths, max(data.shape[1:]))


def _evaluated(workspace: Workspace, run: Path) -> evaluation.Evaluation:
    """Returns the evaluation of a finished run, with boxes where there are any; writes its file."""
    origin = evaluation.trained_on(run)
    data = origin.load_data(workspace.data_root)
    trained = evaluation.load_trained(
        run, num_classes=data.num_classes, shape=training.shape_of(data, origin.image_size)
    )
    boxes = boxes_of(data, data_sets.data_root(workspace.data_root))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = evaluation.evaluate(trained, data, boxes, device=device, console=workspace.console)
    evaluation.write_evaluation(found, run)
    return found
