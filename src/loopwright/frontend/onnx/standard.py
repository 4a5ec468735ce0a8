"""The standard operators as functions, for converters of operators that are made of them.

    o = cx.onnx
    return o.Softmax(o.Add(x, o.Mul(slope, 0.5)), axis=-1)

An input is a Value, an array, a Relax expression, None for one left out, or a number, which gets the
dtype of the first Value that is not bool. They hold as in `OPSET`, or
the version given as `opset`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.context import Context
from ..graph.values import Value, in_type
from .reader import NEWEST_OPSET, Node

OPSET = NEWEST_OPSET


class Standard:
    """`Standard(cx).Add(a, b)` converts a node. outputs: their number; the result is a list where it is not 1."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(op_type)

        def convert(*inputs: Any, outputs: int = 1, opset: int = OPSET, **attributes: Any) -> Any:
            kinds = [str(v.dtype) for v in inputs if isinstance(v, Value)]
            dtype = next((kind for kind in kinds if kind != "bool"), "float32")
            args = [self._value(v, dtype) for v in inputs]
            names = ["" if v is None else f"x{k}" for k, v in enumerate(args)]
            output_names = [f"y{k}" for k in range(outputs)]
            node = Node(op_type, "", "", names, output_names, attributes, opset)
            results = self._context.walk.part(node, args)[:outputs]
            return results[0] if outputs == 1 else results

        return convert

    def _value(self, arg: Any, dtype: str) -> Value | None:
        if arg is None or isinstance(arg, Value):
            return arg
        if isinstance(arg, (bool, int, float)) and not isinstance(arg, np.generic):
            arg = in_type(arg, dtype)
        if isinstance(arg, (np.ndarray, np.generic, list)):
            return self._context.literal(np.asarray(arg))
        return self._context.value(arg)
