"""TFLite models: `from_tflite`. Converters, the models' own operators' too, are registered as ONNX's
are, with the domain "tflite" and the operator's name: `graph.registry.register_converter`."""

from . import converters as converters
from .importer import from_tflite as from_tflite
from .importer import supported_operators as supported_operators
