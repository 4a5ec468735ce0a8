"""Attention to keys and values in pages, which the sequences of a batch share, and what writes them there.

Pages are (page, 2, groups, size of a page, channels): keys, then values, by heads. Slot s of the pages is token
s % size of page s // size.
"""

from __future__ import annotations

import numpy as np

from .. import relax, tir
from ..base.errors import explain
from ..ir.prim_op import cast, const, floordiv, floormod
from ..relax.expr import Constant
from ..tir.ir_builder import BufferVar, IRBuilder
from .attention import MASKS, attended, check_masks
from .attention_blocks import Attention, attend, factor_of, seen_by, zeros_outside
from .common import accumulator, product
from .core import case, op
from .extents import check_multiple, extents_of
from .overlap import rows
from .params import Tensor
from .statements import check_counts, count_in, in_vectors, long, prim_func, written


@op("relax.nn.attention_paged", alone=True, choices={"causal_mask": MASKS})
def attention_paged(
    queries: Tensor, seqstart: Tensor, pages: Tensor, page_starts: Tensor, page_ids: Tensor,
    lengths: Tensor, scales: Tensor | None = None, scale: float | None = None,
    causal_mask: str | None = "BottomRight", window_size: int | None = None,
    softcap: float | None = None,
):  # fmt: skip
    """`attention` of several sequences, whose keys and values are in pages; results [n, heads, size].

    queries [n, heads, size], the rows of one sequence after those of another; seqstart [sequences + 1]: the
    first row of each, and n. pages [pages, 2, groups, size of a page, size]: keys and values, see `append_paged`;
    a group is shared by heads // groups heads. page_ids [p]: the pages of the sequences, in order;
    page_starts [sequences + 1]: where in page_ids those of each begin, and p. lengths [sequences]: how many
    tokens of its pages each has, those of this call's rows among them. scales [pages, 2, groups, size of a page]:
    factors of the pages' elements (integers). scale: default 1 / sqrt(size). softcap: scores s become
    softcap * tanh(s / softcap). causal_mask "BottomRight": the last row sees all keys of its sequence, one before
    sees one less; window_size: how many keys, at most. One row of each sequence and many are the same
    kernel, which reads keys and values once for all heads of a group and up to 64 pairs of rows and heads. Rows
    outside of all sequences, and those that see no key, result in zeros. Fails with an IndexError where a start, a
    page or a length is invalid.
    """
    n, heads, size = extents_of(queries, "queries", None, None, None)
    count, _, groups, page, _ = extents_of(pages, "pages", None, 2, None, None, size)
    (ends,) = extents_of(seqstart, "seqstart", None)
    extents_of(page_starts, "page_starts", ends)
    extents_of(lengths, "lengths", ends - 1)
    (listed,) = extents_of(page_ids, "page_ids", None)
    if scales is not None:
        extents_of(scales, "scales", count, 2, groups, page)
    check_multiple(heads, groups, "the number of heads")
    wide = accumulator(queries.dtype)

    def write(ib, q, first, cache, page_first, ids, tokens, *others):
        out = others[-1]
        factors = others[0] if len(others) > 1 else None
        start = lambda i: count_in(first[i], n)  # noqa: E731

        def locate(sequence, key):
            begin, end = (count_in(page_first[sequence + step], listed) for step in (0, 1))
            at = tir.checked_index(begin + floordiv(key, page), end)
            return [tir.checked_index(cast("int64", ids[at]), count), floormod(key, page)]

        def element(which):
            def value(location, group, i):
                at = location[0], which, group, location[1]
                scaled = cast(wide, cache[(*at, i)])
                return scaled if factors is None else scaled * cast(wide, factors[at])

            return value

        def store(row, h, i, value):
            out[row, h, i] = cast(out.dtype, value)

        zeros_outside(ib, out, start(0), start(ends - 1))
        attend(
            ib,
            Attention(
                *(heads, groups, size, size, wide, factor_of(scale, size, wide)),
                *(
                    ends - 1,
                    n,
                    lambda i: (start(i), start(i + 1)),
                    lambda i: cast("int64", tokens[i]),
                ),
                query=lambda row, h, i: q[row, h, i],
                locate=locate,
                key=element(0),
                value=element(1),
                seen=seen_by(causal_mask, window_size),
                store=store,
                cap=softcap,
            ),
        )

    operands = [queries, seqstart, pages, page_starts, page_ids, lengths, scales]
    inputs = [t for t in operands if t is not None]
    return written([(n, heads, size)], inputs, write, queries.dtype, "attention_paged")


attention_paged.build(check_masks)


@attention_paged.numpy
def _(
    queries, seqstart, pages, page_starts, page_ids, lengths, scales=None, softcap=None, **options
):
    out = np.zeros_like(queries)
    check_counts(seqstart, len(queries))
    check_counts(page_starts, len(page_ids))
    if scales is not None:
        pages = pages.astype(np.float32) * scales[..., None]
    for n, length in enumerate(lengths):
        rows_of = slice(seqstart[n], seqstart[n + 1])
        of = pages[page_ids[page_starts[n] : page_starts[n + 1]]]  # page, 2, groups, token, channel
        cache = of.transpose(1, 0, 3, 2, 4).reshape(2, -1, of.shape[2], of.shape[4])[:, :length]
        cache = cache.repeat(queries.shape[1] // max(of.shape[2], 1), axis=2)[:, None]
        row = queries[None, rows_of]
        if length and row.size:
            out[rows_of] = attended(row, *cache, softcap=softcap, **options)[0]
    return out


@op("relax.nn.append_paged")
def append_paged(
    pages: Tensor, keys: Tensor, values: Tensor, slots: Tensor, scales: Tensor | None = None
):
    """The pages with keys and values [n, groups, size] written to their slots [n]: the argument itself.

    pages [pages, 2, groups, size of a page, size]; slot s is token s % (size of a page) of page s // (size of
    a page). No copy is made (except of a constant): after the call, use its result and no longer the argument. A
    function that is given pages need not return them: its caller has them, and a result is copied. scales [pages,
    2, groups, size of a page], for pages of int8, which are rounded to 127 steps of a row's largest magnitude: they
    are written, too, and results are both. Fails with an IndexError where a slot is invalid.
    """
    count, _, groups, page, size = extents_of(pages, "pages", None, 2, None, None, None)
    (n,) = extents_of(slots, "slots", None)
    for name, new in (("keys", keys), ("values", values)):
        extents_of(new, name, n, groups, size)
    if (scales is not None) != (pages.dtype == "int8"):
        raise TypeError(
            explain("pages of int8 have scales, others have none", got=str(pages.dtype))
        )
    if scales is not None:
        extents_of(scales, "scales", count, 2, groups, page)
    results = [t for t in (pages, scales) if t is not None]

    def write(ib, old, k, v, at, *others):
        outs = others[len(results) - 1 :]
        for before, out in zip((old, *others), outs):
            dims = out.asobject().shape
            with rows(ib, product(dims[:-1]), "row") as row:
                for i in in_vectors(ib, dims[-1]):
                    out[row * dims[-1] + i] = before[row * dims[-1] + i]
        _append(ib, outs[0], k, v, at, *outs[1:])

    inputs, kinds = [pages, keys, values, slots, *results[1:]], [t.dtype for t in results]
    out = written([t.shape for t in results], inputs, write, kinds, "append_paged")
    return out if scales is None else list(out)


def _append(
    ib: IRBuilder, pages: BufferVar, keys: BufferVar, values: BufferVar, slots: BufferVar,
    scales: BufferVar | None = None,
) -> None:  # fmt: skip
    """Write keys and values to their slots."""
    count, _, groups, size, width = pages.asobject().shape
    (n,) = slots.asobject().shape
    with ib.for_range(long(0), n, "row", dtype="int64", kind="parallel") as row:
        slot = ib.let("slot", tir.checked_index(cast("int64", slots[row]), count * size))
        page, token = ib.let("page", floordiv(slot, size)), ib.let("token", floormod(slot, size))
        for which, new in enumerate((keys, values)):
            with rows(ib, groups, "g") as g:
                at, factor = (page, which, g, token), None
                if scales is not None:
                    most = ib.allocate(scales.dtype, [1], "most", scope="local")
                    most[0] = const(0, scales.dtype)
                    with rows(ib, width, "i") as i:
                        most[0] = tir.max(most[0], tir.abs(cast(scales.dtype, new[row, g, i])))
                    scales[at] = most[0] * const(1 / 127, scales.dtype)
                    least = const(1e-30, scales.dtype)
                    factor = ib.let("factor", const(127, scales.dtype) / tir.max(most[0], least))
                for i in in_vectors(ib, width):
                    value = new[row, g, i]
                    if factor is not None:
                        value = tir.nearbyint(cast(factor.dtype, value) * factor)
                    pages[(*at, i)] = cast(pages.dtype, value)


@append_paged.numpy
def _(pages, keys, values, slots, scales=None):
    out = pages.copy()
    page, token = np.divmod(slots, pages.shape[3])
    if scales is not None:
        factors = scales.copy()
        both = np.stack([keys, values], 1)
        most = np.abs(both).max(-1, initial=0)
        factors[page, :, :, token] = most * np.float32(1 / 127)
        both = np.rint(both * (np.float32(127) / np.maximum(most, np.float32(1e-30)))[..., None])
        out[page, :, :, token] = both.astype(np.int8)
        return out, factors
    out[page, 0, :, token], out[page, 1, :, token] = keys, values
    return out


def append_kernel(*buffers: tir.Buffer) -> tir.PrimFunc:
    """A kernel that writes to pages: (pages, keys, values, slots), and for int8 scales."""
    return prim_func(list(buffers), _append)


@append_paged.legalize
def _(bb, call):
    infos = [arg.struct_info for arg in call.args]
    if any(info.get_shape() is None for info in infos):
        return call
    if any(
        isinstance(part, Constant) for part in (call.args[0], *call.args[4:])
    ):  # stay as they are
        return append_paged._legalize(bb, call)
    names = ("pages", "keys", "values", "slots", "scales")[: len(infos)]
    buffers = [
        tir.decl_buffer(info.get_shape(), info.dtype, name)
        for name, info in zip(names, infos, strict=True)
    ]
    kernel = bb.add_func(append_kernel(*buffers), "append_paged")
    return relax.op.call_tir_inplace(kernel, call.args, [0, 4][: len(infos) - 3], call.struct_info)


_PAGES = (5, 2, 2, 3, 4)
_TABLE = [np.array(s, np.int32) for s in ([0, 2, 3, 5], [4, 1, 2, 0, 3], [6, 2, 4])]


def _starts(*starts: int) -> np.ndarray:
    return np.array(starts, np.int32)


attention_paged.samples(
    case((6, 4, 4), _starts(0, 3, 4, 6), _PAGES, *_TABLE),
    case((4, 4, 4), _starts(0, 1, 2, 3), _PAGES, *_TABLE, window_size=2, softcap=1.5),
    case(
        *(("n", 2, 4), _starts(0, 0, 1, 2), (5, 2, 2, 3, 4), *_TABLE),
        np.linspace(0.5, 1, 60, dtype=np.float32).reshape(5, 2, 2, 3),
        causal_mask=None,
        scale=0.25,
    ),
)
append_paged.samples(
    case(_PAGES, (3, 2, 4), (3, 2, 4), np.array([14, 3, 7], np.int32)),
    case(
        *(np.ones(_PAGES, np.int8), (3, 2, 4), (3, 2, 4), np.array([14, 3, 7], np.int32)),
        np.ones(_PAGES[:4], np.float32),
    ),
)
