"""`python -m comixup.lab.paper.small_data`."""

from comixup.lab.paper.small_data import main

if __name__ == "__main__":
    main()
