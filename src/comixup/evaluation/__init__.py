"""Measuring trained networks: error, calibration, localisation, background corruption.

1. A network and what it predicts: `_trained`, `_predictions`; `_predict_files` for image files;
2. what is measured of it: `_metrics` (error, calibration), `_temperature` and `_scaled`
   (calibration once scaled), `_localisation` (of `_cam`'s maps, by `_regions` and `_boxes`),
   `_corruption`;
3. all of it at once: `_evaluate`, its file (`_evaluation_file`) and figures (`_reliability`,
   `_pictures`, `_map_pictures`);
4. runs side by side: `_compare`, as `_tables`.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.evaluation._boxes import read_boxes as read_boxes
    from comixup.evaluation._boxes import read_tiny_imagenet_boxes as read_tiny_imagenet_boxes
    from comixup.evaluation._cam import ActivationMaps as ActivationMaps
    from comixup.evaluation._cam import class_activation_maps as class_activation_maps
    from comixup.evaluation._compare import Row as Row
    from comixup.evaluation._compare import compare as compare
    from comixup.evaluation._compare import holm as holm
    from comixup.evaluation._compare import paired_interval as paired_interval
    from comixup.evaluation._compare import paired_test as paired_test
    from comixup.evaluation._corruption import CorruptedLoader as CorruptedLoader
    from comixup.evaluation._corruption import corrupt as corrupt
    from comixup.evaluation._evaluate import Evaluation as Evaluation
    from comixup.evaluation._evaluate import check_options as check_options
    from comixup.evaluation._evaluate import draw_evaluation as draw_evaluation
    from comixup.evaluation._evaluate import evaluate as evaluate
    from comixup.evaluation._evaluate import evaluation_table as evaluation_table
    from comixup.evaluation._evaluation_file import check_replaceable as check_replaceable
    from comixup.evaluation._evaluation_file import evaluation_text as evaluation_text
    from comixup.evaluation._evaluation_file import read_evaluation as read_evaluation
    from comixup.evaluation._evaluation_file import write_evaluation as write_evaluation
    from comixup.evaluation._localisation import Localisation as Localisation
    from comixup.evaluation._localisation import localise as localise
    from comixup.evaluation._metrics import Bin as Bin
    from comixup.evaluation._metrics import Metrics as Metrics
    from comixup.evaluation._metrics import measure as measure
    from comixup.evaluation._pictures import draw_corruptions as draw_corruptions
    from comixup.evaluation._predict_files import FilePrediction as FilePrediction
    from comixup.evaluation._predict_files import list_images as list_images
    from comixup.evaluation._predict_files import predict_files as predict_files
    from comixup.evaluation._predict_files import predictions_csv as predictions_csv
    from comixup.evaluation._predict_files import predictions_table as predictions_table
    from comixup.evaluation._predict_files import run_temperature as run_temperature
    from comixup.evaluation._predictions import Predictions as Predictions
    from comixup.evaluation._predictions import predict as predict
    from comixup.evaluation._predictions import predictions_of as predictions_of
    from comixup.evaluation._reliability import draw_reliability as draw_reliability
    from comixup.evaluation._tables import as_rich as as_rich
    from comixup.evaluation._tables import write_comparison as write_comparison
    from comixup.evaluation._temperature import fit_temperature as fit_temperature
    from comixup.evaluation._trained import Trained as Trained
    from comixup.evaluation._trained import TrainedOn as TrainedOn
    from comixup.evaluation._trained import load_trained as load_trained
    from comixup.evaluation._trained import trained_on as trained_on
else:
    __getattr__, __dir__, __all__ = lazy_imports(
        __name__,
        {
            "_boxes": "read_boxes read_tiny_imagenet_boxes",
            "_cam": "ActivationMaps class_activation_maps",
            "_compare": "Row compare holm paired_interval paired_test",
            "_corruption": "CorruptedLoader corrupt",
            "_evaluate": "Evaluation check_options draw_evaluation evaluate evaluation_table",
            "_evaluation_file": (
                "check_replaceable evaluation_text read_evaluation write_evaluation"
            ),
            "_predict_files": (
                "FilePrediction list_images predict_files predictions_csv predictions_table "
                "run_temperature"
            ),
            "_localisation": "Localisation localise",
            "_metrics": "Bin Metrics measure",
            "_pictures": "draw_corruptions",
            "_predictions": "Predictions predict predictions_of",
            "_reliability": "draw_reliability",
            "_tables": "as_rich write_comparison",
            "_temperature": "fit_temperature",
            "_trained": "Trained TrainedOn load_trained trained_on",
        },
    )
