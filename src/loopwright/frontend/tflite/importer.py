"""`from_tflite`: a TFLite model becomes a graph function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...base import budget
from ...base.errors import explain
from ...ir.module import IRModule
from ...relax.transform import SinkPermutes
from ..graph import registry
from ..graph.importer import Importer, Options
from ..graph.model import PORT, ordered
from ..graph.values import Value
from ..graph.walk import Region
from .context import TFLiteContext
from .reader import DOMAIN, TFLiteModel, load, read


def from_tflite(
    model: Any,
    shape_dict: dict[str, Any] | None = None,
    dtype_dict: str | dict[str, str] | None = None,
) -> IRModule:
    """Import a TFLite model as an IRModule with a function `main`.

    model: a path, or the bytes of a file.
    shape_dict: shapes of inputs by name, instead of the model's; a dimension is a number, a name, or
        a tir.Var.
    dtype_dict: dtypes of inputs by name.

    Dimensions that the file says are unknown (-1 in a shape signature) become symbolic variables.
    Quantized operators are computed in integers as TFLite does; images are computed channels first.
    Variables of the model (states of recurrent layers) are zero when a run starts. The module's
    attributes "input_names" and "output_names" are the model's own names.

    Raises LoopwrightError for an invalid model, for operators without a converter (all of them in
    one message), for nodes that cannot be converted, naming the node, and BudgetError for a model
    that needs more work than a file of its size may (see `base.budget`).

    >>> from loopwright.frontend.tflite import from_tflite
    >>> from_tflite(b"no model")
    Traceback (most recent call last):
    LoopwrightError: ...
    """
    with budget.started():
        data = load(model)
        budget.allow(size=len(data))
        graphs = read(data)
        count = sum(len(g.nodes) for g in graphs)
        ports = sum(len(g.inputs) + len(g.outputs) for g in graphs)
        budget.allow(nodes=count)
        budget.spend(nodes=count + PORT * ports)
        options = Options(dict(shape_dict or {}), dtype_dict or "float32")
        return SinkPermutes()(_Import(graphs, options).run())


def supported_operators() -> list[str]:
    """The operators with a converter, by their names in TFLite.

    >>> from loopwright.frontend import tflite
    >>> "CONV_2D" in tflite.supported_operators()
    True
    """
    return list(registry.supported_operators(DOMAIN))


@dataclass
class Part:
    """A branch: a graph whose inputs are values around it, by name."""

    graph: TFLiteModel
    names: list[str]

    @property
    def output(self) -> list[Any]:
        return self.graph.outputs


class _Import(Importer):
    def __init__(self, graphs: list[TFLiteModel], options: Options) -> None:
        main = graphs[0]
        main.nodes = _live(main)
        self.graphs = graphs
        self.depth = 0
        super().__init__(main, options)

    def new_context(self) -> TFLiteContext:
        return TFLiteContext(self.builder, self.graphs)

    def subgraph(
        self, graph: Part | TFLiteModel, feeds: Mapping[str, Value], region: Region
    ) -> list[Value]:
        """The outputs of a graph; its values are its own."""
        if isinstance(graph, Part):
            names = [p.name for p in graph.graph.inputs]
            inputs = [self.values[name] for name in graph.names]
            return self.subgraph(graph.graph, dict(zip(names, inputs, strict=True)), region)
        span, model, around = self.builder.span, self.model, self.values
        self.depth += 1
        if self.depth > len(self.graphs):
            raise ValueError(explain("graphs of the model call each other in a circle"))
        self.model, self.values = graph, dict(feeds)
        try:
            self._weights()
            nodes, names = _live(graph), [p.name for p in graph.outputs]
            return self.nodes(nodes, self.converters(nodes), names, region)
        finally:
            self.depth -= 1
            self.builder.span, self.model, self.values = span, model, around


def _live(graph: TFLiteModel) -> list[Any]:
    """The operators that the outputs need, in order."""
    defined = {*graph.initializers, *(p.name for p in graph.inputs)}
    return ordered(graph.nodes, defined, [p.name for p in graph.outputs])
