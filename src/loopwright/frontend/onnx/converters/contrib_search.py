"""com.microsoft: tokens chosen one after the other by a decoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.dtype import numpy_dtype
from ...graph.values import Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter
from ..tensors import DTYPES
from .contrib import DOMAIN
from .control import fed

_DIMS = ([1], [1], [None], [1], [None], [1])  # of an iteration's results next to the rows
_LEAST = np.finfo(np.float32).min  # the score of a token that is not to be chosen


@converter("GreedySearch", 1, DOMAIN)
def greedy_search(
    cx: Context, node: Node, ids: Value, longest: Value, least: Value | None = None,
    penalty: Value | None = None, allowed: Value | None = None, first: Value | None = None,
    mask: Value | None = None,
) -> Any:  # fmt: skip
    """The likeliest token after those so far, until all rows have ended or are `longest` tokens. A turn
    passes the decoder the results of the one before: tokens, positions, mask and keys and values."""
    node.skip("decoder_start_token_id")
    o, end, pad = cx.onnx, node.integer("eos_token_id"), node.integer("pad_token_id")
    if node.integer("model_type", 0):
        what = "a GreedySearch has a decoder alone, model_type 0"
        raise ValueError(explain(what, got=node.integer("model_type", 0)))
    size, words = node.integer("no_repeat_ngram_size", 0), node.integer("vocab_size", -1)
    decoder, rows = node.graph("decoder"), ids.shape[0]
    heads, width = _heads(decoder)
    begin = node.graph("init_decoder") if node.has("init_decoder") else decoder

    def scores_after(row: Value, logits: Value, extra: Value | None) -> Value:
        """The scores of the next token, of which rules forbid or discourage some."""
        scores = o.Cast(o.Gather(logits, cx.from_elements([-1], "int64"), axis=1), to=1)
        scores = o.Squeeze(scores, [1])
        if words > 0:  # the decoder's last layer may be padded
            scores = o.Slice(scores, np.array([0]), np.array([words]), np.array([1]))
        if penalty is not None:
            picked = o.GatherElements(scores, row, axis=1)
            worse = o.Where(o.Less(picked, 0.0), o.Mul(picked, penalty), o.Div(picked, penalty))
            scores = o.ScatterElements(scores, row, worse, axis=1)
        if size:
            scores = _without_repeats(cx, scores, row, size)
        for mask_row in (allowed, extra):
            if mask_row is not None:
                scores = o.Where(o.Equal(mask_row, np.int32(0)), _LEAST, scores)
        if least is None:
            return scores
        early = o.Less(o.Shape(row, start=1), o.Cast(o.Reshape(least, [1]), to=7))
        ends = o.Equal(
            o.Range(np.int64(0), o.Squeeze(o.Shape(scores, start=1)), np.int64(1)), np.int64(end)
        )
        return o.Where(o.And(early, ends), _LEAST, scores)

    def turn(graph: Any, state: list[Value], extra: Value | None = None) -> list[Value]:
        tokens, positions, seen, count, row, done, *past = state
        logits, *present = cx.walk.subgraph(graph, fed(graph, [tokens, positions, seen, *past]))
        best = o.ArgMax(scores_after(row, logits, extra), axis=1, keepdims=1)
        tokens = o.Cast(best, to=6)
        done = o.Or(done, o.Equal(tokens, np.int32(end)))
        tokens = o.Where(done, np.int32(pad), tokens)
        seen = o.Concat(seen, o.Cast(o.GreaterOrEqual(count, np.int32(0)), to=6), axis=1)
        row = o.Concat(row, tokens, axis=1)
        after = [tokens, count, seen, o.Add(count, np.int32(1)), row, done]
        shaped = [cx.of_shape(v.expr, rows, *d) for v, d in zip(after, _DIMS, strict=True)]
        return shaped + [cx.of_shape(v.expr, 2, rows, heads, None, width) for v in present]

    def unfinished(state: list[Value]) -> Value:
        return o.Equal(o.ReduceMin(o.Cast(state[5], to=6), keepdims=0), np.int32(0))

    # A mask limits attention; onnxruntime computes the positions of tokens from the padding alone.
    there = o.Cast(o.Not(o.Equal(ids, np.int32(pad))), to=6)
    positions = o.Mul(o.Sub(o.CumSum(there, np.int64(1)), np.int32(1)), there)
    count = o.ReduceSum(there, [1], keepdims=1)
    seen = there if mask is None else mask
    done = o.Less(count, np.int32(0))
    none = o.Concat(np.array([2]), o.Shape(ids, end=1), np.array([heads, 0, width]), axis=0)
    kinds = [p.type.tensor_type.elem_type for p in list(decoder.input)[3:]]
    past = [o.Expand(np.zeros((1,) * 5, numpy_dtype(DTYPES[kind])), none) for kind in kinds]
    state = [ids, positions, seen, count, ids, done, *past]
    state = turn(begin, state, first)
    longest = o.Cast(o.Reshape(longest, [1]), to=7)
    longest.leave_block()
    limit = o.Sub(longest, o.Shape(state[4], start=1))

    def body(state: list[Value]) -> list[Value]:
        after = turn(decoder, state[2:])
        return [unfinished(after), *after]

    row = cx.walk.loop(body, o.Squeeze(limit), unfinished(state), state, 0)[4]
    rest = o.Sub(longest, o.Shape(row, start=1))
    return o.Pad(row, o.Concat(np.array([0, 0, 0]), rest, axis=0), np.int32(pad))


def _heads(decoder: Any) -> tuple[int, int]:
    """The number and the size of the heads of a decoder's keys and values."""
    pasts = list(decoder.input)[3:]
    dims = [[d.dim_value for d in p.type.tensor_type.shape.dim] for p in pasts[:1]]
    if not dims or len(dims[0]) != 5 or not dims[0][2] * dims[0][4]:
        what = "a decoder takes tokens, positions, a mask, then keys and values"
        raise ValueError(explain(what, got=str(dims), instead="[2, rows, heads, tokens, size]"))
    return dims[0][2], dims[0][4]


def _without_repeats(cx: Context, scores: Value, row: Value, size: int) -> Value:
    """Scores without the tokens that would end a run of `size` tokens that is in the row already."""
    o, before = cx.onnx, size - 1
    length = o.Shape(row, start=1)
    starts = o.Range(np.int64(0), o.Squeeze(o.Sub(length, np.int64(before))), np.int64(1))
    same: Any = None
    for k in range(before):
        last = o.Gather(row, o.Max(o.Add(length, np.int64(k - before)), np.int64(0)), axis=1)
        equal = o.Equal(o.Gather(row, o.Add(starts, np.int64(k)), axis=1), last)
        same = equal if same is None else o.And(same, equal)
    ends = o.Gather(row, o.Add(starts, np.int64(before)), axis=1)
    if same is None:
        same = o.GreaterOrEqual(ends, np.int32(0))
    worst = o.Where(same, float(_LEAST), o.GatherElements(scores, ends, axis=1))
    return o.ScatterElements(scores, ends, worst, axis=1, reduction="min")
