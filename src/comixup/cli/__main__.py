"""`python -m comixup.cli`, for launchers of several processes."""

from comixup.cli import main

main()
