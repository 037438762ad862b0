"""Runs every benchmark with quick settings; a few minutes in all.

`python benchmarks/run_all.py --full` runs them as the records were made, which takes far longer.
Only then are the figures beside the records drawn anew; quick ones go to `out/`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

QUICK = {
    "optimality.py": [],
    "inner_step.py": ["--steps", "80", "--runs", "4"],
    "narasimhan_bilmes.py": ["--seeds", "10"],
    "speed.py": ["--seeds", "30", "--large-seeds", "2"],
    "puzzle_mix.py": ["--batches", "4"],
    "mixing_cost.py": ["--repeats", "30"],
    "step_cost.py": ["--rounds", "2", "--repeats", "30"],
    "growth.py": ["--seeds", "3", "--repeats", "3"],
    "input_pipeline.py": ["--rounds", "2", "--batches", "5"],
    "trainer_overhead.py": ["--epochs", "3"],
    "two_processes.py": ["--rounds", "1"],
    "evaluation_speed.py": ["--rounds", "1", "--images", "1000"],
}


def main() -> int:
    """Returns how many benchmarks broke (missed targets are printed, not counted)."""
    full = sys.argv[1:] == ["--full"]
    if sys.argv[1:] and not full:
        print(f"the only option is --full, got {' '.join(sys.argv[1:])}", file=sys.stderr)
        return 2
    environment = os.environ if full else {**os.environ, "COMIXUP_FIGURES": "out"}
    broken = 0
    for name, arguments in QUICK.items():
        command = [sys.executable, str(Path(__file__).parent / name), *([] if full else arguments)]
        print(f"\n=== {name} {' '.join(command[2:])}", flush=True)
        begin = time.perf_counter()
        broken += subprocess.run(command, env=environment, check=False).returncode != 0
        print(f"=== {name} took {time.perf_counter() - begin:.0f} s", flush=True)
    return broken


if __name__ == "__main__":
    sys.exit(main())
