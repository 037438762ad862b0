"""Saliency without a model: the spectral residual."""

import torch
from torch.testing import assert_close

from cases import each_case
from comixup import spectral_residual
from problems import generator
from rejections import rejects


def noisy(size, seed=0, m=1, channels=3):
    return torch.rand(m, channels, *size, generator=generator(seed))


def texture(size):
    """Stripes along every axis: an image that explains itself."""
    image = torch.zeros(size)
    for axis, side in enumerate(size):
        wave = torch.sin(torch.arange(side) * (2 * torch.pi / 8))
        image = image + wave.view(-1, *[1] * (len(size) - 1 - axis))
    return image


ODD = {
    "line": ((96,), (50,), (8,)),
    "square": ((64, 64), (12, 40), (8, 8)),
    "wide": ((32, 96), (20, 70), (6, 8)),
    "large": ((300, 200), (200, 40), (30, 30)),
    "volume": ((16, 24, 32), (4, 15, 20), (4, 4, 4)),
}


@each_case(("size", "corner", "side"), ODD.values(), ids=ODD.keys())
def test_an_odd_patch_in_a_texture_stands_out(size, corner, side):
    image = texture(size)
    inside = tuple(slice(c, c + s) for c, s in zip(corner, side, strict=True))
    image[inside] = noisy(side, seed=3)[0, 0] * 4
    answer = spectral_residual(image.expand(1, 3, *size))
    assert answer.shape == (1, *size)
    place = torch.unravel_index(answer[0].argmax(), size)
    for p, c, s, whole in zip(place, corner, side, size, strict=True):
        assert c - whole / 12 <= int(p) < c + s + whole / 12
    patch = answer[0][inside].mean()
    assert patch > 3 * answer[0].mean()


@each_case("size", [(1,), (1, 1), (3, 5), (2, 2), (64,), (40, 30), (3, 4, 5)], ids=str)
@each_case("value", [0.0, 1.0, -3.0, 1e-20, 1e20], ids=str)
def test_constant_images_have_finite_maps(size, value):
    answer = spectral_residual(torch.full((2, 3, *size), value))
    assert answer.shape == (2, *size)
    assert bool(answer.isfinite().all())
    assert bool((answer >= 0).all())


@each_case("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.uint8], ids=str)
def test_every_dtype_gives_float32(dtype):
    images = (noisy((24, 24)) * 255).to(dtype)
    answer = spectral_residual(images)
    assert answer.dtype == torch.float32
    assert_close(answer, spectral_residual(images.float()), rtol=1e-4, atol=1e-6)


def test_it_is_the_definition():
    """Hou and Zhang's steps by hand, for an image that is not resized."""
    image = noisy((16, 12))
    spectrum = torch.fft.fft2(image.mean(1)[0].double())
    log = spectrum.abs().maximum(1e-3 * spectrum.abs().max()).log()
    mean = sum(log.roll((a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) / 9
    back = torch.fft.ifft2(torch.polar((log - mean).exp(), spectrum.angle())).abs().square()
    bell = torch.exp(-0.5 * (torch.arange(-5, 6).double() / 2.5) ** 2)
    bell = bell / bell.sum()
    rows = sum(
        w * back[(torch.arange(16) + k).clamp(0, 15)]
        for k, w in zip(range(-5, 6), bell, strict=True)
    )
    both = sum(
        w * rows[:, (torch.arange(12) + k).clamp(0, 11)]
        for k, w in zip(range(-5, 6), bell, strict=True)
    )
    assert_close(spectral_residual(image)[0], both.float(), rtol=1e-3, atol=1e-6)


@each_case("images", [torch.rand(3, 8), torch.rand(0, 3, 8, 8), torch.rand(1, 1, 2, 2, 2, 2)])
def test_rejects_what_is_no_batch(images):
    with rejects(ValueError, r"`images` must have shape \(batch, channels, \*size\)"):
        spectral_residual(images)
