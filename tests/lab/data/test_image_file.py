"""Image files of every kind that Pillow reads: right, or rejected by name."""

import io
import os
import struct
import subprocess
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

from cases import each_case
from comixup.lab._image_files import read_image
from comixup.lab._pictures import CenterView
from comixup.lab.data._scan import scan
from comixup.lab.data._tiny_imagenet import _decode
from comixup.lab.models import Preprocessing
from data_files import smooth_picture

SIDE = 16
RAMP = np.linspace(0, 65535, SIDE * SIDE).astype(np.uint16).reshape(SIDE, SIDE)


def problem_of(path):
    """Returns what a scan says of a file; None if it is well."""
    try:
        scan(path.parent, [os.fsencode(path)], "one")
    except ValueError as error:
        return str(error).partition("cannot be used: ")[2]
    return None


def read(path):
    return np.asarray(read_image(path))


def grey(values):
    """What a grey image of 8-bit values looks like in colours."""
    return np.repeat(values.astype(np.uint8)[..., None], 3, axis=2)


def write_tiff(path, values, order="<", bits=16, photometric=1, sample_format=1):
    """An uncompressed grey TIFF with tags of one's choice."""
    data = values if isinstance(values, bytes) else values.tobytes()
    tags = [(256, SIDE), (257, SIDE), (258, bits), (259, 1), (262, photometric), (273, 8)]
    tags += [(277, 1), (278, SIDE), (279, len(data)), (339, sample_format)]
    entries = b"".join(
        struct.pack(order + "HHI", tag, 4, 1) + struct.pack(order + "I", value)
        for tag, value in tags
    )
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8 + len(data))
    listing = struct.pack(order + "H", len(tags)) + entries + bytes(4)
    path.write_bytes(head + data + listing)


# ---- 16 bits ------------------------------------------------------------------------------------


def test_16_bit_grey_is_scaled_by_its_range(tmp_path):
    for name in ("a.png", "a.tif", "a.pgm", "a.jp2"):
        Image.fromarray(RAMP).save(tmp_path / name)
        np.testing.assert_array_equal(read(tmp_path / name), grey(RAMP >> 8), err_msg=name)


def test_pictures_that_a_network_is_given_are_read_as_files_are(tmp_path):
    preprocessing = Preprocessing((3, 4, 4), (0.0,) * 3, (1.0,) * 3, resize=4)
    wide = np.linspace(0, 65535, 16).astype(np.uint16).reshape(4, 4)
    Image.fromarray(wide).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as opened:
        seen = preprocessing.view(opened)
    np.testing.assert_array_equal(seen.permute(1, 2, 0).numpy(), grey(wide >> 8))
    with pytest.raises(ValueError, match=r"`picture` must have unsigned pixels .*got floats"):
        preprocessing.view(Image.new("F", (4, 4)))


@each_case("order", ["<", ">"])
def test_16_bit_tiffs_of_both_byte_orders(tmp_path, order):
    path = tmp_path / "a.tif"
    write_tiff(path, RAMP.astype(f"{order}u2"), order)
    np.testing.assert_array_equal(read(path), grey(RAMP >> 8))


def test_16_bit_colours_keep_their_upper_byte(tmp_path):
    colours = np.random.default_rng(0).integers(0, 2**16, (SIDE, SIDE, 3), dtype=np.uint16)
    path = tmp_path / "a.ppm"
    path.write_bytes(f"P6 {SIDE} {SIDE} 65535\n".encode() + colours.astype(">u2").tobytes())
    np.testing.assert_allclose(read(path), colours >> 8, atol=1)
    path = tmp_path / "a.png"
    path.write_bytes(png_of(colours, colour_type=2))
    np.testing.assert_array_equal(read(path), colours >> 8)


def png_of(values, colour_type):
    """A PNG of 16 bits per channel; Pillow writes none in colours."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 16, colour_type, 0, 0, 0)
    chunks = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


# ---- Rejected by name ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "settings", "got"),
    [
        (RAMP.astype("<f4"), {"bits": 32, "sample_format": 3}, "floats"),
        (RAMP.astype("<i4"), {"bits": 32, "sample_format": 2}, "signed or 32-bit integers"),
        (RAMP.astype("<u4"), {"bits": 32, "sample_format": 1}, "signed or 32-bit integers"),
        (RAMP.view("<i2"), {"bits": 16, "sample_format": 2}, "signed or 32-bit integers"),
        (RAMP, {"bits": 16, "photometric": 0}, "16-bit integers of which 0 is white"),
    ],
    ids=["float", "int32", "uint32", "int16", "white is zero"],
)
def test_pixels_without_a_known_white_are_rejected(tmp_path, values, settings, got):
    path = tmp_path / "a.tif"
    write_tiff(path, values, **settings)
    rule = rf"a.tif must have unsigned pixels of 8 or 16 bits, got {got} \(mode .*\)\. Scale them"
    with pytest.raises(ValueError, match=rule):
        read_image(path)


# ---- Other modes --------------------------------------------------------------------------------


@each_case("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "LAB"])
def test_modes_are_the_colours_they_stand_for(tmp_path, mode):
    picture = smooth_picture(SIDE, SIDE, seed=1)
    if mode == "LAB":
        stored = Image.new("LAB", picture.size, (150, 20, 30))
    else:
        stored = picture.convert(mode)
    path = tmp_path / "a.tif"
    stored.save(path)
    with Image.open(path) as opened:
        assert opened.mode == mode
    np.testing.assert_array_equal(read(path), np.asarray(stored.convert("RGB")))


@each_case("transparency", [3, bytes(range(200))])
def test_palettes_with_transparency_keep_their_colours(tmp_path, transparency):
    picture = smooth_picture(SIDE, SIDE, seed=1).quantize(32)
    path = tmp_path / "a.png"
    picture.save(path, transparency=transparency)
    np.testing.assert_array_equal(read(path), np.asarray(picture.convert("RGB")))


@each_case("kind", ["GIF", "PNG", "TIFF"])
def test_of_several_frames_the_first_is_read(tmp_path, kind):
    first, second = (Image.new("RGB", (SIDE, SIDE), colour) for colour in ("red", "blue"))
    path = tmp_path / "a.png"
    first.save(path, format=kind, save_all=True, append_images=[second])
    with Image.open(path) as opened:
        assert opened.n_frames == 2
    np.testing.assert_array_equal(read(path), np.asarray(first))


# ---- Bombs and files that are no images ---------------------------------------------------------


def picture_of(width, height):
    buffer = io.BytesIO()
    Image.new("1", (width, height)).save(buffer, format="PNG")
    return buffer.getvalue()


def test_decompression_bombs_are_not_decoded(tmp_path, monkeypatch):
    path = tmp_path / "a.JPEG"
    path.write_bytes(picture_of(9000, 9000))

    def decode(*_):
        raise AssertionError

    monkeypatch.setattr(Image.Image, "load", decode)
    with pytest.raises(ValueError, match=r"a\.JPEG must be 64 x 64 pixels, got 9000 x 9000"):
        _decode(path)


@each_case("size", [(1, 60_000), (3, 4000)])
def test_long_lines_do_not_fill_the_memory_when_resized(size):
    picture = Image.new("RGB", size, (10, 20, 30))
    shown = CenterView(224)(picture)
    assert shown.shape == (3, 224, 224)
    assert shown.flatten(1).float().mean(1).tolist() == [10, 20, 30]


@pytest.mark.parametrize("size", [(40, 30), (3, 4000), (4000, 3)])
def test_masks_are_cut_like_their_pictures(size):
    ramp = np.linspace(0, 255, max(size)).astype(np.uint8)  # along the longer side
    line = ramp[None] if size[0] > size[1] else ramp[:, None]
    values = np.broadcast_to(line, size[::-1]).copy()
    mask = tv_tensors.Mask(torch.from_numpy(values))
    pixels, moved = CenterView(SIDE)(Image.fromarray(grey(values)), mask)
    assert pixels.shape == (3, SIDE, SIDE)
    assert moved.shape == (SIDE, SIDE)
    # The mask is resized without smoothing.
    torch.testing.assert_close(moved.float(), pixels[0].float(), rtol=0, atol=8)


def test_ghostscript_is_not_run(tmp_path, monkeypatch):
    def run(*arguments, **_):
        raise AssertionError(arguments)

    for name in ("check_call", "run", "Popen", "check_output"):
        monkeypatch.setattr(subprocess, name, run)
    path = tmp_path / "a.png"
    Image.new("RGB", (SIDE, SIDE)).save(path, format="EPS")
    with pytest.raises(ValueError, match=r"a\.png cannot be read .* of no known format"):
        read_image(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_do_not_hold_up_the_reader(tmp_path):
    path = tmp_path / "a.png"
    os.mkfifo(path)
    assert "a.png cannot be read as an image: it is not a regular file" in problem_of(path)


@each_case("kind", ["JPEG", "PNG", "BMP", "TIFF", "GIF", "WEBP"])
def test_cut_files_are_rejected_wherever_they_end(tmp_path, kind):
    path = tmp_path / "a.png"
    smooth_picture(12, 9, seed=4).save(path, format=kind)
    content, whole = path.read_bytes(), read(path)
    for length in (*range(0, len(content), len(content) // 12), len(content) - 2):
        path.write_bytes(content[:length])
        problem = problem_of(path)
        if problem is None:  # nothing but the end mark is missing
            np.testing.assert_array_equal(read(path), whole)
        else:
            assert problem.startswith(f"{path} cannot be read as an image")


def test_more_pixels_than_allowed_are_rejected_before_they_are_decoded(tmp_path, monkeypatch):
    Image.new("L", (40, 30)).save(tmp_path / "large.png")
    assert read_image(tmp_path / "large.png", max_pixels=1200).size == (40, 30)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match=r"large.png must have at most 1199 pixels, got 40 x 30"):
        read_image(tmp_path / "large.png", max_pixels=1199)
