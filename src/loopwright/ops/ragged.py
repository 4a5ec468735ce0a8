"""Attention of several sequences whose elements follow each other in one tensor."""

from __future__ import annotations

import numpy as np

from ..ir.prim_op import cast
from .attention import MASKS, attended, check_masks
from .attention_blocks import Attention, attend, factor_of, seen_by, zeros_outside
from .common import accumulator
from .core import case, op
from .extents import check_multiple, extents_of
from .params import Tensor
from .statements import check_counts, count_in, written


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
    depends on them. Queries outside of all sequences, and those that see no key, result in zeros. Fails with an IndexError where a start is invalid.
    """
    _, length, heads, size = extents_of(queries, "queries", 1, None, None, None)
    _, other, groups, width = extents_of(values, "values", 1, None, None, None)
    extents_of(keys, "keys", 1, other, groups, size)
    (ends,) = extents_of(seqstart_q, "seqstart_q", None)
    extents_of(seqstart_k, "seqstart_k", ends)
    check_multiple(heads, groups, "the number of heads")
    wide = accumulator(queries.dtype)

    def write(ib, q, k, v, first_q, first_k, out):
        def start(of, n, count):
            return count_in(of[n], count)

        def bounds(of, count):
            return lambda n: (start(of, n, count), start(of, n + 1, count))

        def keys_of(n):
            begin, end = bounds(first_k, other)(n)
            return end - begin

        def store(row, h, i, value):
            out[0, row, h, i] = cast(out.dtype, value)

        zeros_outside(ib, out, bounds(first_q, length)(0)[0], start(first_q, ends - 1, length))
        attend(
            ib,
            Attention(
                *(heads, groups, size, width, wide, factor_of(scale, size, wide)),
                *(ends - 1, length, bounds(first_q, length), keys_of),
                query=lambda row, h, i: q[0, row, h, i],
                locate=lambda n, key: [start(first_k, n, other) + key],
                key=lambda location, g, i: k[0, location[0], g, i],
                value=lambda location, g, i: v[0, location[0], g, i],
                seen=seen_by(causal_mask, window_size),
                store=store,
            ),
        )

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
    check_counts(seqstart_q, queries.shape[1])
    check_counts(seqstart_k, keys.shape[1])
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
