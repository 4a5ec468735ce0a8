"""Random numbers. With a seed they are those of numpy's RandomState, the same ones each time; without,
they are other ones each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.dtype import DataType
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr, StringImm
from ....relax.struct_info import TensorStructInfo
from ...graph.context import not_negative
from ...graph.values import Dimensions, Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, register_converter
from ..tensors import dtype_of


def drawn(
    cx: Context, kind: str, seed: float | None, dims: Dimensions | Sequence[int], dtype: str
) -> Any:
    """Numbers of a shape, "uniform" in [0, 1) or "normal" of mean 0 and deviation 1."""
    shape, cx.draws = ShapeExpr(dims), cx.draws + 1
    args = [StringImm(kind), PrimValue(-1 if seed is None else int(seed) % 2**32)]
    args += [PrimValue(cx.draws), shape, StringImm(dtype)]
    info = TensorStructInfo(shape, dtype)
    return cx.emit(op.call_pure_packed("relax.run.random", *args, sinfo_args=info))


def _dtype(node: Node, default: str) -> str:
    return dtype_of(node.integer("dtype")) if node.has("dtype") else default


def _random(name: str, kind: str, first: tuple[str, float], second: tuple[str, float]) -> None:
    def scaled(cx: Context, node: Node, dims: Dimensions | Sequence[int], dtype: str) -> Any:
        a, b = node.real(*first), node.real(*second)
        offset, factor = (a, b - a) if kind == "uniform" else (a, b)
        wide = dtype if DataType(dtype).bits >= 32 else "float32"
        numbers = drawn(cx, kind, node.real("seed", None), dims, wide)
        numbers = cx.emit(op.multiply(numbers, cx.scalar(factor, wide)))
        numbers = op.add(numbers, cx.scalar(offset, wide))
        return numbers if wide == dtype else op.astype(cx.emit(numbers), dtype)

    def by_shape(cx: Context, node: Node) -> Any:
        return scaled(cx, node, not_negative(node.integers("shape")), _dtype(node, "float32"))

    def like(cx: Context, node: Node, x: Value) -> Any:
        own = str(x.dtype) if x.dtype.is_float else "float32"
        return scaled(cx, node, x.shape, _dtype(node, own))

    register_converter(name, 1, by_shape)
    register_converter(f"{name}Like", 1, like)


_random("RandomUniform", "uniform", ("low", 0.0), ("high", 1.0))
_random("RandomNormal", "normal", ("mean", 0.0), ("scale", 1.0))


@converter("Bernoulli", 15)
def bernoulli(cx: Context, node: Node, x: Value) -> Any:
    draws = drawn(cx, "uniform", node.real("seed", None), x.shape, str(x.dtype))
    return op.astype(op.less(draws, x.expr), _dtype(node, str(x.dtype)))


@converter("Multinomial", 7)
def multinomial(cx: Context, node: Node, x: Value) -> Any:
    count, dtype = node.integer("sample_size", 1), _dtype(node, "int32")
    rows = cx.simplify(x.shape[0] * count)
    draws = drawn(cx, "uniform", node.real("seed", None), [rows, 1], str(x.dtype))
    each = op.reshape(op.arange(0, PrimValue(x.shape[0]), 1, "int64"), ShapeExpr([x.shape[0], 1]))
    number = op.broadcast_to(cx.emit(each), ShapeExpr([x.shape[0], count]))
    number = cx.emit(op.reshape(cx.emit(number), ShapeExpr([rows, 1])))
    chances = cx.emit(op.nn.softmax(x.expr, 1))
    samples = cx.emit(op.multinomial_from_uniform(chances, draws, number, dtype))
    return op.reshape(samples, ShapeExpr([x.shape[0], count]))


@converter("Dropout", 12)
def dropout(
    cx: Context, node: Node, x: Value, ratio: Value | None = None, training: Value | None = None
) -> Any:
    with_mask = len([o for o in node.outputs if o]) > 1
    mode = False if training is None else training.constant
    if mode is not None and not mode:
        node.skip("seed")
        return [x, op.ones_like(x.expr, "bool") if with_mask else None]
    wide = str(x.dtype) if x.dtype.bits >= 32 else "float32"
    part = cx.scalar(0.5, "float64") if ratio is None else _scalar(cx, ratio, "float64")
    draws = drawn(cx, "uniform", node.integer("seed", None), x.shape, "float64")
    mask = cx.emit(op.greater_equal(draws, part))
    left = cx.emit(op.subtract(cx.scalar(1, "float64"), part))
    factor = op.divide(op.astype(mask, "float64"), left)
    factor = op.where(mask, factor, cx.scalar(0, "float64"))  # a ratio of 1 leaves nothing
    scaled = op.multiply(op.astype(x.expr, wide), op.astype(cx.emit(factor), wide))
    out = cx.emit(op.astype(scaled, str(x.dtype)))
    if mode is None and training is not None:
        on = _scalar(cx, training, "bool")
        out = cx.emit(op.where(on, out, x.expr))
        mask = cx.emit(op.logical_or(mask, op.logical_not(on)))
    return [out, mask if with_mask else None]


def _scalar(cx: Context, value: Value, dtype: str) -> Any:
    expr = value.expr if value.ndim == 0 else op.reshape(value.expr, ShapeExpr([]))
    return cx.emit(expr if value.dtype == dtype else op.astype(cx.emit(expr), dtype))
