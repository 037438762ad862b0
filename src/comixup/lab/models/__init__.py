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
    from comixup.lab.models._build import build as build
    from comixup.lab.models._build import names as names
    from comixup.lab.models._build import pretrained_preprocessing as pretrained_preprocessing
    from comixup.lab.models._build import weights_are_installed as weights_are_installed
    from comixup.lab.models._export import FORMATS as FORMATS
    from comixup.lab.models._export import Exported as Exported
    from comixup.lab.models._export import export as export
    from comixup.lab.models._fine_tune import freeze as freeze
    from comixup.lab.models._fine_tune import head_name as head_name
    from comixup.lab.models._fine_tune import load_matching as load_matching
    from comixup.lab.models._fit import check_fit as check_fit
    from comixup.lab.models._header import Header as Header
    from comixup.lab.models._header import damaged_header as damaged_header
    from comixup.lab.models._header import read_header as read_header
    from comixup.lab.models._imagenet import resnet50_imagenet as resnet50_imagenet
    from comixup.lab.models._limits import MAX_WIDTH as MAX_WIDTH
    from comixup.lab.models._load import Classifier as Classifier
    from comixup.lab.models._load import load as load
    from comixup.lab.models._load import load_weights as load_weights
    from comixup.lab.models._memory_format import MEMORY_FORMAT as MEMORY_FORMAT
    from comixup.lab.models._memory_format import memory_format as memory_format
    from comixup.lab.models._preact_resnet import preact_resnet as preact_resnet
    from comixup.lab.models._preact_resnet import preactresnet18 as preactresnet18
    from comixup.lab.models._preact_resnet import small as small
    from comixup.lab.models._preprocessing import MAX_SIDE as MAX_SIDE
    from comixup.lab.models._preprocessing import Preprocessing as Preprocessing
    from comixup.lab.models._preprocessing import Shape as Shape
    from comixup.lab.models._resnext import resnext as resnext
    from comixup.lab.models._speech import LeNet as LeNet
    from comixup.lab.models._speech import SpeechVGG11 as SpeechVGG11
    from comixup.lab.models._staged import StagedNetwork as StagedNetwork
    from comixup.lab.models._weights_file import CHECKPOINT as CHECKPOINT
    from comixup.lab.models._weights_file import WEIGHTS as WEIGHTS
    from comixup.lab.models._weights_file import find_weights as find_weights
    from comixup.lab.models._weights_file import reason as reason
    from comixup.lab.models._weights_file import weights_digest as weights_digest
    from comixup.lab.models._wide_resnet import wide_resnet as wide_resnet
else:
    __getattr__, __dir__, __all__ = lazy_imports(__name__)
