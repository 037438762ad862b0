"""The paper's tables and figures from runs and measurements, and our own comparisons.

1. What there is: `_items`, a table or figure each, with what was `_published`; `_trained_tables`;
2. its cells: `_jobs`, made by `_make_cell` (`_trained_runs`, `_solver_analyses`, `_mixed_batches`,
   `_illustrations`) in the order of the `_scheduler`, kept by the `_store`;
3. what is shown: `_listing` beforehand, then the `_report` (`_sections`, `_report_tables`,
   `_figures`, `_html`); `_check` makes committed cells again.

Our own comparisons are commands of their own, with runs as rows of a CSV file (`cells`):
`small_data`, `one_pass_modes`, `batch_norm`.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab.paper._check import check as check
    from comixup.lab.paper._items import ITEMS as ITEMS
    from comixup.lab.paper._items import Item as Item
    from comixup.lab.paper._items import chosen_items as chosen_items
    from comixup.lab.paper._jobs import Job as Job
    from comixup.lab.paper._jobs import jobs_of as jobs_of
    from comixup.lab.paper._listing import listing as listing
    from comixup.lab.paper._make_cell import Workspace as Workspace
    from comixup.lab.paper._report import collect as collect
    from comixup.lab.paper._report import write_report as write_report
    from comixup.lab.paper._scheduler import Outcome as Outcome
    from comixup.lab.paper._scheduler import make_cells as make_cells
    from comixup.lab.paper._scheduler import shard_of as shard_of
    from comixup.lab.paper._store import OUT as OUT
    from comixup.lab.paper._store import RESULTS as RESULTS
    from comixup.lab.paper._trained_tables import Scale as Scale
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
