"""The networks of the paper's experiments, torchvision's and timm's by name, and trained ones.

All image networks of this package but EfficientNet-Lite, which is timm's, share their parts' names
with torchvision's ResNets: stages `layer1`, `layer2`, ... (manifold mixup mixes after the first
two), `avgpool`, which averages the last feature maps over the whole image, and `fc`, the linear
layer that makes the logits. What goes into `avgpool` and the weights of `fc` are all that class
activation maps need.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.lab._preprocess import Preprocessing as Preprocessing
    from comixup.lab.models._build import build as build
    from comixup.lab.models._build import names as names
    from comixup.lab.models._build import pretrained_preprocessing as pretrained_preprocessing
    from comixup.lab.models._build import weights_are_installed as weights_are_installed
    from comixup.lab.models._export import export as export
    from comixup.lab.models._load import Classifier as Classifier
    from comixup.lab.models._load import Header as Header
    from comixup.lab.models._load import load as load
    from comixup.lab.models._load import read_header as read_header
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
