"""`from_exported_program`: a program of torch.export becomes a graph function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from ...base import budget
from ...base.errors import LoopwrightError, explain
from ...ir.module import IRModule
from ...ir.prim_expr import Var as TirVar
from ...relax import expr as rx
from ..graph.importer import Importer, Options
from ..graph.model import Node, Port
from ..graph.registry import Entry, supported_operators
from ..graph.values import Value
from . import converters as converters
from .context import TorchContext
from .converters.complexes import BY_PARTS
from .dtypes import DTYPES, dtype_of
from .model import DOMAIN, TorchModel, TorchNode, as_tensor, output_nodes, read, result_of
from .pairs import COMPLEX, Pair, has_pairs, opened, paired
from .pairs import part as part_of
from .symbols import define, integer

PLAIN = Options()
_WRITES = tuple(kind for kind in OutputKind if kind.name.endswith("_MUTATION"))
_NO_END = 1 << 31  # larger upper bounds of sizes say nothing
# Keywords of operators that say where and how results are stored, which is ours to decide.
_STORAGE = {"layout", "device", "pin_memory", "memory_format", "non_blocking"}


def from_exported_program(
    exported_program: ExportedProgram,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """Import a program of `torch.export` as an IRModule with a function `main`.

    It is decomposed into the operators that have converters. Symbolic sizes become variables, with their
    upper bounds in the attribute "tir_var_upper_bound". Buffers and inputs that the program writes are
    results, before those of the program ("output_names" has their names).

    keep_params_as_input: parameters, buffers and constants are inputs, their values in the attribute
        "params". unwrap_unit_return_tuple: one result is not in a tuple. no_bind_return_tuple: TVM's;
        here a tuple is always returned without a variable for it.

    Raises LoopwrightError for operators without a converter (all of them in one message) and for those
    that cannot be converted, naming the module and the Python line.
    """
    program = exported_program.run_decompositions(decompositions())
    return _module(program, Options(keep_params=keep_params_as_input), not unwrap_unit_return_tuple)


def stateful(exported_program: ExportedProgram) -> IRModule:
    """The module of a program for `compile`. Buffers that it writes are inputs behind its own; the attribute
    "state" has their names and values, and which inputs the first results replace."""
    program = exported_program.run_decompositions(decompositions())
    specs = program.graph_signature.output_specs
    targets = [s.target for s in specs if s.kind in _WRITES]
    if not targets:
        return _module(program, PLAIN, False)
    owned = [t for t in targets if t in program.state_dict or t in program.constants]
    mod = _module(program, PLAIN, False, owned)
    user = program.graph_signature.user_inputs
    names = [*(n for n in user if isinstance(n, str)), *owned]
    if len(names) != len(mod["main"].params):
        what = "a program that writes buffers or inputs takes tensors only"
        hint = "from_exported_program, whose first results are their new values"
        raise LoopwrightError(explain(what, got=", ".join(map(str, user)), instead=hint))
    values = [_tensor_of(program, t).detach().clone() for t in owned]
    state = {
        "names": owned,
        "values": [as_tensor(v) for v in values],
        "written": [names.index(t) for t in targets],
    }
    return mod.with_attrs({**dict(mod.attrs or {}), "state": state})


def _tensor_of(program: ExportedProgram, name: str) -> torch.Tensor:
    return program.state_dict[name] if name in program.state_dict else program.constants[name]


def _module(
    program: ExportedProgram, options: Options, one_in_tuple: bool, owned: Sequence[str] = ()
) -> IRModule:
    constants, ports = _inputs(program, owned)
    with budget.started():
        budget.allow(size=1 << 62, nodes=1 << 62)
        importer = TorchImporter(program.graph, ports, constants, options, one_in_tuple)
        mod = importer.run()
    bounds = {
        symbol.name: int(ends.upper)
        for name, ends in program.range_constraints.items()
        if isinstance(symbol := importer.context.symbols.get(name), TirVar) and ends.upper < _NO_END
    }
    if bounds:
        gvar = mod.get_global_var("main")
        mod = mod.with_functions({gvar: mod[gvar].with_attr("tir_var_upper_bound", bounds)})
    targets = {s.arg.name: s.target for s in program.graph_signature.output_specs if s.target}
    names = [targets.get(n.name, n.name) for n in output_nodes(program.graph)]
    return mod.with_attrs({**dict(mod.attrs or {}), "output_names": names})


def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's default decompositions without those of operators that have a converter."""
    table = torch.export.default_decompositions()
    for name in supported_operators(DOMAIN):
        if "." in name:  # not a higher-order operator
            table.pop(overload_of(name), None)
    return table


def overload_of(name: str) -> Any:
    """The operator of torch with a name such as "aten.add.Tensor", or None."""
    value: Any = torch.ops
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _inputs(
    program: ExportedProgram, owned: Sequence[str]
) -> tuple[dict[str, torch.Tensor], list[fx.Node]]:
    """The constants of a program by the names of their placeholders, and the placeholders of its inputs,
    with the owned ones of its buffers behind them."""
    constants: dict[str, torch.Tensor] = {}
    inputs: list[fx.Node] = []
    written: dict[str, fx.Node] = {}
    state = {**program.state_dict, **program.constants}
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            inputs.append(node)
        elif spec.target in owned:
            written[spec.target] = node
        elif spec.target in state:
            constants[node.name] = state[spec.target]
    return constants, [*inputs, *(written[name] for name in owned)]


class TorchImporter(Importer):
    """The import of a graph. inputs: placeholders of its inputs; constants: what other placeholders and
    attributes hold, by the names of their nodes. one_in_tuple: a single result is a tuple of one.
    computed_only: inputs that are results are left out of these."""

    context: TorchContext
    model: TorchModel

    def __init__(
        self,
        graph: fx.Graph,
        inputs: Sequence[fx.Node],
        constants: Mapping[str, torch.Tensor],
        options: Options = PLAIN,
        one_in_tuple: bool = False,
        computed_only: bool = False,
    ) -> None:
        ports = [_port(n) for n in inputs if isinstance(n.meta.get("val"), torch.Tensor)]
        super().__init__(read(graph, ports, constants), options)
        self.graph, self.one_in_tuple = graph, one_in_tuple
        self.results = [
            n for n in output_nodes(graph) if not computed_only or n.op != "placeholder"
        ]
        self.at_node: fx.Node | None = None  # whose conversion has begun last
        self.model.inputs = [self._sized(p) for p in ports]
        self.pairs = [p.name for p in ports if p.kind.is_complex()]
        # Symbols that are inputs of their own, by the name of the input.
        self.read: dict[str, Any] = {}
        for node in inputs:
            size = node.meta.get("val")
            expr = size.node.expr if isinstance(size, torch.SymInt) else None
            if expr is not None and expr.is_Symbol and expr not in self.context.symbols:
                self.read[node.name] = expr
                self.model.inputs.append(Port(node.name, "int64", []))

    def new_context(self) -> TorchContext:
        return TorchContext(self.builder)

    def returned(self, results: list[Any]) -> Any:
        """All results of the graph: tensors, symbolic sizes as 0-d ones; constants and None are left out."""
        by_name = dict(zip((p.name for p in self.model.outputs), results, strict=True))
        outputs = [by_name.get(result_of(n)) or self._size(n) for n in self.results]
        return rx.Tuple(outputs) if self.one_in_tuple or len(outputs) != 1 else outputs[0]

    def _size(self, node: fx.Node) -> Any:
        return self.context.tensor(self._number(node.meta.get("val")), "int64").output

    def _sized(self, port: Port) -> Port:
        """An input with its extents; the symbols in them are defined."""
        symbols = self.context.symbols
        dims: list[tuple[int, Any]] = [(port.kind.ndim, 2)] if port.kind.is_complex() else []
        for k, size in sorted(enumerate(port.kind.shape), key=lambda s: not _is_plain(s[1])):
            dims.append((k, define(size, f"{port.name}_dim{k}", symbols)))
        for _, dim in dims:
            if isinstance(dim, TirVar):
                self.context.analyzer.assume_nonnegative(dim)
        return replace(port, dims=[d for _, d in sorted(dims, key=lambda d: d[0])], kind=None)

    # -- the walk ------------------------------------------------------------------------------

    def find(self, node: Node) -> Entry | None:
        """The converter of a node; some have one for complex numbers only."""
        entry = super().find(node)
        if entry is None and node.op_type in COMPLEX:
            return Entry(1, COMPLEX[node.op_type], 0, None, ())
        return entry

    def check_inputs(self, node: Node, entry: Entry, inputs: list[Value | None]) -> None:
        """What fx has recorded fits the operator's schema."""

    def call(self, node: TorchNode, entry: Entry, inputs: list[Value | None]) -> Any:
        self.at_node = source = node.source
        args = [self._argument(a) for a in source.args]
        named = {k: self._argument(v) for k, v in source.kwargs.items() if k not in _STORAGE}
        outputs = self._converted(node, entry, args, named)
        self._bind(source.meta.get("val"), outputs)
        return outputs

    def _converted(
        self, node: TorchNode, entry: Entry, args: list[Any], named: dict[str, Any]
    ) -> Any:
        """The outputs of a converter; complex ones are pairs."""
        cx, values = self.context, [*args, *named.values()]
        convert = COMPLEX.get(node.op_type)
        if convert is not None and (has_pairs(values) or node.is_complex):
            return convert(cx, node, *args, **named)
        if has_pairs(values) and node.op_type in BY_PARTS:
            if node.is_complex:  # real ones among the arguments have imaginary parts that are 0
                args = [paired(cx, a, node.dtype) if _is_real(a) else a for a in args]
            sides = [
                entry.convert(
                    cx, node, *part_of(args, p), **{k: part_of(v, p) for k, v in named.items()}
                )
                for p in ("re", "im")
            ]
            if isinstance(sides[0], (list, tuple)):
                return [Pair(cx.value(r), cx.value(i)) for r, i in zip(*sides, strict=True)]
            return Pair(*map(cx.value, sides))
        outputs = entry.convert(cx, node, *args, **named)
        if node.is_complex and not isinstance(outputs, Pair):
            return paired(cx, cx.value(outputs), node.dtype)
        return outputs

    def nodes(self, nodes: Sequence[Node], *more: Any) -> list[Value]:
        for name in self.pairs:
            self.values[name] = opened(self.context, self.context.tensor(self.values[name]))
        for name, symbol in self.read.items():
            self.context.symbols[symbol] = self.context.integers(self.values[name], name)[0]
        results = super().nodes(nodes, *more)
        self.at_node = None
        return results

    def _argument(self, arg: Any) -> Any:
        """An argument of a node: tensors as Values, symbolic sizes as expressions, types by our names."""
        if isinstance(arg, fx.Node):
            fake, name = arg.meta.get("val"), result_of(arg)
            if isinstance(fake, torch.SymInt) or name not in self.values:
                return self._number(fake)
            value = self.values[name]
            if type(value) is Value:
                value = self.values[name] = self.context.value(value)
            return value
        if isinstance(arg, (list, tuple)):
            return [self._argument(a) for a in arg]
        if isinstance(arg, torch.dtype):
            return DTYPES.get(arg, str(arg))
        return arg

    def _number(self, value: Any) -> Any:
        if isinstance(value, torch.SymInt):
            return integer(value, self.context.symbols)
        if isinstance(value, (int, float, bool)) or value is None:
            return value
        raise ValueError(explain("a symbolic number has no counterpart here", got=value))

    def _bind(self, fake: Any, outputs: Any) -> None:
        """Bind the symbols of sizes that data decides to the extents of the results that have them."""
        for value, output in zip(*map(_listed, (fake, outputs)), strict=False):
            if isinstance(value, torch.SymInt) and isinstance(output, Value):
                self.context.symbols[value.node.expr] = self.context.integers(output, "item")[0]
            if not isinstance(value, torch.Tensor) or output is None:
                continue
            for k, size in enumerate(value.shape):
                expr = size.node.expr if isinstance(size, torch.SymInt) else None
                if expr is not None and expr.is_Symbol and expr not in self.context.symbols:
                    self.context.symbols[expr] = self.context.value(output).shape[k]


def _is_real(arg: Any) -> bool:
    """Whether an argument is a tensor of floats."""
    return isinstance(arg, Value) and not isinstance(arg, Pair) and arg.dtype.is_float


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _is_plain(size: Any) -> bool:
    """Whether a size is a number or one symbol."""
    return not isinstance(size, torch.SymInt) or size.node.expr.is_Symbol


def _port(node: fx.Node) -> Port:
    """An input; `kind` holds its fake tensor, until its extents are known."""
    fake = node.meta["val"]
    return Port(node.name, dtype_of(fake.dtype), None, fake)
