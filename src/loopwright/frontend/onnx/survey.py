"""What becomes of a model's operators, found by importing it: `survey(model)`.

An operator is native (kernels), decomposed (its definition's operators are), interpreted (a function of
the runtime in Python does it), folded (nothing is left of it), or missing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...base import budget
from ...base.errors import LoopwrightError
from ...ir.expr import GlobalVar
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim_expr import Var as TirVar
from ...relax.expr import Call, ExternFunc, Function, If, MatchCast, SeqExpr
from ...relax.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo
from ..common import typical_sizes
from ..graph.registry import find_converter
from .expansion import count_nodes, inlined, own_size
from .functions import expanding
from .importer import from_onnx
from .reader import Node, graphs_of, load, node_of, versions_of

KINDS = ("native", "decomposed", "interpreted", "folded", "missing")
_RUN = ("relax.run.", "vm.builtin.")
# They only read numbers, or no correct run calls them.
_FREE = ("vm.builtin.tensor_to_shape", "relax.run.sizes", "relax.run.refused")


@dataclass
class Survey:
    """counts: how many nodes of an operator (domain, name, version) are of which kind. sizes: symbolic extents
    of inputs, by name. dynamic: values known only at run time, by their readers. slow: what will be, and why. error: why the model
    cannot be imported, if that is so for another reason than missing operators."""

    counts: dict[tuple[str, str, int], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    sizes: list[str] = field(default_factory=list)
    dynamic: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def missing(self) -> list[tuple[str, str, int]]:
        """The operators without a converter."""
        return [key for key, kinds in self.counts.items() if kinds["missing"]]

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{'operator':34} {'version':>7} " + " ".join(f"{k:>11}" for k in KINDS)
        for (domain, name, version), kinds in sorted(self.counts.items()):
            title = f"{domain}.{name}" if domain else name
            shown = " ".join(f"{kinds[k] or '':>11}" for k in KINDS)
            yield f"{title:34} {version:>7} {shown}".rstrip()
        lists = {"symbolic sizes": self.sizes, "dynamic values": self.dynamic, "slow": self.slow}
        for title, entries in lists.items():
            yield f"{title}: {'' if entries else 'none'}".rstrip()
            yield from (f"  {line}" for line in entries)
        if self.error:
            yield f"cannot be imported: {self.error}"


def survey(model: Any) -> Survey:
    """What becomes of each operator of a model, in the time of an import. Raises LoopwrightError for
    a file that is not an ONNX model."""
    proto, folder, _ = load(model)
    with budget.started():
        budget.allow(size=own_size(model, proto, folder))
        count_nodes(proto)
    nodes = list(_all_nodes(inlined(proto), versions_of(proto), folder))
    result = Survey()
    methods = {id(n): _method(n) for n in nodes}
    calls: dict[str, set[str]] = {}
    if all(methods.values()):
        try:
            mod = from_onnx(model)
            calls = _calls(mod, result)
            result.sizes += _sizes(mod["main"])
        except LoopwrightError as error:
            result.error = str(error)
    for node in nodes:
        key = (node.domain, node.op_type, node.opset)
        result.counts[key][_kind(methods[id(node)], calls.get(node.title), bool(calls))] += 1
    return result


def _sizes(main: Function) -> Iterator[str]:
    """The symbolic extents of the inputs, their positions and typical values."""
    inputs, inputs_of = [], defaultdict(list)
    for param in main.params:
        info = param.struct_info
        dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
        shape = [getattr(d, "name", getattr(d, "value", None)) for d in dims or ()]
        inputs.append((param.name_hint, str(getattr(info, "dtype", "")), shape))
        for axis, name in enumerate(shape):
            inputs_of[name].append(f"axis {axis} of {param.name_hint}")
    for name, (kind, size) in typical_sizes(inputs).items():
        yield f"{name}: {', '.join(inputs_of[name])} ({kind}, typically {size})"


def _all_nodes(protos: Any, opsets: dict[str, int], folder: Path | None) -> Iterator[Node]:
    """Nodes, and those of the graphs that are their attributes."""
    for proto in protos:
        yield node_of(proto, opsets, folder)
        for attribute in proto.attribute:
            for graph in graphs_of(attribute):
                yield from _all_nodes(graph.node, opsets, folder)


def _method(node: Node) -> str:
    """How a node is converted: "own", "definition", or "" where nothing does it."""
    if find_converter(node.op_type, node.opset, node.domain) is not None:
        return "own"
    return "definition" if expanding(node) is not None else ""


def _kind(method: str, called: set[str] | None, is_known: bool) -> str:
    if not method:
        return "missing"
    if called is not None and any(name.startswith(_RUN) and name not in _FREE for name in called):
        return "interpreted"
    if method == "definition":
        return "decomposed"
    return "native" if called or not is_known else "folded"


def _calls(mod: IRModule, result: Survey) -> dict[str, set[str]]:
    """The functions that the bindings of each node call, by its title; notes dynamic and slow ones."""
    calls: dict[str, set[str]] = defaultdict(set)
    read: dict[str, None] = {}
    for func in mod.functions.values():
        if not isinstance(func, Function):
            continue
        for binding in _bindings(func.body):
            value = getattr(binding, "value", None)
            title = str(binding.span or getattr(value, "span", None) or "")
            name = _callee(value)
            # The definition's operators are its node's, too: onnx:/node/Add.
            calls[title].add(name)
            if "/" in title:
                calls[title.rpartition("/")[0]].add("decomposed")
            if isinstance(binding, MatchCast):
                read.update((f"{title}: {d}", None) for d in _symbols(binding.struct_info))
            if title:  # not a loop's own bindings
                result.slow += _slow(value, name, title)
    result.dynamic += read
    return calls


def _bindings(body: SeqExpr) -> Iterator[Any]:
    for block in body.blocks if isinstance(body, SeqExpr) else ():
        for binding in block.bindings:
            yield binding
            value = getattr(binding, "value", None)
            if isinstance(value, If):
                yield from _bindings(value.true_branch)
                yield from _bindings(value.false_branch)


def _callee(value: Any) -> str:
    if not isinstance(value, Call):
        return type(value).__name__
    first = value.args[0] if value.args else None
    if isinstance(first, ExternFunc):
        return str(first.global_symbol)
    if isinstance(value.op, GlobalVar):
        return value.op.name_hint
    return value.op.name if isinstance(value.op, Op) else type(value.op).__name__


def _symbols(info: StructInfo) -> list[str]:
    dims: Any = ()
    if isinstance(info, TensorStructInfo):
        dims = info.get_shape() or ()
    elif isinstance(info, ShapeStructInfo):
        dims = info.values or ()
    return [d.name for d in dims if isinstance(d, TirVar) and d.name in ("read", "found")]


def _slow(value: Any, name: str, title: str) -> Iterator[str]:
    """What of a binding costs more than a kernel of its size should, and why."""
    if name.startswith(_RUN) and name not in _FREE:
        yield f"{title}: {name} runs in Python: its result, or the size of it, depends on data"
    elif isinstance(value, Call) and isinstance(value.op, GlobalVar) and name.startswith("loop"):
        yield f"{title}: each turn of the loop is a step of the virtual machine"
    elif isinstance(value, If):
        yield f"{title}: a choice of the run ends the native function before it"
    elif isinstance(value, Call) and name in ("relax.matmul", "relax.nn.conv2d"):
        dtype = str(value.struct_info.dtype)
        if dtype == "float64":
            yield f"{title}: {name} in float64 has half the lanes of float32"
