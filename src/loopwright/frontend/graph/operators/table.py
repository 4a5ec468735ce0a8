"""Operators as functions of Values, which converters of any dialect are made of.

    o = Operators(cx)
    o.softmax(o.add(x, o.multiply(slope, 0.5)), axis=-1)

Positional arguments are tensors: a Value, an array, a list of numbers, a Relax expression, None for one
left out, or a number, which gets the dtype of the first Value that is not bool. Attributes are passed by
keyword. Results are Values. Known integers are computed while importing (`integers`), and what depends on
extents that only the run knows becomes a part of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....base.errors import explain, suggest
from ....base.registry import Registry
from ..context import Context
from ..values import Value, in_type
from .integers import evaluated

Function = Callable[..., Any]  # (context, *tensors, **attributes) -> expressions or Values
FUNCTIONS: Registry[str, Function] = Registry("operator on values", compiles=True)


def function(convert: Function) -> Function:
    """Register an operator under the function's name."""
    FUNCTIONS.register(convert.__name__, convert)
    return convert


class Operators:
    """The operators of a context, as methods."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in FUNCTIONS:
            raise AttributeError(explain(f"no operator {name}", instead=suggest(name, FUNCTIONS)))

        def call(*tensors: Any, **attributes: Any) -> Any:
            cx = self._context
            kinds = [v.dtype for v in tensors if isinstance(v, Value)]
            dtype = next((kind for kind in kinds if not kind.is_bool), "float32")
            inputs = [_value(cx, v, str(dtype)) for v in tensors]
            results = evaluated(cx, name, inputs, **attributes)
            if results is None:
                results = FUNCTIONS[name](cx, *inputs, **attributes)
            many = isinstance(results, (list, tuple))
            return [cx.value(r) for r in results] if many else cx.value(results)

        return call


def _value(cx: Context, tensor: Any, dtype: str) -> Value | None:
    if tensor is None or isinstance(tensor, Value):
        return tensor
    if isinstance(tensor, list):
        return cx.from_elements(tensor, "int64")
    if isinstance(tensor, (bool, int, float)) and not isinstance(tensor, np.generic):
        return cx.literal(in_type(tensor, dtype))
    if isinstance(tensor, (np.ndarray, np.generic)):
        return cx.literal(np.asarray(tensor))
    return cx.value(tensor)
