"""The model's graph for other programs: JSON of Google's Model Explorer, an ONNX file for Netron."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..ir.trace import ModelNode
from .explored import Explored


def model_explorer(explored: Explored, file: str | Path | None = None, name: str = "model") -> str:
    """The nodes of the model as a graph of Model Explorer, with the kernels that each one is part of
    and the pass that removed it; written to `file` if it is given."""
    nodes: list[dict[str, Any]] = []
    for node in explored.nodes.values():
        plain = node.name.removeprefix("onnx:")
        nodes.append(
            {
                "id": node.name,
                "label": node.op or plain,
                "namespace": plain.strip("/").rpartition("/")[0],
                "incomingEdges": [
                    {"sourceNodeId": other, "sourceNodeOutputId": "0", "targetNodeInputId": str(k)}
                    for k, other in enumerate(explored.makers.get(node.name, ()))
                ],
                "attrs": [{"key": k, "value": v} for k, v in _facts(explored, node.name).items()],
            }
        )
    text = json.dumps({"label": name, "graphs": [{"id": name, "nodes": nodes}]}, indent=1)
    if file is not None:
        Path(file).write_text(text, encoding="utf-8")
    return text


def netron(explored: Explored, model: Any, file: str | Path) -> None:
    """Write an ONNX model again for Netron, which shows a node's metadata: each node has the name that
    `explain` and `origin` know, and the facts about it. model: the path or ModelProto that was
    compiled; external data is not copied."""
    import onnx

    proto = onnx.ModelProto()
    proto.CopyFrom(
        model if isinstance(model, onnx.ModelProto) else onnx.load(model, load_external_data=False)
    )
    proto.ir_version = max(proto.ir_version, 10)  # from where on nodes have metadata
    by_outputs: dict[tuple[str, tuple[str, ...]], list[ModelNode]] = {}
    for match in explored.nodes.values():
        by_outputs.setdefault((match.op, match.makes), []).append(match)
    graphs = [proto.graph]
    for graph in graphs:
        for node in graph.node:
            among, reads = (
                by_outputs.get((node.op_type, tuple(node.output)), []),
                [*filter(None, node.input)],
            )
            match = next((n for n in among if [*n.reads[: len(reads)]] == reads), None)
            if match is not None:
                among.remove(match)
                node.name = match.name.removeprefix("onnx:")
                for key, value in _facts(explored, match.name).items():
                    node.metadata_props.add(key=key, value=value)
            for a in node.attribute:
                graphs += [*([a.g] if a.HasField("g") else []), *a.graphs]
    onnx.save(proto, file)


def _facts(explored: Explored, name: str) -> dict[str, str]:
    """The kernels and bindings of a node, and the step that removed it, as texts."""
    origin = explored.origin(name)
    facts = {"kernels": ", ".join(origin.kernels), "relax": ", ".join(origin.bindings)}
    facts |= {"removed by": origin.removed_by, "into": ", ".join(origin.into)}
    return {key: value for key, value in facts.items() if value}
