"""`python -m comixup`: the command line, for when the `comixup` script is not on the path."""

from comixup.cli import main

main()
