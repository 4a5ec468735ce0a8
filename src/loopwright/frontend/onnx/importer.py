"""`from_onnx`: an ONNX model becomes a graph function."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextvars import Context as ContextVars
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...base import budget
from ...base.errors import LoopwrightError, explain
from ...ir.module import IRModule
from ...relax.expr import Var as RelaxVar
from ..graph.importer import Importer, Options
from ..graph.model import Port, ordered, remember
from ..graph.object_values import OBJECT, ObjectValue, Texts
from ..graph.registry import Entry
from ..graph.values import UnknownRankError, Value
from ..graph.walk import Region
from .context import OnnxContext
from .expansion import count_nodes, inlined, own_size
from .functions import expanding
from .object_types import declared, moving_texts
from .reader import Node, dim_of, load, name_of, node_of, read
from .tensors import array_of

_RANKS = 7  # ranks that are tried: up to those of a batch of volumes, and one more


def from_onnx(
    model: Any,
    shape_dict: dict[str, Any] | None = None,
    dtype_dict: str | dict[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
    overridable_initializers: bool | Collection[str] = False,
) -> IRModule:
    """Import an ONNX model as an IRModule with a function `main`.

    model: a path, the bytes of a file, or an onnx.ModelProto.
    shape_dict: shapes of inputs by name, instead of the model's; a dimension is a number, a name, or
        a tir.Var.
    dtype_dict: dtypes of inputs by name, or the one for inputs of which the model says none.
    opset: the version of the standard operators, instead of the model's.
    keep_params_in_input: make the weights parameters after the inputs; their arrays are the
        attribute "params" of `main` (see `relax.frontend.detach_params`). Integers, which steer
        shapes, stay constants.
    sanitize_input_names: make the parameters' names identifiers.
    overridable_initializers: names of initializers that the graph lists as inputs, too (True: all of
        them), which become parameters after the inputs; their arrays are the attribute "params" of
        `main`. The others are constants, named by the module's attribute "overridable_initializers".

    Dimensions without a number become symbolic variables: one for each name in the model, made
    an identifier, a fresh one for each that has none, nor a letter ("?"). The module's attributes
    "input_names" and "output_names" are the model's own names. Each binding's span is the node it
    came from.

    Raises LoopwrightError for an invalid model, for operators without a converter (all of them in
    one message), for nodes that cannot be converted, naming the node, and BudgetError for a model
    that needs more work than a file of its size may (see `base.budget`).

    >>> from loopwright.frontend.onnx import from_onnx
    >>> mod = from_onnx("model.onnx", shape_dict={"image": [10, 1, 16, 16]})
    >>> mod["main"].ret_struct_info
    R.Tensor((10, 10), dtype="float32")
    """
    options = Options(
        dict(shape_dict or {}),
        dtype_dict,
        keep_params_in_input,
        sanitize_input_names,
        overridable=overridable_initializers,
    )
    return _imported(model, options, opset)


def _imported(model: Any, options: Options, opset: int | None = None) -> IRModule:
    loaded = load(model)

    def imported(shapes: dict[str, Any]) -> IRModule:
        with budget.started():
            budget.allow(size=own_size(model, loaded.proto, loaded.folder))
            budget.allow(nodes=count_nodes(loaded.proto))
            graph = read(loaded, opset, inlined(loaded.proto))
            return OnnxImporter(graph, replace(options, shapes=shapes)).run()

    return imported(_ranked(imported, loaded.proto.graph, dict(options.shapes)))


def _ranked(
    imported: Callable[[Any], IRModule], graph: Any, shapes: dict[str, Any]
) -> dict[str, Any]:
    """The shapes of inputs, and of those whose rank the file does not say the one with which the model can
    be imported (Conv with a known weight takes one), where there is one only."""
    weights = {name_of(t.name) for t in graph.initializer}
    tensors = [v for v in graph.input if v.type.WhichOneof("value") == "tensor_type"]
    names = [name_of(v.name) for v in tensors if not v.type.tensor_type.HasField("shape")]
    open_names = [name for name in names if name not in weights and name not in shapes]

    def fits(name: str, rank: int) -> bool:
        try:  # without the budget and the trace of the import that counts
            ContextVars().run(imported, {**shapes, name: [None] * rank})
        except LoopwrightError as error:
            return isinstance(error.__cause__, UnknownRankError)  # perhaps another input's
        return True

    changed = True
    while changed:
        changed = False
        for name in [n for n in open_names if n not in shapes]:
            ranks = list(islice((r for r in range(_RANKS) if fits(name, r)), 2))
            if len(ranks) == 1:
                shapes[name], changed = [None] * ranks[0], True
    return shapes


def from_path_or_proto(model: object) -> IRModule | None:
    """`from_onnx` for what looks like an ONNX model (a path, a ModelProto), else None. The module is for
    one compilation: its large weights are read from the file when they are used.

    >>> from loopwright.frontend.onnx import from_path_or_proto
    >>> from_path_or_proto("model.onnx")["main"].params
    (image,)
    >>> from_path_or_proto(3)
    """
    if isinstance(model, (str, os.PathLike)):
        is_file = Path(model).suffix == ".onnx" or Path(model).exists()
        return _imported(model, Options(in_file=True)) if is_file else None
    kind = type(model)
    if kind.__name__ == "ModelProto" and kind.__module__.partition(".")[0] == "onnx":
        return from_onnx(model)
    return None


class OnnxImporter(Importer):
    """An import of an ONNX graph, or of one whose converters use ONNX's operators (`cx.onnx`)."""

    def __init__(self, model: Any, options: Options) -> None:
        super().__init__(model, options)
        self.graphs: dict[int, tuple[Any, list[Node]]] = {}  # read ones, by id

    def new_context(self) -> OnnxContext:
        return OnnxContext(self.builder)

    def _object_input(self, port: Port) -> RelaxVar:
        """An input that is not a tensor of numbers."""
        var = RelaxVar(self._param_name(port.name), OBJECT)
        try:
            value = ObjectValue(self.context, declared(port.kind), var)
        except ValueError as error:
            raise LoopwrightError(f"input {port.name}: {error}") from error
        tensor = port.kind.tensor_type
        if isinstance(value.form, Texts) and value.form.ndim >= 0:
            name = str(var.name_hint)
            dims = [dim_of(d) for d in tensor.shape.dim]
            value.dims = [self._dim(d, f"{name}_dim{k}") for k, d in enumerate(dims)]
        self.values[port.name] = value
        return var

    def find(self, node: Node) -> Entry | None:
        return super().find(node) or expanding(node)

    def call(self, node: Node, entry: Entry, inputs: list[Value | None]) -> Any:
        _check_complex(node, inputs)
        return moving_texts(node, entry.convert, inputs)(self.context, node, *inputs)

    def subgraph(self, graph: Any, feeds: Mapping[str, Value], region: Region) -> list[Value]:
        """Convert a graph that is an attribute; its nodes see the values around it."""
        model, outer = self.model, {**self.values, **feeds}
        weights = {name_of(t.name): array_of(t, model.folder) for t in graph.initializer}
        outputs = [name_of(value.name) for value in graph.output]
        nodes = ordered(self._read(graph), {*outer, *weights}, outputs)
        span, around = self.builder.span, self.values
        self.values = dict(outer)
        try:
            for name, array in weights.items():
                self.values[name] = self.context.literal(array)
            return self.nodes(nodes, self.converters(nodes), outputs, region)
        finally:
            self.builder.span, self.values = span, around

    def _read(self, graph: Any) -> list[Node]:
        """The nodes of a graph that is an attribute: the same ones each time it is converted."""
        if id(graph) not in self.graphs:
            nodes = [node_of(n, self.model.opsets, self.model.folder) for n in graph.node]
            remember(nodes, self.model.titles)
            self.graphs[id(graph)] = graph, nodes
        return self.graphs[id(graph)][1]


def _check_complex(node: Node, inputs: list[Value | None]) -> None:
    """Raise ValueError for complex numbers where ONNX has none, or where they are computed with."""
    kinds = {str(v.dtype) for v in inputs if v is not None and not isinstance(v, ObjectValue)}
    kinds = {k for k in kinds if k.startswith("complex")}
    if kinds and (node.op_type in _COMPUTES or not _takes_complex(node.domain, node.op_type)):
        hint = "compute with the real and the imaginary part, as two tensors of floats"
        raise ValueError(explain("it takes no complex numbers", got=min(kinds), instead=hint))


_COMPUTES = ("Col2Im", "GridSample", "NonZero", "Resize", "Unique", "Upsample")


def _takes_complex(domain: str, op_type: str) -> bool:
    from onnx import defs

    if not defs.has(op_type, domain):
        return False
    constraints = defs.get_schema(op_type, domain=domain).type_constraints
    return any("complex" in kind for c in constraints for kind in c.allowed_type_strs)
