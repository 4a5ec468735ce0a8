"""Attention of blocks of queries to blocks of keys: one description for keys in pages, in one ragged tensor,
and in the cache of a language model.

    for groups of heads, blocks of rows of a sequence (parallel):
        for blocks of keys that a row sees:
            k, v = the block's keys, transposed, and its values      # read once for all rows and heads
            for tiles of rows and heads:
                s = q @ k                                            # accumulators of one vector each
                p = exp(s - the greatest score so far); total += p   # where it grew: rescale total, out
                out += p @ v
        out / total

Source of the sums over blocks: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import tir
from ..ir.functor import nodes_of
from ..ir.literals import int_value
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, floordiv, floormod
from ..tir.expr import BufferLoad
from ..tir.ir_builder import BufferVar, IRBuilder
from ..tir.op import call_intrin
from ..tir.stmt import Evaluate
from .extents import simplify
from .overlap import fill, rows
from .statements import LANES, in_vectors, long

# Rows times heads that share a block of keys: their results and scores stay in the cache.
QUERIES = 64
KEYS = 2 * LANES  # of a block
TILE = 4  # rows of accumulators: 8 registers of AVX2, 4 of AVX-512
SPLIT = 32  # tasks at most where keys are split
PIECE = 512  # keys of a part, at least
LINE = 64  # bytes of a cache line
LOG2_E = 1.4426950408889634


class Seen(NamedTuple):
    """The keys that a row sees: from `low` to before `high`, except those that `hidden(key)` names."""

    low: PrimExpr
    high: PrimExpr
    hidden: Callable[[PrimExpr], PrimExpr] | None = None


@dataclass(frozen=True)
class Attention:
    """Where the operands are. A sequence is a number, its rows and keys are counted from 0; `location` is what
    `locate` returns, evaluated once for a key."""

    heads: PrimExpr
    groups: PrimExpr  # heads of keys
    size: PrimExpr  # of a query and a key
    width: PrimExpr  # of a value
    wide: str  # the dtype of sums
    factor: PrimExpr  # of scores
    sequences: PrimExpr
    total: PrimExpr  # rows of all sequences, at most
    rows: Callable[
        [PrimExpr], tuple[PrimExpr, PrimExpr]
    ]  # (sequence) -> its first row, the one behind
    count: Callable[[PrimExpr], PrimExpr]  # (sequence) -> its keys
    query: Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]  # (row of all, head, channel)
    locate: Callable[[PrimExpr, PrimExpr], Sequence[PrimExpr]]  # (sequence, key)
    key: Callable[[Any, PrimExpr, PrimExpr], PrimExpr]  # (location, group, channel)
    value: Callable[[Any, PrimExpr, PrimExpr], PrimExpr]
    seen: Callable[[PrimExpr, PrimExpr, PrimExpr, PrimExpr], Seen]  # (sequence, row, rows, keys)
    store: Callable[
        [PrimExpr, PrimExpr, PrimExpr, PrimExpr], None
    ]  # (row of all, head, channel, value)
    cap: float | None = None  # scores s are cap * tanh(s / cap)
    store_log: Callable[[PrimExpr, PrimExpr, PrimExpr], None] | None = None
    """(row of all, head, the logarithm to base 2 of the sum of powers)"""
    turn: Callable[..., None] | None = None
    """Change a copied row of queries or keys in place: (ib, its buffer, its row there, sequence, row of all or None,
    key or None)"""


def attend(ib: IRBuilder, a: Attention) -> None:
    """The statements of an attention. Results of rows that see no key are zero; those of rows in no sequence are
    not written."""
    share = simplify(floordiv(a.heads, a.groups))
    block = max(1, QUERIES // (int_value(share) or QUERIES))
    # Each sequence may end in a part of a block; one task or more, as the number divides.
    blocks = simplify(tir.max(floordiv(a.total, block) + a.sequences, 1))
    tasks = ib.let("tasks", simplify(a.groups * blocks))
    pieces = ib.let("pieces", _pieces(ib, a, tasks))
    width = simplify(floordiv(a.width + (LANES - 1), LANES) * LANES)
    partial = ib.allocate(a.wide, [SPLIT, simplify(share * block), width + 2], "partial")

    def task(index: PrimExpr, run: Callable[[_Block, PrimExpr, PrimExpr], None]) -> None:
        group = ib.let("group", floordiv(index, blocks))
        cursor = ib.allocate(
            "int64", [2], "cursor", scope="local"
        )  # the sequence, its first row here
        cursor[0], cursor[1] = long(-1), floormod(index, blocks) * block
        with rows(ib, a.sequences, "n") as n, ib.if_scope(cursor[0] < 0):
            first, end = a.rows(n)
            padded = ib.let(
                "padded", floordiv(tir.max(end - first, 0) + (block - 1), block) * block
            )
            with ib.if_scope(cursor[1] < padded):
                cursor[0] = n
            with ib.else_scope():
                cursor[1] = cursor[1] - padded
        with ib.if_scope(cursor[0] >= 0):
            of = _Block(ib, a, group, share, block, partial, pieces)
            run(of, ib.let("sequence", cursor[0]), cursor[1])

    with ib.for_range(long(0), tasks * pieces, "task", "int64", "parallel") as index:
        piece = ib.let("piece", floormod(index, pieces))
        task(floordiv(index, pieces), lambda of, *at: of.write(*at, piece, index))
    with (
        ib.if_scope(pieces > 1),
        ib.for_range(long(0), tasks, "task", "int64", "parallel") as index,
    ):
        task(index, lambda of, *at: of.merge(*at, index * pieces))


def _pieces(ib: IRBuilder, a: Attention, tasks: PrimExpr) -> PrimExpr:
    """In how many parts the keys of a task are attended to, each a task: more than one where there are few
    tasks and many keys."""
    longest = ib.allocate("int64", [1], "longest", scope="local")
    longest[0] = long(0)
    with rows(ib, a.sequences, "n") as n:
        longest[0] = tir.max(longest[0], a.count(n))
    few = floordiv(long(SPLIT), tir.max(tasks, 1))
    return tir.max(tir.min(few, floordiv(longest[0], PIECE)), 1)


def factor_of(scale: float | None, size: PrimExpr, wide: str) -> PrimExpr:
    """The factor of scores: by default 1 / sqrt(size)."""
    return const(scale, wide) if scale is not None else tir.rsqrt(cast(wide, size))


def seen_by(causal_mask: str | None, window_size: int | None) -> Callable[..., Seen]:
    """`Attention.seen` for the masks of `relax.nn.attention`."""

    def seen(_: PrimExpr, row: PrimExpr, asked: PrimExpr, count: PrimExpr) -> Seen:
        last = row if causal_mask == "TopLeft" else row + (count - asked)
        low = long(0) if window_size is None else tir.max(last + 1 - window_size, 0)
        return Seen(low, count if causal_mask is None else tir.min(last + 1, count))

    return seen


def zeros_outside(ib: IRBuilder, out: BufferVar, first: PrimExpr, end: PrimExpr) -> None:
    """Write zeros to the rows (axis -3) before the first and from `end` on."""
    *outer, total, heads, width = out.asobject().shape
    at = tuple(long(0) for _ in outer)
    with (
        ib.for_range(long(0), total, "row", dtype="int64", kind="parallel") as row,
        ib.if_scope(tir.Or(row < first, row >= end)),
        rows(ib, heads, "h") as h,
    ):
        fill(ib, out, (*at, row, h), width, const(0, out.dtype))


class _Block:
    """The results of a block of rows for a group of heads. The rows of its buffers are (row, head)."""

    def __init__(
        self, ib: IRBuilder, a: Attention, group: PrimExpr, share: PrimExpr, block: int,
        partial: BufferVar, pieces: PrimExpr,
    ) -> None:  # fmt: skip
        self.ib, self.a, self.group, self.share, self.block = ib, a, group, share, block
        self.partial, self.pieces = partial, pieces
        self.size, self.width = (
            simplify(floordiv(n + (LANES - 1), LANES) * LANES) for n in (a.size, a.width)
        )
        most = simplify(share * block)
        buffer = lambda name, *shape: ib.allocate(a.wide, list(shape), name, scope="local")  # noqa: E731
        self.q, self.out = buffer("q", most, a.size), buffer("mixed", most, self.width)
        self.top, self.sums = buffer("top", most), buffer("sums", most, LANES)
        self.k, self.keys = buffer("k", KEYS, self.size), buffer("keys", self.size, KEYS)
        self.v = buffer("v", KEYS, self.width)
        self.scores, self.parts = buffer("scores", TILE, KEYS), buffer("parts", LANES)
        self.zero = const(0, a.wide)
        self.next = ib.allocate("int64", [2], "next", scope="local")  # keys to fetch: from, to

    def begin(self, sequence: PrimExpr, start: PrimExpr) -> PrimExpr:
        """Say which rows of which sequence the results are of; their number."""
        ib, a = self.ib, self.a
        self.sequence = sequence
        first, end = a.rows(sequence)
        self.asked = ib.let("asked", end - first)
        self.start = ib.let("start", start)
        self.first = ib.let("first", first + self.start)
        return ib.let("here", tir.min(self.asked - self.start, self.block))

    def write(self, sequence: PrimExpr, start: PrimExpr, piece: PrimExpr, slot: PrimExpr) -> None:
        """Write the results, or where keys are split, those of a piece to its slot of `partial`."""
        ib, a = self.ib, self.a
        here = self.begin(sequence, start)
        self.count = ib.let("count", a.count(sequence))
        self.copy_queries(here)
        low = tir.max(self.seen(long(0)).low, 0)
        high = tir.min(self.seen(here - 1).high, self.count)
        low = ib.let("low", floordiv(low, KEYS) * KEYS)
        number = ib.let("number", floordiv(tir.max(high - low, 0) + (KEYS - 1), KEYS))
        high = ib.let("high", high)
        begin, end = (ib.let("b", floordiv(number * k, self.pieces)) for k in (piece, piece + 1))
        with rows(ib, end - begin, "b") as b:
            at = ib.let("at", low + (begin + b) * KEYS)
            self.read(at, ib.let("valid", tir.min(high - at, KEYS)))
            self.next[0], self.next[1] = at + KEYS, tir.min(at + 2 * KEYS, high)
            queries = here * self.share
            with rows(ib, floordiv(queries, TILE), "tile") as tile:
                self.update(tile * TILE, TILE, at, high)
            with rows(ib, floormod(queries, TILE), "rest") as rest:
                self.update(queries - 1 - rest, 1, at, high)
        with ib.if_scope(self.pieces > 1), rows(ib, here * self.share, "m") as m:
            for i in in_vectors(ib, self.width):
                self.partial[slot, m, i] = self.out[m, i]
            self.fold(lambda x, y: x + y, lambda i, _: self.sums[m, i])
            self.partial[slot, m, self.width] = self.top[m]
            self.partial[slot, m, self.width + 1] = self.parts[0]
        with ib.else_scope():
            self.end(here)

    def merge(self, sequence: PrimExpr, start: PrimExpr, slot: PrimExpr) -> None:
        """Write the results from those of the pieces, which are in slots from `slot` on."""
        ib, of = self.ib, self.partial
        here = self.begin(sequence, start)
        with rows(ib, here * self.share, "m") as m:
            self.clear(m)
            with rows(ib, self.pieces, "piece") as k:
                self.top[m] = tir.max(self.top[m], of[slot + k, m, self.width])
            with rows(ib, self.pieces, "piece") as k:
                part = ib.let("part", tir.exp(of[slot + k, m, self.width] - self.top[m]))
                self.sums[m, 0] = self.sums[m, 0] + part * of[slot + k, m, self.width + 1]
                for i in in_vectors(ib, self.width):
                    self.out[m, i] = self.out[m, i] + part * of[slot + k, m, i]
        self.end(here)

    def clear(self, m: PrimExpr) -> None:
        """Begin the sums of a row."""
        for i in in_vectors(self.ib, self.width):
            self.out[m, i] = self.zero
        for i in in_vectors(self.ib, long(LANES)):
            self.sums[m, i] = self.zero
        self.top[m] = tir.min_value(self.a.wide)

    def seen(self, row: PrimExpr) -> Seen:
        """`row` is counted in the block."""
        return self.a.seen(self.sequence, self.start + row, self.asked, self.count)

    def copy_queries(self, here: PrimExpr) -> None:
        """Copy the queries, and begin their sums."""
        ib, a = self.ib, self.a
        with rows(ib, here, "row") as row, rows(ib, self.share, "h") as h:
            m = ib.let("m", row * self.share + h)
            for i in in_vectors(ib, a.size):
                element = a.query(self.first + row, self.group * self.share + h, i)
                self.q[m, i] = cast(a.wide, element) * a.factor
            if a.turn is not None:
                a.turn(ib, self.q, m, self.sequence, self.first + row, None)
            self.clear(m)

    def read(self, at: PrimExpr, valid: PrimExpr) -> None:
        """Copy keys and values from `at` on; those that are not valid are zero."""
        ib, a = self.ib, self.a
        with rows(ib, valid, "t") as t:
            location = self.locate(at + t)
            for copy, element, extent in ((self.k, a.key, a.size), (self.v, a.value, a.width)):
                for i in in_vectors(ib, extent):
                    copy[t, i] = cast(a.wide, element(location, self.group, i))
            if a.turn is not None:
                a.turn(ib, self.k, t, self.sequence, None, at + t)
        with rows(ib, KEYS - valid, "t") as t:
            for copy, extent in ((self.k, self.size), (self.v, self.width)):
                for i in in_vectors(ib, extent):
                    copy[valid + t, i] = self.zero
        with (
            rows(ib, long(KEYS // LANES), "strip") as strip,
            rows(ib, floordiv(self.size, LANES), "c") as c,
            ib.for_range(0, LANES, "row", dtype="int64", kind="unroll") as row,
            ib.for_range(0, LANES, "lane", dtype="int64", kind="vectorize") as lane,
        ):
            self.keys[c * LANES + row, strip * LANES + lane] = self.k[
                strip * LANES + lane, c * LANES + row
            ]

    def fetch(self) -> None:
        """Fetch a key of the next block, and its value, into the cache: the hardware follows no stream from page to
        page, and there are places enough among the products for all of them."""
        ib, a = self.ib, self.a
        with ib.if_scope(self.next[0] < self.next[1]):
            location = self.locate(self.next[0])
            for element, extent in ((a.key, a.size), (a.value, a.width)):
                value = element(location, self.group, long(0))
                step = LINE // max(nodes_of(value, BufferLoad)[0].dtype.lane_bytes, 1)
                with rows(ib, floordiv(extent + (step - 1), step), "line") as line:
                    load = nodes_of(element(location, self.group, line * step), BufferLoad)[0]
                    hints = (const(n, "int32") for n in (0, 3, 1))  # to read, to keep, data
                    call = call_intrin("void", "tir.prefetch", tir.address_of(load), *hints)
                    ib.emit(Evaluate(call))
            self.next[0] = self.next[0] + 1

    def locate(self, key: PrimExpr) -> list[PrimExpr]:
        """The location of a key, as variables."""
        where = self.a.locate(self.sequence, key)
        return [self.ib.let(f"location{n}", x) for n, x in enumerate(where)]

    def update(self, m: PrimExpr, count: int, at: PrimExpr, high: PrimExpr) -> None:
        """Take a block of keys into the results of `count` queries from `m` on."""
        ib = self.ib
        with rows(ib, long(KEYS // LANES), "strip") as strip:
            self.fetch()
            sums = [self.accumulator() for _ in range(count)]
            with rows(ib, self.a.size, "c") as c:
                for n, total in enumerate(sums):
                    for i in in_vectors(ib, long(LANES)):
                        total[i] = total[i] + self.q[m + n, c] * self.keys[c, strip * LANES + i]
            for n, total in enumerate(sums):
                for i in in_vectors(ib, long(LANES)):
                    self.scores[n, strip * LANES + i] = total[i]
        for n in range(count):
            with ib.new_scope():
                self.fetch()
                self.normalize(m + n, n, at, high)
        with rows(ib, floordiv(self.width, LANES), "strip") as strip:
            self.fetch()
            sums = [self.accumulator(self.out, m + n, strip * LANES) for n in range(count)]
            with rows(ib, long(KEYS), "t") as t:
                for n, total in enumerate(sums):
                    for i in in_vectors(ib, long(LANES)):
                        total[i] = total[i] + self.scores[n, t] * self.v[t, strip * LANES + i]
            for n, total in enumerate(sums):
                for i in in_vectors(ib, long(LANES)):
                    self.out[m + n, strip * LANES + i] = total[i]

    def accumulator(self, of: BufferVar | None = None, *at: PrimExpr) -> BufferVar:
        """A vector of zeros, or of a buffer's elements."""
        total = self.ib.allocate(self.a.wide, [LANES], "total", scope="local")
        for i in in_vectors(self.ib, long(LANES)):
            total[i] = self.zero if of is None else of[(*at[:-1], at[-1] + i)]
        return total

    def normalize(self, m: PrimExpr, n: int, at: PrimExpr, high: PrimExpr) -> None:
        """The powers of the scores of a query."""
        ib, a, s, top = self.ib, self.a, self.scores, self.top
        if a.cap is not None:
            cap = const(a.cap, a.wide)
            for i in in_vectors(ib, long(KEYS)):
                s[n, i] = cap * tir.tanh(s[n, i] / cap)
        seen = self.seen(floordiv(m, self.share))
        low, end = ib.let("from", seen.low), ib.let("to", tir.min(seen.high, high))
        partly = tir.Or(at < low, at + KEYS > end)
        none = const(float("-inf"), a.wide)
        with ib.if_scope(partly if seen.hidden is None else tir.const(True, "bool")):
            for i in in_vectors(ib, long(KEYS)):
                key = at + i
                no = tir.Or(key < low, key >= end)
                s[n, i] = tir.Select(no, none, s[n, i])
            if seen.hidden is not None:
                for i in in_vectors(ib, long(KEYS)):
                    s[n, i] = tir.Select(seen.hidden(at + i), none, s[n, i])
        self.fold(tir.max, lambda i, strip: s[n, strip * LANES + i], KEYS // LANES)
        with ib.if_scope(self.parts[0] > top[m]):
            less = ib.let("less", tir.exp(top[m] - self.parts[0]))
            top[m] = self.parts[0]
            for i in in_vectors(ib, long(LANES)):
                self.sums[m, i] = self.sums[m, i] * less
            for i in in_vectors(ib, self.width):
                self.out[m, i] = self.out[m, i] * less
        for strip in range(KEYS // LANES):
            for i in in_vectors(ib, long(LANES)):
                s[n, strip * LANES + i] = tir.exp(s[n, strip * LANES + i] - top[m])
            for i in in_vectors(ib, long(LANES)):
                self.sums[m, i] = self.sums[m, i] + s[n, strip * LANES + i]

    def fold(
        self, of: Callable[..., PrimExpr], element: Callable[..., PrimExpr], strips: int = 1
    ) -> None:
        """parts[0] = the fold of the elements of vectors."""
        for strip in range(strips):
            for i in in_vectors(self.ib, long(LANES)):
                value = element(i, strip)
                self.parts[i] = of(self.parts[i], value) if strip else value
        half = LANES // 2
        while half:
            for i in in_vectors(self.ib, long(half)):
                self.parts[i] = of(self.parts[i], self.parts[i + half])
            half //= 2

    def end(self, here: PrimExpr) -> None:
        ib, a = self.ib, self.a
        with rows(ib, here, "row") as row, rows(ib, self.share, "h") as h:
            m = ib.let("m", row * self.share + h)
            self.fold(lambda x, y: x + y, lambda i, _: self.sums[m, i])
            total = ib.let("total", self.parts[0])
            none = total == 0
            one = ib.let("one", const(1, a.wide) / tir.Select(none, const(1, a.wide), total))
            at = self.first + row, self.group * self.share + h
            for i in in_vectors(ib, a.width):
                a.store(*at, i, self.out[m, i] * one)
            if a.store_log is not None:
                log = (self.top[m] + tir.log(total)) * const(LOG2_E, a.wide)
                a.store_log(*at, tir.Select(none, tir.min_value(a.wide), log))
