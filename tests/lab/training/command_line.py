"""The command line as a program of its own, which reads the small CIFAR files of the tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from comixup import cli
from small_cifar import accept_any

if __name__ == "__main__":
    accept_any()
    cli.main()
