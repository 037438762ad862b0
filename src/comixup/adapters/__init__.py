"""The methods in the form that other libraries expect, one file per library.

Import the file you need (`comixup.adapters.torchvision`, `.timm`, `.lightning`); the rest of the
package imports none of them. Hugging Face's Trainer, Accelerate and DistributedDataParallel need no
adapter: `comixup.training_step` takes their backward pass. See docs/integrations.md.
"""
