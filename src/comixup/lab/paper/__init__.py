"""The paper's tables and figures from runs and measurements.

1. What there is: `_items`, a table or figure each, and the numbers of `_trained_tables`;
2. the jobs that it takes, and their list: `_jobs`, run by `_run_job` (`_analyses`, `_pictures`),
   kept by the `_store`;
3. what is shown: the `_report` (`_analysis_report`).
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab.paper._items import ITEMS as ITEMS
    from comixup.lab.paper._items import Item as Item
    from comixup.lab.paper._items import chosen_items as chosen_items
    from comixup.lab.paper._jobs import Job as Job
    from comixup.lab.paper._jobs import jobs_of as jobs_of
    from comixup.lab.paper._jobs import listing as listing
    from comixup.lab.paper._jobs import training_job as training_job
    from comixup.lab.paper._report import collect as collect
    from comixup.lab.paper._report import write_report as write_report
    from comixup.lab.paper._run_job import Workspace as Workspace
    from comixup.lab.paper._run_job import run_jobs as run_jobs
    from comixup.lab.paper._store import OUT as OUT
    from comixup.lab.paper._store import RESULTS as RESULTS
    from comixup.lab.paper._store import read_all as read_all
    from comixup.lab.paper._trained_tables import Run as Run
    from comixup.lab.paper._trained_tables import Scale as Scale
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
