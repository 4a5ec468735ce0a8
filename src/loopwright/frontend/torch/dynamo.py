"""TVM's entries for graphs that dynamo captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from ...ir.module import IRModule
from .compiling import backend
from .importer import Form, in_form


def relax_dynamo(pipeline: Callable[[IRModule], IRModule] | None = None) -> Callable[..., Any]:
    """A backend of `torch.compile`. pipeline: passes that run on each module before it is compiled.

    >>> import torch
    >>> net = torch.nn.Linear(4, 2).eval()
    >>> run = torch.compile(net, backend=lw.frontend.torch.relax_dynamo())
    >>> run(torch.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    def compiler(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        return backend(gm, example_inputs, pipeline=pipeline)

    return compiler


def dynamo_capture_subgraphs(model: Any, *params: Any, **kwargs: Any) -> IRModule:
    """The graphs that dynamo captures of a call of a model or a function of `params`, as functions `subgraph_0`,
    `subgraph_1`, ... In kwargs keep_params_as_input=True makes parameters inputs; other keywords are the model's.

    >>> import torch
    >>> net = torch.nn.Linear(4, 2).eval()
    >>> mod = lw.frontend.torch.dynamo_capture_subgraphs(net, torch.ones(3, 4))
    >>> mod["subgraph_0"].ret_struct_info
    R.Tensor((3, 2), dtype="float32")
    """
    keep = kwargs.pop("keep_params_as_input", False)
    mods: list[IRModule] = []

    def capture(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        program = torch.export.export(gm, tuple(example_inputs))
        mods.append(in_form(program, Form(one_in_tuple=False), keep))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(model, backend=capture)(*params, **kwargs)
    functions = {
        f"subgraph_{k}": mod["main"].with_attr("global_symbol", f"subgraph_{k}")
        for k, mod in enumerate(mods)
    }
    return IRModule(functions)
