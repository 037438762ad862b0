"""Measuring trained networks: error, calibration, localisation, background corruption.

1. A network: `_trained`; the data to measure it on: `_test_data` (`_boxes`);
2. what is measured: `_metrics` (predictions, error, calibration), `_localisation` (of `_cam`'s
   maps, by `_regions`), `_corruption`; all of it at once: `_evaluate`, its file
   (`_evaluation_file`) and figures (`_reliability`, `_pictures`); image files: `_predict_files`;
3. the record of a run and tables of them: `_runs`, measured by `_measure_run`;
4. runs side by side: `_compare`, as `_tables`.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab._calibration import Bin as Bin
    from comixup.lab.evaluation._boxes import read_boxes as read_boxes
    from comixup.lab.evaluation._boxes import read_tiny_imagenet_boxes as read_tiny_imagenet_boxes
    from comixup.lab.evaluation._cam import ActivationMaps as ActivationMaps
    from comixup.lab.evaluation._cam import class_activation_maps as class_activation_maps
    from comixup.lab.evaluation._compare import compare as compare
    from comixup.lab.evaluation._compare import holm as holm
    from comixup.lab.evaluation._compare import paired_interval as paired_interval
    from comixup.lab.evaluation._compare import paired_test as paired_test
    from comixup.lab.evaluation._corruption import CorruptedLoader as CorruptedLoader
    from comixup.lab.evaluation._corruption import corrupt as corrupt
    from comixup.lab.evaluation._evaluate import Evaluation as Evaluation
    from comixup.lab.evaluation._evaluate import check_options as check_options
    from comixup.lab.evaluation._evaluate import draw_evaluation as draw_evaluation
    from comixup.lab.evaluation._evaluate import evaluate as evaluate
    from comixup.lab.evaluation._evaluate import evaluation_table as evaluation_table
    from comixup.lab.evaluation._evaluation_file import check_replaceable as check_replaceable
    from comixup.lab.evaluation._evaluation_file import evaluation_text as evaluation_text
    from comixup.lab.evaluation._evaluation_file import read_evaluation as read_evaluation
    from comixup.lab.evaluation._evaluation_file import write_evaluation as write_evaluation
    from comixup.lab.evaluation._localisation import Localisation as Localisation
    from comixup.lab.evaluation._localisation import localise as localise
    from comixup.lab.evaluation._measure_run import measure_run as measure_run
    from comixup.lab.evaluation._metrics import Metrics as Metrics
    from comixup.lab.evaluation._metrics import Predictions as Predictions
    from comixup.lab.evaluation._metrics import fit_temperature as fit_temperature
    from comixup.lab.evaluation._metrics import measure as measure
    from comixup.lab.evaluation._metrics import predict as predict
    from comixup.lab.evaluation._metrics import predictions_of as predictions_of
    from comixup.lab.evaluation._pictures import draw_corruptions as draw_corruptions
    from comixup.lab.evaluation._predict_files import FilePrediction as FilePrediction
    from comixup.lab.evaluation._predict_files import list_images as list_images
    from comixup.lab.evaluation._predict_files import predict_files as predict_files
    from comixup.lab.evaluation._predict_files import predictions_csv as predictions_csv
    from comixup.lab.evaluation._predict_files import predictions_table as predictions_table
    from comixup.lab.evaluation._predict_files import run_temperature as run_temperature
    from comixup.lab.evaluation._reliability import draw_reliability as draw_reliability
    from comixup.lab.evaluation._runs import RunRecord as RunRecord
    from comixup.lab.evaluation._runs import merge_runs as merge_runs
    from comixup.lab.evaluation._runs import read_runs as read_runs
    from comixup.lab.evaluation._runs import write_runs as write_runs
    from comixup.lab.evaluation._tables import as_rich as as_rich
    from comixup.lab.evaluation._tables import write_comparison as write_comparison
    from comixup.lab.evaluation._test_data import find_boxes as find_boxes
    from comixup.lab.evaluation._test_data import load_test_data as load_test_data
    from comixup.lab.evaluation._test_data import measured_on as measured_on
    from comixup.lab.evaluation._test_data import output_folders as output_folders
    from comixup.lab.evaluation._trained import Trained as Trained
    from comixup.lab.evaluation._trained import TrainedOn as TrainedOn
    from comixup.lab.evaluation._trained import load_trained as load_trained
    from comixup.lab.evaluation._trained import trained_on as trained_on
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
