"""Attention to a cache of keys and values in one tensor each, and what appends to it.

A cache is [batch, groups, length, size], new elements are [batch, rows, heads, size].
"""

from __future__ import annotations

import numpy as np

from .. import tir
from ..ir.prim_expr import NE
from ..ir.prim_op import cast, const, floordiv, floormod
from .attention import MASKS, attended, check_masks
from .attention_blocks import Attention, Seen, attend, factor_of
from .common import accumulator
from .core import case, op
from .extents import check_multiple, extents_of, simplify
from .overlap import rows
from .params import Prim, Tensor
from .statements import check_counts, count_in, in_vectors, long, written


@op("relax.nn.append_cache", alone=True, may_alias=((3, 0),))
def append_cache(past: Tensor, new: Tensor, starts: Tensor, length: Prim):
    """The cache of `length` elements that begins as `past` [batch, groups, other, size], with `new` [batch, rows,
    groups, size] from starts [batch] on, and zeros where neither is.

    Where the result is the memory of `past` itself (`out=` of a call), as in onnxruntime's I/O binding, only the new
    elements are written. Fails with an IndexError where they do not fit.
    """
    batch, groups, other, size = extents_of(past, "past", None, None, None, None)
    _, count, *_ = extents_of(new, "new", batch, None, groups, size)
    extents_of(starts, "starts", batch)

    def write(ib, old, fresh, first, out):
        apart = NE(tir.address_of(old[0, 0, 0, 0]), tir.address_of(out[0, 0, 0, 0]))
        everything = ib.let("everything", cast("int64", apart) * (batch * groups))
        with ib.for_range(long(0), everything, "head", dtype="int64", kind="parallel") as head:
            b, g = ib.let("b", floordiv(head, groups)), ib.let("g", floormod(head, groups))
            with rows(ib, tir.min(other, length), "t") as t:
                for i in in_vectors(ib, size):
                    out[b, g, t, i] = old[b, g, t, i]
            with rows(ib, tir.max(length - other, 0), "t") as t:
                for i in in_vectors(ib, size):
                    out[b, g, other + t, i] = const(0, out.dtype)
        with rows(ib, batch, "b") as b, rows(ib, count, "row") as row:
            t = ib.let("t", count_in(cast("int64", first[b]) + row, length - 1))
            with rows(ib, groups, "g") as g:
                for i in in_vectors(ib, size):
                    out[b, g, t, i] = fresh[b, row, g, i]

    shape = (batch, groups, length, size)
    return written([shape], [past, new, starts], write, past.dtype, "append_cache")


@append_cache.numpy
def _(past, new, starts, length):
    out = np.zeros((*past.shape[:2], int(length), past.shape[3]), past.dtype)
    out[:, :, : past.shape[2]] = past[:, :, : int(length)]
    check_counts(starts + np.arange(new.shape[1])[:, None], int(length) - 1)
    for b, first in enumerate(starts):
        out[b, :, first : first + new.shape[1]] = new[b].swapaxes(0, 1)
    return out


append_cache.samples(
    case((2, 2, 5, 3), (2, 2, 2, 3), np.array([1, 4], np.int32), 6),
    case((1, 2, "n", 20), (1, 1, 2, 20), np.array([0], np.int64), 3),
)


@op("relax.nn.attention_cached", alone=True, choices={"causal_mask": MASKS})
def attention_cached(
    queries: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, scale: float | None = None,
    causal_mask: str | None = "BottomRight", window_size: int | None = None,
    softcap: float | None = None,
):  # fmt: skip
    """`attention` of queries [batch, rows, heads, size] to the first lengths [batch] of cached keys and values
    [batch, groups, other, size]; scores s become softcap * tanh(s / softcap).

    The kernel of `attention_paged`: keys and values are read once for the heads of a group. Where there are fewer
    keys than rows, "BottomRight" is as "TopLeft", and the rows from there on are padding. Fails with an IndexError
    where a length is invalid.
    """
    batch, count, heads, size = extents_of(queries, "queries", None, None, None, None)
    _, groups, other, width = extents_of(values, "values", batch, None, None, None)
    extents_of(keys, "keys", batch, groups, other, size)
    extents_of(lengths, "lengths", batch)
    check_multiple(heads, groups, "the number of heads")
    wide = accumulator(queries.dtype)

    def write(ib, q, k, v, lengths_of, out):
        def at(row):
            return floordiv(row, count), floormod(row, count)

        def seen(_, row, asked, keys_of):
            last = row
            if causal_mask == "BottomRight":
                last = row + tir.max(keys_of - asked, 0)
            low = long(0) if window_size is None else tir.max(last + 1 - window_size, 0)
            return Seen(low, keys_of if causal_mask is None else tir.min(last + 1, keys_of))

        def store(row, h, i, value):
            out[(*at(row), h, i)] = cast(out.dtype, value)

        attend(
            ib,
            Attention(
                *(heads, groups, size, width, wide, factor_of(scale, size, wide)),
                *(batch, simplify(batch * count), lambda n: (n * count, (n + 1) * count)),
                count=lambda n: count_in(lengths_of[n], other),
                query=lambda row, h, i: q[(*at(row), h, i)],
                locate=lambda n, key: [n, key],
                key=lambda location, g, i: cast(wide, k[location[0], g, location[1], i]),
                value=lambda location, g, i: cast(wide, v[location[0], g, location[1], i]),
                seen=seen,
                store=store,
                cap=softcap,
            ),
        )

    inputs, shape = [queries, keys, values, lengths], (batch, count, heads, width)
    return written([shape], inputs, write, queries.dtype, "attention_cached")


attention_cached.build(check_masks)


@attention_cached.numpy
def _(queries, keys, values, lengths, causal_mask="BottomRight", **options):
    out = np.zeros((*queries.shape[:3], values.shape[3]), queries.dtype)
    check_counts(lengths, keys.shape[2])
    for b, length in enumerate(map(int, lengths)):
        short = causal_mask and queries.shape[1] >= length
        mask = "TopLeft" if short else causal_mask
        cache = (t[b : b + 1, :, :length].swapaxes(1, 2) for t in (keys, values))
        if length:
            out[b : b + 1] = attended(queries[b : b + 1], *cache, causal_mask=mask, **options)
        if window := options.get("window_size"):
            out[b, length + window - 1 :] = 0  # see no key
    return out


attention_cached.samples(
    case((2, 3, 4, 4), (2, 2, 7, 4), (2, 2, 7, 5), np.array([7, 2], np.int32)),
    case((2, 1, 2, 4), (2, 2, "n", 4), (2, 2, "n", 4), np.array([1, 0]), scale=0.5, softcap=2.0),
    case((1, 3, 2, 4), (1, 1, 6, 4), (1, 1, 6, 4), np.array([5]), window_size=2),
    case((1, 6, 2, 4), (1, 1, 6, 4), (1, 1, 6, 4), np.array([2]), window_size=2),
)
