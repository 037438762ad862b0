"""Colours of inputs, told apart by colour-blind readers too."""

from __future__ import annotations

from comixup._figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY_BLUE, YELLOW

OKABE_ITO = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY_BLUE, YELLOW, BLACK)

COLOURS = (*OKABE_ITO, "#882255", "#7F4F24")
"""Two more, wine and brown: by simulated protanopia, deuteranopia and tritanopia no pair with them
is closer than the closest pair of the palette itself (CIELAB distance 16)."""

_DARK_BELOW = 0.5
"""Luminance below which white text is legible on a colour."""
_INK = 0.42
"""Luminance that ink has at most: yellow on white could not be read."""


def colour_of(number: int) -> str:
    """Returns the colour of an input by its number; after ten they begin again."""
    return COLOURS[number % len(COLOURS)]


def rgb(colour: str) -> tuple[float, float, float]:
    """Returns a colour's red, green and blue, in [0, 1].

    >>> rgb("#FF0000")
    (1.0, 0.0, 0.0)
    """
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def ink_of(colour: str) -> tuple[float, float, float]:
    """Returns a colour made dark enough to draw on its own paper with."""
    scale = min(0.9, _INK / max(_luminance(colour), _INK))
    red, green, blue = (scale * channel for channel in rgb(colour))
    return red, green, blue


def text_on(colour: str) -> str:
    """Returns black or white, whichever is legible on a colour."""
    return "white" if _luminance(colour) < _DARK_BELOW else "black"


def _luminance(colour: str) -> float:
    red, green, blue = rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue
