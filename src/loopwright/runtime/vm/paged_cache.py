"""The paged cache of keys and values behind `frontend.nn.llm`, and the functions that change it.

A page holds the keys and values of `page_size` tokens, for each layer. A sequence is a list of pages; a page may be
in several, after a fork: it is counted, and copied before one of them writes to it. The tables that kernels read
(which pages, how many tokens, positions) are made once for a call of the model, in `begin`; a layer is three
calls: split and turn qkv, write keys and values to their slots, attend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ...base.errors import explain
from ..dlpack import dtype_of
from ..dtype import numpy_dtype
from ..tensor import ShapeTuple
from .builtins import builtin, view_of
from .kv_state import Sequences
from .values import VMValueError, arrive

MHA, MHA_SLIDING = 0, 3  # kinds of attention of a layer
NORMAL, INLINE = 1, 2  # queries and keys are rotated before keys are cached, or when they are read
CAUSAL, WINDOW = 1, 2  # of the kernels' parameter


def _slots(pages: Sequence[int], page_size: int, tokens: np.ndarray) -> np.ndarray:
    """The slots of tokens, which are numbered from the first of the first page."""
    return np.asarray(pages, np.int64)[tokens // page_size] * page_size + tokens % page_size


class PagePool:
    """Which pages are free, and in how many sequences the others are."""

    def __init__(self, count: int) -> None:
        self.free = list(range(count))[::-1]
        self.counts = [0] * count

    def take(self, what: str) -> int:
        """A free page. Raises VMValueError where all are taken."""
        if not self.free:
            hint = "remove sequences, or make a larger cache"
            raise VMValueError(explain("all pages of the cache are taken", got=what, instead=hint))
        page = self.free.pop()
        self.counts[page] = 1
        return page

    def share(self, pages: Sequence[int]) -> list[int]:
        """The same pages, for another sequence."""
        for page in pages:
            self.counts[page] += 1
        return list(pages)

    def drop(self, page: int) -> None:
        """A sequence no longer has a page."""
        self.counts[page] -= 1
        if not self.counts[page]:
            self.free.append(page)


@dataclass
class _Sequence:
    """Its pages, in order, and how many tokens are in them. window: how many stay, at most (0: all), the first
    `sink` of them; gap: tokens left out behind these, which are in the pages still. tree: the parents of the last
    tokens, which are not committed."""

    pages: list[int] = field(default_factory=list)
    length: int = 0
    window: int = 0
    sink: int = 0
    gap: int = 0
    tree: list[int] = field(default_factory=list)

    def places(self, tokens: np.ndarray) -> np.ndarray:
        """The numbers of tokens in the pages."""
        return tokens + self.gap * (tokens >= self.sink)

    @property
    def used(self) -> int:
        """Tokens in the pages."""
        return self.length + self.gap


@dataclass
class Kernels:
    """The functions of a cache, in the order of `paged_attention_kv_cache_create`; None where one is missing."""

    append: Any = None
    append_mla: Any = None
    ragged: Any = None
    prefill: Any = None
    decode: Any = None
    prefill_sliding: Any = None
    decode_sliding: Any = None
    tree_paged: Any = None
    tree: Any = None
    mla: Any = None
    merge: Any = None
    split: Any = None
    copy_page: Any = None
    debug_get: Any = None
    compact: Any = None


@dataclass
class Rope:
    """How queries and keys are rotated."""

    mode: int = NORMAL
    scale: float = 1.0
    theta: float = 10000.0
    factors: Any = None


class PagedKVCache(Sequences):
    """Keys and values by layer: (page, key or value, head, token of the page, channel).

    room: sequences, tokens, tokens of a call, of a page, whether sequences may slide, and the window of layers that
    slide. layers: the first one, and the one behind the last.
    """

    def __init__(
        self, room: Sequence[int], layers: Sequence[int], heads: tuple[int, int, int],
        kinds: Sequence[int], rope: Rope, dtype: str, kernels: Kernels,
    ) -> None:  # fmt: skip
        super().__init__(room[0])
        _, tokens, _, self.page_size, slides, *_ = room
        self.first, self.heads, self.dtype = layers[0], heads, numpy_dtype(dtype)
        self.kinds, self.rope, self.kernels, self.slides = list(kinds), rope, kernels, bool(slides)
        self.count = -(-tokens // self.page_size) + self.batch * (3 if slides else 1)
        shape = (self.count, 2, heads[1], self.page_size, heads[2])
        self.layers = [np.zeros(shape, self.dtype) for _ in range(layers[-1] - layers[0])]
        self.pages = [arrive(layer) for layer in self.layers]
        self.clear()

    def clear(self) -> None:
        """Forget all sequences."""
        self.pool = PagePool(self.count)
        self.sequences = {}
        self.numbers: list[int] = []  # the sequences of the call, and their tokens
        self.lengths: list[int] = []
        self.step = _Step(self, [], [], np.zeros(0, np.int32))

    # -- sequences

    def add(self, number: int) -> None:
        """A new sequence without tokens."""
        self.check_free(number)
        self.sequences[number] = _Sequence()

    def remove(self, number: int) -> None:
        """Its pages are free, unless they are in others."""
        for page in self.sequence(number).pages:
            self.pool.drop(page)
        del self.sequences[number]

    def fork(self, parent: int, child: int, position: int) -> None:
        """A sequence that begins as another does, in the same pages; position -1: all of it."""
        source = self.sequence(parent)
        length = source.length if position < 0 else position
        if length > source.length:
            what = f"sequence {parent} has {source.length} tokens"
            raise VMValueError(explain(what, got=f"{length} to begin with"))
        self.check_free(child)
        slid = source.gap if length > source.sink else 0
        used = -(-(length + slid) // self.page_size)
        pages = self.pool.share(source.pages[:used])
        self.sequences[child] = _Sequence(pages, length, sink=source.sink, gap=slid)

    def slide(self, number: int, window: int, sink: int) -> None:
        """Let a sequence keep its last `window` tokens, of these the first `sink` of all. Raises VMValueError
        where that cannot be."""
        sequence = self.sequence(number)
        if not self.slides or self.rope.mode == NORMAL:
            what = "sequences of this cache do not slide"
            hint = "make it with support_sliding_window, and RopeMode.INLINE or NONE"
            raise VMValueError(explain(what, got=f"sequence {number}", instead=hint))
        if not 0 <= sink < window or sequence.window or sequence.gap:
            what = "a window is set once, and its sink is smaller"
            raise VMValueError(explain(what, got=f"window {window}, sink {sink}"))
        sequence.window, sequence.sink = window, sink

    def popn(self, number: int, count: int) -> None:
        """Take the last tokens off a sequence."""
        sequence = self.sequence(number)
        if not 0 <= count <= sequence.length:
            what = f"sequence {number} has {sequence.length} tokens"
            raise VMValueError(explain(what, got=f"{count} to take off"))
        sequence.length -= count
        sequence.tree = sequence.tree[: max(len(sequence.tree) - count, 0)]
        if sequence.length <= sequence.sink:
            sequence.gap = 0
        self.trim(sequence)

    def trim(self, sequence: _Sequence) -> None:
        """Drop the pages behind its last token."""
        while len(sequence.pages) > -(-sequence.used // self.page_size):
            self.pool.drop(sequence.pages.pop())

    def slots_of(self, sequence: _Sequence, start: int, end: int) -> np.ndarray:
        """Where in the pages tokens are."""
        tokens = sequence.places(np.arange(start, end))
        return _slots(sequence.pages, self.page_size, tokens).astype(np.int32)

    # -- a call of the model

    def begin(
        self, numbers: Sequence[int], lengths: Sequence[int], parents: Sequence[int] | None = None
    ) -> None:
        """The next call has tokens of these sequences, one sequence after another. parents: of each token, its
        parent in the tree of the tokens that are not committed, or -1."""
        if (
            len(set(numbers)) != len(numbers)
            or len(lengths) != len(numbers)
            or min(lengths, default=0) < 0
        ):
            what = "begin_forward takes distinct sequences and the number of tokens of each"
            raise VMValueError(explain(what, got=f"{list(numbers)} and {list(lengths)}"))
        if parents is not None and len(parents) != sum(lengths):
            what = "there is a parent for each token"
            raise VMValueError(explain(what, got=f"{len(parents)} for {sum(lengths)} tokens"))
        sequences = [self.sequence(number) for number in numbers]
        ends = np.cumsum([0, *lengths]).tolist()
        trees = [
            self.grown(s, n, None if parents is None else list(parents[end - n : end]))
            for s, n, end in zip(sequences, lengths, ends[1:], strict=True)
        ]
        self.reserve(sequences, lengths)
        for sequence, count, (tree, _) in zip(sequences, lengths, trees, strict=True):
            sequence.length += count
            sequence.tree = tree
        positions = np.concatenate([np.zeros(0, np.int64), *(p for _, p in trees)])
        self.numbers, self.lengths = list(numbers), list(lengths)
        self.step = _Step(self, sequences, lengths, positions.astype(np.int32))

    def reserve(self, sequences: Sequence[_Sequence], lengths: Sequence[int]) -> None:
        """Give sequences pages of their own for tokens to come; all or none."""
        size = self.page_size
        needs = [
            -(-(s.used + n) // size) - len(s.pages) for s, n in zip(sequences, lengths, strict=True)
        ]
        shared: dict[int, int] = {}
        for s, n in zip(sequences, lengths, strict=True):
            for page in s.pages[s.used // size :] if n else ():
                shared[page] = shared.get(page, 0) + 1
        copies = sum(min(n, self.pool.counts[page] - 1) for page, n in shared.items())
        if sum(needs) + copies > len(self.pool.free):
            what = "all pages of the cache are taken"
            got = f"{sum(needs) + copies} to take, {len(self.pool.free)} free"
            hint = "remove sequences, or make a larger cache"
            raise VMValueError(explain(what, got=got, instead=hint))
        for s, n, need in zip(sequences, lengths, needs, strict=True):
            if n:
                self.own(s, s.used)
            s.pages += [self.pool.take("a page") for _ in range(need)]

    def own(self, sequence: _Sequence, first: int) -> None:
        """Copy the pages from that of token `first` on that are in other sequences, too."""
        for k in range(first // self.page_size, len(sequence.pages)):
            page = sequence.pages[k]
            if self.pool.counts[page] == 1:
                continue
            copy = self.pool.take("a copy of a shared page")
            for pages, layer in zip(self.pages, self.layers, strict=True):
                if self.kernels.copy_page is None:
                    layer[copy] = layer[page]
                else:
                    self.kernels.copy_page(pages, page, copy, self.page_size)
            self.pool.drop(page)
            sequence.pages[k] = copy

    @staticmethod
    def grown(
        sequence: _Sequence, count: int, parents: list[int] | None
    ) -> tuple[list[int], np.ndarray]:
        """The tree of a sequence with more nodes, and the positions of its new tokens."""
        start = sequence.length
        if parents is None:
            if any(parent != k - 1 for k, parent in enumerate(sequence.tree)):
                what = "a tree of tokens is not committed"
                hint = "call vm.builtin.attention_kv_cache_commit_accepted_token_tree_nodes"
                raise VMValueError(explain(what, got=f"{len(sequence.tree)} nodes", instead=hint))
            return [], np.arange(start, start + count)
        tree, depths = [*sequence.tree, *parents], []
        for k, parent in enumerate(tree):
            if not -1 <= parent < k:
                what = "the parent of a node is before it"
                raise VMValueError(explain(what, got=f"{parent} of {k}"))
            depths.append(0 if parent < 0 else depths[parent] + 1)
        first = start - len(sequence.tree)
        return tree, first + np.array(depths[len(tree) - count :], np.int64)

    def end(self) -> None:
        """The call is done: its tokens are in the cache, and sequences that slide drop the oldest ones."""
        for number in self.numbers:
            sequence = self.sequences.get(number)
            if sequence is None or not 0 < sequence.window < sequence.length:
                continue
            sequence.gap += sequence.length - sequence.window
            sequence.length = sequence.window
            first = -(
                -sequence.sink // self.page_size
            )  # the first page that the gap may have alone
            while sequence.sink + sequence.gap >= (first + 1) * self.page_size:
                self.pool.drop(sequence.pages.pop(first))
                sequence.gap -= self.page_size

    def commit(self, numbers: Sequence[int], leaves: Sequence[int]) -> None:
        """Of the call's nodes keep those on the way from the root to a leaf (-1: none), next to each other. Nodes
        are counted from the first one of the last call."""
        moves: list[list[tuple[int, int]]] = []
        for number, leaf in zip(numbers, leaves, strict=True):
            sequence = self.sequence(number)
            if not -1 <= leaf < len(sequence.tree):
                what = f"the tree of sequence {number} has {len(sequence.tree)} nodes"
                raise VMValueError(explain(what, got=f"leaf {leaf}"))
            if number not in self.numbers:
                what = "a tree is committed after its call"
                raise VMValueError(
                    explain(what, got=f"sequence {number}", instead=f"{self.numbers}")
                )
            path = []
            while leaf >= 0:
                path.append(leaf)
                leaf = sequence.tree[leaf]
            added = self.lengths[self.numbers.index(number)]
            if path and path[0] >= added:
                what = f"the last call had {added} nodes of sequence {number}"
                raise VMValueError(explain(what, got=f"leaf {path[0]}"))
            start = sequence.length - added
            self.own(sequence, int(sequence.places(np.array(start))))
            slots = self.slots_of(sequence, start, sequence.length)
            path.reverse()
            moves.append([(int(slots[s]), int(slots[t])) for t, s in enumerate(path) if s != t])
            sequence.tree = []
            self.popn(number, added - len(path))
        self.move(moves)

    def move(self, moves: list[list[tuple[int, int]]]) -> None:
        """Copy tokens from slots to slots, in all layers."""
        every = [move for of in moves for move in of]
        if not every:
            return
        source, to = (np.array(x, np.int32) for x in zip(*every, strict=True))
        if self.kernels.compact is None:
            pages = [np.divmod(x, self.page_size) for x in (source, to)]
            for layer in self.layers:
                for a, b, c, d in zip(*pages[0], *pages[1], strict=True):
                    layer[c, :, :, d] = layer[a, :, :, b]
            return
        starts = arrive(np.cumsum([0, *map(len, moves)]).astype(np.int32))
        both = arrive(np.stack([source, to]))
        for layer in self.pages:
            self.kernels.compact(layer, starts, both, len(moves))

    # -- attention

    def layer_of(self, layer: int) -> int:
        """The number of a layer among those here."""
        if not 0 <= layer - self.first < len(self.layers):
            what = f"the cache has the layers from {self.first} on, {len(self.layers)} of them"
            raise VMValueError(explain(what, got=layer))
        return layer - self.first

    def attention(self, layer: int, scale: float, qkv: Any, out: Any) -> None:
        """Keep the keys and values of a layer, and attend to those of each sequence."""
        self.step.check(out)
        pages, step = self.pages[self.layer_of(layer)], self.step
        last = self.rope.factors
        last = int(self.rope.mode == NORMAL) if last is None else last
        self.kernels.split(qkv, step.positions, *step.qkv, last)
        self.kernels.append(pages, *step.qkv[1:], step.slots)
        self.attend(layer, scale, step.qkv[0], out)

    def attend(self, layer: int, scale: float, q: Any, out: Any) -> None:
        """Attention of queries to the keys and values of a layer."""
        self.step.check(out)
        step, kernels = self.step, self.kernels
        pages, kind = self.pages[self.layer_of(layer)], self.kinds[layer]
        numbers = (int(self.rope.mode == INLINE), self.rope.scale, self.rope.theta, float(scale))
        slides = self.slides or kind == MHA_SLIDING
        tables = (pages, step.page_starts, step.page_ids, step.slid if slides else step.last)
        tables = (*tables, step.zeros, step.positions, out, step.logs)
        if step.tree is not None:
            if slides:
                what = "trees of tokens are for sequences and layers that do not slide"
                raise VMValueError(explain(what, got=f"layer {layer}"))
            kernels.tree_paged(q, step.starts, *tables, *numbers, *step.tree)
        elif step.single and kind != MHA_SLIDING:
            (kernels.decode_sliding if slides else kernels.decode)(q, *tables, *numbers)
        else:
            kernel = kernels.prefill_sliding if slides else kernels.prefill
            kernel(q, step.starts, *tables, WINDOW if kind == MHA_SLIDING else CAUSAL, *numbers)

    def debug_get(self, number: int, start: int, end: int, k: Any, v: Any) -> None:
        """Write the keys and values of tokens: (layer, token, head, channel)."""
        slots = self.slots_of(self.sequence(number), start, end)
        if self.kernels.debug_get is not None:
            for n, pages in enumerate(self.pages):
                self.kernels.debug_get(pages, arrive(slots), k, v, n)
            return
        page, token = np.divmod(slots, self.page_size)
        for n, layer in enumerate(self.layers):
            view_of(k)[n], view_of(v)[n] = layer[page, 0, :, token], layer[page, 1, :, token]


class _Step:
    """The tables of a call, as kernels take them: made once for all layers."""

    def __init__(
        self, cache: PagedKVCache, sequences: Sequence[_Sequence], lengths: Sequence[int],
        positions: np.ndarray,
    ) -> None:  # fmt: skip
        table = lambda values: arrive(np.asarray(values, np.int32))  # noqa: E731
        starts = lambda counts: table(np.cumsum([0, *counts]))  # noqa: E731
        size, (heads, kv_heads, dim) = cache.page_size, cache.heads
        self.count, self.query_positions = len(positions), positions
        self.positions = arrive(positions)
        self.starts = starts(lengths)
        self.page_starts = starts(len(s.pages) for s in sequences)
        self.page_ids = table([page for s in sequences for page in s.pages])
        last = [s.used - (len(s.pages) - 1) * size for s in sequences]
        self.last, self.zeros = table(last), table([0] * len(last))
        offsets = [s.sink + s.gap if s.gap else 0 for s in sequences]
        self.slid = table([last, offsets, [s.sink if s.gap else 0 for s in sequences]])
        pairs = zip(sequences, lengths, strict=True)
        slots = [cache.slots_of(s, s.length - n, s.length) for s, n in pairs]
        self.slots = arrive(np.concatenate([np.zeros(0, np.int32), *slots]))
        shapes = [(self.count, h, dim) for h in (heads, kv_heads, kv_heads)]
        self.qkv = [arrive(np.empty(shape, cache.dtype)) for shape in shapes]
        self.logs = arrive(np.empty((self.count, heads), np.float32))
        self.single = all(n == 1 for n in lengths)
        trees = [s.tree for s in sequences]
        chains = all(parent == k - 1 for tree in trees for k, parent in enumerate(tree))
        self.tree = None if chains else (starts(map(len, trees)), table(_preorder(trees)))

    def check(self, out: Any) -> None:
        """Raises VMValueError where a result has not the rows that were announced."""
        if out.shape[0] != self.count:
            what = f"the call was announced with {self.count} tokens"
            hint = "vm.builtin.kv_state_begin_forward says how many of which sequence"
            raise VMValueError(explain(what, got=out.shape[0], instead=hint))


def _preorder(trees: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Of each node of each tree, its number in preorder and the one behind its last descendant."""
    pairs: list[tuple[int, int]] = []
    for tree in trees:
        sizes = [1] * len(tree)
        for k in range(len(tree) - 1, -1, -1):
            if tree[k] >= 0:
                sizes[tree[k]] += sizes[k]
        behind = 0  # the number of the next root
        free = [0] * len(tree)  # of the next child of a node
        for k, parent in enumerate(tree):
            number = behind if parent < 0 else free[parent]
            free[k] = number + 1
            if parent < 0:
                behind += sizes[k]
            else:
                free[parent] += sizes[k]
            pairs.append((number, number + sizes[k]))
    return pairs


# ---------------------------------------------------------------- functions


def _function(value: Any) -> Any:
    """A kernel: itself, or the last of (kind, kernel...); None where one is missing."""
    if isinstance(value, (tuple, list)):
        return _function(value[-1]) if value else None
    return value if callable(value) else None


@builtin("paged_attention_kv_cache_create")
def create(
    room: ShapeTuple, layers: ShapeTuple, heads: int, kv_heads: int, dim: int, v_dim: int,
    kinds: ShapeTuple, transfer: bool, mode: int, scale: float, theta: float, factors: Any,
    like: Any, *kernels: Any,
) -> PagedKVCache:  # fmt: skip
    """room: sequences, tokens, tokens of a call, of a page, whether attention slides, and the window of the layers
    that slide; like: a tensor of the pages' dtype; kernels: see `Kernels`."""
    if dim != v_dim or set(kinds) - {MHA, MHA_SLIDING} or transfer:
        what = "this cache has heads of one size, in layers of plain or sliding attention, and no transfer"
        raise VMValueError(explain(what, got=f"sizes {dim} and {v_dim}, kinds {tuple(kinds)}"))
    if len(kernels) != len(fields(Kernels)):
        what = f"a cache has {len(fields(Kernels))} kernels"
        raise VMValueError(explain(what, got=len(kernels)))
    rope = Rope(mode, scale, theta, factors if hasattr(factors, "shape") else None)
    functions = Kernels(*map(_function, kernels))
    return PagedKVCache(
        tuple(room),
        tuple(layers),
        (heads, kv_heads, dim),
        tuple(kinds),
        rope,
        dtype_of(like),
        functions,
    )


@builtin("attention_kv_cache_attention_with_fused_qkv")
def attention_with_fused_qkv(
    cache: PagedKVCache, layer: int, scale: float, qkv: Any, out: Any
) -> None:
    """Attention of a layer, into `out`."""
    cache.attention(layer, scale, qkv, out)


@builtin("attention_kv_cache_attention_with_shared_kv")
def attention_with_shared_kv(
    cache: PagedKVCache, layer: int, scale: float, q: Any, k: Any, v: Any, out: Any
) -> None:
    """Attention to what another layer has kept in this call and before, into `out`; k and v are among it."""
    cache.attend(layer, scale, q, out)


@builtin("attention_kv_cache_get_query_positions")
def get_query_positions(cache: PagedKVCache) -> Any:
    """The position of each token of the call in its sequence."""
    return cache.step.positions


@builtin("attention_kv_cache_enable_sliding_window_for_seq")
def enable_sliding_window(cache: PagedKVCache, number: int, window: int, sink: int) -> None:
    """Let a sequence keep its last tokens, and `sink` of its first ones."""
    cache.slide(number, window, sink)


@builtin("attention_kv_cache_commit_accepted_token_tree_nodes")
def commit_accepted(cache: PagedKVCache, numbers: Any, leaves: Any) -> None:
    """Keep the nodes of trees that are on the way to a leaf."""
    cache.commit(tuple(numbers), tuple(leaves))


@builtin("attention_kv_cache_debug_get_kv")
def debug_get_kv(cache: PagedKVCache, number: int, start: int, end: int, k: Any, v: Any) -> None:
    """Read keys and values of a sequence's tokens."""
    cache.debug_get(number, start, end, k, v)


@builtin("attention_kv_cache_get_num_available_pages")
def available_pages(cache: PagedKVCache) -> int:
    """How many pages are free."""
    return len(cache.pool.free)


@builtin("attention_kv_cache_get_total_sequence_length")
def total_length(cache: PagedKVCache) -> int:
    """The tokens of all sequences."""
    return sum(s.length for s in cache.sequences.values())


@builtin("attention_kv_cache_empty")
def is_empty(cache: PagedKVCache) -> bool:
    """Whether the cache is empty, and all pages are free."""
    return not cache.sequences and len(cache.pool.free) == cache.count
