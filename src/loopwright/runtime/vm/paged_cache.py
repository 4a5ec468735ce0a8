"""The paged cache of keys and values behind `frontend.nn.llm`, and the functions that change it.

A page holds the keys and values of `page_size` tokens of one sequence, for each layer. A sequence
is a list of pages and a length; what of it is in no page yet is given with the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.errors import explain
from ..dtype import numpy_dtype
from ..tensor import ShapeTuple
from .builtins import builtin, view_of
from .values import VMValueError, arrive


@dataclass
class _Sequence:
    """Its pages, in order, and how many tokens are in them."""

    pages: list[int] = field(default_factory=list)
    length: int = 0


class PagedKVCache:
    """Keys and values by layer: (page, key or value, head, token of the page, channel)."""

    def __init__(
        self,
        room: Sequence[int],
        layers: Sequence[int],
        heads: tuple[int, int, int],
        dtype: str,
        kernels: tuple[Callable[..., Any], Callable[..., Any]],
    ) -> None:
        self.batch, tokens, _, self.page_size, *_ = room
        self.first, self.heads, self.dtype = layers[0], heads, numpy_dtype(dtype)
        self.split, self.attend = kernels
        count = -(-tokens // self.page_size) + self.batch
        shape = (count, 2, heads[1], self.page_size, heads[2])
        self.layers = [np.zeros(shape, self.dtype) for _ in range(layers[-1] - layers[0])]
        self.clear()

    def clear(self) -> None:
        """Forget all sequences."""
        self.free = list(range(len(self.layers[0]) if self.layers else 0))[::-1]
        self.sequences: dict[int, _Sequence] = {}
        self.batch_now: list[tuple[int, int]] = []  # sequence, tokens of the call
        self.slots: list[np.ndarray] = []
        self.positions = np.zeros(0, np.int32)

    def sequence(self, number: int) -> _Sequence:
        """Raises VMValueError where that number is not in use."""
        if number not in self.sequences:
            got, have = number, sorted(self.sequences) or "none"
            hint = "add it: vm.builtin.kv_state_add_sequence"
            what = f"the cache has no such sequence; it has: {have}"
            raise VMValueError(explain(what, got=got, instead=hint))
        return self.sequences[number]

    def add(self, number: int) -> _Sequence:
        """A new sequence without tokens."""
        if number in self.sequences or len(self.sequences) == self.batch:
            what = f"a cache for {self.batch} sequences cannot take this one"
            got = f"{number}; it has: {sorted(self.sequences)}"
            raise VMValueError(explain(what, got=got, instead="remove one, or make a larger cache"))
        return self.sequences.setdefault(number, _Sequence())

    def resize(self, number: int, length: int) -> None:
        """Take or free pages so that a sequence has a length."""
        sequence = self.sequence(number)
        if length < 0:
            what = f"sequence {number} has {sequence.length} tokens"
            raise VMValueError(explain(what, got=f"{sequence.length - length} to take off"))
        count = -(-length // self.page_size)
        while len(sequence.pages) > count:
            self.free.append(sequence.pages.pop())
        if count - len(sequence.pages) > len(self.free):
            what = "all pages of the cache are taken"
            hint = "remove sequences, or make a larger cache"
            raise VMValueError(explain(what, got=f"{length} tokens of {number}", instead=hint))
        sequence.pages += [self.free.pop() for _ in range(count - len(sequence.pages))]
        sequence.length = length

    def slots_of(self, number: int) -> np.ndarray:
        """Where in the pages each token of a sequence is."""
        sequence = self.sequence(number)
        pages = np.asarray(sequence.pages, np.int64)[:, None] * self.page_size
        return (pages + np.arange(self.page_size)).reshape(-1)[: sequence.length]

    def begin(self, numbers: Sequence[int], lengths: Sequence[int]) -> None:
        """The next call has tokens of these sequences, one sequence after another."""
        self.batch_now = list(zip(numbers, lengths, strict=True))
        starts = [self.sequence(number).length for number in numbers]
        for (number, count), start in zip(self.batch_now, starts, strict=True):
            self.resize(number, start + count)
        self.slots = [self.slots_of(number) for number in numbers]
        ranges = [np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)]
        self.positions = np.concatenate([np.zeros(0, int), *ranges]).astype(np.int32)

    def attention(self, layer: int, scale: float, qkv: Any, out: np.ndarray) -> None:
        """Keep the keys and values of a layer, and attend to those of each sequence."""
        heads, kv_heads, dim = self.heads
        count = len(self.positions)
        if len(out) != count:
            what = f"the call was announced with {count} tokens"
            hint = "vm.builtin.kv_state_begin_forward says how many of which sequence"
            raise VMValueError(explain(what, got=len(out), instead=hint))
        q = np.empty((count, heads, dim), self.dtype)
        k, v = (np.empty((count, kv_heads, dim), self.dtype) for _ in range(2))
        self.split(qkv, self.positions, q, k, v)
        pages, start = self.layers[layer - self.first], 0
        for (_, length), slots in zip(self.batch_now, self.slots, strict=True):
            page, slot = np.divmod(slots[len(slots) - length :], self.page_size)
            rows = slice(start, start + length)
            pages[page, 0, :, slot], pages[page, 1, :, slot] = k[rows], v[rows]
            self.attend(q[rows], pages, slots, float(scale), out[rows])
            start += length


@builtin("paged_attention_kv_cache_create")
def create(
    room: ShapeTuple, layers: ShapeTuple, heads: int, kv_heads: int, dim: int, dtype: str,
    split: Any, attend: Any,
) -> PagedKVCache:  # fmt: skip
    """room: sequences, tokens, tokens of a call, of a page, and whether attention slides."""
    return PagedKVCache(room, layers, (heads, kv_heads, dim), str(dtype), (split, attend))


@builtin("attention_kv_cache_attention_with_fused_qkv")
def attention_with_fused_qkv(
    cache: PagedKVCache, layer: int, scale: float, qkv: Any, out: Any
) -> None:
    """Attention of a layer, into `out`."""
    cache.attention(layer, scale, qkv, view_of(out))


@builtin("attention_kv_cache_get_query_positions")
def get_query_positions(cache: PagedKVCache) -> Any:
    """The place of each token of the call in its sequence."""
    return arrive(cache.positions)


@builtin("kv_state_clear")
def clear(cache: PagedKVCache) -> None:
    """Forget all sequences."""
    cache.clear()


@builtin("kv_state_add_sequence")
def add_sequence(cache: PagedKVCache, number: int) -> None:
    """Add a sequence without tokens."""
    cache.add(number)


@builtin("kv_state_remove_sequence")
def remove_sequence(cache: PagedKVCache, number: int) -> None:
    """Remove a sequence; its pages are free."""
    cache.resize(number, 0)
    del cache.sequences[number]


@builtin("kv_state_fork_sequence")
def fork_sequence(cache: PagedKVCache, parent: int, child: int, position: int = -1) -> None:
    """Add a sequence that begins as another does, up to a position (-1: all of it)."""
    tokens = cache.sequence(parent).length
    length = tokens if position < 0 else position
    if length > tokens:
        what = f"sequence {parent} has {tokens} tokens"
        raise VMValueError(explain(what, got=f"{length} to begin with"))
    cache.add(child)
    cache.resize(child, length)
    for layer in cache.layers:
        for to, source in zip(
            cache.sequence(child).pages, cache.sequence(parent).pages, strict=False
        ):
            layer[to] = layer[source]


@builtin("kv_state_popn")
def popn(cache: PagedKVCache, number: int, count: int) -> None:
    """Take the last tokens off a sequence."""
    cache.resize(number, cache.sequence(number).length - count)


@builtin("kv_state_begin_forward")
def begin_forward(cache: PagedKVCache, numbers: ShapeTuple, lengths: ShapeTuple) -> None:
    """Say which sequences, and how many tokens of each, the next call of the model is about."""
    cache.begin(tuple(numbers), tuple(lengths))


@builtin("kv_state_end_forward")
def end_forward(cache: PagedKVCache) -> None:
    """The call is done: its tokens are in the cache."""
    cache.batch_now = []


@builtin("attention_kv_cache_empty")
def is_empty(cache: PagedKVCache) -> bool:
    """Whether the cache is empty."""
    return not cache.sequences
