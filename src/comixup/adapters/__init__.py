"""The methods in the form that other libraries expect, one file per library.

Import the file you need (`comixup.adapters.torchvision`, `comixup.adapters.timm`); the rest of the
package imports none of them. Lightning, Accelerate and DistributedDataParallel need no adapter:
`comixup.training_step` takes their backward pass. See docs/integrations.md.
"""
