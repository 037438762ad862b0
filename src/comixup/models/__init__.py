"""The networks of the paper's experiments, and one door to torchvision's and timm's.

All image networks of this package share their parts' names with torchvision's ResNets: stages
`layer1`, `layer2`, ... (manifold mixup mixes after the first two), `avgpool`, which averages the
last feature maps over the whole image, and `fc`, the linear layer that makes the logits. What goes
into `avgpool` and the weights of `fc` are all that class activation maps need.
"""

from comixup.models._build import MAX_WIDTH as MAX_WIDTH
from comixup.models._build import Shape as Shape
from comixup.models._build import build as build
from comixup.models._build import names as names
from comixup.models._fit import check_fit as check_fit
from comixup.models._imagenet import resnet50_imagenet as resnet50_imagenet
from comixup.models._memory_format import MEMORY_FORMAT as MEMORY_FORMAT
from comixup.models._memory_format import memory_format as memory_format
from comixup.models._preact_resnet import preact_resnet as preact_resnet
from comixup.models._preact_resnet import preactresnet18 as preactresnet18
from comixup.models._preact_resnet import small as small
from comixup.models._resnext import resnext as resnext
from comixup.models._speech import LeNet as LeNet
from comixup.models._speech import SpeechVGG11 as SpeechVGG11
from comixup.models._staged import StagedNetwork as StagedNetwork
from comixup.models._wide_resnet import wide_resnet as wide_resnet

__all__ = [
    "MAX_WIDTH",
    "MEMORY_FORMAT",
    "LeNet",
    "Shape",
    "SpeechVGG11",
    "StagedNetwork",
    "build",
    "check_fit",
    "memory_format",
    "names",
    "preact_resnet",
    "preactresnet18",
    "resnet50_imagenet",
    "resnext",
    "small",
    "wide_resnet",
]
