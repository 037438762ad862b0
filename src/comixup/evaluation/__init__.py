"""Measuring trained networks: error, calibration, localisation, background corruption."""

from comixup.evaluation._boxes import read_boxes, read_tiny_imagenet_boxes
from comixup.evaluation._cam import ActivationMaps, class_activation_maps
from comixup.evaluation._compare import Row, compare, holm, paired_interval, paired_test
from comixup.evaluation._corruption import CorruptedLoader, corrupt
from comixup.evaluation._evaluate import (
    Evaluation,
    check_options,
    draw_evaluation,
    evaluate,
    evaluation_table,
)
from comixup.evaluation._evaluation_file import (
    check_replaceable,
    evaluation_text,
    read_evaluation,
    write_evaluation,
)
from comixup.evaluation._localisation import Localisation, localise
from comixup.evaluation._metrics import Bin, Metrics, measure
from comixup.evaluation._predictions import Predictions, predict, predictions_of
from comixup.evaluation._reliability import draw_reliability
from comixup.evaluation._tables import as_rich, write_comparison
from comixup.evaluation._temperature import fit_temperature
from comixup.evaluation._trained import Trained, TrainedOn, load_trained, trained_on

__all__ = [
    "ActivationMaps",
    "Bin",
    "CorruptedLoader",
    "Evaluation",
    "Localisation",
    "Metrics",
    "Predictions",
    "Row",
    "Trained",
    "TrainedOn",
    "as_rich",
    "check_options",
    "check_replaceable",
    "class_activation_maps",
    "compare",
    "corrupt",
    "draw_evaluation",
    "draw_reliability",
    "evaluate",
    "evaluation_table",
    "evaluation_text",
    "fit_temperature",
    "holm",
    "load_trained",
    "localise",
    "measure",
    "paired_interval",
    "paired_test",
    "predict",
    "predictions_of",
    "read_boxes",
    "read_evaluation",
    "read_tiny_imagenet_boxes",
    "trained_on",
    "write_comparison",
    "write_evaluation",
]
