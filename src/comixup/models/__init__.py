"""The networks of the paper's experiments, and one door to torchvision's and timm's.

All image networks of this package share their parts' names with torchvision's ResNets: stages
`layer1`, `layer2`, ... (manifold mixup mixes after the first two), `avgpool`, which averages the
last feature maps over the whole image, and `fc`, the linear layer that makes the logits. What goes
into `avgpool` and the weights of `fc` are all that class activation maps need.
"""

from typing import TYPE_CHECKING

from comixup._lazy_imports import lazy_imports

if TYPE_CHECKING:
    from comixup.models._build import Shape as Shape
    from comixup.models._build import build as build
    from comixup.models._build import names as names
    from comixup.models._fit import check_fit as check_fit
    from comixup.models._imagenet import resnet50_imagenet as resnet50_imagenet
    from comixup.models._limits import MAX_WIDTH as MAX_WIDTH
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
else:
    __getattr__, __dir__, __all__ = lazy_imports(
        __name__,
        {
            "_build": "Shape build names",
            "_fit": "check_fit",
            "_imagenet": "resnet50_imagenet",
            "_limits": "MAX_WIDTH",
            "_memory_format": "MEMORY_FORMAT memory_format",
            "_preact_resnet": "preact_resnet preactresnet18 small",
            "_resnext": "resnext",
            "_speech": "LeNet SpeechVGG11",
            "_staged": "StagedNetwork",
            "_wide_resnet": "wide_resnet",
        },
    )
