"""TVM's entry for graphs of torch.fx."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import fx

from ...base.errors import LoopwrightError, explain
from ...ir.module import IRModule
from .dtypes import dtype_of
from .importer import Form, in_form

# Methods of v0.21's table that torch's tensors do not have.
_METHODS: dict[str, Callable[..., Any]] = {"astype": torch.Tensor.to, "getattr": getattr}

InputInfo = Sequence[tuple[Sequence[int], str | torch.dtype]]


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

    >>> import torch
    >>> net = torch.nn.Linear(4, 2).eval()
    >>> mod = lw.frontend.torch.from_fx(torch.fx.symbolic_trace(net), [((3, 4), "float32")])
    >>> mod["main"].ret_struct_info
    R.Tensor((3, 2), dtype="float32")
    """
    if custom_convert_map:
        hint = 'register_converter("aten.name.default", convert=f, domain="torch") of frontend.graph.registry'
        what = "converters are registered by ATen's overloads"
        raise LoopwrightError(
            explain(what, got=", ".join(map(str, custom_convert_map)), instead=hint)
        )
    inputs = tuple(
        torch.zeros(tuple(shape), dtype=getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        for shape, dtype in input_info
    )
    model = _of_functions(model)
    try:
        program = torch.export.export(model, inputs)
    except RuntimeError:
        # Positions of int32, which TVM takes, are long ones in a program of torch.
        long = tuple(x.long() if x.dtype is torch.int32 else x for x in inputs)
        if all(a is b for a, b in zip(inputs, long, strict=True)):
            raise
        program = torch.export.export(model, long)
    result = model.graph.output_node().args[0]
    single = not isinstance(result, (list, tuple, dict))
    form = Form(
        not (unwrap_unit_return_tuple or single),
        not no_bind_return_tuple,
        of_one=single,
        dtypes=[dtype_of(x.dtype) for x in inputs],
        size=isinstance(result, fx.Node) and str(result.target) == "aten.sym_size.int",
    )
    return in_form(program, form, keep_params_as_input)


def _of_functions(model: fx.GraphModule) -> fx.GraphModule:
    """A graph without the methods of `_METHODS`."""
    graph = deepcopy(model.graph)
    for node in graph.nodes:
        if node.op == "call_method" and node.target in _METHODS:
            node.op, node.target = "call_function", _METHODS[node.target]
    return fx.GraphModule(model, graph)
