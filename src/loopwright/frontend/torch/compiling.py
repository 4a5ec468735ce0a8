"""`torch.compile(model, backend="loopwright")`: graphs of dynamo, compiled by `loopwright.compile`.

AotAutograd makes of each graph one for inference, or one forward and one backward, in ATen's operators. What has
a converter is compiled; the rest runs in eager torch, and `report()` says what and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves

from ...base.errors import InternalError, explain
from ..graph.registry import find_converter
from . import converters as converters
from .converters.complexes import BY_PARTS
from .dtypes import DTYPES, PARTS
from .freezing import retrace_frozen
from .model import DOMAIN, GETITEM, is_read, python_line
from .pairs import COMPLEX
from .parts import STATIC, NotConverted, Part, Pipeline
from .programs import copied, decompositions
from .reports import LOG, note
from .symbols import REAL


class Mode(NamedTuple):
    """How graphs are compiled. pipeline: passes that run before `compile`. freeze: parameters are constants.
    binds: they are bound once, which pays where they are seldom written: in inference."""

    pipeline: Pipeline = None
    freeze: bool = False
    binds: bool = False


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor | torch.SymInt],
    *,
    pipeline: Pipeline = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[..., Any]:
    """The backend "loopwright" of `torch.compile`.

    pipeline: passes that run before `compile`. options: {"freeze": True}: without gradients, the values that
    parameters have at the first call are constants, as with inductor's freezing.

    Raises ValueError for another option.

    >>> import torch
    >>> net = torch.nn.Linear(4, 2).eval()
    >>> run = torch.compile(net, backend="loopwright")
    >>> run(torch.ones(3, 4)).shape
    torch.Size([3, 2])
    """
    unknown = [name for name in options if name != "freeze"]
    if unknown:
        what = "the backend loopwright has no such option"
        raise ValueError(explain(what, got=", ".join(unknown), instead='options={"freeze": True}'))
    freeze = bool(options.get("freeze")) and not torch.is_grad_enabled()
    if freeze:
        retrace_frozen()
    mode = Mode(pipeline)
    compiled = partial(_compiled, mode)
    compiler = aot_autograd(
        fw_compiler=compiled,
        bw_compiler=compiled,
        inference_compiler=partial(_compiled, mode._replace(freeze=freeze, binds=True)),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=False,
    )
    return compiler(gm, example_inputs)


def _compiled(mode: Mode, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A graph of ATen's operators as a callable, which runs in eager torch where compilation fails."""
    LOG.graphs += 1
    if mode.binds:
        _mark_parameters(gm)
    with unset_fake_temporarily():  # constants are real tensors
        return _compiled_graph(mode, gm)


def _mark_parameters(gm: fx.GraphModule) -> None:
    """Mark the placeholders of parameters and buffers that the graph does not write."""
    context = torch._guards.TracingContext.try_get()
    facts = context.fw_metadata if context is not None else None
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    if facts is None or len(facts.input_info) != len(placeholders):
        return
    for k in facts.static_input_indices:
        if not facts.input_info[k].mutates_data:
            placeholders[k].meta[STATIC] = True


def _compiled_graph(mode: Mode, gm: fx.GraphModule) -> Callable[..., Any]:
    _name_attributes(gm)
    eager: dict[str, str] = {}  # why nodes run in eager, by their names
    try:
        while True:
            before = len(eager)
            run = _try(gm, eager, mode)
            if run is not None:
                break
            if len(eager) == before:
                raise InternalError("a graph cannot be split")
    except Exception as error:
        note("graph", f"{type(error).__name__}: {error}")
        return _boxed(gm.forward)
    for node in gm.graph.nodes:
        if node.name in eager:
            note(str(node.target), eager[node.name], python_line(node))
    return _boxed(run)


def _try(gm: fx.GraphModule, eager: dict[str, str], mode: Mode) -> Callable[..., Any] | None:
    """The graph compiled, except the nodes in `eager`; None if it has one more of them now."""
    for node in gm.graph.nodes:
        reason = None if node.op != "call_function" else _why_not(node)
        if reason is not None and node.name not in eager:
            eager[node.name] = reason
    try:
        if not eager:
            return Part(gm, mode.pipeline, mode.freeze, _note_error)
        support = _Support(eager)
        graph = fx.GraphModule(gm, copied(gm.graph))
        partitioner = CapabilityBasedPartitioner(graph, support, allows_single_node_partition=True)
        fused = partitioner.fuse_partitions(partitioner.propose_partitions())
        for node in fused.graph.nodes:
            if node.op == "call_module":
                name = str(node.target)
                part = Part(getattr(fused, name), mode.pipeline, mode.freeze, _note_error)
                setattr(fused, name, part)
    except NotConverted as error:
        eager[error.node] = str(error)
        return None
    return fused.forward


def _boxed(run: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A function of a list of arguments, which it clears, so that nothing keeps them alive."""

    def make_boxed(function: Any) -> Any:
        function._boxed_call = True
        return function

    def call(args: list[Any]) -> Any:
        values = tuple(args)
        args.clear()
        return run(*values)

    return make_boxed(run.boxed() if isinstance(run, Part) else call)


def _note_error(error: Exception) -> None:
    note("graph", f"{type(error).__name__}: {error}")


def _name_attributes(gm: fx.GraphModule) -> None:
    """Record what attributes are: tensors, and graphs of branches and iterations, with theirs."""
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = node.meta["val"] = reduce(getattr, str(node.target).split("."), gm)
            if isinstance(value, fx.GraphModule):
                _name_attributes(value)


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
    number = isinstance(value, (int, float, bool, torch.SymInt)) or (
        isinstance(value, torch.SymFloat) and type(value.node.expr).__name__ in REAL
    )
    if name == GETITEM or (number and not is_read(node)):
        return None
    return None if find_converter(name, 1, DOMAIN) else "no converter"
