"""The kernels of a paged cache, under TVM's names and signatures: parameters by name, and one description of
attention (`ops.attention_blocks`) that reads keys and masks by the parameters there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .... import tir
from ....ir.prim_expr import PrimExpr
from ....ir.prim_op import cast, const, floordiv, floormod
from ....ops.attention_blocks import Attention, Seen, attend
from ....ops.overlap import rows
from ....ops.paged import append_kernel
from ....ops.statements import in_vectors, long
from ....tir.function import PrimFunc
from ....tir.ir_builder import BufferVar, IRBuilder
from .position_embedding import Rotation
from .prim_funcs import kernel

_TABLES = ("length_info", "k_rope_pos_offset", "q_rope_position", "output", "lse")
_NUMBERS = ("rotary_mode", "rope_scale", "rope_theta", "sm_scale")
_RAGGED = ("q", "q_indptr", "k", "v", "kv_indptr")
_PAGED = ("q", "q_indptr", "pages", "page_indptr", "page_values", *_TABLES)
PARAMS = {
    "prefill": (*_PAGED, "causal", *_NUMBERS),
    "decode": ("q", "pages", "page_indptr", "page_values", *_TABLES, *_NUMBERS),
    "ragged": (*_RAGGED, "q_rope_position", "k_rope_pos_offset", "output", "lse", "causal", *_NUMBERS),
    "tree": (*_RAGGED, "q_rope_position", "mn_indptr", "mask", "output", "lse", *_NUMBERS),
    "tree_paged": (*_PAGED, *_NUMBERS, "mn_indptr", "mask"),
}  # fmt: skip
WINDOW = 2  # of `causal`: a row sees the last `sliding_window_size` keys up to its own


def _integer(of: BufferVar, *at: Any) -> PrimExpr:
    return cast("int64", of[at])


class _Kernel:
    """An attention kernel of a kind of `PARAMS`."""

    def __init__(
        self, kind: str, heads: tuple[int, int], sizes: tuple[int, int], dtype: str,
        scaling: Mapping[str, Any], page_size: int | None, sliding: bool, window: int,
    ) -> None:  # fmt: skip
        self.heads, self.sizes, self.dtype, self.scaling = heads, sizes, dtype, scaling
        self.sliding, self.window = sliding, window
        self.n, self.s, m, p, count, t = (
            tir.Var(x, "int64") for x in ("n", "s", "m", "p", "pages", "t")
        )
        self.page = tir.Var("page_size", "int64") if page_size is None else page_size
        (h_q, h_kv), (d, d_v) = heads, sizes
        starts, integers = (self.s + 1,), lambda *dims: (dims, "int32")
        if (
            "k_rope_pos_offset" not in PARAMS[kind]
        ):  # nothing else says how many sequences there are
            ends = tir.Var("ends", "int64")
            starts, self.s = (ends,), ends - 1
        shapes: dict[str, Any] = {
            "q": ((self.n, h_q, d), dtype),
            "k": ((m, h_kv, d), dtype),
            "v": ((m, h_kv, d_v), dtype),
            "pages": ((count, 2, h_kv, self.page, d), dtype),
            **dict.fromkeys(
                ("q_indptr", "kv_indptr", "page_indptr", "mn_indptr"), (starts, "int32")
            ),
            "page_values": integers(p),
            "length_info": integers(3, self.s) if sliding else integers(self.s),
            "k_rope_pos_offset": integers(self.s),
            "q_rope_position": integers(self.n),
            "mask": integers(t, 2),
            "output": ((self.n, h_q, d_v), dtype),
            "lse": ((self.n, h_q), "float32"),
            **dict.fromkeys(("causal", "rotary_mode"), "int32"),
            **dict.fromkeys(_NUMBERS[1:], "float32"),
        }
        self.params = {name: shapes[name] for name in PARAMS[kind]}
        if kind == "decode":  # a row of each sequence
            self.params["q"] = ((self.s, h_q, d), dtype)
            self.params["q_rope_position"] = integers(self.s)
            self.params["output"] = ((self.s, h_q, d_v), dtype)
            self.params["lse"] = ((self.s, h_q), "float32")
            self.n = self.s

    def build(self, name: str) -> PrimFunc:
        return kernel(name, self.params, self.write)

    def write(self, ib: IRBuilder, *values: Any) -> None:
        self.by_name = dict(zip(self.params, values, strict=True))
        at = self.by_name
        paged = "pages" in at

        def store(row: PrimExpr, h: PrimExpr, i: PrimExpr, value: PrimExpr) -> None:
            at["output"][row, h, i] = cast(self.dtype, value)

        def store_log(row: PrimExpr, h: PrimExpr, value: PrimExpr) -> None:
            at["lse"][row, h] = value

        def element(name: str, which: int) -> Callable[..., PrimExpr]:
            if paged:
                return lambda to, g, i: at["pages"][to[0], which, g, to[1], i]
            return lambda to, g, i: at[name][to[0], g, i]

        (h_q, h_kv), (d, d_v) = self.heads, self.sizes
        whole = [const(x, "int64") for x in (h_q, h_kv, d, d_v)]
        attend(
            ib,
            Attention(
                *(*whole, "float32", at["sm_scale"], self.s, self.n, self.rows, self.count),
                query=lambda row, h, i: at["q"][row, h, i],
                locate=self.page_of if paged else self.row_of,
                key=element("k", 0),
                value=element("v", 1),
                seen=self.seen,
                store=store,
                store_log=store_log,
                turn=self.turn,
            ),
        )

    def rows(self, n: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        of = self.by_name.get("q_indptr")
        if of is None:
            return n, n + 1
        first, end = (tir.checked_index(of[n + k], self.n + 1) for k in (0, 1))
        return first, end

    def count(self, n: PrimExpr) -> PrimExpr:
        """The keys of a sequence."""
        if "pages" not in self.by_name:
            of = self.by_name["kv_indptr"]
            return _integer(of, n + 1) - _integer(of, n)
        of, info = self.by_name["page_indptr"], self.by_name["length_info"]
        full = (_integer(of, n + 1) - _integer(of, n) - 1) * self.page
        if not self.sliding:
            return tir.max(full + _integer(info, n), 0)
        last, offset, sink = (_integer(info, k, n) for k in range(3))
        return tir.max(full + last - offset + sink, 0)

    def row_of(self, n: PrimExpr, key: PrimExpr) -> list[PrimExpr]:
        """Where a key of ragged tensors is."""
        at = self.by_name
        first = _integer(at["kv_indptr"], n)
        return [tir.checked_index(first + key, at["k"].asobject().shape[0])]

    def page_of(self, n: PrimExpr, key: PrimExpr) -> list[PrimExpr]:
        """Its page, and its number there."""
        at = self.by_name
        if self.sliding:
            info = at["length_info"]
            offset, sink = _integer(info, 1, n), _integer(info, 2, n)
            key = tir.Select(key < sink, key, key - sink + offset)
        (listed,) = at["page_values"].asobject().shape
        end = tir.checked_index(at["page_indptr"][n + 1], listed + 1)
        index = tir.checked_index(_integer(at["page_indptr"], n) + floordiv(key, self.page), end)
        page = tir.checked_index(at["page_values"][index], at["pages"].asobject().shape[0])
        return [page, floormod(key, self.page)]

    def seen(self, n: PrimExpr, row: PrimExpr, asked: PrimExpr, count: PrimExpr) -> Seen:
        last = row + (count - asked)
        if "mask" in self.by_name:
            return Seen(long(0), count, self.unrelated(n, last, count))
        causal = self.by_name.get("causal")
        if causal is None:  # a row, which is the last
            return Seen(long(0), count)
        high = tir.Select(causal > 0, tir.min(last + 1, count), count)
        if not self.sliding:
            return Seen(long(0), high)
        low = tir.Select(tir.EQ(causal, WINDOW), tir.max(last + 1 - self.window, 0), long(0))
        return Seen(low, high)

    def unrelated(
        self, n: PrimExpr, last: PrimExpr, count: PrimExpr
    ) -> Callable[[PrimExpr], PrimExpr]:
        """Whether a key is neither before the tree of the last tokens nor an ancestor of the row in it. A node
        is (its number in preorder, the one behind its last descendant)."""
        starts, mask = self.by_name["mn_indptr"], self.by_name["mask"]
        begin = _integer(starts, n)
        first = count - (_integer(starts, n + 1) - begin)  # the key that is the tree's first node
        total = mask.asobject().shape[0]
        node = lambda key, k: mask[tir.checked_index(begin + key - first, total), k]  # noqa: E731

        def hidden(key: PrimExpr) -> PrimExpr:
            # A key outside of the tree becomes the row's own, which it sees.
            key = tir.Select(tir.And(key >= first, key < count), key, last)
            number = node(last, 0)
            return tir.Or(number < node(key, 0), number >= node(key, 1))

        return hidden

    def turn(
        self, ib: IRBuilder, buffer: BufferVar, at: PrimExpr, n: PrimExpr, row: PrimExpr | None,
        key: PrimExpr | None,
    ) -> None:  # fmt: skip
        """Turn a row of queries or keys by its position, where the cache has them as they are."""
        of = self.by_name
        with ib.if_scope(tir.EQ(of["rotary_mode"], 1)):
            if row is not None:
                position = _integer(of["q_rope_position"], row)
            elif "k_rope_pos_offset" in of:
                position = _integer(of["k_rope_pos_offset"], n) + key
            else:  # keys of the rows themselves
                position = _integer(of["q_rope_position"], _integer(of["kv_indptr"], n) + key)
            rotation = Rotation(ib, self.sizes[0], self.scaling, of["rope_theta"], of["rope_scale"])
            rotation.at(position)
            rotation.turn(buffer, (at,), buffer, (at,))


def _attention(
    kind: str,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    dtype: str,
    scaling: Mapping[str, Any],
    name: str,
    page_size: int | None = None,
    sliding: bool = False,
    window: int = 0,
) -> PrimFunc:
    parts = _Kernel(kind, heads, sizes, dtype, scaling, page_size, sliding, window)
    return parts.build(name + ("_sliding_window" if sliding else ""))


# ---------------------------------------------------------------- TVM's names


def _attention_prefill(
    h_kv: int, h_q: int, d: int, dtype: str, sliding_window: bool, rope_scaling: dict[str, Any],
    target: Any = None, page_size: int | None = 16, sliding_window_size: int = 1024,
) -> PrimFunc:  # fmt: skip
    """Attention of rows of queries (q_indptr) to pages. causal 0: to all keys of the sequence; 1: to those up to the
    row's own, the last rows being the last keys; 2, of a sliding_window kernel: to the last sliding_window_size of
    these. length_info: of each sequence, the tokens on its last page; with sliding_window also the number of the
    first token behind those left out, and how many tokens stay before them. lse: to base 2. page_size None: any."""
    heads, sizes = (h_q, h_kv), (d, d)
    name = "batch_prefill_paged_kv"
    more = (page_size, sliding_window, sliding_window_size)
    return _attention("prefill", heads, sizes, dtype, rope_scaling, name, *more)


def _attention_prefill_cpu(
    h_kv: int, h_q: int, d: int, dtype: str, sliding_window: bool, rope_scaling: dict[str, Any],
    page_size: int | None = 16, sliding_window_size: int = 1024,
) -> PrimFunc:  # fmt: skip
    """`_attention_prefill` for CPUs."""
    args = (h_kv, h_q, d, dtype, sliding_window, rope_scaling)
    return _attention_prefill(*args, None, page_size, sliding_window_size)


def _attention_decode(
    num_kv_heads: int, num_qo_heads: int, head_dim: int, qkv_dtype: str, sliding_window: bool,
    rope_scaling: dict[str, Any], target: Any = None, page_size: int | None = 16,
) -> PrimFunc:  # fmt: skip
    """`_attention_prefill` with one row of each sequence."""
    heads, sizes = (num_qo_heads, num_kv_heads), (head_dim, head_dim)
    more = ("batch_decode_paged_kv", page_size, sliding_window)
    return _attention("decode", heads, sizes, qkv_dtype, rope_scaling, *more)


def _attention_decode_cpu(
    num_kv_heads: int, num_qo_heads: int, head_dim: int, qkv_dtype: str, sliding_window: bool,
    rope_scaling: dict[str, Any], page_size: int | None = 16,
) -> PrimFunc:  # fmt: skip
    """`_attention_decode` for CPUs."""
    args = (num_kv_heads, num_qo_heads, head_dim, qkv_dtype, sliding_window, rope_scaling)
    return _attention_decode(*args, None, page_size)


def _attention_prefill_ragged(
    h_kv: int, h_q: int, d_qk: int, d_v: int, dtype: str, rope_scaling: dict[str, Any],
    target: Any = None,
) -> PrimFunc:  # fmt: skip
    """Attention of rows of queries to keys and values that follow each other (kv_indptr)."""
    name = "batch_prefill_ragged_kv"
    return _attention("ragged", (h_q, h_kv), (d_qk, d_v), dtype, rope_scaling, name)


def tree_attn(
    h_kv: int, h_q: int, d: int, dtype: str, rope_scaling: dict[str, Any], target: Any = None
) -> PrimFunc:
    """Attention of the nodes of trees to their ancestors and themselves. mask: each node's number in preorder and
    the one behind its last descendant; mn_indptr: where the nodes of each sequence begin."""
    return _attention("tree", (h_q, h_kv), (d, d), dtype, rope_scaling, "batch_tree_attn")


def tree_attn_with_paged_kv_cache(
    h_kv: int, h_q: int, d: int, dtype: str, rope_scaling: dict[str, Any], target: Any = None,
    page_size: int | None = None,
) -> PrimFunc:  # fmt: skip
    """Attention of the last nodes of trees, which are the last tokens of the sequences, to their ancestors and to
    all tokens before the trees."""
    name, more = "tree_attn_paged_kv", (page_size,)
    return _attention("tree_paged", (h_q, h_kv), (d, d), dtype, rope_scaling, name, *more)


_attention_prefill_ragged_cpu = _attention_prefill_ragged
tree_attn_cpu = tree_attn
tree_attn_with_paged_kv_cache_cpu = tree_attn_with_paged_kv_cache


def _merge_state_inplace_cpu(v_dtype: str) -> PrimFunc:
    """Results V (n, heads, d) of a part of the keys, with their lse S (n, heads), become those of this part and
    another."""
    n, h, d = (tir.Var(x, "int64") for x in "nhd")
    values, logs = ((n, h, d), v_dtype), ((n, h), "float32")
    params: dict[str, Any] = {"v": values, "s": logs, "v_other": values, "s_other": logs}

    def write(ib: IRBuilder, v: BufferVar, s: BufferVar, other: BufferVar, log: BufferVar) -> None:
        with (
            ib.for_range(long(0), n, "row", dtype="int64", kind="parallel") as row,
            rows(ib, h, "head") as head,
        ):
            top = ib.let("top", tir.max(s[row, head], log[row, head]))
            shares = [ib.let("share", tir.exp2(x[row, head] - top)) for x in (s, log)]
            total = ib.let("total", shares[0] + shares[1])
            for i in in_vectors(ib, d):
                pair = zip((v, other), shares, strict=True)
                a, b = (cast("float32", x[row, head, i]) * share for x, share in pair)
                v[row, head, i] = cast(v_dtype, (a + b) / total)
            s[row, head] = tir.log2(total) + top

    return kernel("merge_state_inplace", params, write)


def _merge_state_inplace(
    num_heads: int,
    head_dim: int,
    v_dtype: str,
    target: Any = None,
    global_symbol: str | None = None,
) -> PrimFunc:
    """`_merge_state_inplace_cpu`."""
    func = _merge_state_inplace_cpu(v_dtype)
    return func if global_symbol is None else func.with_attr("global_symbol", global_symbol)


def _pages(heads: int, page_size: int | None, head_dim: int, dtype: str) -> tuple[Any, str]:
    size = tir.Var("page_size", "int64") if page_size is None else page_size
    return (tir.Var("pages", "int64"), 2, heads, size, head_dim), dtype


def _kv_cache_transpose_append(
    num_key_value_heads: int, head_dim: int, dtype: str, page_size: int | None = 16
) -> PrimFunc:
    """Write keys and values (n, heads, head_dim) to slots of pages: (pages, k_data, v_data, position_map)."""
    n = tir.Var("n", "int64")
    rows_of = ((n, num_key_value_heads, head_dim), dtype)
    pages = _pages(num_key_value_heads, page_size, head_dim, dtype)
    params = (pages, rows_of, rows_of, ((n,), "int32"))
    names = ("pages", "k_data", "v_data", "position_map")
    func = append_kernel(*(tir.decl_buffer(*p, x) for p, x in zip(params, names, strict=True)))
    return func.with_attr("global_symbol", "transpose_append")


def _copy(ib: IRBuilder, pages: BufferVar, source: Any, to: Any) -> None:
    """Copy a token: (page, number there) -> (page, number there)."""
    _, kinds, heads, _, size = pages.asobject().shape
    with rows(ib, kinds, "kind") as kind, rows(ib, heads, "head") as head:
        for i in in_vectors(ib, size):
            pages[to[0], kind, head, to[1], i] = pages[source[0], kind, head, source[1], i]


def _kv_cache_debug_get_kv(
    num_hidden_layers: int, num_key_value_heads: int, head_dim: int, dtype: str
) -> PrimFunc:
    """Read keys and values of slots into a layer of (layers, n, heads, head_dim): (pages, position_map, k_data,
    v_data, layer_id)."""
    n = tir.Var("n", "int64")
    out = ((num_hidden_layers, n, num_key_value_heads, head_dim), dtype)
    pages = _pages(num_key_value_heads, None, head_dim, dtype)
    params: dict[str, Any] = {"pages": pages, "position_map": ((n,), "int32")}

    def write(ib: IRBuilder, cache: BufferVar, slots: BufferVar, *others: Any) -> None:
        *outs, layer = others
        count, _, heads, size, width = cache.asobject().shape
        to = tir.checked_index(layer, num_hidden_layers)
        with ib.for_range(long(0), n, "row", dtype="int64", kind="parallel") as row:
            slot = ib.let("slot", tir.checked_index(slots[row], count * size))
            page, token = floordiv(slot, size), floormod(slot, size)
            for kind, data in enumerate(outs):
                with rows(ib, heads, "head") as head:
                    for i in in_vectors(ib, width):
                        data[to, row, head, i] = cache[page, kind, head, token, i]

    return kernel(
        "kv_cache_debug_get_kv", {**params, "k": out, "v": out, "layer_id": "int64"}, write
    )


def _copy_single_page_cpu(
    num_heads: int, page_size: int | None, head_dim: int, dtype: str
) -> PrimFunc:
    """Copy the first tokens of a page: (pages, src_page_id, tgt_page_id, copy_length)."""
    numbers = dict.fromkeys(("src_page_id", "tgt_page_id", "copy_length"), "int64")

    def write(ib: IRBuilder, pages: BufferVar, source: Any, to: Any, length: Any) -> None:
        count, _, _, size, _ = pages.asobject().shape
        first, second = (ib.let("page", tir.checked_index(x, count)) for x in (source, to))
        with rows(ib, tir.min(length, size), "t") as t:
            _copy(ib, pages, (first, t), (second, t))

    pages = _pages(num_heads, page_size, head_dim, dtype)
    return kernel("copy_single_page", {"pages": pages, **numbers}, write)


def _compact_kv_copy_cpu(
    num_heads: int, head_dim: int, dtype: str, page_size: int | None = 16
) -> PrimFunc:
    """Move tokens of sequences from slots to slots, in order: (pages, copy_length_indptr (sequences + 1),
    copy_src_dst_pos (2, n), batch_size)."""
    s, n = tir.Var("s", "int64"), tir.Var("n", "int64")
    params: dict[str, Any] = {
        "pages": _pages(num_heads, page_size, head_dim, dtype),
        "copy_length_indptr": ((s,), "int32"),
        "copy_src_dst_pos": ((2, n), "int32"),
        "batch_size": "int32",
    }

    def write(
        ib: IRBuilder, pages: BufferVar, starts: BufferVar, moves: BufferVar, batch: Any
    ) -> None:
        count, _, _, size, _ = pages.asobject().shape
        last = ib.let("last", tir.checked_index(batch, s))
        with ib.for_range(long(0), last, "b", dtype="int64", kind="parallel") as b:
            begin = _integer(starts, b)
            with rows(ib, _integer(starts, b + 1) - begin, "k") as k:
                at = tir.checked_index(begin + k, n)
                slots = [
                    ib.let("slot", tir.checked_index(moves[x, at], count * size)) for x in (0, 1)
                ]
                _copy(ib, pages, *((floordiv(x, size), floormod(x, size)) for x in slots))

    return kernel("compact_kv_copy", params, write)


def _copy_single_page(
    num_heads: int, page_size: int | None, head_dim: int, dtype: str, target: Any = None
) -> PrimFunc:
    """`_copy_single_page_cpu`."""
    return _copy_single_page_cpu(num_heads, page_size, head_dim, dtype)


def _compact_kv_copy(
    num_heads: int, head_dim: int, dtype: str, target: Any = None, page_size: int | None = 16
) -> PrimFunc:
    """`_compact_kv_copy_cpu`."""
    return _compact_kv_copy_cpu(num_heads, head_dim, dtype, page_size)
