"""The walk over a graph whose nodes have converters: it becomes a graph function.

A dialect derives its importer from `Importer`, and says what differs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from keyword import iskeyword
from opcode import opmap
from types import MappingProxyType
from typing import Any

import numpy as np

from ...base import budget
from ...base.budget import BudgetError
from ...base.errors import LoopwrightError, explain
from ...base.names import as_identifier, free_name
from ...base.plugins import broken
from ...ir.dtype import DataType
from ...ir.expr import DictAttrs
from ...ir.module import IRModule
from ...ir.prim_expr import PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...relax import op
from ...relax.analysis import remove_all_unused
from ...relax.block_builder import BlockBuilder
from ...relax.expr import If, StringImm, Tuple
from ...relax.expr import Var as RelaxVar
from ...relax.struct_info import TensorStructInfo
from .context import Context
from .loops import Loop
from .model import Model, Node, Port
from .object_values import (
    ObjectValue,
    form_of,
    info_of,
    joined,
    known_texts,
)
from .registry import REFUSALS, Entry, find_converter
from .values import UnknownRankError, Value

Branch = Callable[[], list[Value]]
_RANKS = 7  # ranks that are tried: up to those of a batch of volumes, and one more
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Importer:
    """One import. A dialect overrides how graphs inside of nodes are read (`subgraph`), how a node finds
    its converter and is converted (`_converter`, `_call`), and what inputs may be (`_object_input`)."""

    def __init__(
        self,
        model: Model,
        shapes: Any,
        dtypes: Any,
        keep_params: bool,
        sanitize: bool,
        in_file: bool = False,
        overridable: bool | Collection[str] = False,
    ) -> None:
        self.model = model
        self.in_file = in_file
        self.overridable = overridable
        self.shapes = dict(shapes or {})
        self.dtypes = dtypes
        self.keep_params = keep_params
        self.sanitize = sanitize
        self.builder = BlockBuilder()
        self.context = Context(self.builder, model.opsets.get("", 1), self)
        self.values: dict[str, Value] = {}
        self.dims: dict[str, TirVar] = {}
        self.symbols: set[str] = set()  # names of variables that stand for extents
        self.names: set[str] = set()
        self.wanted = {p.name for p in model.outputs}
        self.text_names: list[str] = []  # initializers of strings
        self.direct = True  # whether what is converted is a node of a graph
        self.forked: Any = None  # the condition and the ways of a node that its graph forks at
        self.answers: dict[Any, Any] = {}  # what was asked of the model
        self.inside = False  # whether a node's outputs are those of the graph converted next
        self.above: Any = None  # a condition and node that the graph around forks at
        self.decided: dict[str, int] = {}  # which way such a node goes

    def run(self) -> IRModule:
        """The module. The importer lets go what it has: it is in cycles with its context, and passes
        replace the weights."""
        try:
            return self._module()
        finally:
            vars(self.context).clear()
            vars(self).clear()

    def _module(self) -> IRModule:
        converters = self._converters(self.model.nodes)
        self._check_dicts()
        inputs, outputs = [self._input(p) for p in self.model.inputs], self.model.outputs
        kept = self._weights()
        params = [self.values[name].expr for name in kept]
        attrs: dict[str, Any] = {"num_input": len(inputs)}
        if self.keep_params or self.overridable:
            attrs["params"] = [constant.data for constant in kept.values()]
        with self.builder.function("main", [*inputs, *params], attrs):
            with self.builder.dataflow():
                for name in self.text_names:
                    self.values[name] = known_texts(self.context, self.model.initializer(name))
                found = self._nodes(self.model.nodes, converters, [p.name for p in outputs])
                self.builder.span = None
                results = [value.output for value in found]
            self.builder.emit_func_output(results[0] if len(results) == 1 else Tuple(results))
        gvar = self.builder.get().get_global_var("main")
        # What was only read while importing (bounds, axes, shapes) leaves no binding behind.
        self.builder.update_func(gvar, remove_all_unused(self.builder.get()[gvar]))
        names = {
            "input_names": [p.name for p in self.model.inputs] + list(kept),
            "output_names": [p.name for p in self.model.outputs],
        }
        folded = [p.name for p in self.model.overridable if p.name not in kept]
        names |= {"overridable_initializers": folded} if folded else {}
        return self.builder.finalize().with_attrs(DictAttrs(names))

    # -- inputs --------------------------------------------------------------------------------

    def _check_dicts(self) -> None:
        names = [p.name for p in self.model.inputs]
        for given, what in ((self.shapes, "shape_dict"), (self.dtypes, "dtype_dict")):
            for name in given if isinstance(given, dict) else ():
                if name not in names:
                    text = f"{what} names an input that the model has not"
                    hint = f"the inputs are {', '.join(names) or 'none'}"
                    raise LoopwrightError(explain(text, got=name, instead=hint))
        both = [p.name for p in self.model.overridable]
        if self.overridable is True:
            self.overridable = both
        unknown = [name for name in self.overridable or () if name not in both]
        if unknown:
            text = "overridable_initializers names what no run may give: no initializer that is an input"
            hint = f"those are {', '.join(both)}" if both else "it has none (from IR version 4 on)"
            raise LoopwrightError(explain(text, got=", ".join(unknown), instead=hint))

    def _input(self, port: Port) -> RelaxVar:
        dtype = port.dtype
        if port.kind is not None:
            return self._object_input(port)
        if isinstance(self.dtypes, dict):
            dtype = self.dtypes.get(port.name, dtype)
        elif not dtype:
            dtype = self.dtypes or ""
        if not dtype:
            what = f"the element type of input {port.name} is not known"
            raise LoopwrightError(explain(what, instead="give it by dtype_dict"))
        dims = self.shapes.get(port.name, port.dims)
        name = self._param_name(port.name)
        if dims is None:
            info = TensorStructInfo(dtype=dtype)
        else:
            shape = [self._dim(d, f"{name}_dim{k}") for k, d in enumerate(dims)]
            info = TensorStructInfo(shape, dtype)
        var = RelaxVar(name, info)
        self.values[port.name] = Value(self.context, var)
        return var

    def _object_input(self, port: Port) -> RelaxVar:
        """An input that is not a tensor of numbers."""
        what = f"input {port.name} is not a tensor of numbers"
        raise LoopwrightError(explain(what, got=str(port.kind)))

    def _dim(self, dim: Any, fresh: str) -> Any:
        if isinstance(dim, bool) or not isinstance(dim, (int, str, PrimExpr, type(None))):
            what = "a dimension is a number, a name or a tir.Var"
            raise LoopwrightError(explain(what, got=repr(dim)))
        if isinstance(dim, int) and dim >= 0:
            return dim
        if isinstance(dim, PrimExpr):
            if isinstance(dim, TirVar):
                self.context.analyzer.assume_nonnegative(dim)
            return dim
        # "?", "None" and the like say nothing: each is a variable of its own.
        if not isinstance(dim, str) or iskeyword(dim) or not re.search("[A-Za-z]", dim):
            return self._symbol(self._fresh_dim(fresh))
        if dim not in self.dims:
            known = bool(_IDENTIFIER.match(dim))
            self.dims[dim] = self._symbol(dim if known else self._fresh_dim(_identifier(dim, "d")))
        return self.dims[dim]

    def _symbol(self, name: str) -> TirVar:
        symbol = TirVar(name, "int64")
        self.symbols.add(name)
        self.context.analyzer.assume_nonnegative(symbol)
        return symbol

    def _fresh_dim(self, name: str) -> str:
        taken = {d for p in self.model.inputs for d in p.dims or () if isinstance(d, str)}
        taken |= self.symbols
        while name in taken:
            name += "_"
        return name

    def _param_name(self, name: str) -> str:
        """The name as an identifier that no other parameter has."""
        param = name
        if self.sanitize:
            param = _identifier(name, "input")
        param = free_name(param, self.names)
        self.names.add(param)
        return param

    def _weights(self) -> dict[str, Any]:
        """Make a value of each initializer that is used; {name: constant} of those that are to be
        parameters."""
        used = {name for node in self.model.nodes for name in node.reads} | self.wanted
        kept: dict[str, Any] = {}
        texts = self.text_names
        ports = {p.name: p for p in self.model.overridable}
        given = set() if isinstance(self.overridable, bool) else {*self.overridable}
        for name in self.model.initializers:
            if name not in used | given:
                continue
            if self.model.holds_texts(name):
                texts.append(name)
                continue
            dtype = self.model.initializer_dtype(name)
            stored = self.model.stored_initializer(name) if self.in_file else None
            weight = self.model.initializer(name) if stored is None else stored
            constant = self.context.constant(weight, dtype)
            if name in given:
                port = ports[name]
                self._input(port if port.dims is not None else replace(port, dims=[*weight.shape]))
                kept[name] = constant
            elif self.keep_params and DataType(dtype).is_float:
                var = RelaxVar(self._param_name(name), constant.struct_info)
                self.context.remember(var, constant)
                self.values[name] = Value(self.context, var)
                kept[name] = constant
            else:
                self.values[name] = Value(self.context, constant)
        return kept

    # -- nodes ---------------------------------------------------------------------------------

    def _converters(self, nodes: Sequence[Node]) -> list[Entry]:
        """The converter of each node. Raises one LoopwrightError for all that have none."""
        entries = [self._converter(n) for n in nodes]
        missing: dict[tuple[str, str, int], list[Node]] = defaultdict(list)
        for node, entry in zip(nodes, entries, strict=True):
            if entry is None:
                missing[node.domain, node.op_type, node.opset].append(node)
        if not missing:
            return [entry for entry in entries if entry is not None]
        count = sum(map(len, missing.values()))
        kinds = f"{len(missing)} kind{'' if len(missing) == 1 else 's'}"
        lines = [f"{count} nodes of {kinds}" if count > 1 else "1 node"]
        for (domain, op_type, opset), those in sorted(missing.items()):
            names = ", ".join(n.title for n in those[:3])
            more = f", and {len(those) - 3} more" if len(those) > 3 else ""
            place = f"domain {domain or 'ai.onnx'}, opset {opset}"
            why = REFUSALS.get((domain, op_type))
            lines.append(f"    {op_type} ({place}) x{len(those)}: {names}{more}")
            lines += [f"      {why}"] if why else []
        what = "operators of this model have no converter"
        (domain, op_type, _) = min(missing)
        place = f', domain="{domain}"' if domain else ""
        hint = (
            "write converters for them and make them known: "
            f'register_converter("{op_type}", 1, convert{place}), '
            "see loopwright.frontend.graph.registry"
        )
        hint = "; ".join(filter(None, (hint, broken("loopwright.ops"))))
        raise LoopwrightError(explain(what, got="\n".join(lines), instead=hint))

    def _converter(self, node: Node) -> Entry | None:
        return find_converter(node.op_type, node.opset, node.domain)

    def part(self, node: Node, inputs: list[Value | None]) -> list[Any]:
        """Convert a node of an operator's definition."""
        entry = None if node.captured else self._converter(node)
        if entry is None:
            what = f"its definition uses {node.op_type}, which has no converter"
            raise ValueError(explain(what, instead="register_converter for either"))
        budget.spend(nodes=1)
        direct, self.direct = self.direct, False
        try:
            return self._outputs(node, entry, inputs)
        finally:
            self.direct = direct

    def of_model(self, ask: Callable[[Any], Any]) -> Any:
        """What a function says of the whole model, asked once."""
        if ask not in self.answers:
            self.answers[ask] = ask(self.model)
        return self.answers[ask]

    def texts(self, array: np.ndarray) -> Value:
        """A constant of texts."""
        return known_texts(self.context, array)

    def subgraph(
        self, graph: Any, feeds: Mapping[str, Value] = MappingProxyType({})
    ) -> list[Value]:
        """The outputs of a graph that a node holds. feeds: the values of its inputs."""
        raise NotImplementedError

    def loop(
        self,
        turn: Callable[[list[Value]], list[Value]],
        limit: Value | None,
        go: Value | None,
        state: list[Value],
        collected: int,
    ) -> list[Value]:
        """The outputs of a loop; see `Loop`."""
        for given in (limit, go, *state):
            if given is not None:
                _ = given.output
        for value in self.values.values():
            value.leave_block()

        def apart(given: list[Value]) -> list[Value]:
            # Known integers that become tensors in a turn do not in the graph around it.
            outer = self.values
            self.values = {name: value.copy() for name, value in outer.items()}
            results = turn(given)
            self.values = outer
            return results

        with self.builder.between_dataflow():
            return Loop(self.context, apart, limit, go).outputs(state, collected)

    def choice(self, condition: Value, *graphs: Any) -> list[Value]:
        """The outputs of one of two graphs. An If is no part of a dataflow block: the open one ends
        before it, with all values so far as its outputs (the unused ones are removed later)."""
        ways = [lambda g=g: self.subgraph(g) for g in graphs]
        found = self._either(condition, ways, even=self.direct)
        if found is None:
            self.fork(condition, *ways)
            found = [self.context.known([0], "int64") for _ in graphs[0].output]
        return found

    def taken(self, graph: Any) -> list[Value]:
        """The outputs of a graph as those of the node that holds it. Where the run tells their rank, what
        follows the node is converted for each."""
        self.inside, self.above = self.direct, None
        try:
            found = self.subgraph(graph)
        finally:
            self.inside = False
        if self.above is not None:
            condition, name = self.above
            self.fork(condition, *(lambda k=k: self._decide(graph, name, k) for k in (0, 1)))
        return found

    def _decide(self, graph: Any, name: str, way: int) -> list[Value]:
        before = self.decided
        self.decided = before | {name: way}
        try:
            return self.subgraph(graph)
        finally:
            self.decided = before

    def fork(self, condition: Value, *ways: Branch) -> bool:
        """Let the nodes after this one be converted for both of two ways to get its outputs. False for
        a node that is no node of a graph: it has to do without."""
        if self.direct:
            self.forked = (condition, ways)
        return self.direct

    def _nodes(
        self, nodes: Sequence[Node], entries: Sequence[Entry], wanted: list[str]
    ) -> list[Value]:
        """Convert nodes in order; the values of `wanted`."""
        inside, self.inside = self.inside, False
        for k, (node, entry) in enumerate(zip(nodes, entries, strict=True)):
            self.direct, self.forked = True, None
            self._convert(node, entry)
            if self.forked is None:
                continue
            (condition, ways), self.forked = self.forked, None
            name = node.outputs[0]
            if name in self.decided:
                self.values.update(zip(node.outputs, ways[self.decided[name]](), strict=False))
                continue

            def after(way: Branch, node: Node = node, k: int = k) -> list[Value]:
                budget.spend(nodes=len(nodes) - k)
                self.values.update(zip(node.outputs, way(), strict=False))
                return self._nodes(nodes[k + 1 :], entries[k + 1 :], wanted)

            rest = [lambda w=w: after(w) for w in ways]
            found = self._either(condition, rest, even=inside, lenient=True)
            if found is None:
                self.above = condition, name
                found = [self.context.known([0], "int64") for _ in wanted]
            return found
        return [self.values[name] for name in wanted]

    def _either(
        self, condition: Value, ways: Sequence[Branch], even: bool = False, lenient: bool = False
    ) -> list[Value] | None:
        """What one of two ways gives, as the run chooses.

        even: None where the rank of a tensor depends on it. lenient: a way that cannot be converted
        is an error of the run, unless none can.
        """
        cond = condition.output
        for value in self.values.values():
            value.leave_block()
        forms: list[list[Any]] = []
        with self.builder.between_dataflow():
            sides = [self._side(w, forms, lenient) for w in ways]
            errors = [side for side in sides if isinstance(side, LoopwrightError)]
            if len(errors) == len(sides):
                raise errors[0]
            if errors:
                at = sides.index(errors[0])
                sides[at] = self.builder.branch(lambda: _refused(errors[0], forms[0]))
                forms *= 2
            kinds = [joined(a, b) for a, b in zip(*forms, strict=True)]
            if even and any(map(_is_uneven, kinds, *forms)):
                return None
            chosen = self.builder.emit(If(cond, *sides))
        parts = [chosen[k] for k in range(len(kinds))] if len(kinds) > 1 else [chosen]
        return [self._chosen(part, form) for part, form in zip(parts, kinds, strict=True)]

    def _side(self, way: Branch, forms: list[list[Any]], lenient: bool) -> Any:
        """A branch with the values of a way, or the error if that may be. forms: gets what they are."""
        span, outer, direct = self.builder.span, self.values, self.direct

        def inside() -> Any:
            with self.builder.dataflow():
                values = way()
                results = [value.output for value in values]
            forms.append([form_of(value) for value in values])
            return results[0] if len(results) == 1 else Tuple(results)

        # Known integers that become tensors in a branch do not in the graph around it.
        self.values = {name: value.copy() for name, value in outer.items()}
        try:
            return self.builder.branch(inside)
        except BudgetError:
            raise
        except LoopwrightError as error:
            if not lenient:
                raise
            return error
        finally:
            self.builder.span, self.values, self.direct = span, outer, direct

    def _chosen(self, part: Any, form: Any) -> Value:
        """An output of one of two graphs; where these differ in a dimension, it is a new one."""
        if not isinstance(form, TensorStructInfo):
            return ObjectValue(self.context, form, self.context.emit(part))
        value = self.context.value(part)
        if value.info.get_shape() is None and form.ndim >= 0:
            return self.context.found(value.expr, *[None] * form.ndim)
        return value

    def _convert(self, node: Node, entry: Entry) -> None:
        self.builder.span = node.span
        try:
            budget.check()
            inputs = [self.values[name] if name else None for name in node.inputs]
            outputs = self._outputs(node, entry, inputs)
        except Exception as error:  # a broken model may fail anywhere: say in which node
            given = [self.values.get(name) for name in node.inputs]
            unsaid = [p.name for p in self.model.inputs if p.dims is None and p.kind is None]
            unsaid = [name for name in unsaid if name not in self.shapes]
            raise _located(node, error, given, unsaid) from error
        for name, output in zip(node.outputs, outputs, strict=False):
            if name:
                self.values[name] = output

    def _outputs(self, node: Node, entry: Entry, inputs: list[Value | None]) -> list[Any]:
        while inputs and inputs[-1] is None:
            inputs.pop()
        _check_inputs(node, entry, inputs)
        outputs = self._call(node, entry, inputs)
        self._check_attributes(node)
        parts = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        for k, name in enumerate(node.outputs):
            if name and (k >= len(parts) or parts[k] is None):
                what = f"output {k} ({name}) is not supported"
                raise ValueError(explain(what, instead="leave it out"))
        return [None if p is None else self.context.value(p) for p in parts]

    def _call(self, node: Node, entry: Entry, inputs: list[Value | None]) -> Any:
        """What the converter of a node gives."""
        return entry.convert(self.context, node, *inputs)

    def _check_attributes(self, node: Node) -> None:
        unread = [name for name in node.attributes if name not in node.read]
        if unread:
            what = f"attributes that {node.op_type} has not at opset {node.opset}"
            raise ValueError(explain(what, got=", ".join(sorted(unread))))


def _identifier(name: str, kind: str) -> str:
    """A name as an identifier; after `kind` where it begins as none does."""
    text = as_identifier(name)
    return text if _IDENTIFIER.match(text) else f"{kind}_{text}"


def _is_uneven(form: Any, *sides: Any) -> bool:
    """Whether a tensor has a rank on each side, and not the same one."""
    tensors = all(isinstance(f, TensorStructInfo) for f in (form, *sides))
    return tensors and form.ndim < 0 and all(f.ndim >= 0 for f in sides)


def _refused(error: LoopwrightError, forms: list[Any]) -> Any:
    """Values of some forms, of which a program only has the error."""
    results = [
        op.call_pure_packed("relax.run.refused", StringImm(str(error)), sinfo_args=info_of(form))
        for form in forms
    ]
    return results[0] if len(results) == 1 else Tuple(results)


def _check_inputs(node: Node, entry: Entry, inputs: list[Value | None]) -> None:
    count, most = len(inputs), entry.most
    if entry.least <= count and (most is None or count <= most):
        names = chain(entry.names, repeat(entry.names[-1])) if entry.names else ()
        missing = [n for n, v in zip(names, inputs) if v is None and n not in entry.optional]
        if not missing:
            return
        raise ValueError(explain(f"input {missing[0]} is missing", got=", ".join(node.inputs)))
    many = f"{entry.least}" if most == entry.least else f"{entry.least} to {most}"
    many = f"{entry.least} or more" if most is None else many
    what = f"it takes {many} input{'' if many == '1' else 's'} ({', '.join(entry.names)})"
    raise ValueError(explain(what, got=f"{count}"))


def _located(
    node: Node, error: Exception, given: list[Value | None], unsaid: Sequence[str] = ()
) -> LoopwrightError:
    """The error of a node: what it says where it was meant, else what the node was given. unsaid: inputs of
    the model without a rank."""
    place = node.span.render()
    inputs = ", ".join("none" if v is None else str(v.expr.struct_info) for v in given[:8])
    inputs = f"inputs {inputs or 'none'}{', ...' * (len(given) > 8)}"
    if isinstance(error, RecursionError):
        hint = "give the extents that it depends on by shape_dict"
        text = explain(
            "an expression nests too deep",
            got="more levels than Python calls may have",
            instead=hint,
        )
    elif isinstance(error, UnknownRankError) and unsaid:
        shapes = ", ".join(f"{name!r}: [None, ...]" for name in unsaid)
        text = explain(
            "the rank of an input is not known",
            got=f"a model that says none of {', '.join(unsaid)}, whose operators take several",
            instead=f"from_onnx(model, shape_dict={{{shapes}}}), a number, name or None for each axis",
        )
    elif _is_meant(error):
        text = str(error)
        if "\n" not in text:
            text = explain(text, got=inputs)
    else:
        what = f"the inputs or attributes do not fit ({type(error).__name__}: {error})"
        if isinstance(error, ZeroDivisionError):  # converters divide by what the model says alone
            what = "it divides by an extent, a rank or an attribute that is 0"
            zeros = [n for n, v in node.attributes.items() if isinstance(v, (int, float)) and not v]
            inputs += "".join(f", {name}=0" for name in zeros)
        hint = "what ONNX says of the operator; report a model that is valid"
        text = explain(what, got=inputs, instead=hint)
    kind = BudgetError if isinstance(error, BudgetError) else LoopwrightError
    return kind(f"{node.op_type}: {text}\n{place}")


def _is_meant(error: Exception) -> bool:
    """Whether an error was raised by a statement, to be read, not by an operation that failed."""
    if isinstance(error, LoopwrightError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, (ValueError, TypeError)):
        return False
    code, module = trace.tb_frame.f_code.co_code, trace.tb_frame.f_globals.get("__name__", "")
    return code[trace.tb_lasti] == opmap["RAISE_VARARGS"] and not module.startswith("numpy")
