"""All figures of one small real run, against slow computations, one image at a time."""

import dataclasses
import io
import json
import math
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import matplotlib.image as mpl_image
import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file
from scipy import ndimage
from torch.nn.functional import interpolate

sys.path.append(str(Path(__file__).parents[1] / "data"))

from comixup.lab import evaluation, models
from comixup.lab.data import load
from comixup.lab.evaluation._corruption import CORRUPTIONS, CorruptedLoader
from comixup.lab.evaluation._evaluate import write_evaluation
from comixup.lab.evaluation._measure_run import FILE, compute_of, read_evaluation
from comixup.lab.training import RECIPES, Hardware, train
from data_files import write_tiny_imagenet

CLASSES = 7
IMAGES = 21
SEED = 5


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Returns a small Tiny-ImageNet whose boxes are large enough to be found."""
    root = tmp_path_factory.mktemp("data")
    folder = write_tiny_imagenet(root, [f"n{k}" for k in range(CLASSES)], each=2, val=IMAGES)
    notes = [
        f"val_{k}.JPEG\tn{k % CLASSES}\t{k}\t{2 * k // 3}\t{k + 30}\t{k + 38}\n"
        for k in range(IMAGES)
    ]
    (folder / "val" / "val_annotations.txt").write_text("".join(notes))
    return root


@pytest.fixture(scope="module")
def run(root, tmp_path_factory):
    # Long enough for batch norm's statistics, without which all predictions are the same.
    recipe = dataclasses.replace(
        RECIPES["tiny-imagenet-small"].changed(
            epochs=12, batch_size=7, images_per_class=2, model="small", classes=()
        ),
        validation=None,
        validation_seed=None,
    )
    out = tmp_path_factory.mktemp("runs")
    here = Hardware(accelerator="cpu", workers=0)
    train(recipe, method="vanilla", seeds=(2,), out=out, hardware=here, data_root=root)
    return out / recipe.name / "vanilla" / "seed-2"


@pytest.fixture(scope="module")
def data(root):
    return load("tiny-imagenet", root)


@pytest.fixture(scope="module")
def slow(root, run):
    """Returns classes, softmax shares and the network, read without the package's own readers."""
    folder = root / "tiny-imagenet-200" / "val"
    network = models.build("small", CLASSES, shape=(3, 64, 64)).eval()
    network.load_state_dict(load_file(run / "weights.safetensors"))
    targets, shares = [], []
    for k in range(IMAGES):
        pixels = np.asarray(Image.open(folder / "images" / f"val_{k}.JPEG").convert("RGB")) / 127.5
        image = torch.tensor(pixels - 1, dtype=torch.float32).permute(2, 0, 1)[None]
        with torch.no_grad():
            powers = [math.exp(score) for score in network(image)[0].tolist()]
        targets.append(k % CLASSES)
        shares.append([power / sum(powers) for power in powers])
    return targets, shares, network


@pytest.fixture(scope="module")
def boxes(data, slow):
    """Returns boxes of all images but two, one of which is predicted right and one wrong."""
    targets, shares, _ = slow
    pairs = zip(targets, shares, strict=True)
    wrong = [max(range(CLASSES), key=row.__getitem__) != t for t, row in pairs]
    found = data.test_boxes.clone()
    found[wrong.index(False)] = 0
    found[len(wrong) // 2 + wrong[len(wrong) // 2 :].index(True)] = 0
    return found


@pytest.fixture(scope="module")
def found(run, data, boxes):
    return evaluation.evaluate(evaluation.load_trained(run), data, boxes, seed=SEED)


def test_errors_and_scores(found, slow):
    targets, shares, _ = slow
    rows = list(zip(targets, shares, strict=True))
    ranks = [sum(s > row[t] for s in row) for t, row in rows]
    assert 0 < sum(rank > 0 for rank in ranks) < IMAGES  # or the test would say little
    assert len({row.index(max(row)) for row in shares}) > 2
    metrics = found.metrics
    assert metrics.images == sum(bin_.count for bin_ in metrics.bins) == IMAGES
    assert metrics.error == pytest.approx(100 * sum(r > 0 for r in ranks) / IMAGES)
    assert metrics.top5_error == pytest.approx(100 * sum(r >= 5 for r in ranks) / IMAGES)
    assert metrics.nll == pytest.approx(
        sum(-math.log(row[t]) for t, row in rows) / IMAGES, rel=1e-4
    )
    assert metrics.confidence == pytest.approx(100 * sum(map(max, shares)) / IMAGES, rel=1e-4)


def test_localization(found, slow, data, boxes):
    targets, shares, network = slow
    images, _ = next(data.test.loader(IMAGES).epoch(0))
    hits = both = 0
    kept = [k for k in range(IMAGES) if boxes[k].any()]
    for k in kept:
        target = torch.tensor([targets[k]])
        image = images[k : k + 1]
        heat, _ = evaluation.ActivationMaps(network, image)(image, target)
        heat = interpolate(heat[None], size=(64, 64), mode="bicubic")[0, 0]
        heat = (heat - heat.min()) / (heat.max() - heat.min())
        labels, count = ndimage.label(heat.numpy() > 0.25, structure=np.ones((3, 3)))
        largest = max(range(1, count + 1), key=lambda label: (labels == label).sum())
        rows, columns = np.nonzero(labels == largest)
        mine, true = np.zeros((64, 64), bool), np.zeros((64, 64), bool)
        mine[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] = True
        x0, y0, x1, y1 = boxes[k, 0].tolist()
        true[y0:y1, x0:x1] = True
        hit = (mine & true).sum() / (mine | true).sum() >= 0.5
        hits += hit
        both += hit and shares[k].index(max(shares[k])) == targets[k]
    assert found.localization.images == len(kept) == IMAGES - 2
    assert found.localization.left_out == 2
    assert found.localization.gt_known == pytest.approx(100 * hits / len(kept))
    assert found.localization.top1_loc == pytest.approx(100 * both / len(kept))


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_increments_are_over_the_clean_error_of_the_same_images(found, slow, data, boxes, kind):
    targets, shares, network = slow
    kept = [k for k in range(IMAGES) if boxes[k].any()]
    clean = sum(shares[k].index(max(shares[k])) != targets[k] for k in kept)
    loader = CorruptedLoader(data, data.test, boxes, kind, 1, seed=SEED)
    with torch.no_grad():
        wrong = sum(int(network(image).argmax(1) != target) for image, target in loader.epoch())
    corrupted = found.corruption[kind]
    assert corrupted.images == len(kept)
    assert corrupted.error == pytest.approx(100 * wrong / len(kept))
    assert corrupted.increment == pytest.approx(100 * (wrong - clean) / len(kept))
    assert corrupted.interval[0] < corrupted.error < corrupted.interval[1] or wrong == len(kept)
    # One right and one wrong image have no box: the error of all is another.
    assert clean / len(kept) != pytest.approx(found.metrics.error / 100)


def test_figures_have_the_names_of_a_comparison(found):
    names = {"error", "top5_error", "ece", "nll", "brier", "top1_loc", "gt_known", "max_box_acc_v2"}
    for kind in ("replaced", "noise", "added_noise"):
        names |= {f"{kind}_error", f"{kind}_increment"}
    assert names <= set(found.summary)
    assert found.summary["replaced_error"] == found.corruption["replace"].error
    assert found.summary["noise_increment"] == found.corruption["noise"].increment
    assert found.summary["added_noise_error"] == found.corruption["added-noise"].error


def test_without_boxes_there_is_neither_localization_nor_corruption(run, data, found, tmp_path):
    alone = evaluation.evaluate(evaluation.load_trained(run), data)
    assert alone.localization is None
    assert alone.corruption == {}
    assert alone.summary == {**found.metrics.summary, **found.compute}
    assert alone.summary["passes"] >= 1
    alone.draw(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["reliability.png"]


def test_the_table_has_every_figure(found):
    console = Console(width=120, file=io.StringIO())
    console.print(found.table())
    text = console.file.getvalue()
    for words in ("top-1 error", "ECE", "Brier", "Top-1 Loc", "centre box", "MaxBoxAccV2"):
        assert words in text
    corrupted = found.corruption["replace"]
    assert f"{corrupted.error:.2f} ({corrupted.increment:+.2f})" in text
    assert "vanilla, seed 2 on tiny-imagenet" in text


# ---- What is left behind ------------------------------------------------------------------------


def test_what_is_written_comes_back(found, tmp_path):
    write_evaluation(found, tmp_path / "new" / "folder")
    run = read_evaluation(tmp_path / "new" / "folder")
    assert (run.method, run.seed, run.recipe) == ("vanilla", 2, "tiny-imagenet-small")
    assert run.metrics == found.summary
    np.testing.assert_equal(asdict(run), asdict(found.record))  # empty bins have NaN
    saved = json.loads((tmp_path / "new" / "folder" / FILE).read_text(), parse_constant=pytest.fail)
    assert saved["localization"]["left_out"] == 2
    assert saved["corruption"]["replace"]["images"] == IMAGES - 2


@pytest.mark.usefixtures("drawn")
def test_pictures(found, data, boxes, tmp_path):
    found.draw(tmp_path)
    names = ["corruption.png", "localization.png", "reliability.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for name in names:
        pixels = mpl_image.imread(tmp_path / name)[..., :3]
        assert min(pixels.shape[:2]) > 200
        assert len(np.unique(pixels[::3, ::3].sum(-1))) > 20


def with_metrics(**changes):
    return lambda saved: json.dumps({**saved, "metrics": {**saved["metrics"], **changes}})


def with_changes(**changes):
    return lambda saved: json.dumps({**saved, **changes})


EMPTY_BIN = {"count": 0, "confidence": None, "accuracy": None}
DEEP = 100_000
DAMAGED = {
    "not JSON": lambda saved: "{",
    "deep": lambda saved: "[" * DEEP,
    "long": lambda saved: json.dumps(saved) + " " * 10**7,
    "no text": lambda saved: "\ud800",
    "without summary": lambda saved: json.dumps({k: v for k, v in saved.items() if k != "summary"}),
    "truth for numbers": with_changes(summary={"error": True}),
    "too large": with_changes(summary={"error": 10**400}),
    "too long": lambda saved: json.dumps(saved).replace('"seed": 2', f'"seed": {"9" * 5000}'),
    "escapes": with_changes(method="\x1b[31mred"),
    "seed below 0": with_changes(seed=-1),
    "broken bins": with_metrics(bins=[{"count": 1}]),
    "empty bins": with_metrics(bins=[EMPTY_BIN] * 10),
    "bin below 0": with_metrics(bins=[{**EMPTY_BIN, "count": -1}]),
    "bin beyond 1": with_metrics(bins=[{"count": 21, "confidence": 1e300, "accuracy": 0}]),
    "bin without accuracy": with_metrics(bins=[{**EMPTY_BIN, "count": 21}]),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_gets_an_error_message(found, tmp_path, damage):
    write_evaluation(found, tmp_path)
    file = tmp_path / FILE
    damaged = DAMAGED[damage](json.loads(file.read_text()))
    file.write_bytes(damaged.encode(errors="surrogatepass"))
    with pytest.raises(ValueError, match=r"must be what comixup evaluate writes.* again\.") as told:
        read_evaluation(tmp_path)
    assert str(file) in str(told.value)


def test_an_evaluation_of_other_weights_is_not_compared(found, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    write_evaluation(found, copy)
    row = read_evaluation(copy)
    assert row.metrics == found.summary
    weights = copy / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # as if trained again, to something else
    weights.write_bytes(content)
    with pytest.raises(ValueError, match=r"is of other weights than .* evaluate .* again"):
        read_evaluation(copy)
    weights.unlink()  # moved away: there is nothing to compare it with
    read_evaluation(copy)


@pytest.mark.parametrize("value", [float("nan"), -1e31])
def test_numbers_that_cannot_be_compared(found, tmp_path, value):
    write_evaluation(found, tmp_path)
    file = tmp_path / FILE
    file.write_text(with_changes(summary={"error": value})(json.loads(file.read_text())))
    row = read_evaluation(tmp_path)
    with pytest.raises(ValueError, match="must be finite and at most"):
        evaluation.compare([row])


@pytest.mark.parametrize(
    "change",
    [
        {"passes": 10**400},
        {"cpu_seconds": float("nan")},
        {"cpu_seconds": -5},
    ],
)
def test_compute_is_left_out_where_a_result_does_not_tell_it(run, tmp_path, change):
    copy = shutil.copytree(run, tmp_path / "run")
    assert compute_of(copy)["cpu_seconds"] > 0
    file = copy / "result.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert compute_of(copy) == {}
    file.write_text("[" * DEEP)
    assert compute_of(copy) == {}


def test_what_is_wrong_is_found_out_before_anything_is_computed(run, data, boxes, monkeypatch):
    monkeypatch.setattr("comixup.lab.evaluation._evaluate.predict", pytest.fail)
    trained = evaluation.load_trained(run)
    with pytest.raises(ValueError, match="`layer` must be the name of a module"):
        evaluation.evaluate(trained, data, boxes, layer="nowhere")
    with pytest.raises(ValueError, match="`method` must be one of"):
        evaluation.evaluate(trained, data, boxes, maps="maps")
    with pytest.raises(ValueError, match="`boxes` must have a row for each"):
        evaluation.evaluate(trained, data, boxes[1:])
    with pytest.raises(ValueError, match="within the images' 64 x 64 pixels"):
        evaluation.evaluate(trained, data, boxes + 64 * boxes.bool())
    few = boxes.clone()
    few[1:] = 0
    with pytest.raises(ValueError, match="boxes for two images at least"):
        evaluation.evaluate(trained, data, few)


def test_a_run_that_is_not_evaluated_gets_an_error_message(run):
    with pytest.raises(FileNotFoundError, match=r"must be evaluated .* Run comixup evaluate"):
        read_evaluation(run)


def test_other_classes_are_rejected(run, root, tmp_path):
    other = load("tiny-imagenet", write_tiny_imagenet(tmp_path, each=1, val=3))
    with pytest.raises(ValueError, match=r"`data` must have 7 classes, .* with 3"):
        evaluation.evaluate(evaluation.load_trained(run), other)
