"""Bounds of what the page takes from a visitor, and where it is served."""

HOST, PORT = "127.0.0.1", 7860
MAX_FILES = 32
"""Images of a batch."""
MAX_BYTES = 10 * 2**20
"""Of an uploaded file."""
MAX_PIXELS = 24_000_000
"""Of an image file: those of cameras pass, decompression bombs do not."""
MIN_SIDE, MAX_SIDE = 16, 224
"""Pixels per side that image files are resized and cropped to."""
INSTALL = "pip install -c constraints-explorer.txt '.[explorer]'"
"""As the README says it."""
