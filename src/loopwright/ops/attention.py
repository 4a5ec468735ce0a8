"""Attention."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.dtype import numpy_dtype
from ..ir.literals import int_value
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, floordiv, multiply
from ..relax.op import register_view as register_relax_view
from ..relax.struct_info import TensorStructInfo
from ..script.relax import register_view as register_script_view
from ..tir.ir_builder import BufferVar, IRBuilder
from .common import (
    accumulator,
    aligned_index,
    broadcast_index,
    compute,
    element,
    rounded,
    shape_text,
)
from .core import OPAQUE, case, op
from .extents import broadcast_differ, check_multiple, differ, dims_equal, extents_of
from .overlap import rows
from .params import Tensor, Tensors
from .statements import in_vectors, loops, written

MASKS = (None, "TopLeft", "BottomRight")
# From this number of queries on keys are transposed first, as the schedule rule `attention` needs them: 128
# queries took 2,764 us before and 227 after; with one, nothing is gained (docs/notebook.md).
_MANY = 8


@op("relax.nn.attention", kind=OPAQUE, mixed="always", choices={"causal_mask": MASKS})
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
):
    """softmax(query @ key^T * scale + bias) @ value for each head, in float32.

    query [batch, length, heads, size], key [batch, other, groups, size], value [batch, other,
    groups, size of a value], each group for heads // groups heads; bias broadcast to [batch, heads,
    length, other]; scale: default 1 / sqrt(size). causal_mask: later elements are masked; "TopLeft"
    aligns the sequences at their first elements, "BottomRight" at their last. window_size: number of
    visible preceding elements.
    """
    b, length, heads, size = query.shape
    other, groups, width = key.shape[1], key.shape[2], value.shape[3]
    check_multiple(heads, groups, "the number of heads")
    sharing = 1 if dims_equal(heads, groups) else floordiv(heads, groups)
    group = lambda h: floordiv(h, sharing)  # noqa: E731
    factor = const(scale, "float32") if scale is not None else tir.rsqrt(cast("float32", size))
    fold = lambda end, name: te.reduce_axis((const(0, "int64"), end), name=name)  # noqa: E731
    k, x, y, j = fold(size, "k"), fold(other, "x"), fold(other, "y"), fold(other, "j")
    wide = lambda value: cast("float32", value)  # noqa: E731
    keys = lambda n, h, d, col: wide(key(n, col, h, d))  # noqa: E731
    if (count := int_value(length)) is None or count >= _MANY:
        keys = compute([b, groups, size, other], keys, "attention_keys")

    def product(n, h, row, col):
        return te.sum(multiply(wide(query(n, row, h, k)), keys(n, group(h), k, col)), axis=k)

    raw = compute([b, heads, length, other], product, "attention_product")

    def score(*i):
        scaled = raw(*i) * factor
        if bias is not None:
            scaled = scaled + wide(element(bias, broadcast_index(bias, i, raw.shape)))
        hidden = _hidden(i[2], i[3], length, other, causal_mask, window_size)
        return scaled if hidden is None else tir.Select(hidden, tir.min_value("float32"), scaled)

    scores = compute(raw.shape, score, "attention_score", tag="injective")
    column = [b, heads, length, const(1, "int64")]
    top = compute(column, lambda n, h, r, _: te.max(scores(n, h, r, x), axis=x), "attention_top")
    power = compute(
        raw.shape, lambda n, h, r, c: tir.exp(scores(n, h, r, c) - top(n, h, r, 0)), "attention_exp"
    )
    total = compute(column, lambda n, h, r, _: te.sum(power(n, h, r, y), axis=y), "attention_sum")

    def mixed(n, row, h, col):
        return te.sum(multiply(power(n, h, row, j), wide(value(n, j, group(h), col))), axis=j)

    shape = [b, length, heads, width]
    whole = compute(shape, mixed, "attention_mixed")
    some = const(1, "float32")  # the lower bound of a sum over at least one key

    def share(n, row, h, col):
        sums = total(n, h, row, 0)
        least = tir.max(sums, some) if int_value(other) is None else sums
        return some / least * whole(n, row, h, col)  # sums are read, so computed, first

    attended = compute(shape, share, "attention_share")
    return rounded(attended, query.dtype)


def _hidden(row, col, length, other, causal_mask, window_size):
    """Whether the key at `col` is masked for the query at `row`; None if nothing is masked."""
    if causal_mask is None:
        return None
    last = row if causal_mask == "TopLeft" else row + (other - length)
    later = col > last
    if window_size is None:
        return later
    return tir.Or(later, col + window_size <= last)


@attention.build
def check_masks(**arguments):
    """The attributes of an attention. Raises ValueError for a window without a mask."""
    if arguments["window_size"] is not None and arguments["causal_mask"] is None:
        what = "a window needs a causal_mask"
        raise ValueError(explain(what, got=f"window_size {arguments['window_size']}"))
    return arguments


@attention.infer
def _(query: TensorStructInfo, key, value, bias=None, **_):
    for name, info in (("query", query), ("key", key), ("value", value)):
        if info.ndim not in (-1, 4):
            what = f"{name} is of rank 4: [batch, length, heads, size]"
            raise ValueError(explain(what, got=f"rank {info.ndim}"))
    q, k, v = (t.get_shape() for t in (query, key, value))
    if q is None or k is None or v is None:
        return TensorStructInfo(dtype=query.dtype, ndim=4)
    check_multiple(q[2], k[2], "the number of heads")
    for x, y in [(q[0], k[0]), (q[0], v[0]), (k[2], v[2]), (q[3], k[3]), (k[1], v[1])]:
        if differ(y, x):
            got = "; ".join(f"({', '.join(map(str, s))})" for s in (q, k, v))
            raise ValueError(explain("query, key and value do not match", got=got))
    scores = (q[0], q[2], q[1], k[1])
    added = () if bias is None or bias.get_shape() is None else bias.get_shape()
    if len(added) > 4 or broadcast_differ(added, scores, both=False):
        what = "bias must broadcast to [batch, heads, length, keys]"
        got = f"{shape_text(added)} for {shape_text(scores)}"
        raise ValueError(explain(what, got=got))
    return TensorStructInfo([q[0], q[1], q[2], v[3]], query.dtype)


@attention.numpy
def attended(
    query, key, value, bias=None, scale=None, causal_mask=None, window_size=None, softcap=None
):
    share = query.shape[2] // max(key.shape[2], 1)
    key, value = (np.repeat(t, share, axis=2) for t in (key, value))
    q, k, v = (t.astype(np.float32).transpose(0, 2, 1, 3) for t in (query, key, value))
    scores = (
        q @ k.transpose(0, 1, 3, 2) * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    )
    if softcap is not None:
        scores = softcap * np.tanh(scores / np.float32(softcap))
    if bias is not None:
        scores = scores + bias.astype(np.float32)
    if causal_mask is not None:
        grid: Any = np.indices(scores.shape[2:])
        rows, cols = grid
        last = rows + (cols.shape[1] - rows.shape[0] if causal_mask == "BottomRight" else 0)
        hidden = cols > last
        if window_size is not None:
            hidden |= cols + window_size <= last
        scores = np.where(hidden, np.finfo(np.float32).min, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    out = weights / weights.sum(-1, keepdims=True) @ v
    return np.ascontiguousarray(out.transpose(0, 2, 1, 3).astype(query.dtype))


attention.samples(
    case((2, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 6)),
    case((1, "n", 2, 4), (1, "n", 2, 4), (1, "n", 2, 4), causal_mask="TopLeft"),
    case((1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 4), (1, 1, 3, 5), scale=0.25),
    case((1, 4, 1, 4), (1, 6, 1, 4), (1, 6, 1, 4), causal_mask="BottomRight", window_size=2),
    case((2, 9, 6, 4), (2, 5, 2, 4), (2, 5, 2, 3)),
)
register_relax_view("nn.attention_bias", attention.builder)  # TVM's name where there is a bias
register_script_view("nn.attention_bias", attention.builder)


_GATES = {"linear": 0, "gated": 1, "delta": 1, "gated_delta": 2}  # tensors of an update rule


def _sum_rows(
    ib: IRBuilder, rows_of: BufferVar, factor: Callable[[Any], PrimExpr], total: BufferVar
) -> None:
    """total = the sum of rows_of[i] * factor(i)."""
    size, width = rows_of.asobject().shape
    for j in in_vectors(ib, width):
        total[j] = const(0, total.dtype)
    with rows(ib, size, "i") as i:
        some = ib.let("factor", cast(total.dtype, factor(i)))
        for j in in_vectors(ib, width):
            total[j] = total[j] + rows_of[i, j] * some


def _check_gates(gates: Tensors, key: Tensor, update_rule: str) -> None:
    if len(gates) != _GATES[update_rule]:
        what = f'update rule "{update_rule}" has {_GATES[update_rule]} gates'
        raise ValueError(explain(what, got=len(gates)))
    for n, gate in enumerate(gates):
        dims = list(key.shape)[: 4 if n == 0 and "gated" in update_rule else 3]
        if len(gate.shape) != len(dims) or broadcast_differ(gate.shape, dims, both=False):
            raise ValueError(explain("a gate does not fit", got=str(tuple(gate.shape))))


@op("relax.nn.linear_attention", alone=True, choices={"update_rule": _GATES})
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    gates: Tensors,
    update_rule: str = "gated_delta",
    scale: float | None = None,
):
    """Attention by a state that each element of a sequence updates: (results, the last state).

    query [batch, length, heads, size], key [batch, length, groups, size], value [batch, length, groups,
    width], state [batch, groups, size, width]; a group is shared by heads // groups heads. For each
    element, in float32 (scale: default 1 / sqrt(size)): state = exp(decay) * state + key (outer product) change; the result is
    scale * query @ state. The change is the value, or with "delta" beta * (value - key @ (exp(decay) *
    state)). gates: the decay [batch, length, groups, size or 1] of the rules "gated" and "gated_delta",
    then beta [batch, length, groups or 1] of "delta" and "gated_delta". References: Katharopoulos et al.,
    "Transformers are RNNs", 2020; Yang et al., "Gated Delta Networks", 2024.
    """
    batch, length, heads, size = extents_of(query, "query", None, None, None, None)
    _, _, groups, width = extents_of(value, "value", batch, length, None, None)
    extents_of(key, "key", batch, length, groups, size)
    extents_of(state, "state", batch, groups, size, width)
    _check_gates(gates, key, update_rule)
    check_multiple(heads, groups, "the number of heads")
    wide = accumulator(query.dtype)
    decay = gates[0] if "gated" in update_rule else None
    beta = gates[-1] if "delta" in update_rule else None
    share = floordiv(heads, groups)
    factor = const(scale, wide) if scale is not None else tir.rsqrt(cast(wide, size))

    def write(ib, q, k, v, start, *others):
        tensors, (out, last) = list(others[:-2]), others[-2:]
        rate = tensors.pop() if beta is not None else None
        gate = tensors.pop() if decay is not None else None
        with ExitStack() as stack:
            b, g = loops(ib, stack, [batch, groups], parallel=True)
            memory = ib.allocate(wide, [size, width], "memory")
            change, total = (ib.allocate(wide, [width], name) for name in ("change", "total"))
            with rows(ib, size, "i") as i:
                for j in in_vectors(ib, width):
                    memory[i, j] = cast(wide, start[b, g, i, j])
            with rows(ib, length, "t") as t:
                for j in in_vectors(ib, width):
                    change[j] = cast(wide, v[b, t, g, j])
                if decay is not None and gate is not None:
                    with rows(ib, size, "i") as i:
                        at = aligned_index(decay.shape, (b, t, g, i), key.shape)
                        retention = ib.let("kept", tir.exp(cast(wide, gate[tuple(at)])))
                        for j in in_vectors(ib, width):
                            memory[i, j] = memory[i, j] * retention
                if beta is not None and rate is not None:
                    _sum_rows(ib, memory, lambda i: k[b, t, g, i], total)
                    at = aligned_index(beta.shape, (b, t, g), key.shape[:3])
                    part = ib.let("beta", cast(wide, rate[tuple(at)]))
                    for j in in_vectors(ib, width):
                        change[j] = (change[j] - total[j]) * part
                with rows(ib, size, "i") as i:
                    some = ib.let("key", cast(wide, k[b, t, g, i]))
                    for j in in_vectors(ib, width):
                        memory[i, j] = memory[i, j] + some * change[j]
                with rows(ib, share, "h") as h:
                    _sum_rows(ib, memory, lambda i: q[b, t, g * share + h, i], total)
                    for j in in_vectors(ib, width):
                        out[b, t, g * share + h, j] = cast(query.dtype, total[j] * factor)
            with rows(ib, size, "i") as i:
                for j in in_vectors(ib, width):
                    last[b, g, i, j] = cast(state.dtype, memory[i, j])

    shapes = [(batch, length, heads, width), tuple(state.shape)]
    inputs = [query, key, value, state, *gates]
    kinds = [query.dtype, state.dtype]
    return list(written(shapes, inputs, write, kinds, "linear_attention"))


@linear_attention.numpy
def _(query, key, value, state, gates, update_rule="gated_delta", scale=None):
    scale = query.shape[3] ** -0.5 if scale is None else scale
    wide = numpy_dtype(accumulator(str(query.dtype)))
    q, k, v = (x.astype(wide) for x in (query, key, value))
    memory, out = state.astype(wide), np.zeros((*query.shape[:3], value.shape[3]), wide)
    share = query.shape[2] // key.shape[2]
    for t in range(query.shape[1]):
        change = v[:, t]
        if "gated" in update_rule:
            memory = memory * np.exp(gates[0][:, t].astype(wide))[..., None]
        if "delta" in update_rule:
            seen = np.einsum("bgij,bgi->bgj", memory, k[:, t])
            change = gates[-1][:, t].astype(wide)[..., None] * (change - seen)
        memory = memory + k[:, t, :, :, None] * change[:, :, None, :]
        every = np.repeat(memory, share, axis=1)
        out[:, t] = scale * np.einsum("bhi,bhij->bhj", q[:, t], every)
    return out.astype(query.dtype), memory.astype(state.dtype)


_SEQUENCE = [(2, 5, 4, 3), (2, 5, 2, 3), (2, 5, 2, 6), (2, 2, 3, 6)]
linear_attention.samples(
    case(*_SEQUENCE, [(2, 5, 2, 3), (2, 5, 2)], update_rule="gated_delta", scale=0.5),
    case(*_SEQUENCE, [(2, 5, 2, 1)], update_rule="gated"),
    case(*_SEQUENCE, [(2, 5, 1)], update_rule="delta"),
    case((1, "n", 2, 4), (1, "n", 2, 4), (1, "n", 2, 4), (1, 2, 4, 4), [], update_rule="linear"),
)
