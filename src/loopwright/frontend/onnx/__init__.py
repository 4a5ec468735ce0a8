"""ONNX models: `from_onnx`, and converters that users add."""

from ... import ops as ops  # fills relax.op, which the converters use
from ..graph.context import Context as Context
from ..graph.values import Value as Value
from . import converters as converters
from .importer import from_onnx as from_onnx
from .importer import from_path_or_proto as from_path_or_proto
from .reader import Node as Node
from .registry import converter as converter
from .registry import register_converter as register_converter
from .registry import supported_operators as supported_operators
