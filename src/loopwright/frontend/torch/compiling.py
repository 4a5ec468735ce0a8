"""`torch.compile(model, backend="loopwright")`: graphs of dynamo, compiled by `loopwright.compile`.

AotAutograd makes of each graph one for inference, or one forward and one backward, in ATen's operators. What has
a converter is compiled; the rest runs in eager torch, and `report()` says what and why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves

from ...base.errors import InternalError, explain
from ...base.late import Slot
from ...ir.module import IRModule
from ..graph.registry import find_converter
from . import converters as converters
from .converters.complexes import BY_PARTS
from .dtypes import DTYPES, PARTS
from .importer import TorchImporter, decompositions
from .model import DOMAIN, GETITEM, is_read, python_line
from .pairs import COMPLEX
from .reports import LOG, EagerPart

Pipeline = Callable[[IRModule], IRModule] | None
COMPILE: Slot[Callable[..., Any]] = Slot("frontend.compile")


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor | torch.SymInt],
    *,
    pipeline: Pipeline = None,
) -> Callable[..., Any]:
    """The backend "loopwright" of `torch.compile`. pipeline: passes that run before `compile`."""
    compiled = partial(_compiled, pipeline)
    compiler = aot_autograd(
        fw_compiler=compiled,
        bw_compiler=compiled,
        inference_compiler=compiled,
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=False,
    )
    return compiler(gm, example_inputs)


def _compiled(
    pipeline: Pipeline, gm: fx.GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """A graph of ATen's operators as a callable, which runs in eager torch where compilation fails."""
    LOG.graphs += 1
    with unset_fake_temporarily():  # constants are real tensors
        return _compiled_graph(pipeline, gm)


def _compiled_graph(pipeline: Pipeline, gm: fx.GraphModule) -> Callable[..., Any]:
    _name_attributes(gm)
    eager: dict[str, str] = {}  # why nodes run in eager, by their names
    try:
        while True:
            before = len(eager)
            run = _try(gm, eager, pipeline)
            if run is not None:
                break
            if len(eager) == before:
                raise InternalError("a graph cannot be split")
    except Exception as error:
        _note(None, f"{type(error).__name__}: {error}")
        return _boxed(gm.forward)
    for node in gm.graph.nodes:
        if node.name in eager:
            _note(node, eager[node.name])
    return _boxed(run)


def _try(
    gm: fx.GraphModule, eager: dict[str, str], pipeline: Pipeline
) -> Callable[..., Any] | None:
    """The graph compiled, except the nodes in `eager`; None if it has one more of them now."""
    for node in gm.graph.nodes:
        reason = None if node.op != "call_function" else _why_not(node)
        if reason is not None and node.name not in eager:
            eager[node.name] = reason
    if not eager:
        return _part(gm, eager, pipeline)
    support = _Support(eager)
    graph = fx.GraphModule(gm, _copied(gm.graph))
    partitioner = CapabilityBasedPartitioner(graph, support, allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    for node in fused.graph.nodes:
        if node.op == "call_module":
            part = _part(getattr(fused, str(node.target)), eager, pipeline)
            if part is None:
                return None
            setattr(fused, str(node.target), part)
    return fused.forward


def _copied(graph: fx.Graph) -> fx.Graph:
    new = fx.Graph()
    new.output(new.graph_copy(graph, {}))
    return new


def _boxed(run: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A function of a list of arguments, which it clears, so that nothing keeps them alive."""

    def call(args: list[Any]) -> Any:
        values = tuple(args)
        args.clear()
        return run(*values)

    call._boxed_call = True
    return call


def _note(node: fx.Node | None, reason: str) -> None:
    """Record a part that runs in eager, and warn of it once."""
    target, line = ("graph", "") if node is None else (str(node.target), python_line(node))
    part = EagerPart(target, reason.splitlines()[0][:300], line)
    if part not in LOG.eager:
        LOG.eager.append(part)
        what = f"{target} runs in eager torch"
        warnings.warn(
            explain(what, got=part.reason, instead="loopwright.frontend.torch.report()"),
            stacklevel=2,
        )


def _part(gm: fx.GraphModule, eager: dict[str, str], pipeline: Pipeline) -> _Call | None:
    """A graph compiled as a whole; None where an operator cannot be converted, which is then in `eager`."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    importer = TorchImporter(gm.graph, placeholders, _attributes(gm), computed_only=True)
    try:
        mod = importer.run()
    except Exception as error:
        if importer.at_node is None:
            raise
        eager[importer.at_node.name] = str(error)
        return None
    return _Call(COMPILE.get()(mod if pipeline is None else pipeline(mod)), gm, importer)


def _attributes(gm: fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors among a graph's attributes, by the names of their nodes."""
    nodes = [n for n in gm.graph.nodes if n.op == "get_attr"]
    return {n.name: n.meta["val"] for n in nodes if isinstance(n.meta.get("val"), torch.Tensor)}


def _name_attributes(gm: fx.GraphModule) -> None:
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            node.meta["val"] = reduce(getattr, str(node.target).split("."), gm)


class _Call(torch.nn.Module):
    """An executable as a function of torch's tensors and sizes. Inputs that are results are passed on."""

    def __init__(self, exe: Any, gm: fx.GraphModule, importer: TorchImporter) -> None:
        super().__init__()
        names = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
        self.call, self.eager = exe["main"], gm.forward
        self.takes = [names.index(p.name) for p in importer.model.inputs]
        values = tree_leaves(gm.graph.output_node().args, is_leaf=lambda x: x is None)
        computed = {n.name: k for k, n in enumerate(importer.results)}
        # For each result its kind, and its number among the computed ones, the inputs, or itself.
        self.results: list[tuple[str, Any]] = [_result(v, computed, names) for v in values]
        self.single = not isinstance(gm.graph.output_node().args[0], (list, tuple))
        self.count = len(importer.results)

    def forward(self, *args: Any) -> Any:
        try:
            out = self.call(*(_taken(args[k]) for k in self.takes)) if self.count else ()
        except Exception as error:  # data that ours refuses: eager says so, or does it
            _note(None, f"{type(error).__name__}: {error}")
            return self.eager(*args)
        values = [out] if self.count == 1 else out
        results = [
            source
            if kind == "constant"
            else args[source]
            if kind == "input"
            else _AS[kind](values[source])
            for kind, source in self.results
        ]
        return results[0] if self.single else tuple(results)


_AS: dict[str, Callable[[Any], Any]] = {
    "tensor": torch.from_dlpack,
    "pair": lambda value: torch.view_as_complex(torch.from_dlpack(value)),
    "size": lambda value: torch.from_dlpack(value).item(),
}


def _result(value: Any, computed: dict[str, int], inputs: list[str]) -> tuple[str, Any]:
    if not isinstance(value, fx.Node):
        return "constant", value
    if value.op == "placeholder":
        return "input", inputs.index(value.name)
    fake = value.meta.get("val")
    tensor = "pair" if isinstance(fake, torch.Tensor) and fake.is_complex() else "tensor"
    return tensor if isinstance(fake, torch.Tensor) else "size", computed[value.name]


def _taken(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return torch.tensor([] if value is None else value)  # None: a token, which orders effects
    value = value.detach().resolve_conj().resolve_neg()
    value = torch.view_as_real(value) if value.is_complex() else value
    return value if value.is_contiguous() else value.contiguous()


class _Support(OperatorSupportBase):
    def __init__(self, eager: dict[str, str]) -> None:
        self.eager = eager

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        if node.op != "call_function" or node.name in self.eager:
            return False
        source = node.args[0] if str(node.target) == GETITEM else None
        return not isinstance(source, fx.Node) or self.is_node_supported(submodules, source)


def _why_not(node: fx.Node) -> str | None:
    """Why a node cannot be compiled; None if it can."""
    fakes = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    for fake in tree_leaves(fakes):
        if not isinstance(fake, torch.Tensor):
            continue
        if (
            fake.dtype not in DTYPES | PARTS
            or fake.layout != torch.strided
            or fake.device.type != "cpu"
        ):
            return f"tensors of {fake.dtype}, {fake.layout}, on {fake.device.type}"
    name, value = str(node.target), node.meta.get("val")
    paired = any(isinstance(f, torch.Tensor) and f.is_complex() for f in tree_leaves(fakes))
    if paired and (name in COMPLEX or name in BY_PARTS):
        return None
    if name == GETITEM or (
        isinstance(value, (int, float, bool, torch.SymInt)) and not is_read(node)
    ):
        return None
    return None if find_converter(name, 1, DOMAIN) else "no converter"
