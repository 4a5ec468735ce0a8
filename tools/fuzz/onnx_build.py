"""A random ONNX graph, grown node by node and computed as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

from loopwright.frontend.onnx import from_onnx
from loopwright.relax.interpreter import Interpreter

from .build import Builder, NotHere, Value, is_exact
from .case import Case, reads
from .onnx_model import reference, to_onnx
from .tolerance import arrays


class OnnxBuilder(Builder):
    """Builds a case of ONNX's operators."""

    def __init__(self, seed: int) -> None:
        super().__init__("onnx", seed)

    def add(
        self,
        op: str,
        inputs: Sequence[Any],
        outs: int = 1,
        *,
        final: bool = False,
        checked: bool = False,
        **attrs: Any,
    ) -> list[Value]:
        """A node with this number of results; final: nothing is computed from it. Raises NotHere where
        neither onnxruntime nor we compute it; checked: where one of us does not."""
        names = [v.name if isinstance(v, Value) else v for v in inputs]
        node = [op, names, [self.name("v") for _ in range(outs)], attrs]
        if checked:  # by us first: some of onnxruntime's kernels read beyond what they are given
            for run in range(len(self.case.sizes)):
                self.ours(*self.alone(node, run, symbolic=True))
        runs = self.computed(node, checked)
        if any(a.size > self.most for run in runs for a in run):
            raise NotHere
        self.case.nodes.append(node)
        exact = all(v.exact for v in self.values if v.name in reads(node)) and self.exact(node)
        made = []
        for name, results in zip(node[2], zip(*runs, strict=True), strict=True):
            self.arrays[name] = list(results)
            shape = list(zip(*(a.shape for a in results)))
            made.append(self.value(name, str(results[0].dtype), shape, exact))
        self.values.extend(made if not final else [])
        return made

    def computed(self, node: list[Any], checked: bool = False) -> list[list[np.ndarray]]:
        """The results of a node in each run: onnxruntime's; where it has none ours."""
        made = []
        for run in range(len(self.case.sizes)):
            model, feeds = self.alone(node, run)
            try:
                made.append([np.asarray(a) for a in reference(model, [feeds])[0]])
            except Exception as error:
                if checked and "NOT_IMPLEMENTED" not in str(error):
                    raise NotHere from error
                made.append(self.ours(model, feeds))
        if any(len({a.ndim for a in result}) > 1 for result in zip(*made, strict=True)):
            raise NotHere
        return made

    def ours(self, model: ModelProto, feeds: list[np.ndarray]) -> list[np.ndarray]:
        """Our results of a model, or NotHere."""
        try:
            return arrays(Interpreter(from_onnx(model))["main"](*feeds))
        except Exception as error:
            raise NotHere from error

    def numbers(self, name: str, run: int) -> np.ndarray:
        """What a value of the graph is in a run; that of a node put in by hand is computed now."""
        if name not in {**self.arrays, **self.case.inputs, **self.case.weights}:
            node = next(n for n in self.case.nodes if name in n[2])
            self.arrays.update(zip(node[2], map(list, zip(*self.computed(node)))))
        return super().numbers(name, run)

    def read(self, node: list[Any]) -> list[str]:
        """The values of the graph that a node reads."""
        made = {out for n in self.case.nodes for out in n[2]}
        known = {*self.case.inputs, *self.case.weights, *made}
        return [n for n in dict.fromkeys(reads(node)) if n in known]

    def exact(self, node: list[Any]) -> bool:
        """Whether everyone computes the same bits of a node's floats."""
        names = self.read(node)

        def compute(values: list[Any]) -> list[np.ndarray]:
            model, feeds = self.alone(node, 0, dict(zip(names, values, strict=True)))
            return reference(model, [feeds])[0]

        return is_exact(compute, [self.numbers(n, 0) for n in names])

    def alone(
        self,
        node: list[Any],
        run: int,
        values: dict[str, Any] | None = None,
        symbolic: bool = False,
    ) -> tuple[ModelProto, list[np.ndarray]]:
        """The model of one node, and its feeds in a run, or of these values."""
        shapes = {v.name: [*map(self.text, v.shape)] for v in self.values} if symbolic else {}
        values = values or {n: self.numbers(n, run) for n in self.read(node)}
        part = Case("onnx", 0, self.case.opset, nodes=[node], outputs=[n for n in node[2] if n])
        for name, array in values.items():
            table = part.weights if name in self.case.weights else part.inputs
            shape = shapes.get(name, [*array.shape])
            table[name] = {"dtype": str(array.dtype), "shape": shape, "values": array}
        return to_onnx(part), [values[name] for name in part.inputs]
