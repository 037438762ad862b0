"""What pytest collects beside tests/: examples in docstrings of modules that can be imported."""

import importlib.util

# The explorer's page needs gradio, which is no part of dev: `make browser` has it, and tests it.
collect_ignore = [] if importlib.util.find_spec("gradio") else ["src/comixup/lab/explorer/_page.py"]
