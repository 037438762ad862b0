"""`python -m comixup.reproduce.small_data`."""

from comixup.reproduce.small_data import main

if __name__ == "__main__":
    main()
