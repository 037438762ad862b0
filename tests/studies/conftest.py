"""The studies, and the helpers that train small runs, can be imported by their tests."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "studies"), str(ROOT / "tests" / "lab" / "training")]
