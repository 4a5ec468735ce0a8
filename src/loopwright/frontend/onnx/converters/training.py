"""Steps of training (ai.onnx.preview.training): what becomes of parameters by their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.errors import explain
from ....relax import op
from ....relax.expr import Expr, ShapeExpr
from ...graph.values import Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import register_converter

_DOMAIN = "ai.onnx.preview.training"


class _Sums:
    """Arithmetic on expressions and numbers of one data type."""

    def __init__(self, cx: Context, dtype: str) -> None:
        self.cx, self.dtype = cx, dtype

    def _of(self, build: Callable[..., Any], *args: Expr | float) -> Expr:
        parts = [self.cx.scalar(v, self.dtype) if isinstance(v, float) else v for v in args]
        return self.cx.emit(build(*parts))

    def add(self, a: Expr | float, b: Expr | float) -> Expr:
        return self._of(op.add, a, b)

    def subtract(self, a: Expr | float, b: Expr | float) -> Expr:
        return self._of(op.subtract, a, b)

    def multiply(self, a: Expr | float, b: Expr | float) -> Expr:
        return self._of(op.multiply, a, b)

    def divide(self, a: Expr | float, b: Expr | float) -> Expr:
        return self._of(op.divide, a, b)

    def sqrt(self, a: Expr) -> Expr:
        return self._of(op.sqrt, a)

    def cast(self, v: Value) -> Expr:
        expr = v.expr if v.ndim == 0 else self.cx.emit(op.reshape(v.expr, ShapeExpr([])))
        return expr if v.dtype == self.dtype else self.cx.emit(op.astype(expr, self.dtype))


def _step(name: str, parts: int, update: Callable[..., list[Expr]]) -> None:
    """An optimizer. update(m, node, rate, count, *parts of one parameter): its new parts."""

    def convert(cx: Context, node: Node, rate: Value, count: Value, *inputs: Value) -> Any:
        many, left = divmod(len(inputs), parts)
        if left or not many:
            what = f"it takes {parts} inputs for each parameter"
            raise ValueError(explain(what, got=len(inputs)))
        m = _Sums(cx, str(inputs[0].dtype))
        steps = [m.cast(rate), m.cast(count)]
        results = [
            update(m, node, *steps, *(inputs[k + n * many].expr for n in range(parts)))
            for k in range(many)
        ]
        return [results[k][n] for n in range(parts - 1) for k in range(many)]

    register_converter(name, 1, convert, _DOMAIN)


def _regular(m: _Sums, node: Node, x: Expr, g: Expr) -> Expr:
    return m.add(m.multiply(x, node.real("norm_coefficient", 0.0)), g)


def _adagrad(
    m: _Sums, node: Node, rate: Expr, count: Expr, x: Expr, g: Expr, h: Expr
) -> list[Expr]:
    slower = m.add(m.multiply(count, node.real("decay_factor", 0.0)), 1.0)
    g = _regular(m, node, x, g)
    squares = m.add(h, m.multiply(g, g))
    each = m.add(m.sqrt(squares), node.real("epsilon", 1e-6))
    moved = m.divide(m.multiply(m.divide(rate, slower), g), each)
    return [m.subtract(x, moved), squares]


def _adam(
    m: _Sums, node: Node, rate: Expr, count: Expr, x: Expr, g: Expr, v: Expr, h: Expr
) -> list[Expr]:
    alpha, beta = node.real("alpha", 0.9), node.real("beta", 0.999)
    g = _regular(m, node, x, g)
    mean = m.add(m.multiply(v, alpha), m.multiply(g, 1 - alpha))
    squares = m.add(m.multiply(h, beta), m.multiply(m.multiply(g, g), 1 - beta))
    left = [m.subtract(1.0, m._of(op.power, b, count)) for b in (alpha, beta)]
    grown = m.divide(m.multiply(rate, m.sqrt(left[1])), left[0])
    started = m._of(op.greater, count, 0.0)
    adjusted = m._of(op.where, started, grown, rate)
    each = m.add(m.sqrt(squares), node.real("epsilon", 1e-6))
    new = m.subtract(x, m.divide(m.multiply(adjusted, mean), each))
    return [m.multiply(new, 1 - node.real("norm_coefficient_post", 0.0)), mean, squares]


def _momentum(
    m: _Sums, node: Node, rate: Expr, count: Expr, x: Expr, g: Expr, v: Expr
) -> list[Expr]:
    alpha, beta, mode = node.real("alpha"), node.real("beta"), node.text("mode")
    if mode not in ("standard", "nesterov"):
        raise ValueError(explain("attribute mode is standard or nesterov", got=mode))
    g = _regular(m, node, x, g)
    later = m._of(op.where, m._of(op.greater, count, 0.0), m._of(op.full_like, count, beta), 1.0)
    new = m.add(m.multiply(v, alpha), m.multiply(g, later))
    direction = new if mode == "standard" else m.add(g, m.multiply(new, alpha))
    return [m.subtract(x, m.multiply(direction, rate)), new]


_step("Adagrad", 3, _adagrad)
_step("Adam", 4, _adam)
_step("Momentum", 3, _momentum)
