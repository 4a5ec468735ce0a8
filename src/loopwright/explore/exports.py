"""The model's graph for other programs: JSON of Google's Model Explorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .explored import Explored


def model_explorer(explored: Explored, file: str | Path | None = None, name: str = "model") -> str:
    """The nodes of the model as a graph of Model Explorer, with the kernels that each one is part of
    and the pass that removed it; written to `file` if it is given."""
    nodes: list[dict[str, Any]] = []
    for node in explored.nodes.values():
        origin = explored.origin(node.name)
        plain = node.name.removeprefix("onnx:")
        facts = {"kernels": ", ".join(origin.kernels), "relax": ", ".join(origin.bindings)}
        facts |= {"removed by": origin.removed_by, "into": ", ".join(origin.into)}
        nodes.append(
            {
                "id": node.name,
                "label": node.op or plain,
                "namespace": plain.strip("/").rpartition("/")[0],
                "incomingEdges": [
                    {"sourceNodeId": other, "sourceNodeOutputId": "0", "targetNodeInputId": str(k)}
                    for k, other in enumerate(explored.makers.get(node.name, ()))
                ],
                "attrs": [{"key": key, "value": value} for key, value in facts.items() if value],
            }
        )
    text = json.dumps({"label": name, "graphs": [{"id": name, "nodes": nodes}]}, indent=1)
    if file is not None:
        Path(file).write_text(text, encoding="utf-8")
    return text


__all__ = ["model_explorer"]
