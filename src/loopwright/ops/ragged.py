"""Attention of several sequences whose elements follow each other in one tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tir
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, floordiv
from ..tir.ir_builder import BufferVar, IRBuilder
from .attention import MASKS, attended, check_masks
from .common import accumulator
from .core import case, op
from .extents import check_multiple, extents_of
from .overlap import fill, rows
from .params import Tensor
from .statements import LANES, dot_in_vectors, in_vectors, long, written


def _one_query(
    ib: IRBuilder, query: tuple[Any, PrimExpr], k: BufferVar, v: BufferVar, keys: tuple[Any, Any, Any],
    out: BufferVar, at: tuple[Any, ...],
) -> None:  # fmt: skip
    """The result at a place for a query (its elements, the factor of its scores), which sees keys of a group:
    (the group, the first one, their number)."""
    (element, factor), (group, first, count) = query, keys
    wide, zero = factor.dtype, const(0, factor.dtype)
    *_, size = k.asobject().shape
    *_, width = v.asobject().shape
    mixed = ib.allocate(wide, [width], "mixed", scope="local")
    now = ib.allocate(wide, [3], "now", scope="local")  # greatest score, sum of powers, score
    parts = ib.allocate(wide, [LANES], "parts", scope="local")
    now[0], now[1] = tir.min_value(wide), zero
    fill(ib, mixed, (), width, zero)
    with rows(ib, count, "x") as x:
        term = lambda i: cast(wide, element(i)) * cast(wide, k[0, first + x, group, i])  # noqa: E731
        now[2] = dot_in_vectors(ib, parts, size, term) * factor
        with ib.if_scope(now[2] > now[0]):
            less = ib.let("less", tir.exp(now[0] - now[2]))
            now[0], now[1] = now[2], now[1] * less
            for j in in_vectors(ib, width):
                mixed[j] = mixed[j] * less
        power = ib.let("power", tir.exp(now[2] - now[0]))
        now[1] = now[1] + power
        for j in in_vectors(ib, width):
            mixed[j] = mixed[j] + power * cast(wide, v[0, first + x, group, j])
    with ib.if_scope(count > 0):
        for j in in_vectors(ib, width):
            out[(*at, j)] = cast(out.dtype, mixed[j] / now[1])
    with ib.else_scope():
        fill(ib, out, at, width, const(0, out.dtype))


@op("relax.nn.attention_var_len", alone=True, choices={"causal_mask": MASKS})
def attention_var_len(
    queries: Tensor, keys: Tensor, values: Tensor, seqstart_q: Tensor, max_seqlen_q: Tensor,
    seqstart_k: Tensor | None = None, max_seqlen_k: Tensor | None = None,
    scale: float | None = None, causal_mask: str | None = None, window_size: int | None = None,
):  # fmt: skip
    """`attention` of each of several sequences, whose elements follow each other.

    queries [1, length, heads, size], keys [1, other, groups, size], values [1, other, groups, width];
    a group is shared by heads // groups heads. seqstart_q and seqstart_k: the first elements of the
    sequences, and behind them the number of all elements: [0, 2, 7, 10] for lengths 2, 5 and 3 (of
    keys: default those of queries). max_seqlen_q, max_seqlen_k: the greatest lengths; nothing here
    depends on them. Queries outside of all sequences, and those that see no key, result in zeros. For each query and
    head the keys are read once: Milakov and Gimelshein, "Online normalizer calculation for softmax",
    2018. Fails with an IndexError where a start is invalid.
    """
    _, length, heads, size = extents_of(queries, "queries", 1, None, None, None)
    _, other, groups, width = extents_of(values, "values", 1, None, None, None)
    extents_of(keys, "keys", 1, other, groups, size)
    (ends,) = extents_of(seqstart_q, "seqstart_q", None)
    extents_of(seqstart_k, "seqstart_k", ends)
    check_multiple(heads, groups, "the number of heads")
    wide = accumulator(queries.dtype)
    factor = const(scale, wide) if scale is not None else tir.rsqrt(cast(wide, size))

    def write(ib, q, k, v, first_q, first_k, out):
        def start(of, n, count):
            return tir.checked_index(cast("int64", of[n]), count + 1)

        with ib.for_range(long(0), length, "row", dtype="int64", kind="parallel") as row:
            n = ib.allocate("int64", [1], "sequence", scope="local")
            n[0] = const(-1, "int64")
            with rows(ib, ends, "end") as end, ib.if_scope(start(first_q, end, length) <= row):
                n[0] = end
            inside = tir.And(n[0] >= 0, n[0] < ends - 1)
            with ib.if_scope(tir.Not(inside)), rows(ib, heads, "h") as h:
                fill(ib, out, (0, row, h), width, const(0, queries.dtype))
            with ib.if_scope(inside):
                begin, stop = (
                    ib.let(name, start(first_k, n[0] + step, other))
                    for name, step in (("begin", 0), ("stop", 1))
                )
                last = row - start(first_q, n[0], length)
                if causal_mask == "BottomRight":
                    asked = start(first_q, n[0] + 1, length) - start(first_q, n[0], length)
                    last = last + (stop - begin - asked)
                last = ib.let("last", begin + last)
                low = begin if window_size is None else tir.max(begin, last + 1 - window_size)
                high = stop if causal_mask is None else tir.min(stop, last + 1)
                low = ib.let("low", low)
                seen = ib.let("seen", tir.max(high - low, 0))
                with rows(ib, heads, "h") as h:
                    group = floordiv(h, floordiv(heads, groups))
                    query = (lambda i: q[0, row, h, i]), factor
                    _one_query(ib, query, k, v, (group, low, seen), out, (0, row, h))

    inputs = [queries, keys, values, seqstart_q, seqstart_k]
    return written([(1, length, heads, width)], inputs, write, queries.dtype, "attention_var_len")


@attention_var_len.build
def _(**arguments):
    for name in ("seqstart", "max_seqlen"):
        if arguments[f"{name}_k"] is None:
            arguments[f"{name}_k"] = arguments[f"{name}_q"]
    return check_masks(**arguments)


@attention_var_len.numpy
def _(queries, keys, values, seqstart_q, max_seqlen_q, seqstart_k, max_seqlen_k, **options):
    out = np.zeros((*queries.shape[:3], values.shape[3]), queries.dtype)
    share = queries.shape[2] // max(keys.shape[2], 1)
    for n in range(len(seqstart_q) - 1):
        rows, columns = (slice(s[n], s[n + 1]) for s in (seqstart_q, seqstart_k))
        one = queries[:, rows], *(t[:, columns].repeat(share, axis=2) for t in (keys, values))
        length, other = one[0].shape[1], one[1].shape[1]
        if other:
            out[:, rows] = attended(*one, **options)
        if options["causal_mask"] is not None:
            last = np.arange(length) + (other - length) * (options["causal_mask"] == "BottomRight")
            unseen = (last < 0) | (last - (options["window_size"] or length + other) >= other - 1)
            out[:, rows][:, unseen] = 0
    return out


def _starts(*of: list[int]) -> list[np.ndarray]:
    return [a for s in of for a in (np.array(s, np.int32), np.array(max(np.diff(s)), np.int32))]


attention_var_len.samples(
    case((1, 5, 4, 3), (1, 5, 2, 3), (1, 5, 2, 6), *_starts([0, 2, 2, 5], [0, 2, 2, 5])),
    case(
        *((1, 6, 2, 3), (1, 6, 2, 3), (1, 6, 2, 3), *_starts([0, 4, 5], [0, 4, 5])),
        causal_mask="TopLeft", window_size=2,
    ),
    case(
        *((1, 9, 2, 4), (1, 7, 2, 4), (1, 7, 2, 4), *_starts([0, 2, 5, 9], [0, 3, 4, 7])),
        causal_mask="BottomRight", scale=0.5,
    ),
    case((1, "n", 2, 4), (1, 3, 1, 4), (1, 3, 1, 4), *_starts([0, 0, 1], [0, 1, 3])),
)  # fmt: skip
