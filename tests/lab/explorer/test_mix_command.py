"""`comixup mix`: pictures of mixed files from the command line."""

import pytest
import torch
from PIL import Image


@pytest.fixture
def folder(tmp_path):
    for k, name in enumerate(("cats", "cats", "dogs", "dogs")):
        place = tmp_path / "images" / name
        place.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(256, (30, 40, 3), generator=torch.Generator().manual_seed(k))
        Image.fromarray(pixels.byte().numpy()).save(place / f"{k}.png")
    Image.new("L", (50, 20), 90).save(tmp_path / "images" / "dogs" / "grey.png")
    Image.new("RGBA", (9, 9)).save(tmp_path / "images" / "dogs" / "clear.webp")
    return tmp_path / "images"


SPECTRAL = ("--saliency", "spectral residual")
"""Needs no network: tests of other things are quicker with it."""


@pytest.mark.usefixtures("drawn")
def test_a_folder_becomes_a_picture(called, folder, tmp_path):
    words = ("--image-size", 128, *SPECTRAL)
    code, out, err = called("mix", folder, "--out", tmp_path / "new" / "sheet.png", *words)
    assert (code, err) == (0, "")
    assert "Co-Mixup: 6 of 6 images" in out
    assert "Saliency: spectral residual." in out
    assert "Nothing stands out in 2 of the images." in out  # of one colour
    with Image.open(tmp_path / "new" / "sheet.png") as sheet:
        assert sheet.width == 1210


def test_one_seed_one_picture_and_tau_counts(called, folder, tmp_path):
    def drawn(name, *words):
        out = tmp_path / f"{name}.svg"
        code, _, err = called("mix", folder, "--image-size", 32, "--out", out, *SPECTRAL, *words)
        assert (code, err) == (0, "")
        # Numbers that matplotlib makes anew for each file.
        return [
            line
            for line in out.read_text().splitlines()
            if "id=" not in line and "#" not in line and "date" not in line
        ]

    first = drawn("a", "--seed", 1)
    assert drawn("b", "--seed", 1) == first
    assert drawn("c", "--seed", 1, "--set", "tau=2.0") != first


@pytest.mark.parametrize("method", ["puzzlemix", "cutmix", "rmix", "recursivemix"])
def test_other_methods(called, folder, method):
    words = ("--set", "grid=4") if method == "puzzlemix" else ("--count", 4)
    code, out, err = called(
        "mix", folder, "--method", method, *words, "--image-size", 32, *SPECTRAL
    )
    assert (code, err) == (0, "")
    assert "inputs per output" in out
    assert ("Saliency: " in out) == (method in ("puzzlemix", "rmix"))


@pytest.mark.parametrize("installed", [True, False])
def test_saliency_is_the_pretrained_networks_if_it_is_installed(
    called, folder, installed, monkeypatch
):
    monkeypatch.setattr("comixup.lab.models.weights_are_installed", lambda name: installed)
    code, out, err = called("mix", folder, "--count", 2)
    assert (code, err) == (0, "")
    source = "efficientnet-lite0" if installed else "spectral residual"
    assert f"Saliency: {source}." in " ".join(out.split())


def test_some_of_many_are_drawn_by_the_seed(called, folder):
    code, out, _ = called("mix", folder, "--count", 3, *SPECTRAL)
    assert code == 0
    assert "Co-Mixup: 3 of 6 images" in out


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("method", ["comixup", "input"])
def test_augmented_images_are_drawn_with_the_saliency_that_follows_them(
    called, folder, tmp_path, method
):
    sheet = tmp_path / "sheet.png"
    words = ("mix", folder, "--out", sheet, "--augment", "trivial", "--method", method, *SPECTRAL)
    code, out, err = called(*words)
    assert (code, err) == (0, "")
    assert "with saliency: " in out
    with Image.open(tmp_path / "sheet-augmented.png") as picture:
        assert picture.width > picture.height


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "sheet.jpg"], "`--out` must end in one of .png, .pdf, .svg, got sheet.jpg"),
        (["--method", "coximup"], "`--method` must be one of comixup, input, cutmix, puzzlemix"),
        (["--set", "tau=-1"], "`tau` must be a number from 0"),
        (["--count", "0"], "`count` must be a positive integer"),
        (["--image-size", "4"], "`side` must be an integer of at least 16"),
        (["--set", "foo=1"], "`settings` must be those of CoMixup"),
        (["--method", "cutmix", "--set", "tau=1"], "`settings` must be those of CutMix"),
        (["--saliency", "resnt18"], "`name` must be of a known network"),
    ],
    ids=" ".join,
)
def test_mistakes(called, folder, words, message):
    code, _, err = called("mix", folder, *words)
    assert code == 1
    assert message in " ".join(err.split())


def test_files_that_are_none_are_told(called, folder, tmp_path):
    (folder / "cats" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    code, _, err = called("mix", folder)
    assert code == 1
    assert "broken.png cannot be read as an image" in " ".join(err.split())
    code, _, err = called("mix", tmp_path / "nowhere")
    assert code == 1
    assert "there is no" in " ".join(err.split())
