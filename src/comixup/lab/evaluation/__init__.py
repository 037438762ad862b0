"""Measuring trained networks: error, calibration, localization, background corruption.

1. A network and the data to measure it on: `_trained`, `_boxes`;
2. what is measured: `_metrics` (predictions, error, calibration), `_localization` (of `_cam`'s
   maps), `_corruption`; all of it at once: `_evaluate`, and figures (`_pictures`);
   image files: `_predict_files`;
3. the record of a run, from its files (`_measure_run`; tables of them: `comixup.lab._runs`);
4. runs side by side: `_compare`, as `_tables`.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab._runs import RunRecord as RunRecord
    from comixup.lab._runs import merge_runs as merge_runs
    from comixup.lab._runs import read_runs as read_runs
    from comixup.lab._runs import write_runs as write_runs
    from comixup.lab.evaluation._boxes import read_boxes as read_boxes
    from comixup.lab.evaluation._cam import ActivationMaps as ActivationMaps
    from comixup.lab.evaluation._compare import compare as compare
    from comixup.lab.evaluation._compare import holm as holm
    from comixup.lab.evaluation._compare import paired_interval as paired_interval
    from comixup.lab.evaluation._compare import paired_test as paired_test
    from comixup.lab.evaluation._evaluate import evaluate as evaluate
    from comixup.lab.evaluation._measure_run import measure_run as measure_run
    from comixup.lab.evaluation._metrics import measure as measure
    from comixup.lab.evaluation._metrics import predict as predict
    from comixup.lab.evaluation._metrics import predictions_of as predictions_of
    from comixup.lab.evaluation._pictures import draw_reliability as draw_reliability
    from comixup.lab.evaluation._predict_files import predict_files as predict_files
    from comixup.lab.evaluation._trained import load_trained as load_trained
    from comixup.lab.evaluation._trained import trained_on as trained_on
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
