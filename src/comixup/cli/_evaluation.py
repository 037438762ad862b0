"""`comixup evaluate`, `comixup compare`, `comixup sweep`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from torch import Tensor

from comixup import evaluation
from comixup._checks import check_count
from comixup.cli._options import (
    PLAIN,
    Changes,
    ChangesOption,
    Place,
    PlaceOption,
    RecipeName,
    Seeds,
    changed,
    check_seeds,
    how_to_train,
    with_set,
    word,
)
from comixup.data import DataSet, load
from comixup.evaluation._trained import MAX_SIDE
from comixup.training import Method
from comixup.training._hardware import MAX_WORKERS, WORKERS
from comixup.training._launcher import check_alone
from comixup.training._lock import locked
from comixup.training._recipe import MAX_SEED
from comixup.training._settings import check_effect, parse_settings

_TINY = "tiny-imagenet"
_Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, word("RUN ...")]
_Values = Annotated[tuple[float, ...], word("VALUE ...", "(default: not varied)")]


def evaluate(
    runs: _Runs,
    data: Annotated[Path | None, word("FOLDER", "(default: $COMIXUP_DATA, else ./data)")] = None,
    data_set: Annotated[str | None, word("NAME", "(default: what it was trained on)")] = None,
    boxes: Annotated[Path | None, word("PATH", "(default: the data set's own)")] = None,
    model: Annotated[str | None, word("NAME", "(default: what the file says)")] = None,
    image_size: Annotated[int | None, word("N", "(default: the data set's)")] = None,
    maps: Annotated[Literal["cam", "grad-cam"], word("cam|grad-cam")] = "cam",
    layer: Annotated[str | None, word("NAME", "(default: found)")] = None,
    device: Annotated[str, word("NAME", "(default: cuda if there, else cpu)")] = "auto",
    workers: Annotated[int, word("N")] = WORKERS,
    seed: Annotated[int, word("N")] = 0,
    skip_bad: Annotated[bool, tyro.conf.FlagCreatePairsOff, word("", "")] = False,
    out: Annotated[Path | None, word("FOLDER", "(default: the run's own)")] = None,
) -> None:
    """Measure trained networks on the test images: error, calibration and, with boxes, more.

    Args:
        runs: folders of runs, or files of weights (.safetensors, .pt, .pth).
        data: folder of the data sets.
        data_set: name of the data set to measure on.
        boxes: a CSV file or a folder of XML files with boxes of the objects, for localisation and
            background corruption. Tiny-ImageNet brings its own.
        model: name of the network, for weights that do not say.
        image_size: pixels a side, for data sets that are cropped and scaled.
        maps: how objects are found: cam or grad-cam.
        layer: the part of the network whose maps are used.
        device: cpu, cuda, mps, ...
        workers: processes that read images from the disk.
        seed: of the background corruption.
        skip_bad: leave out images that cannot be read, and say which.
        out: where the figures and pictures go; with several runs, a folder each in it.
    """
    check_alone("evaluate")
    check_count("workers", workers, low=0, high=MAX_WORKERS)
    check_count("seed", seed, low=0, high=MAX_SEED)
    if image_size is not None:
        check_count("image_size", image_size, high=MAX_SIDE)
    console, place = Console(), _device(device)
    keys = [_data_key(run, data_set) for run in _checked(runs)]
    folders = _folders(runs, out)
    for folder in folders:  # what cannot be written is found out before anything is computed
        with locked(folder):
            evaluation.check_replaceable(folder)
    loaded: dict[tuple[str, ...], tuple[DataSet, Tensor | None]] = {}
    for run, key, folder in zip(runs, keys, folders, strict=True):
        if key not in loaded:
            loaded[key] = _loaded(key[0], key[1:], data, boxes, image_size, skip_bad, console)
        chosen, truth = loaded[key]
        trained = evaluation.load_trained(
            run, model=model, num_classes=chosen.num_classes, shape=chosen.shape
        )
        options: dict[str, Any] = {"device": place, "image_size": image_size, "seed": seed}
        options |= {"maps": maps, "layer": layer}
        with locked(folder):
            found = evaluation.evaluate(
                trained, chosen, truth, workers=workers, console=console, **options
            )
            console.print(evaluation.evaluation_table(found))
            _write(found, folder)
            evaluation.draw_evaluation(found, chosen, truth, folder, **options)
        console.print(f"Metrics and pictures are in {folder}.\n", **PLAIN)


def compare(
    runs: _Runs,
    reference: Annotated[str | None, word("METHOD", "(default: comixup)")] = None,
    out: Annotated[Path, word("FOLDER")] = Path("comparison"),
) -> None:
    """Put evaluated runs side by side: means and spreads over seeds, tests, tables, one figure.

    Args:
        runs: folders that `comixup evaluate` has written into.
        reference: the method that others are tested against.
        out: where the tables (.txt, .md, .tex, .csv) and the reliability diagrams go.
    """
    check_alone("compare")
    console = Console()
    read = [evaluation.read_evaluation(run) for run in _checked(runs)]
    found = evaluation.compare([row for row, _ in read], reference=reference)
    panels: dict[str, list[evaluation.Metrics]] = {}
    for row, metrics in read:
        panels.setdefault(row.method, []).append(metrics)
    evaluation.write_comparison(found, out)
    evaluation.draw_reliability(panels, out / "reliability.png")
    console.print(evaluation.as_rich(found))
    console.print(f"Tables and reliability diagrams are in {out}.", **PLAIN)


def sweep(
    recipe: RecipeName,
    beta: _Values = (),
    gamma: _Values = (),
    tau: _Values = (),
    omega: _Values = (),
    partition_size: Annotated[tuple[int, ...], word("N ...", "(default: not varied)")] = (),
    vary: Annotated[tuple[str, ...], word("NAME=[VALUE,...] ...", "(default: none)")] = (),
    method: Annotated[str | None, word("NAME", "(default: the recipe's own)")] = None,
    seeds: Seeds = (0,),
    changes: ChangesOption = Changes(),  # noqa: B008
    place: PlaceOption = Place(),  # noqa: B008
) -> None:
    """Train a recipe with each setting varied alone, as in the paper's table of sensitivity.

    The same command resumes where it was interrupted; what is trained is not trained again.

    Args:
        recipe: its name; see `comixup recipes`.
        beta: weights of smoothness to try.
        gamma: weights of compatibility to try.
        tau: clip levels to try.
        omega: weights of the distances to try.
        partition_size: sizes of partitions to try.
        vary: other settings of the method, as JSON lists: --vary levels=[1,2,3]
            resolve=[true,false].
        method: the method whose settings are varied.
        seeds: a run each, for every value.
        changes: what to change in the recipe; the rest stays as it is.
        place: where to train, and where to put what comes out.
    """
    check_seeds(seeds)
    named = {
        "beta": beta,
        "gamma": gamma,
        "tau": tau,
        "omega": omega,
        "partition_size": partition_size,
    }
    grid = _joined({name: values for name, values in named.items() if values}, _varied(vary))
    chosen = changed(recipe, changes)
    chosen = with_set(chosen, method or chosen.method, changes)
    _check_set(chosen.choose(method), grid, changes)
    how = how_to_train(place, chosen, seeds)
    found = evaluation.sweep(chosen, grid, method=method, seeds=seeds, **how)
    if how["fabric"].is_global_zero:
        how["console"].print(evaluation.sweep_table(found))


def _checked(runs: tuple[Path, ...]) -> tuple[Path, ...]:
    if not runs:
        raise ValueError("`runs` must be one folder or file at least, got none.")
    return runs


def _folders(runs: tuple[Path, ...], out: Path | None) -> list[Path]:
    """Returns where each run's metrics go: its own folder, or one of its name if asked for."""
    folders = []
    for run in runs:
        own = run if run.is_dir() else run.parent / run.stem
        if out is not None:
            own = out if len(runs) == 1 else out.joinpath(*own.parts[-3:])
        folders.append(own)
    first: dict[Path, Path] = {}
    for run, folder in zip(runs, folders, strict=True):
        other = first.setdefault(folder.resolve(), run)
        if other is not run:
            raise ValueError(
                f"`runs` must have a folder each to write into, but {other} and {run} have the "
                f"same, {folder}. Evaluate them one by one, each with another --out."
            )
    return folders


def _data_key(run: Path, data_set: str | None) -> tuple[str, ...]:
    """Returns the name of the data set to measure a run on, and the classes it was trained on."""
    return (data_set or evaluation.trained_on(run), *evaluation.trained_classes(run))


def _device(name: str) -> torch.device:
    """Returns a device that can be computed on."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as why:
        reason = str(why).strip().split("\n", 1)[0][:200]
        raise ValueError(
            f"`--device` must be one that torch can compute on here, got {name!r} ({reason})."
        ) from None
    return device


def _write(found: evaluation.Evaluation, folder: Path) -> None:
    """Writes an evaluation; prints it if it cannot be written, so that it is not lost."""
    try:
        evaluation.write_evaluation(found, folder)
    except OSError:
        sys.stdout.write(evaluation.evaluation_text(found))
        sys.stdout.flush()
        raise


def _loaded(
    name: str,
    classes: tuple[str, ...],
    root: Path | None,
    boxes: Path | None,
    image_size: int | None,
    skip_bad: bool,
    console: Console,
) -> tuple[DataSet, Tensor | None]:
    """Returns a data set and its boxes; what is left out of it is told in sentences, once.

    Of a network that was trained on some of the set's classes, those alone are measured.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        data = load(name, root, skip_bad=skip_bad)
        if classes and set(classes) < set(data.classes):
            data = load(name, root, classes=classes, skip_bad=skip_bad)
        found = data, _boxes(data, boxes, root, image_size, skip_bad)
    for sentence in dict.fromkeys(str(warning.message) for warning in caught):
        console.print(sentence, **PLAIN)
    return found


def _boxes(
    data: DataSet, source: Path | None, root: Path | None, image_size: int | None, skip_bad: bool
) -> Tensor | None:
    """Returns the boxes of the test images: from a file or folder, or the data set's own."""
    if source is None:
        if data.name != _TINY:
            return None
        own = evaluation.read_tiny_imagenet_boxes(root, "test", skip_bad=skip_bad)
        return own if data.test_indices is None else own[data.test_indices]
    files = getattr(data.test, "files", None)
    if files is None:
        raise ValueError(
            f"`--boxes` must belong to images in files, but those of {data.name} are not: boxes go "
            "by the files' names."
        )
    return evaluation.read_boxes(source, files, image_size or max(data.shape[1:]))


def _varied(words: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    """Returns the values of each setting that NAME=[VALUE,...] words mean."""
    varied = parse_settings(words, "--vary")
    for name, values in varied.items():
        if not isinstance(values, list):
            raise ValueError(
                f"`--vary` must be followed by NAME=[VALUE,...], got {name}={values!r}. Lists are "
                'JSON: levels=[1,2,3], resolve=[true,false], \'clip=["soft","hard"]\'.'
            )
    return {name: tuple(values) for name, values in varied.items()}


def _joined(
    named: Mapping[str, tuple[Any, ...]], varied: Mapping[str, tuple[Any, ...]]
) -> dict[str, tuple[Any, ...]]:
    """Returns the values of all settings to be swept, each setting named once."""
    for name in named:
        if name in varied:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"`--vary` must name other settings than {option}, got {name}. Put all values "
                f"behind {option}."
            )
    if not (named or varied):
        raise ValueError(
            "`sweep` must vary something, got nothing. For instance --beta 0 0.16 0.32."
        )
    return {**named, **varied}


def _check_set(method: Method, grid: Mapping[str, tuple[Any, ...]], changes: Changes) -> None:
    """Raises `ValueError` if what --set sets, or what is varied, has no effect on any cell."""
    for name, values in grid.items():
        check_effect({**method.settings, name: values[0]} if values else {})
    for name in parse_settings(changes.set):
        if [*grid] == [name] and method.settings[name] not in grid[name]:
            raise ValueError(
                f"`--set` must set what the sweep does not vary, got {name}, whose values are all "
                "given. Add the value to them, or leave --set out."
            )
