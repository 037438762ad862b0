"""The method, one file per step: batch -> saliency -> problem -> solve -> mix.

No step imports a later one:

1. `saliency`, `memory`: saliency maps, computed or remembered;
2. `maps`, `problem`: maps -> cells of a grid -> Eq. (1) of the paper;
3. `solve`: problem -> `labelling`, by Algorithm 1; `reference` is its readable twin, `objective`
   evaluates Eq. (1) term by term, `puzzle` solves Puzzle Mix;
4. `mix`: labelling -> mixed images and targets, by `gather` and `masks`.

Steps share `grid`, `weights` (of the objective's terms), and the checks of their arguments.

Requires torch and numpy only. Import names from `comixup` itself: their modules may change.
"""
