"""A front end of another package: graphs in JSON, of ten operators.

    python examples/toy_dialect.py

A package that has it registers it with an entry point, and `compile`, `lower` and the command line take
`.toy` files:

    [project.entry-points."loopwright.frontends"]
    toy = "toy_dialect:from_toy"
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import relax
from loopwright.frontend import register_importer
from loopwright.frontend.graph.context import Context
from loopwright.frontend.graph.importer import Importer
from loopwright.frontend.graph.model import Model, Node, Port, ordered, remember
from loopwright.frontend.graph.registry import converter, register_converter
from loopwright.frontend.graph.values import Value

op = relax.op
DOMAIN = "toy"


class ToyNode(Node):
    """A node of such a graph; its name in spans and messages starts with "toy:"."""

    dialect = DOMAIN


def read(text: str) -> Model:
    """The model of a file: {"inputs": {name: shape}, "weights": {name: array}, "nodes": [{"op", "in",
    "out", ...attributes}], "outputs": [name]}."""
    graph = json.loads(text)
    nodes: list[Node] = [
        ToyNode(n.pop("op"), DOMAIN, n.pop("name", ""), n.pop("in"), [n.pop("out")], n)
        for n in graph["nodes"]
    ]
    titles: set[str] = set()
    remember(nodes, titles)
    weights = {name: np.asarray(w, "float32") for name, w in graph["weights"].items()}
    inputs = [Port(name, "float32", dims) for name, dims in graph["inputs"].items()]
    outputs = [Port(name, "float32", None) for name in graph["outputs"]]
    live = ordered(nodes, {*weights, *graph["inputs"]}, graph["outputs"])
    return Model(live, inputs, outputs, weights, titles)


def from_toy(model: Any) -> lw.IRModule | None:
    """The module of a `.toy` file; None for anything else."""
    if not isinstance(model, (str, Path)) or Path(model).suffix != ".toy":
        return None
    return Importer(read(Path(model).read_text())).run()


# ---------------------------------------------------------------- the converters

for name, ours in {"Relu": "nn.relu", "Tanh": "tanh", "Exp": "exp", "MatMul": "matmul"}.items():
    register_converter(name, domain=DOMAIN, to=f"relax.{ours}")


@converter("Add", domain=DOMAIN)
def add(cx: Context, node: Node, a: Value, b: Value) -> Any:
    return op.add(*cx.broadcast(a, b))  # also of extents that only the run knows


@converter("Mul", domain=DOMAIN)
def mul(cx: Context, node: Node, a: Value, b: Value) -> Any:
    return op.multiply(*cx.broadcast(a, b))


@converter("Scale", domain=DOMAIN)
def scale(cx: Context, node: Node, x: Value) -> Any:
    return op.multiply(x.expr, cx.scalar(node.real("by"), x.dtype))


@converter("Sum", domain=DOMAIN)
def total(cx: Context, node: Node, x: Value) -> Any:
    return op.sum(x.expr, node.integers("axes", None), node.flag("keep"))


@converter("Softmax", domain=DOMAIN)
def softmax(cx: Context, node: Node, x: Value) -> Any:
    return op.nn.softmax(x.expr, node.integer("axis", -1))


@converter("Reshape", domain=DOMAIN)
def reshape(cx: Context, node: Node, x: Value) -> Any:
    return op.reshape(x.expr, node.integers("shape"))


def main() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 3)).round(2)
    nodes = [
        {"op": "MatMul", "in": ["x", "w"], "out": "h", "name": "dense"},
        {"op": "Relu", "in": ["h"], "out": "r", "name": "act"},
        {"op": "Softmax", "in": ["r"], "out": "y", "name": "head"},
    ]
    graph = {"inputs": {"x": ["n", 4]}, "weights": {"w": w.tolist()}, "nodes": nodes}
    file = Path(tempfile.mkdtemp()) / "model.toy"
    file.write_text(json.dumps({**graph, "outputs": ["y"]}))
    print(lw.lower(file)[0].before.script())
    x = rng.standard_normal((2, 4)).astype("float32")
    e = np.exp(np.maximum(x @ w.astype("float32"), 0))
    right = np.allclose(lw.compile(file).run({"x": x})["y"].numpy(), e / e.sum(-1, keepdims=True))
    print("right:", right)


if __name__ == "__main__":
    register_importer("toy", from_toy)
    main()
