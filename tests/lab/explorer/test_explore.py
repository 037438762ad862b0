"""What the explorer computes, without its page."""

import math
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.testing import assert_close

import comixup
from cases import each_case
from comixup._methods import METHODS
from comixup.lab import explorer
from comixup.lab.explorer import Settings, _images
from comixup.lab.explorer._explore import Workbench, python_lines
from comixup.lab.explorer._figures import numbers_html, outputs_html, why_figure
from comixup.lab.explorer._serve import is_foreign
from comixup.lab.explorer._settings import (
    INSTALL,
    MAX_BYTES,
    MAX_PIXELS,
    SPECTRAL,
    default_saliency,
)

sys.path.append(str(Path(__file__).parents[1] / "training"))

NOT_BESIDE = ("vanilla", "manifold", "comixup")


@pytest.fixture(scope="module")
def digits():
    return explorer.sample_images("digits", count=10)


@pytest.fixture(scope="module")
def maps(digits):
    return comixup.spectral_residual(digits.images)


@pytest.fixture
def pictures(tmp_path):
    for k in range(4):
        pixels = torch.randint(256, (40 + k, 60, 3), generator=torch.Generator().manual_seed(k))
        Image.fromarray(pixels.byte().numpy()).save(tmp_path / f"picture {k}.png")
    return sorted(tmp_path.glob("*.png"))


def bomb(path, side=6_000):
    """Writes a PNG file of a few kilobytes whose header promises 36 million pixels."""
    head = side.to_bytes(4, "big") * 2 + b"\x08\x00\x00\x00\x00"

    def chunk(kind, data):
        sum_ = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + sum_

    body = zlib.compress(b"\x00" * 100_000)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )
    return path


# ---- Settings -----------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_mixer():
    mixer = comixup.CoMixup()
    for name in (
        *("beta", "gamma", "tau", "omega", "eta", "grid", "partition_size", "levels", "sweeps"),
    ):
        assert getattr(Settings(), name) == getattr(mixer, name), name


@each_case(
    ("name", "value", "message"),
    [
        ("tau", "much", "`tau` must be a number from 0 to 2, got 'much'"),
        ("tau", [1.0], "`tau` must be a number from 0 to 2, got [1.0]"),
        ("grid", "4", "`grid` must be a positive integer, got '4'"),
        ("grid", 4.5, "`grid` must be a positive integer, got 4.5"),
        ("seed", None, "`seed` must be an integer of at least 0, got None"),
        ("tau", math.nan, "`tau` must be a number from 0"),
        ("grid", 10**6, "`grid` must be an integer from 1 to 8"),
        ("sample", "/etc/passwd", "`sample` must be one of"),
        ("saliency", "", "`saliency` must be a name"),
        ("omega", 0.5, "`omega` must be a number from 0 to 0.05"),
    ],
)
def test_values_of_controls_are_checked(name, value, message):
    held = {**vars(Settings()), name: value}
    with pytest.raises((ValueError, TypeError)) as error:
        Settings.from_controls(list(held.values()))
    assert message in str(error.value)


def test_whole_numbers_of_controls_have_the_type_of_their_setting():
    held = {**vars(Settings()), "tau": 1, "grid": 8.0}
    settings = Settings.from_controls(list(held.values()))
    assert settings == Settings(tau=1.0, grid=8)
    assert (type(settings.tau), type(settings.grid)) == (float, int)


# ---- Images -------------------------------------------------------------------------------------


@each_case("sample", ["digits", "photos"])
def test_samples_are_the_same_each_time_and_others_by_another_number(sample):
    first, again, other = (
        explorer.sample_images(sample, count=4, draw=draw, side=32) for draw in (1, 1, 2)
    )
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)
    assert 0 <= float(first.images.min()) < float(first.images.max()) <= 1
    assert first.images.shape[0] == 4


def test_photographs_are_whole_and_a_class_each_before_there_are_crops():
    eight = explorer.sample_images("photos", side=48)
    assert len(eight.images) == len(eight.class_names) == 8
    assert eight.targets.tolist() == list(range(8))
    more = explorer.sample_images("photos", count=10, side=48)
    assert torch.equal(more.images[:8], eight.images)
    assert more.targets[8:].tolist() == [0, 1]
    assert not torch.equal(more.images[8], eight.images[0])
    grey = eight.images[eight.class_names.index("camera")]
    assert torch.equal(grey[0], grey[2])


def test_files_of_any_size_become_a_batch(pictures):
    batch = explorer.load_images(pictures, side=32)
    assert batch.images.shape == (4, 3, 32, 32)
    assert batch.class_names == tuple(f"picture {k}" for k in range(4))
    named = explorer.load_images(pictures, side=32, class_names=["ant", "bee", "ant", "bee"])
    assert named.class_names == ("ant", "bee")
    assert named.targets.tolist() == [0, 1, 0, 1]


def test_too_many_files_and_bad_ones_are_told(pictures, tmp_path):
    with pytest.raises(ValueError, match=r"`paths` must be 1 to 32 image files, got 36"):
        explorer.load_images(pictures * 9)
    with pytest.raises(ValueError, match=r"at most 24000000 pixels, got 6000 x 6000"):
        explorer.load_images([bomb(tmp_path / "bomb.png")])


def test_uploads_are_bounded_and_named_without_their_folder(pictures, tmp_path):
    text, large = tmp_path / "a <b>.png", tmp_path / "large.bmp"
    text.write_text("no image")
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    files = [pictures[0], text, large, bomb(tmp_path / "bomb.png"), tmp_path / "gone.png"]
    settings = Settings(side=32, saliency=SPECTRAL)
    batch, problems = Workbench().batch(settings, [str(file) for file in files])
    assert batch.class_names == (pictures[0].stem,)
    assert len(problems) == 4
    assert problems[0].startswith("a <b>.png cannot be read as an image")
    assert problems[1].startswith("large.bmp must have at most 10 MB")
    assert f"at most {MAX_PIXELS} pixels" in problems[2]
    assert not any(str(tmp_path) in problem for problem in problems)
    with pytest.raises(ValueError, match=r"a <b>\.png cannot .*\nlarge\.bmp must have"):
        Workbench().batch(settings, [str(text), str(large)])
    with pytest.raises(ValueError, match="There must be at most 32 images, got 33"):
        Workbench().batch(settings, [str(pictures[0])] * 33)


def test_uploads_are_decoded_once(pictures, tmp_path, monkeypatch):
    (tmp_path / "text.png").write_text("no image")
    decoded, read = [], _images.read_image
    monkeypatch.setattr(
        _images, "read_image", lambda path, **bounds: decoded.append(path) or read(path, **bounds)
    )
    files = [*map(str, pictures), str(tmp_path / "text.png")]
    bench = Workbench()
    for tau in (0.5, 0.6, 0.7):
        settings = Settings(tau=tau, side=32, saliency=SPECTRAL)
        result, _ = bench.result(settings, files)
        assert torch.equal(result.batch.images, explorer.load_images(pictures, side=32).images)
        del decoded[-len(pictures) :]  # those of the line above
    assert sorted(map(str, decoded)) == sorted(files)


# ---- Results ------------------------------------------------------------------------------------


def test_terms_are_those_of_each_sweep_and_the_objective_falls(digits, maps):
    settings = Settings(sweeps=5)
    result = explorer.explore(digits, maps, settings)
    assert len(result.terms) == 5
    totals = [terms.total for terms in result.terms[:-1]]
    assert totals == sorted(totals, reverse=True)
    last = comixup.objective(result.mixed.problems, result.mixed.plan)
    assert result.terms[-1] == last
    values = result.mixed.plan.objective_values
    assert_close(float(values.sum(0)[0]), result.terms[0].total, rtol=1e-5, atol=1e-6)


def test_partitions_have_blocks_of_the_compatibility_matrix(digits, maps):
    result = explorer.explore(digits, maps, Settings(partition_size=5))
    known = ~result.compatibility.isnan()
    block = torch.block_diag(torch.ones(5, 5), torch.ones(5, 5)).bool()
    assert torch.equal(known, block)
    assert len(result.mixed.problems) == 2
    assert "(2 partitions)" in numbers_html(result)


def test_other_methods_mix_the_same_batch(digits, maps):
    result = explorer.explore(digits, maps, Settings())
    others = [METHODS[name].title for name in METHODS if name not in NOT_BESIDE]
    assert list(result.baselines) == others
    for batch, mixed in result.baselines.values():
        assert mixed.mixed
        assert mixed.plan.mix_images(batch.images).shape == digits.images.shape
        assert torch.equal(batch.images[: len(digits.images)], digits.images)
    twice, _ = result.baselines["RecursiveMix"]  # with what the batch before was mixed to
    assert len(twice.images) == 2 * len(digits.images)
    assert result.solve_milliseconds > 0


def test_figures_show_the_result(digits, maps):
    result = explorer.explore(digits, maps, Settings())
    _, matrix, _, terms, histogram = why_figure(result).axes
    shown = matrix.images[0].get_array()
    assert shown.mask.diagonal().all()
    lines = {line.get_label(): list(line.get_ydata()) for line in terms.get_lines()}
    assert lines["total"] == [one.total for one in result.terms]
    sums = [sum(lines[name][k] for name in list(lines)[:4]) for k in range(4)]
    assert_close(torch.tensor(sums), torch.tensor(lines["total"]))
    heights = [patch.get_height() for patch in histogram.patches]
    assert sum(heights) == 10
    mean = sum(n * height for n, height in enumerate(heights, 1)) / 10
    assert f'data-mean-inputs="{mean:.3f}"' in numbers_html(result)


# ---- Saliency -----------------------------------------------------------------------------------


def test_networks_by_name_take_images_of_any_kind(digits):
    network = explorer.load_network("efficientnet-lite0")
    two = explorer.sample_images("photos", count=2, side=48)
    maps = explorer.network_maps(two, network)
    assert maps.shape == (2, 224, 224)
    assert float(maps.amin()) >= 0
    assert math.isfinite(float(maps.sum()))
    again = explorer.load_network("efficientnet-lite0")
    assert torch.equal(explorer.network_maps(two, again), maps)


@pytest.mark.slow
def test_a_runs_network_is_a_source(tmp_path):
    from small_runs import recipe, train_here, write_images  # noqa: PLC0415

    data = write_images(tmp_path / "images")
    run = train_here(data, tmp_path / "runs", chosen=recipe(epochs=1))
    network = explorer.load_network(str(run))
    two = explorer.sample_images("photos", count=2)
    assert len(explorer.network_maps(two, network)) == 2


def test_the_network_is_the_default_where_its_weights_are_installed(monkeypatch):
    assert default_saliency() == Settings().saliency == "efficientnet-lite0"
    monkeypatch.setattr("comixup.lab.models.weights_are_installed", lambda name: False)
    assert default_saliency() == Settings().saliency == SPECTRAL


def test_the_page_tells_where_saliency_comes_from(digits, maps):
    settings = Settings(saliency="runs/<b>")
    shown = numbers_html(explorer.explore(digits, maps, settings))
    assert "saliency: runs/&lt;b&gt;" in shown


# ---- Several visitors ---------------------------------------------------------------------------


def test_visitors_wait_for_nobody_elses_network(monkeypatch):
    let_go, begun = threading.Event(), threading.Event()
    load = explorer.load_network

    def wait_and_load(source):
        begun.set()
        assert let_go.wait(600)
        return load("efficientnet-lite0")

    monkeypatch.setattr("comixup.lab.explorer._explore.load_network", wait_and_load)
    bench = Workbench()
    slow, quick = (Settings(sample="digits", count=2, saliency=name) for name in ("slow", SPECTRAL))
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(bench.result, slow)
        try:
            assert begun.wait(600)
            assert len(pool.submit(bench.result, quick).result(600)[0].mixed_images) == 2
            assert not waiting.done()
        finally:
            let_go.set()
        first, _ = waiting.result(600)
        assert bench.result(slow)[0] is first


def test_what_failed_is_tried_again(monkeypatch):
    bench, settings = Workbench(), Settings(sample="digits", saliency="torchvision:resnt18")
    for _ in range(2):
        with pytest.raises(ValueError, match="Did you mean"):
            bench.result(settings)
    monkeypatch.setattr(
        "comixup.lab.explorer._explore.network_maps", lambda batch, network: batch.images[:, 0]
    )
    monkeypatch.setattr(bench, "_network", lambda *_, **__: None)
    assert len(bench.result(settings)[0].mixed_images) == settings.count


def test_results_are_the_same_with_many_visitors():
    chosen = [
        Settings(sample="digits", count=4, saliency=source, augment=augment, seed=seed)
        for source in ("efficientnet-lite0", SPECTRAL)
        for augment in ("none", "trivial")
        for seed in range(3)
    ]  # fmt: skip
    alone = [Workbench().result(settings)[0] for settings in chosen[::3]]
    bench = Workbench()
    with ThreadPoolExecutor(len(chosen)) as pool:
        together = [result for result, _ in pool.map(bench.result, chosen)]
        drawn = list(pool.map(lambda one: outputs_html(one.batch, one.mixed, "x"), together))
    for one, other in zip(alone, together[::3], strict=True):
        assert torch.equal(one.mixed_images, other.mixed_images)
        assert torch.equal(one.saliency, other.saliency)
    assert drawn == [outputs_html(one.batch, one.mixed, "x") for one in together]


# ---- Python lines -------------------------------------------------------------------------------


def ran(lines, folder):
    names = {}
    exec(
        compile(lines.replace('"batch.png"', repr(str(folder / "batch.png"))), "lines", "exec"),
        names,
    )
    assert (folder / "batch.png").is_file()
    return names


@pytest.mark.parametrize(
    "settings",
    [
        Settings(count=2),
        Settings(sample="digits", saliency=SPECTRAL,
                 tau=1.1, beta=0.1, gamma=0.7, omega=0.01, eta=0.2, grid=7, partition_size=4,
                 levels=3, sweeps=2, seed=5, count=9, draw=2),
        Settings(saliency=SPECTRAL, side=48, count=12, draw=3),
    ],
    ids=["defaults", "changed", "photos"],
)  # fmt: skip
def test_the_lines_make_the_same_batch_bit_by_bit(settings, tmp_path):
    bench = Workbench()
    batch, _ = bench.batch(settings)
    result = explorer.explore(batch, bench.saliency(batch, settings), settings)
    names = ran(python_lines(batch, settings), tmp_path)
    assert torch.equal(names["images"], result.mixed_images)
    assert torch.equal(names["targets"], result.mixed_targets)


def test_the_lines_for_files_run_where_the_files_are(pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings, bench = Settings(side=32, saliency=SPECTRAL), Workbench()
    batch, _ = bench.batch(settings, [str(path) for path in pictures])
    result = explorer.explore(batch, bench.saliency(batch, settings), settings)
    names = ran(python_lines(batch, settings), tmp_path)
    assert torch.equal(names["images"], result.mixed_images)
    assert torch.equal(names["targets"], result.mixed_targets)


def test_without_gradio_the_readmes_command_is_named():
    code = """
import sys
sys.modules["gradio"] = None  # as if it were not installed
from comixup.lab import explorer
try:
    explorer.serve(port=0, wait=False)
except ModuleNotFoundError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert "gradio must be installed for the explorer" in run.stdout
    root = Path(__file__).parents[3]
    for page in ("README.md", "docs/explorer.md"):
        assert INSTALL in " ".join((root / page).read_text().split()), page
    assert f"Use {INSTALL}." in run.stdout


def test_requests_of_other_sites_are_told_by_their_headers():
    own = {"host": "127.0.0.1:7860"}
    assert not is_foreign(own)
    assert not is_foreign({**own, "origin": "http://127.0.0.1:7860"})
    assert not is_foreign({"host": "LocalHost:80", "origin": "https://localhost:80"})
    assert not is_foreign({"host": "[::1]:7860", "origin": "http://[::1]:7860"})
    for origin in (
        "http://evil.example",
        "http://127.0.0.1:9000",
        "null",
        "",
        "http://[",
        "file://",
    ):
        assert is_foreign({**own, "origin": origin}), origin
    for host in (
        "evil.example",
        "evil.example:7860",
        "",
        "[",
        "127.0.0.1.evil.example",
        "192.0.2.1",
    ):
        assert is_foreign({"host": host}), host
        assert is_foreign({"host": host, "origin": f"http://{host}"}), host


# ---- Augmentation -------------------------------------------------------------------------------


def bright_corner():
    """Images that are black but for one cell of 8 x 8, and maps that are salient there alone."""
    images = torch.zeros(6, 3, 32, 32)
    for k, image in enumerate(images):
        image[:, 4 * k : 4 * k + 4, 8:12] = 1
    batch = explorer.Batch(images, torch.arange(6), tuple("abcdef"), tint=False, call="")
    return batch, images[:, 0]


@pytest.mark.parametrize("augment", ["crop-flip", "trivial", "rand", "auto"])
def test_saliency_lies_on_the_same_object_after_augmentation(augment, monkeypatch):
    from torchvision.transforms.v2 import functional  # noqa: PLC0415

    for name in ("solarize", "invert", "equalize", "autocontrast", "posterize", "adjust_contrast"):
        monkeypatch.setattr(functional, name, lambda image, *args, **kwargs: image)
    batch, maps = bright_corner()
    shown = 0
    for seed in range(5):
        moved, tracked = explorer.augmented(batch, maps, augment, seed=seed)
        salient, bright = tracked > 0, moved.images.mean(1) > 0.5
        shown += int(bright.sum())
        assert (salient & bright).sum() > 0.9 * bright.sum()
        assert (salient & bright).sum() > 0.75 * salient.sum()
    assert shown > 500
    again, _ = explorer.augmented(batch, maps, augment, seed=4)
    assert torch.equal(again.images, moved.images)


def test_lines_of_augmented_batches_make_the_same_batch(digits, maps):
    settings = Settings(augment="trivial", seed=3, saliency=SPECTRAL)
    result = explorer.explore(digits, maps, settings)
    lines = python_lines(result.whole, settings)
    assert "explorer.augmented(batch, saliency, 'trivial', seed=3)" in lines
    scope = {}
    exec(lines.split("figure = ")[0], scope)
    assert torch.equal(scope["images"], result.mixed_images)
    assert not torch.equal(result.batch.images, result.whole.images)
