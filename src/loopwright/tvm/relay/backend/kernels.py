"""Kernels under their names in Relay, and the graph that calls them.

The translation writes into each Relax binding's span which call of Relay it came from (`CallSpan`), and
fusion merges spans, so a kernel knows its operators.

before: R.call_tir(cls.fused_matmul_add_relu, (x, lv, y), ...)
after:  R.call_tir(cls.tvmgen_default_fused_nn_dense_add_nn_relu, (x, lv, y), ...)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ....base.names import free_name
from ....base.span import SequentialSpan, Span
from ....ir.expr import GlobalVar
from ....ir.pass_context import PassContext
from ....ir.prim_expr import IntImm, PrimExpr
from ....ir.transform import IRModule, ModulePass
from ....relax import expr as rx
from ....relax.functor import GraphRewriter
from ....relax.op.base import CALL_TIR, CALL_TIR_INPLACE
from ....relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ....tir.function import PrimFunc
from ..expr import Call
from ..translate import CallSpan
from .utils import mangle_module_name

LONGEST = 80  # characters of a kernel's name before it is cut


class NameKernels(ModulePass):
    """Name the kernels of a module after the calls of Relay in them, and write down the graph.

    mod_name: the name of the built module. graph: gets the text of the graph under "json".
    """

    name = "relay.NameKernels"
    mod_name: str = "default"
    graph: dict[str, str] = field(default_factory=dict, compare=False)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        used_names = {gvar.name_hint for gvar in mod.functions}
        names: dict[GlobalVar, GlobalVar] = {}
        for gvar, calls in kernel_origins(mod).items():
            ops = [call.op.name for call in calls]
            name = free_name(self.kernel_name(gvar.name_hint, ops), used_names)
            used_names.add(name)
            names[gvar] = GlobalVar(name)
            names[gvar].struct_info = gvar.struct_info
        named = renamed(mod, names)
        if "main" in named:
            self.graph["json"] = graph_json(named["main"])
        return named

    def kernel_name(self, name: str, ops: list[str]) -> str:
        """The name of a kernel by its operators; of one that has none, by its own name."""
        text = "_".join(op.replace(".", "_") for op in ops) or name.removeprefix("fused_")
        full = f"{mangle_module_name(self.mod_name)}_fused_{text}"
        if len(full) <= LONGEST:
            return full
        digest = hashlib.sha256(full.encode()).hexdigest()[:16]
        return f"{full[: LONGEST - 17]}_{digest}"


class _Renamer(GraphRewriter):
    """Calls kernels by other names."""

    def __init__(self, mod: IRModule, names: dict[GlobalVar, GlobalVar]) -> None:
        super().__init__(mod)
        self.names = names

    def call(self, call: rx.Call) -> Any:
        new = self.names.get(call.args[0]) if is_kernel_call(call) else None
        return call if new is None else call.replace(args=(new, *call.args[1:]))


def is_kernel_call(value: rx.Expr) -> bool:
    """Whether a value is the call of a kernel of the module."""
    if not isinstance(value, rx.Call) or value.op not in (CALL_TIR, CALL_TIR_INPLACE):
        return False
    return isinstance(value.args[0], GlobalVar)


def renamed(mod: IRModule, names: dict[GlobalVar, GlobalVar]) -> IRModule:
    """The module with kernels under other names."""
    work = _Renamer(mod, names)
    functions = {}
    for gvar, func in mod.functions.items():
        new = work.function(func) if isinstance(func, rx.Function) else func
        functions[names.get(gvar, gvar)] = new
    return IRModule(functions, mod.attrs, mod.global_infos, mod.span)


def kernel_origins(mod: IRModule) -> dict[GlobalVar, list[Call]]:
    """The kernels that a module's graphs call, and the calls of Relay they compute. What takes
    several kernels is the last one's."""
    spans: dict[GlobalVar, Span | None] = {}
    for func in mod.functions.values():
        for binding, kernel in kernel_calls(func):
            function = mod.functions.get(kernel)
            if isinstance(function, PrimFunc):
                span = function.span or binding.span or binding.value.span
                spans.setdefault(kernel, span)
    last = {origin: gvar for gvar, span in spans.items() for origin in origins(span)}
    return {
        gvar: [origin.call for origin in origins(span) if last[origin] == gvar]
        for gvar, span in spans.items()
    }


def origins(span: Span | None) -> list[CallSpan]:
    """The calls of Relay that a span names."""
    parts = span.spans if isinstance(span, SequentialSpan) else (span,)
    return [part for part in parts if isinstance(part, CallSpan)]


def kernel_calls(func: rx.Function | PrimFunc) -> Iterator[tuple[Any, GlobalVar]]:
    """The bindings of a graph function that call kernels, in order."""
    blocks = list(func.body.blocks) if isinstance(func, rx.Function) else []
    while blocks:
        for binding in blocks.pop(0).bindings:
            value = binding.value
            if isinstance(value, rx.If):
                blocks += [*value.true_branch.blocks, *value.false_branch.blocks]
            elif is_kernel_call(value):
                yield binding, binding.value.args[0]


def graph_json(func: rx.Function) -> str:
    """The graph of kernels in the form of TVM's graph executor; its memory is planned later, so each
    value has a storage of its own here. "{}" for a function with branches."""
    if not isinstance(func, rx.Function):
        return "{}"
    graph = _Graph()
    for param in func.params:
        graph.leaf(param, param.name_hint)
    for block in func.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, (rx.If, rx.Function)):
                return "{}"
            graph.bind(binding)
    return graph.text(func.body.body)


class _Graph:
    """Collects the nodes: inputs, constants, and calls with references to others' outputs."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.arguments: list[int] = []
        self.infos: list[list[TensorStructInfo]] = []
        self.refs_of: dict[Any, Any] = {}
        self.constants = 0

    def leaf(self, value: rx.Expr, name: str) -> Any:
        self.arguments.append(len(self.nodes))
        return self._node(value, {"op": "null", "name": name, "inputs": []}, value.struct_info)

    def _node(self, value: rx.Expr, node: dict[str, Any], info: StructInfo) -> Any:
        flat = _tensors(info)
        refs = [[len(self.nodes), i, 0] for i in range(len(flat))]
        self.nodes.append(node)
        self.infos.append(flat)
        self.refs_of[value] = refs
        return refs

    def refs(self, value: rx.Expr) -> list[list[int]]:
        """The outputs that a value is."""
        if isinstance(value, rx.Tuple):
            return [ref for f in value.fields for ref in self.refs(f)]
        if isinstance(value, rx.TupleGetItem):
            infos = value.tuple_value.struct_info.fields
            start = sum(len(_tensors(f)) for f in infos[: value.index])
            inside = self.refs(value.tuple_value)
            return inside[start : start + len(_tensors(infos[value.index]))]
        if isinstance(value, rx.Constant) and value not in self.refs_of:
            self.constants += 1
            return self.leaf(value, f"p{self.constants - 1}")
        return self.refs_of.get(value, [])

    def bind(self, binding: rx.Binding) -> None:
        value = binding.value
        if not isinstance(value, rx.Call):
            self.refs_of[binding.var] = self.refs(value)
            return
        kernel = value.args[0] if value.args and isinstance(value.args[0], GlobalVar) else None
        called = getattr(value.op, "name", str(value.op)) if kernel is None else kernel.name_hint
        args = value.args[1:2] if kernel is not None else value.args
        inputs = [ref for arg in args for ref in self.refs(arg)]
        info = binding.var.struct_info
        counts = {"num_inputs": len(inputs), "num_outputs": len(_tensors(info))}
        attrs = {"func_name": called, "flatten_data": 0, **counts}
        attrs = {key: str(number) for key, number in attrs.items()}
        node = {"op": "tvm_op", "name": called, "attrs": attrs, "inputs": inputs}
        self._node(binding.var, node, info)

    def text(self, result: rx.Expr) -> str:
        """The whole graph."""
        flat = [info for infos in self.infos for info in infos]
        shapes = [[_extent(d) for d in info.get_shape() or ()] for info in flat]
        rows = [0]
        for infos in self.infos:
            rows.append(rows[-1] + len(infos))
        attrs = {
            "dltype": ["list_str", [str(info.dtype) for info in flat]],
            "shape": ["list_shape", shapes],
            "storage_id": ["list_int", list(range(len(flat)))],
        }
        graph = {"nodes": self.nodes, "arg_nodes": self.arguments, "heads": self.refs(result)}
        return json.dumps({**graph, "attrs": attrs, "node_row_ptr": rows}, indent=2)


def _extent(dim: PrimExpr) -> int | str:
    return dim.value if isinstance(dim, IntImm) else str(dim)


def _tensors(info: StructInfo) -> list[Any]:
    if isinstance(info, TupleStructInfo):
        return [t for f in info.fields for t in _tensors(f)]
    return [info] if isinstance(info, TensorStructInfo) else []
