"""TVM's entries for graphs of torch.fx and of dynamo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ...base.errors import LoopwrightError, explain
from ...ir.module import IRModule
from .compiling import backend
from .importer import from_exported_program

InputInfo = Sequence[tuple[Sequence[int], str]]


def from_fx(
    model: fx.GraphModule,
    input_info: InputInfo,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
) -> IRModule:
    """Import a graph of `torch.fx.symbolic_trace` as an IRModule with a function `main`.

    input_info: the shape and the dtype of each input. The other parameters are those of
    `from_exported_program`, whose program this graph becomes with such inputs; only `unwrap_unit_return_tuple`
    differs: a result that is not a tuple is returned as it is.

    Raises LoopwrightError for custom_convert_map, whose converters are registered for ATen's overloads instead.
    """
    if custom_convert_map:
        hint = 'register_converter("aten.name.default", convert=f, domain="torch") of frontend.graph.registry'
        what = "converters are registered by ATen's overloads"
        raise LoopwrightError(
            explain(what, got=", ".join(map(str, custom_convert_map)), instead=hint)
        )
    inputs = tuple(
        torch.zeros(tuple(shape), dtype=getattr(torch, dtype)) for shape, dtype in input_info
    )
    single = not isinstance(model.graph.output_node().args[0], (list, tuple, dict))
    return from_exported_program(
        torch.export.export(model, inputs),
        keep_params_as_input=keep_params_as_input,
        unwrap_unit_return_tuple=unwrap_unit_return_tuple or single,
        no_bind_return_tuple=no_bind_return_tuple,
    )


def relax_dynamo(pipeline: Callable[[IRModule], IRModule] | None = None) -> Callable[..., Any]:
    """A backend of `torch.compile`. pipeline: passes that run on each module before it is compiled."""

    def compiler(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        return backend(gm, example_inputs, pipeline=pipeline)

    return compiler


def dynamo_capture_subgraphs(model: Any, *params: Any, **kwargs: Any) -> IRModule:
    """The graphs that dynamo captures of a call of a model or a function, as functions `subgraph_0`,
    `subgraph_1`, ... keep_params_as_input=True makes parameters inputs; other keywords are the model's."""
    keep = kwargs.pop("keep_params_as_input", False)
    mods: list[IRModule] = []

    def capture(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        program = torch.export.export(gm, tuple(example_inputs))
        mods.append(from_exported_program(program, keep_params_as_input=keep))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(model, backend=capture)(*params, **kwargs)
    functions = {
        f"subgraph_{k}": mod["main"].with_attr("global_symbol", f"subgraph_{k}")
        for k, mod in enumerate(mods)
    }
    return IRModule(functions)
