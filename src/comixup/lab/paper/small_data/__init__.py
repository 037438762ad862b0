"""The comparison of methods on small data, by rules fixed beforehand (docs/results/rules.md).

    python -m comixup.lab.paper.small_data collect runs/cifar100-small-data/*/seed-*
    python -m comixup.lab.paper.small_data report

`collect` adds finished runs to the table of cells, `report` makes everything else from that.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab.paper.small_data._answers import QUESTIONS as QUESTIONS
    from comixup.lab.paper.small_data._arms import CELLS as CELLS
    from comixup.lab.paper.small_data._arms import HEADLINE as HEADLINE
    from comixup.lab.paper.small_data._arms import LENGTHS as LENGTHS
    from comixup.lab.paper.small_data._arms import OTHERS as OTHERS
    from comixup.lab.paper.small_data._commands import collect as collect
    from comixup.lab.paper.small_data._commands import main as main
    from comixup.lab.paper.small_data._commands import write_report as write_report
    from comixup.lab.paper.small_data._contrasts import Contrast as Contrast
    from comixup.lab.paper.small_data._contrasts import contrasts as contrasts
    from comixup.lab.paper.small_data._figures import write_figures as write_figures
    from comixup.lab.paper.small_data._tables import report as report
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
