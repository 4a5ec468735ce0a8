"""What TFLite's converters work with."""

from __future__ import annotations

from ...relax.block_builder import BlockBuilder
from ..graph.context import Context
from ..graph.operators import Operators
from .reader import TFLiteModel


class TFLiteContext(Context):
    """The state of an import. graphs: all graphs of the file, which operators name by number."""

    def __init__(self, builder: BlockBuilder, graphs: list[TFLiteModel]) -> None:
        super().__init__(builder)
        self.graphs = graphs

    @property
    def ops(self) -> Operators:
        """Operators on values."""
        return Operators(self)
