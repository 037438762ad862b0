"""The method, one file per step: batch -> saliency -> problem -> solve -> mix.

No step imports a later one:

1. `saliency`, `memory`: maps of what matters in each image;
2. `maps`, `problem`: maps -> cells of a grid -> Eq. (1) of the paper;
3. `solve`: problem -> `labelling`, by Algorithm 1; `reference` is the algorithm to read and
   `objective` its objective, term by term; `puzzle` solves the problems of Puzzle Mix;
4. `mix`: labelling -> mixed images and targets, by `gather` and `masks`.

Steps share `grid`, `weights` (of the objective's terms), and the checks of their arguments.

torch and numpy alone. Import the names from `comixup` itself: where they stand in here may change.
"""
