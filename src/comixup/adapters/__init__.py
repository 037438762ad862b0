"""Adapters to other libraries, one file per library.

Import the file you need (`comixup.adapters.torchvision`, `.timm`, `.hugging_face`, `.kornia`,
`.lightning`); `.origins` tracks pixels through their transforms for one-pass mixing. Accelerate and
DistributedDataParallel need no adapter: `comixup.training_step` accepts their backward pass. See
docs/integrations.md.
"""
