"""Programs of torch.export as eager torch computes them: what `bisect` compares with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from .model import output_nodes, result_of
from .programs import decompositions


def eager(
    program: ExportedProgram, feeds: Mapping[str, Any], names: Sequence[str] | None
) -> dict[str, np.ndarray]:
    """Values of a program's graph by the names of the import, for None its outputs; complex
    ones have an axis of their two parts. feeds: the inputs by the names of their placeholders."""
    program = program.run_decompositions(decompositions())
    state = {**program.state_dict, **program.constants}
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    args = [
        state[spec.target] if spec.target in state else _as_torch(feeds[node.name], node)
        for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True)
    ]
    run = _Recorded(program.graph_module)
    with torch.no_grad():
        outputs = tree_leaves(run.run(*args))
    results = [result_of(n) for n in output_nodes(program.graph)]
    values = dict(zip(results, outputs, strict=True)) if names is None else run.values
    shown = {n: v for n, v in values.items() if isinstance(v, torch.Tensor)}
    return {n: _as_numpy(v) for n, v in shown.items() if names is None or n in names}


class _Recorded(fx.Interpreter):
    """Keeps what each node computes: an operator may write it later."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.values: dict[str, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor):
            self.values[result_of(n)] = value.clone()
        return value


def _as_torch(value: Any, node: fx.Node) -> Any:
    tensor = torch.from_numpy(np.array(value))
    kind = node.meta["val"]
    if not isinstance(kind, torch.Tensor):
        return tensor.item()
    return torch.view_as_complex(tensor) if kind.is_complex() else tensor.to(kind.dtype)


def _as_numpy(value: torch.Tensor) -> np.ndarray:
    value = torch.view_as_real(value) if value.is_complex() else value
    return np.asarray(value.detach().float() if value.dtype == torch.bfloat16 else value.detach())
