"""A converter for each operator: `operator` says how quantized tensors come in (`base.py`)."""

from . import control, detection, elementwise, image, integer, linear, shape
