"""`from_exported_program`: a program of torch.export becomes a graph function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, ge, gt, le, lt, or_
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils._pytree import tree_unflatten

from ...base import budget
from ...base.errors import LoopwrightError, explain
from ...base.registry import is_own
from ...ir.module import IRModule
from ...ir.prim_expr import SizeVar
from ...ir.prim_expr import Var as TirVar
from ...relax import expr as rx
from ..graph.importer import Importer, Options
from ..graph.model import Node, Port
from ..graph.registry import CONVERTERS, Entry
from ..graph.values import Value
from ..graph.walk import Region
from . import converters as converters
from .arguments import STORAGE, converted
from .context import TorchContext
from .converters.calls import called, is_callable
from .converters.complexes import BY_PARTS
from .converters.control import Body
from .converters.whole import WHOLE, undecomposed
from .dtypes import DTYPES, dtype_of
from .model import (
    DOMAIN,
    TorchModel,
    TorchNode,
    as_tensor,
    is_tensor,
    output_nodes,
    output_values,
    python_line,
    read,
    result_of,
)
from .pairs import COMPLEX, Pair, has_pairs, opened, paired
from .pairs import part as part_of
from .programs import decomposed, with_casts
from .reports import note
from .symbols import REAL, define, integer

PLAIN = Options()
_WRITES = tuple(kind for kind in OutputKind if kind.name.endswith("_MUTATION"))
_NO_END = 1 << 31  # larger upper bounds of sizes say nothing


def from_exported_program(
    exported_program: ExportedProgram,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """Import a program of `torch.export` as an IRModule with a function `main`.

    It is in the form of TVM's v0.21, whose operators stay whole; others are decomposed. Symbolic sizes become variables, with their
    upper bounds in the attribute "tir_var_upper_bound". Buffers and inputs that the program writes are
    results, before those of the program ("output_names" has their names then); an input that is returned, too,
    is one result.

    keep_params_as_input: parameters, buffers and constants are inputs, their values in the attribute
        "params". unwrap_unit_return_tuple: one result is not in a tuple. no_bind_return_tuple: the
        tuple is returned without a variable for it.

    Raises LoopwrightError for operators without a converter (all of them in one message) and for those
    that cannot be converted, naming the module and the Python line.

    >>> import torch
    >>> net = torch.nn.Linear(4, 2).eval()
    >>> program = torch.export.export(net, (torch.ones(3, 4),))
    >>> mod = lw.frontend.torch.from_exported_program(program, unwrap_unit_return_tuple=True)
    >>> mod["main"].ret_struct_info
    R.Tensor((3, 2), dtype="float32")
    """
    form = Form(not unwrap_unit_return_tuple, not no_bind_return_tuple)
    return in_form(exported_program, form, keep_params_as_input)


def in_form(program: ExportedProgram, form: Form, keep_params: bool) -> IRModule:
    """The module of a program in TVM's form."""
    whole = undecomposed(program.graph)
    program = decomposed(with_casts(program, form.of_one is None), whole)
    return _module(program, Options(keep_params=keep_params), replace(form, whole=whole))


def stateful(exported_program: ExportedProgram) -> IRModule:
    """The module of a program for `compile`. Buffers that it writes are inputs behind its own; the attribute
    "state" has their names and values, and which inputs the first results replace."""
    program = decomposed(exported_program)
    specs = program.graph_signature.output_specs
    targets = [s.target for s in specs if s.kind in _WRITES]
    owned = [t for t in targets if t in program.state_dict or t in program.constants]
    mod = _module(program, PLAIN, owned=owned)
    attrs = dict(mod.attrs or {})
    inputs, pairs = _inputs(program, owned)[1], _complex(_results(program))
    if (
        pairs or len(inputs) == len(owned) or _complex(inputs)
    ):  # the executable converts at its border
        attrs["torch_pairs"] = pairs
    if targets:
        attrs["state"] = _state(program, mod, targets, owned)
    attrs.update(_structure(program))
    return mod.with_attrs(attrs)


def _structure(program: ExportedProgram) -> dict[str, Any]:
    """The attribute "torch_inputs" of a program whose arguments are not tensors one after another; none where it
    has symbolic numbers among them, or containers of other kinds."""
    specs = program.graph_signature.input_specs
    args = [s.arg for s in specs if s.kind is InputKind.USER_INPUT]
    if not all(isinstance(a, (TensorArgument, ConstantArgument)) for a in args):
        return {}
    spec = program.call_spec.in_spec
    try:
        tree = _containers(tree_unflatten(range(spec.num_leaves), spec))
    except TypeError:
        return {}
    constants = [repr(a.value) if isinstance(a, ConstantArgument) else "" for a in args]
    flat = [None, [[None, [*range(constants.count(""))]], [[], []]]]
    return {} if tree == flat else {"torch_inputs": {"tree": tree, "constants": constants}}


def _containers(tree: Any) -> Any:
    """Lists, tuples and dicts as (the keys of a dict, or None; the parts). Raises TypeError for others."""
    if isinstance(tree, int):
        return tree
    if type(tree) not in (list, tuple, dict):
        raise TypeError(type(tree).__name__)
    keys, parts = ([*tree], tree.values()) if isinstance(tree, dict) else (None, tree)
    return [keys, [*map(_containers, parts)]]


def _state(
    program: ExportedProgram, mod: IRModule, targets: list[str], owned: list[str]
) -> dict[str, Any]:
    """The attribute "state". Raises LoopwrightError where inputs are numbers, or a buffer is complex."""
    user = program.graph_signature.user_inputs
    names = [*(n for n in user if isinstance(n, str)), *owned]
    values = [_tensor_of(program, t).detach().clone() for t in owned]
    if len(names) != len(mod["main"].params) or any(v.is_complex() for v in values):
        what = "a program that writes buffers or inputs takes tensors only, its buffers are real"
        hint = "from_exported_program, whose first results are their new values"
        raise LoopwrightError(explain(what, got=", ".join(map(str, user)), instead=hint))
    return {
        "names": owned,
        "values": [as_tensor(v) for v in values],
        "written": [names.index(t) for t in targets],
    }


def _tensor_of(program: ExportedProgram, name: str) -> torch.Tensor:
    return program.state_dict[name] if name in program.state_dict else program.constants[name]


def _results(program: ExportedProgram) -> list[Any]:
    """The nodes and the numbers among the outputs, without tokens, which order effects."""
    specs = program.graph_signature.output_specs
    tokens = [s.arg.name for s in specs if s.kind is OutputKind.TOKEN]
    return [v for v in output_values(program.graph) if getattr(v, "name", None) not in tokens]


def _complex(values: Sequence[Any]) -> list[int]:
    """Which values, nodes or numbers, are tensors of complex numbers."""
    fakes = [v.meta.get("val") if isinstance(v, fx.Node) else v for v in values]
    return [k for k, v in enumerate(fakes) if isinstance(v, torch.Tensor) and v.is_complex()]


@dataclass(frozen=True)
class Form:
    """TVM's form of a function: which rows of `WHOLE` hold, and how results are returned. one_in_tuple: a
    single one, too, is in a tuple; bound: the tuple is bound to a variable. of_one: for graphs of torch.fx, whether
    the result is one value, be it a tuple or a shape; their parameters are in the order of their names. dtypes:
    those of the inputs, where they are not the program's. size: the result is that of sym_size, a number which v0.21
    binds to a variable, other than those of other functions."""

    one_in_tuple: bool = True
    bound: bool = True
    of_one: bool | None = None
    dtypes: Sequence[str] = ()
    size: bool = False
    whole: Collection[str] = ()


def _module(
    program: ExportedProgram,
    options: Options,
    form: Form | None = None,
    owned: Sequence[str] = (),
) -> IRModule:
    constants, ports = _inputs(program, owned)
    if form is not None and form.of_one is not None:
        constants = dict(sorted(constants.items()))
    specs = program.graph_signature.output_specs
    with budget.started():
        budget.allow(size=1 << 62, nodes=1 << 62)
        importer = TorchImporter(program.graph, ports, constants, options, form)
        importer.results = _results(program)
        if form is not None:  # an input that is written and returned is one result
            returned = {s.arg.name for s in specs if s.kind is OutputKind.USER_OUTPUT}
            written = {s.arg.name for s in specs if s.kind is OutputKind.USER_INPUT_MUTATION}
            for name in returned & written:
                names = [getattr(n, "name", None) for n in importer.results]
                del importer.results[names.index(name)]
        mod = importer.run()
    gvar = mod.get_global_var("main")
    main = mod[gvar]
    bounds = {
        symbol.name: int(ends.upper)
        for name, ends in program.range_constraints.items()
        if isinstance(symbol := importer.context.symbols.get(name), TirVar) and ends.upper < _NO_END
    }
    if bounds:
        main = main.with_attr("tir_var_upper_bound", bounds)
    written = {s.arg.name: s.target for s in specs if s.target}
    titles = [getattr(n, "name", f"output_{k}") for k, n in enumerate(importer.results)]
    names = {"output_names": [written.get(n, n) for n in titles]}
    if form is None:
        return mod.with_functions({gvar: main}).with_attrs({**dict(mod.attrs or {}), **names})
    if not options.keep_params:
        main = main.without_attr("num_input")
    more = len(importer.results) > sum(s.kind is OutputKind.USER_OUTPUT for s in specs)
    return IRModule({gvar: main}).with_attrs(names if more else {})


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
        elif spec.kind is InputKind.TOKEN:
            constants[node.name] = torch.empty(0)
        elif spec.target in state:
            constants[node.name] = state[spec.target]
    return constants, [*inputs, *(written[name] for name in owned)]


class TorchImporter(Importer):
    """The import of a graph. inputs: placeholders of its inputs; constants: what other placeholders and
    attributes hold, by the names of their nodes. form: TVM's, instead of ours. computed_only: of a part of a
    graph, whose inputs that are results are left out of these."""

    context: TorchContext
    model: TorchModel

    def __init__(
        self,
        graph: fx.Graph,
        inputs: Sequence[fx.Node],
        constants: Mapping[str, torch.Tensor],
        options: Options = PLAIN,
        form: Form | None = None,
        computed_only: bool = False,
    ) -> None:
        ports = [_port(n) for n in inputs if isinstance(n.meta.get("val"), torch.Tensor)]
        if form is not None and form.dtypes:
            ports = [replace(p, dtype=d) for p, d in zip(ports, form.dtypes, strict=True)]
        super().__init__(read(graph, ports, constants), options)
        self.graph, self.form, self.context.splits = graph, form, computed_only
        self.results: list[Any] = [
            v
            for v in (output_nodes(graph) if computed_only else output_values(graph))
            if not computed_only or v.op != "placeholder"
        ]
        self.bodies: dict[fx.GraphModule, TorchModel] = {}  # graphs within nodes, as they were read
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

    def returned(self, outputs: list[Value]) -> Any:
        """All results of the graph: tensors, numbers and symbolic sizes as 0-d ones; None is left out."""
        by_name = dict(zip((p.name for p in self.model.outputs), outputs, strict=True))
        values = self.outputs_of(self.results, by_name)
        values[:1] = map(self.context.checked, values[:1])
        form = self.form
        if form is None:
            return super().returned(values)
        if len(values) == 1 and not form.one_in_tuple:
            return self.builder.emit_output(values[0].expr)
        if form.of_one and all(isinstance(v, int) for v in self.results):
            return self.builder.emit_output(rx.ShapeExpr(self.results))
        if form.of_one and isinstance(first := values[0].expr, rx.Var):
            element = self.builder.lookup_binding(first)
            if isinstance(element, rx.TupleGetItem):  # of a tuple that an operator returns
                return self.builder.emit_output(element.tuple_value)
        if not form.bound:
            return rx.Tuple([self.builder.emit_output(v.expr) for v in values])
        whole = rx.Tuple([v.whole.expr if isinstance(v, Pair) else v.expr for v in values])
        return self.builder.emit_output(whole)

    def _literal(self, value: bool | int | float) -> Value:
        kinds = {bool: "bool", int: "int64" if self.form is None else "int32", float: "float64"}
        number = self.context.tensor(value, kinds[type(value)])
        bound = self.form is not None and self.form.size
        return Value(self.context, self.builder.emit(number.expr)) if bound else number

    def _size(self, node: fx.Node) -> Value:
        value = node.meta.get("val")
        kind = {torch.SymFloat: "float64", torch.SymBool: "bool"}.get(type(value), "int64")
        return self.context.tensor(self._number(value), kind)

    def _sized(self, port: Port) -> Port:
        """An input with its extents; the symbols in them are defined."""
        symbols, variable = self.context.symbols, TirVar if self.form is None else SizeVar
        dims: list[tuple[int, Any]] = [(port.kind.ndim, 2)] if port.kind.is_complex() else []
        for k, size in sorted(enumerate(port.kind.shape), key=lambda s: not _is_plain(s[1])):
            dims.append((k, define(size, f"{port.name}_dim{k}", symbols, variable)))
        for _, dim in dims:
            if isinstance(dim, TirVar):
                self.context.analyzer.assume_nonnegative(dim)
        return replace(port, dims=[d for _, d in sorted(dims, key=lambda d: d[0])], kind=None)

    # -- the walk ------------------------------------------------------------------------------

    def find(self, node: Node) -> Entry | None:
        """The converter of a node; some have one for complex numbers only."""
        entry = super().find(node)
        if entry is None and self._is_whole(node):
            return Entry(1, WHOLE[node.op_type].convert, 0, None, ())
        if entry is None and node.op_type in COMPLEX:
            return Entry(1, COMPLEX[node.op_type], 0, None, ())
        return Entry(1, _refuse, 0, None, ()) if entry is None and self._calls(node) else entry

    def _is_whole(self, node: Node) -> bool:
        """Whether a row of TVM's translation holds for a node."""
        key = (DOMAIN, node.op_type, 1)
        own = key not in CONVERTERS or is_own(CONVERTERS.origin(key))
        return own and self.form is not None and node.op_type in self.form.whole

    def _calls(self, node: Node) -> bool:
        """Whether torch may run a node in the executable."""
        return self.form is None and not self.context.splits and is_callable(node.source)

    def check_inputs(self, node: Node, entry: Entry, inputs: list[Value | None]) -> None:
        """What fx has recorded fits the operator's schema."""

    def call(self, node: TorchNode, entry: Entry, inputs: list[Value | None]) -> Any:
        self.at_node = source = node.source
        self.context.values = self.values
        args = [self._argument(a) for a in source.args]
        named = {k: self._argument(v) for k, v in source.kwargs.items() if k not in STORAGE}
        try:
            outputs = None
            if self._is_whole(node) and not (node.is_complex or has_pairs([args, *named.values()])):
                convert = WHOLE[node.op_type].convert
                outputs = converted(self.context, node, convert, args, named, counted=False)
            if outputs is None:
                outputs = self._typed(node, self._converted(node, entry, args, named))
        except ValueError as error:
            if not self._calls(node):
                raise
            note(node.op_type, str(error), python_line(source))
            outputs = called(self.context, node, args, named)
        self._bind(source.meta.get("val"), outputs)
        return outputs

    def _typed(self, node: TorchNode, outputs: Any) -> Any:
        """Results in torch's types; a list for one result has its own type."""
        fake, several = node.value, isinstance(node.value, (list, tuple))
        if several and isinstance(outputs, (list, tuple)):
            return [self._cast(v, f) for v, f in zip(outputs, fake, strict=False)]
        return outputs if isinstance(outputs, (list, tuple)) else self._cast(outputs, fake)

    def _cast(self, output: Any, fake: Any) -> Any:
        """A result in the type of a fake tensor."""
        if output is None or isinstance(output, Pair) or not isinstance(fake, torch.Tensor):
            return output
        value = self.context.value(output)
        if value.is_tensor and not fake.is_complex() and fake.dtype in DTYPES:
            return self.context.tensor(value, dtype_of(fake.dtype))
        return value

    def _converted(
        self, node: TorchNode, entry: Entry, args: list[Any], named: dict[str, Any]
    ) -> Any:
        """The outputs of a converter; complex ones are pairs."""
        cx, values = self.context, [*args, *named.values()]
        convert = COMPLEX.get(node.op_type)
        if convert is not None and (has_pairs(values) or node.is_complex):
            return converted(cx, node, convert, args, named)
        if has_pairs(values) and node.op_type in BY_PARTS:
            if node.is_complex:  # real ones among the arguments have imaginary parts that are 0
                args = [_all_paired(cx, a, node.dtype) for a in args]
            sides = []
            for p in ("re", "im"):
                parts = {k: part_of(v, p) for k, v in named.items()}
                sides.append(converted(cx, node, entry.convert, part_of(args, p), parts))
            if isinstance(sides[0], (list, tuple)):
                return [Pair(cx.value(r), cx.value(i)) for r, i in zip(*sides, strict=True)]
            return Pair(*map(cx.value, sides))
        outputs = converted(cx, node, entry.convert, args, named)
        if node.is_complex and not isinstance(outputs, Pair):
            return paired(cx, cx.value(outputs), node.dtype)
        return outputs

    def nodes(self, nodes: Sequence[Node], *more: Any) -> list[Value]:
        if nodes is not self.model.nodes:
            return super().nodes(nodes, *more)
        for name in self.pairs:
            self.values[name] = opened(self.context, self.context.tensor(self.values[name]))
        for name, symbol in self.read.items():
            self.context.symbols[symbol] = self.context.integers(self.values[name], name)[0]
        results = super().nodes(nodes, *more)
        self.at_node = None
        return results

    def subgraph(self, graph: Body, feeds: Mapping[str, Value], region: Region) -> list[Value]:
        """The tensors and numbers that the graph of a node returns, for its operands."""
        cx, module = self.context, graph.module
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        span, around, symbols = self.builder.span, self.values, dict(cx.symbols)
        self.values, drawn, cx.drawn = dict(around), cx.drawn, None
        for node, operand in zip(placeholders, graph.operands, strict=True):
            size = node.meta.get("val")
            if isinstance(operand, Value) and isinstance(size, torch.SymInt):
                cx.symbols[size.node.expr] = cx.integers(operand, node.name)[0]
            elif isinstance(operand, Value):
                self.values[node.name] = operand
        if module not in self.bodies:
            self.bodies[module] = read(
                module.graph, [_port(n) for n in placeholders if is_tensor(n)], {}
            )
        model = self.bodies[module]
        try:
            names = [p.name for p in model.outputs]
            values = super().nodes(model.nodes, self.converters(model.nodes), names, region)
            return self.outputs_of(
                output_values(module.graph), dict(zip(names, values, strict=True))
            )
        finally:
            self.builder.span, self.values, cx.symbols, cx.drawn = span, around, symbols, drawn

    def outputs_of(self, results: Sequence[Any], by_name: Mapping[str, Value]) -> list[Value]:
        """The values of results: tensors by the names of their nodes, numbers and sizes as 0-d ones."""
        return [
            (by_name.get(result_of(n)) or self._size(n))
            if isinstance(n, fx.Node)
            else self._literal(n)
            for n in results
        ]

    def _argument(self, arg: Any) -> Any:
        """An argument of a node: tensors as Values, symbolic sizes as expressions, types by our names."""
        if isinstance(arg, fx.Node):
            fake, name = arg.meta.get("val"), result_of(arg)
            if arg.op == "get_attr" and not isinstance(fake, torch.Tensor):
                return arg.graph.owning_module.get_submodule(arg.target)
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
        if isinstance(value, torch.SymFloat):
            return self._real(value.node.expr)
        if isinstance(value, torch.SymBool):
            return self._truth(value.node.expr)
        if isinstance(value, (int, float, bool)) or value is None:
            return value
        raise ValueError(explain("a symbolic number has no counterpart here", got=value))

    def _truth(self, expr: Any) -> Any:
        """A symbolic condition as a 0-d tensor that is computed at run time."""
        operator = _TRUTH.get(type(expr).__name__)
        if operator is None:
            raise ValueError(explain("a symbolic condition has no counterpart here", got=expr))
        if expr.is_Relational:
            return operator(*(self.context.tensor(self._real(a), "float64") for a in expr.args))
        return reduce(operator, map(self._truth, expr.args))

    def _real(self, expr: Any) -> Any:
        """A symbolic float as a number, or as a 0-d tensor that is computed at run time."""
        if expr.is_number:
            return float(expr)
        operator = REAL.get(type(expr).__name__)
        if operator is None:
            return self.context.tensor(integer(expr, self.context.symbols), "float64")
        terms = [self.context.tensor(self._real(a), "float64") for a in expr.args]
        return reduce(operator, terms)

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


def _refuse(*_: object, **__: object) -> Any:
    raise ValueError("no converter")


_TRUTH: dict[str, Callable[[Any, Any], Any]] = {
    "StrictGreaterThan": gt, "GreaterThan": ge, "StrictLessThan": lt, "LessThan": le, "And": and_,
    "Or": or_, "Equality": lambda a, b: a.equal(b), "Unequality": lambda a, b: a.not_equal(b),
}  # fmt: skip


def _all_paired(cx: TorchContext, arg: Any, dtype: str) -> Any:
    """An argument as a pair: a tensor of floats, or one in a list with pairs."""
    if isinstance(arg, list):
        return [paired(cx, v, dtype) for v in arg] if has_pairs(arg) else arg
    return paired(cx, arg, dtype) if _is_real(arg) else arg


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
