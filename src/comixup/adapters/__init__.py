"""Adapters to other libraries, one file per library.

Import the file you need (`comixup.adapters.torchvision`, `.timm`, `.hugging_face`, `.kornia`,
`.lightning`); `.origins` follows the pixels of all of them for one-pass mixing. Accelerate and
DistributedDataParallel need no adapter: `comixup.training_step` takes their backward pass. See
docs/integrations.md.
"""
