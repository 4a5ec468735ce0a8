"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....ops.recurrent import ACTIVATIONS, DIRECTIONS, GATES, LANES
from ....relax import op
from ....relax.expr import Expr, ShapeExpr
from ...graph.values import Dimensions, Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import register_converter

_DEFAULT = {"rnn": ["Tanh"], "gru": ["Sigmoid", "Tanh"], "lstm": ["Sigmoid", "Tanh", "Tanh"]}
_CANONICAL = {name.lower(): name for name in ACTIVATIONS}


def _activations(node: Node, kind: str, directions: int) -> dict[str, Any]:
    """The names, and of each its numbers: those given are of the functions that have any, in order."""
    functions = node.texts("activations", _DEFAULT[kind] * directions)
    unknown = [n for n in functions if n.lower() not in _CANONICAL]
    if unknown:
        hint = ", ".join(ACTIVATIONS)
        raise ValueError(explain("unknown activation", got=unknown[0], instead=hint))
    names = [_CANONICAL[n.lower()] for n in functions]
    sources = [iter(node.reals(f"activation_{n}", [])) for n in ("alpha", "beta")]
    numbers: list[list[float]] = [[], []]
    for name in names:
        for source, column, default in zip(sources, numbers, ACTIVATIONS[name][1:], strict=True):
            column.append(float(next(source, default) if default or name == "Affine" else 0))
    return {"activations": names, "alpha": numbers[0], "beta": numbers[1]}


def _biases(
    cx: Context,
    bias: Value | None,
    in_dtype: Callable[[Any], Expr],
    sizes: tuple[int, int, int],
    late: bool,
) -> tuple[Any, Any]:
    """(the bias of the inputs' part of the gates (directions, gates * size) or None, the bias of a GRU's
    candidate that is added later)."""
    directions, many, size = sizes
    if bias is None:
        return None, None
    halves = op.reshape(in_dtype(bias.expr), ShapeExpr([directions, 2, many, size]))
    outer, own = (
        cx.emit(op.squeeze(cx.emit(part), [1])) for part in _cut(cx, cx.emit(halves), 1, [1])
    )
    inner = None
    if late:
        own, inner = (cx.emit(part) for part in _cut(cx, own, 1, [many - 1]))
        own = cx.emit(op.nn.pad(own, [0, 0, 0, 1, 0, 0]))
        inner = cx.emit(op.reshape(inner, ShapeExpr([directions, size])))
    total = cx.emit(op.add(outer, own))
    return cx.emit(op.reshape(total, ShapeExpr([directions, many * size]))), inner


def _cut(cx: Context, expr: Expr, axis: int, at: list[int]) -> list[Expr]:
    parts = cx.emit(op.split(expr, at, axis))
    return [parts[k] for k in range(len(at) + 1)]


def _projected(
    cx: Context, x: Expr, weight: Expr, added: Expr | None, dims: Dimensions, rows: Sequence[int]
) -> Expr:
    """The inputs' part of the gates of all steps, as one product: (length, directions, batch, gates)."""
    (length, batch, inputs), (directions, gates) = dims, rows
    flat = cx.emit(op.reshape(x, ShapeExpr([cx.simplify(length * batch), inputs])))
    columns = cx.emit(op.reshape(weight, ShapeExpr([directions * gates, inputs])))
    out = cx.emit(op.matmul(flat, cx.emit(op.permute_dims(columns))))
    if added is not None:
        out = cx.emit(op.add(out, cx.emit(op.reshape(added, ShapeExpr([1, directions * gates])))))
    if directions == 1:
        return cx.emit(op.reshape(out, ShapeExpr([length, 1, batch, gates])))
    parts = cx.emit(op.reshape(out, ShapeExpr([length, batch, directions, gates])))
    return cx.emit(op.permute_dims(parts, [0, 2, 1, 3]))


def _packed(cx: Context, weight: Expr, sizes: tuple[int, int, int]) -> Expr:
    """The recurrent weight in the order in which the steps read it."""
    directions, many, size = sizes
    left = -size % LANES
    parts = cx.emit(op.reshape(weight, ShapeExpr([directions, many, size, size])))
    wide = cx.emit(op.nn.pad(parts, [0, 0, 0, 0, 0, left, 0, 0])) if left else parts
    blocks = (size + left) // LANES
    cut = cx.emit(op.reshape(wide, ShapeExpr([directions, many, blocks, LANES, size])))
    return cx.emit(op.permute_dims(cut, [0, 1, 2, 4, 3]))


def _layer(kind: str) -> Callable[..., Any]:
    many = GATES[kind]

    def convert(
        cx: Context, node: Node, x: Value, weight: Value, recurrent: Value,
        bias: Value | None = None, lengths: Value | None = None, hidden: Value | None = None,
        cell: Value | None = None, peepholes: Value | None = None, *, rounded: bool = False,
    ) -> Any:  # fmt: skip
        node.skip("output_sequence")
        direction, batched = node.choice("direction", DIRECTIONS, "forward"), node.flag("layout")
        directions, own = len(DIRECTIONS[direction]), literal(recurrent.shape[2])
        size = node.integer("hidden_size", own)
        if not isinstance(own, int) or size != own:
            what = "hidden_size is the last extent of R, a known number"
            raise ValueError(explain(what, got=f"{size} and {own}"))
        dtype = "float32" if x.dtype.bits < 32 else str(x.dtype)

        def in_dtype(expr: Expr) -> Any:
            value = cx.value(expr)
            return value.expr if value.dtype == dtype else cx.emit(op.astype(value.expr, dtype))

        def state(v: Value | None, *dims: PrimExpr | int) -> Any:
            if v is None:
                return cx.emit(op.zeros(ShapeExpr(dims), dtype))
            swapped = batched and v.ndim == 3
            return in_dtype(op.permute_dims(v.expr, [1, 0, 2]) if swapped else v.expr)

        data = cx.value(op.permute_dims(x.expr, [1, 0, 2]) if batched else x.expr)
        length, batch, _ = data.shape
        late = kind == "gru" and node.flag("linear_before_reset")
        added, inner = _biases(cx, bias, in_dtype, (directions, many, size), late)
        every = (
            cx.from_elements([literal(length)], "int64").expr if lengths is None else lengths.expr
        )
        extra = None if peepholes is None else in_dtype(peepholes.expr)
        sides, gates = [in_dtype(v.expr) for v in (data, weight)], (directions, many * size)
        results = cx.emit(
            op.nn.recurrence(
                _projected(cx, *sides, added, data.shape, gates),
                _packed(cx, in_dtype(recurrent.expr), (directions, many, size)),
                cx.emit(op.broadcast_to(every, ShapeExpr([batch]))),
                [state(v, directions, batch, size) for v in (hidden, cell)[: 1 + (kind == "lstm")]],
                inner if late else extra,
                kind,
                direction,
                **_activations(node, kind, directions),
                clip=node.real("clip", 0.0),
                input_forget=kind == "lstm" and node.flag("input_forget"),
                linear_before_reset=late,
                rounded=rounded,
            )
        )
        outs = []
        for k, order in enumerate([[2, 0, 1, 3], [1, 0, 2], [1, 0, 2]][: 2 + (kind == "lstm")]):
            out = cx.emit(results[k])
            out = cx.emit(op.permute_dims(out, order)) if batched else out
            outs.append(out if x.dtype == dtype else op.astype(out, str(x.dtype)))
        return outs

    return register_converter(kind.upper(), 1, convert)


LAYERS = {kind: _layer(kind) for kind in GATES}
