"""The context of ONNX's converters."""

from __future__ import annotations

from ..graph.context import Context
from ..graph.operators import Operators
from .standard import Standard


class OnnxContext(Context):
    """The state of an import."""

    @property
    def ops(self) -> Operators:
        """Operators on values."""
        return Operators(self)

    @property
    def onnx(self) -> Standard:
        """ONNX's operators as functions, for operators that are made of them."""
        return Standard(self)
