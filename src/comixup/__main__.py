"""`python -m comixup`: the command line, where its script is not on the path."""

from comixup.cli import main

main()
