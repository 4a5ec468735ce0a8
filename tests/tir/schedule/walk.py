"""Random sequences of primitives: every primitive of `Schedule`, with arguments that may be refused."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

from loopwright import tir
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import IntImm
from loopwright.ir.variables import vars_in
from loopwright.tir.schedule.machinery.regions import axis_values

from .intrinsics import fits, matching

Move = Callable[["Walk"], None]
MOST_CODE = 600  # copies of a block's body in the code
MOST_WORK = 12_000  # iterations of blocks


class Skip(Exception):
    """This block or loop is nothing for the move: it was not tried."""


class Unchanged(AssertionError):
    """A refused step changed the program or the trace."""


class Walk:
    """A schedule on its way, with counts of what was tried."""

    def __init__(self, func: tir.PrimFunc, seed: int, *, limit: int = MOST_WORK) -> None:
        self.rng = random.Random(seed)
        self.sch = tir.Schedule(func, error_render_level="none", debug_mask="all", seed=seed)
        self.limit = max(limit, 2 * work(self.sch)[0])
        self.done: list[str] = []
        self.tried: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.blocks = blocks_of(self.sch)
        self.block: Any = None
        self.loops: list[Any] = []

    # ------------------------------------------------------------------ what moves use

    @property
    def loop(self) -> Any:
        """A loop of the block, more often an inner one."""
        if not self.loops:
            raise Skip
        return self.rng.choice(self.loops)

    @property
    def other(self) -> Any:
        """A loop of another block."""
        blocks = [b for b in self.blocks if b is not self.block] or self.blocks
        loops = self.sch.get_loops(self.rng.choice(blocks))
        if not loops:
            raise Skip
        return self.rng.choice(loops)

    def near(self, blocks: list[Any]) -> Any:
        """A loop of one of the blocks, mostly, else of any."""
        if not blocks or self.rng.random() < 0.2:
            return self.other
        loops = self.sch.get_loops(self.rng.choice(blocks))
        return self.rng.choice(loops) if loops else self.other

    @property
    def node(self) -> tir.Block:
        return self.sch.get(self.block)

    def one_of(self, regions: Any) -> int:
        """The number of a region."""
        if not regions:
            raise Skip
        return self.rng.randrange(len(regions))

    def allocated(self) -> set[Any]:
        """The buffers that are not parameters'."""
        func = self.sch.mod["main"]
        params = set(func.buffer_map.values())
        regions = (*self.node.writes, *self.node.reads)
        return {r.buffer for r in regions} - params

    @property
    def neighbours(self) -> list[Any]:
        """The block and the one or two after it, wherever they stand."""
        at = self.blocks.index(self.block)
        return self.blocks[at : at + self.rng.choice([2, 2, 3])]

    # ------------------------------------------------------------------ walking

    def step(self) -> bool:
        """Try one move. Whether it was done."""
        rng = self.rng
        name = rng.choices(NAMES, WEIGHTS)[0]
        before = self.sch
        self.sch = before.copy()
        self.block = rng.choice(self.blocks)
        try:
            self.loops = self.sch.get_loops(self.block)
            module = self.sch.mod
            steps = changes(self.sch)
            self.tried[name] += 1
            MOVES[name][1](self)
        except Skip:
            self.tried[name] -= 1
            self.sch = before
            return False
        except tir.ScheduleError as error:
            self.refused[name] += 1
            self.reasons[name, _pattern(error.what)] += 1
            alone = changes(self.sch) == steps  # of a move of several steps the first were done
            if alone and not same_functions(self.sch.mod, module):
                raise Unchanged(f"{name} was refused and changed the program") from error
            self.sch = before
            return False
        if any(n > most for n, most in zip(work(self.sch), (self.limit, MOST_CODE), strict=True)):
            self.tried[name] -= 1
            self.sch = before
            return False
        self.done.append(name)
        self.blocks = blocks_of(self.sch)
        return True

    def go(self, steps: int, attempts: int = 200) -> Walk:
        """So many moves that are done."""
        for _ in range(attempts):
            if len(self.done) >= steps or not self.blocks:
                break
            self.step()
        return self


def _pattern(what: str) -> str:
    return re.sub(r"'[^']*'|\b[AB]\d\w*|\b\d+\b|\bcse_v\w*", "_", what)


def changes(sch: tir.Schedule) -> int:
    """The steps of the trace that change the program."""
    return sum(not inst.kind.is_pure for inst in sch.trace.insts)


def same_functions(a: IRModule, b: IRModule) -> bool:
    """Whether the functions are the very same objects, or their texts are equal."""
    return all(b[g] is f for g, f in a.functions.items()) or a.script() == b.script()


def blocks_of(sch: tir.Schedule) -> list[Any]:
    """All blocks below the root."""
    found, todo = [], [sch.get_block("root")]
    while todo:
        children = sch.get_child_blocks(todo.pop())
        found += children
        todo += children
    return found


def work(sch: tir.Schedule) -> tuple[int, int]:
    """About how many block iterations a program takes; how often a block stands in its code."""
    total, code, todo = 0, 0, [(sch.get_sref(sch.get_block("root")), 1, 1)]
    while todo:
        ref, times, copies = todo.pop()
        for child in ref.children:
            extent, unrolled = 1, 1
            if not child.is_block:
                extent = getattr(child.stmt.extent, "value", 16)
                kinds = (tir.ForKind.UNROLLED, tir.ForKind.VECTORIZED, tir.ForKind.THREAD_BINDING)
                unrolled = extent if child.stmt.kind in kinds else 1
            else:
                total += times
                code += copies
            todo.append((child, times * extent, copies * unrolled))
    return total, code


# ---------------------------------------------------------------------- moves


def split(w: Walk) -> None:
    r = w.rng
    factors: list[Any] = [r.choice([1, 2, 3, 4, 5, 8]) for _ in range(r.choice([1, 1, 2]))]
    factors.insert(r.randrange(len(factors) + 1), None)
    if r.random() < 0.1:
        factors[factors.index(None)] = r.choice([1, 2, 16])
    loop = w.loop
    extent = getattr(w.sch.get(loop).extent, "value", None)
    given = prod(f for f in factors if f is not None)
    even = extent is not None and extent % given == 0 and (None in factors or extent == given)
    # without the predicate only where none is needed
    w.sch.split(loop, factors, r.random() < 0.7, even and r.random() < 0.3)


def fuse(w: Walk) -> None:
    if len(w.loops) < 2:
        raise Skip
    at = w.rng.randrange(len(w.loops) - 1)
    loops = w.loops[at : at + w.rng.choice([2, 2, 3])]
    w.sch.fuse(*loops, preserve_unit_iters=w.rng.random() < 0.7)


def reorder(w: Walk) -> None:
    if len(w.loops) < 2:
        raise Skip
    w.sch.reorder(*w.rng.sample(w.loops, min(len(w.loops), w.rng.choice([2, 3, 4]))))


def bind(w: Walk) -> None:
    w.sch.bind(w.loop, w.rng.choice(["vthread.x", "vthread.y"]))


def compute_at(w: Walk) -> None:
    at = w.near(w.sch.get_consumers(w.block))
    w.sch.compute_at(w.block, at, w.rng.random() < 0.3, w.rng.choice(PLACES))


def reverse_compute_at(w: Walk) -> None:
    at = w.near(w.sch.get_producers(w.block))
    w.sch.reverse_compute_at(w.block, at, w.rng.random() < 0.3, w.rng.choice(PLACES))


def cache_read(w: Walk) -> None:
    scope = w.rng.choice(["global", "local", "shared"])
    consumers = [w.block] if w.rng.random() < 0.3 else []
    w.sch.cache_read(w.block, w.one_of(w.node.reads), scope, consumers)


def cache_write(w: Walk) -> None:
    readers = w.sch.get_consumers(w.block) if w.rng.random() < 0.3 else []
    some = w.rng.sample(readers, w.rng.randint(0, len(readers)))
    scope = w.rng.choice(["global", "local", "shared"])
    w.sch.cache_write(w.block, w.one_of(w.node.writes), scope, some)


def cache_inplace(w: Walk) -> None:
    written = {r.buffer for r in w.node.writes}
    places = [n for n, r in enumerate(w.node.reads) if r.buffer in written]
    if not places and w.rng.random() < 0.8:
        raise Skip
    w.sch.cache_inplace(w.block, w.rng.choice(places or [0]), "local")


def cache_index(w: Walk) -> None:
    w.sch.cache_index(w.block, "global", w.rng.choice([0, 0, 1]))


def reindex(w: Walk) -> None:
    side = w.rng.choice(["read", "write"])
    w.sch.reindex(w.block, (side, w.one_of(w.node.reads if side == "read" else w.node.writes)))


def reindex_cache(side: str) -> Move:
    def move(w: Walk) -> None:
        maps = [
            lambda *v: v,
            lambda *v: v[::-1],
            lambda *v: v[:2],
            lambda *v: (*v[1:], *v[:1]),
            lambda *v: (*v[:-1], *(k for e in v[-1:] for k in (e // 2, e % 2))),
        ]
        fn = getattr(w.sch, f"reindex_cache_{side}")
        regions = w.node.reads if side == "read" else w.node.writes
        fn(w.block, w.one_of(regions), "global", w.rng.choice(maps))

    return move


def read_at(w: Walk) -> None:
    w.sch.read_at(w.loop, w.block, w.one_of(w.node.reads), w.rng.choice(SCOPES))


def write_at(w: Walk) -> None:
    w.sch.write_at(w.loop, w.block, w.one_of(w.node.writes), w.rng.choice(SCOPES))


def storage_align(w: Walk) -> None:
    n = w.one_of(w.node.writes)
    if not w.node.writes[n].buffer.shape:
        raise Skip
    axis = w.rng.randrange(len(w.node.writes[n].buffer.shape))
    w.sch.storage_align(w.block, n, axis, w.rng.choice([4, 8, 16]), w.rng.choice([0, 1, 3]))


def set_scope(w: Walk) -> None:
    n = w.one_of(w.node.writes)
    w.sch.set_scope(w.block, n, w.rng.choice(["local", "shared", "global"]))


def set_axis_separator(w: Walk) -> None:
    n = w.one_of(w.node.writes)
    if w.node.writes[n].buffer not in w.allocated():
        raise Skip
    w.sch.set_axis_separator(w.block, ("write", n), [])


def unsafe_set_dtype(w: Walk) -> None:
    """To a type that holds all values of the old one."""
    n = w.one_of(w.node.writes)
    dtype = str(w.node.writes[n].buffer.dtype)
    wider = {"float32": "float64", "int32": "int64", "float16": "float32", "bool": "int32"}
    if dtype not in wider:
        raise Skip
    w.sch.unsafe_set_dtype(w.block, n, wider[dtype])


def annotate(w: Walk) -> None:
    if w.rng.random() < 0.5:  # what loop passes look at
        return w.sch.annotate(w.loop, *w.rng.choice(PRAGMAS))
    value = w.rng.choice([1, "text", [1, 2], 0.5])
    w.sch.annotate(w.rng.choice([w.block, w.loop]), w.rng.choice(["note", "other"]), value)


def unannotate(w: Walk) -> None:
    noted = [rv for rv in (w.block, *w.loops) if w.sch.get(rv).annotations]
    if not noted:
        raise Skip
    target = w.rng.choice(noted)
    w.sch.unannotate(target, w.rng.choice(list(w.sch.get(target).annotations)))


def annotate_buffer_access(w: Walk) -> None:
    """All of the buffer: true whatever the block does."""
    if len(w.node.reads) == 0 or not w.node.iter_vars:
        raise Skip
    n = w.one_of(w.node.reads)
    shape = w.node.reads[n].buffer.shape
    if not all(isinstance(e, IntImm) for e in shape):
        raise Skip
    whole = [(e * 0, e) for e in shape]
    w.sch.annotate_buffer_access(w.block, n, "read", lambda *v: whole)


def transform_layout(w: Walk) -> None:
    r = w.rng
    side = r.choice(["write", "write", "read"])
    regions = w.node.writes if side == "write" else w.node.reads
    n = w.one_of(regions)
    buffer = regions[n].buffer
    if buffer not in w.allocated():
        raise Skip
    shape = [getattr(e, "value", None) for e in buffer.shape]
    if not shape:
        raise Skip
    k = r.choice([2, 3, 4])
    maps: list[Any] = [
        lambda *v: v[::-1],
        lambda *v: (v[0] // k, *v[1:], v[0] % k),
        lambda *v: (*v[:-1], v[-1] // k, v[-1] % k),
        lambda *v: (v[-1] // k, *v[:-1], v[-1] % k),
    ]
    if len(shape) > 1 and None not in shape:
        maps.append(lambda *v: (*v[:-2], v[-2] * shape[-1] + v[-1]))
    kind = "int" if buffer.dtype.is_integer else "float"
    value = {"int": 7, "float": 7.0}[kind] if buffer.dtype != "bool" else False
    sure = r.random() < 0.2  # all of them are injective
    pad_value = r.choice([None, value])
    index_map = r.choice(maps)
    w.sch.transform_layout(
        w.block, (side, n), index_map, pad_value, assume_injective_transform=sure
    )


def transform_block_layout(w: Walk) -> None:
    axes = w.node.iter_vars
    if not axes:
        raise Skip
    extents = [getattr(a.dom.extent, "value", None) for a in axes]
    maps: list[Any] = [
        lambda *v: v[::-1],
        lambda *v: (v[0] // 2, v[0] % 2, *v[1:]),
        lambda *v: (*v[:-1], v[-1] // 2, v[-1] % 2),
    ]
    if len(axes) > 1 and extents[1] is not None:
        maps.append(lambda *v: (v[0] * extents[1] + v[1], *v[2:]))
    w.sch.transform_block_layout(w.block, w.rng.choice(maps))


def reorder_block_iter_var(w: Walk) -> None:
    order = list(range(len(w.node.iter_vars)))
    w.rng.shuffle(order)
    w.sch.reorder_block_iter_var(w.block, order)


def rfactor(w: Walk) -> None:
    n = w.one_of(w.node.writes)
    if w.node.init is None and w.rng.random() < 0.9:
        raise Skip
    w.sch.rfactor(w.loop, w.rng.randrange(len(w.node.writes[n].buffer.shape) + 1))


def decompose_reduction(w: Walk) -> None:
    if w.node.init is None and w.rng.random() < 0.9:
        raise Skip
    w.sch.decompose_reduction(w.block, w.loop)


def decompose_padding(w: Walk) -> None:
    if "if_then_else" not in str(w.node) and w.rng.random() < 0.9:
        raise Skip
    w.sch.decompose_padding(w.block, w.loop)


def pad_einsum(w: Walk) -> None:
    if w.node.init is None and w.rng.random() < 0.9:
        raise Skip
    w.sch.pad_einsum(w.block, [w.rng.choice([1, 3, 4]) for _ in w.node.iter_vars])


def rolling_buffer(w: Walk) -> None:
    """Mostly after a `compute_at` of the producer of a window."""
    if w.rng.random() < 0.95:
        found = [(maker, loops) for b in w.blocks for maker, loops in windows(w, b)]
        if not found:
            raise Skip
        w.block, loops = w.rng.choice(found)
        if w.rng.random() < 0.9:
            w.sch.compute_at(w.block, w.rng.choice(loops))
    w.sch.rolling_buffer(w.block, w.one_of(w.node.writes))


def windows(w: Walk, block: Any) -> list[tuple[Any, list[Any]]]:
    """(a producer of what a block reads windows of, the loops that move the windows)"""
    ref, found = w.sch.get_sref(block), []
    kept = {a.var: a.iter_type == a.DataPar for a in ref.stmt.iter_vars}
    values = axis_values(ref)
    loops = {w.sch.get(loop).loop_var: loop for loop in w.sch.get_loops(block)}
    for region in ref.stmt.reads:
        moved: set[Any] = set()
        for dim in region.region:
            axes = [v for v in vars_in(dim.min) if v in kept]
            if {kept[v] for v in axes} == {True, False}:
                moved |= vars_in([values[v] for v in axes if kept[v]])
        at = [loop for var, loop in loops.items() if var in moved]
        for maker in w.sch.get_producers(block) if at else ():
            if any(r.buffer is region.buffer for r in w.sch.get(maker).writes):
                found.append((maker, at))
    return found


def blockize(w: Walk) -> None:
    target = w.rng.choice([w.loop, w.loop, w.block, w.neighbours])
    w.sch.blockize(target, preserve_unit_iters=w.rng.random() < 0.7)


def tensorize(w: Walk) -> None:
    """By the first intrinsic that fits the innermost loop."""
    if not w.loops:
        raise Skip
    inner = w.loops[-1]
    extent = getattr(w.sch.get(inner).extent, "value", None)
    if extent not in (2, 3, 4, 8):
        inner = w.sch.split(inner, [None, w.rng.choice([2, 4])])[-1]
        extent = getattr(w.sch.get(inner).extent, "value", None)
    names = matching(w.node, extent)
    if len(names) > 3 and w.rng.random() < 0.9:  # a refused one takes as long as one that fits
        names = [n for n in names if fits(w.node, n)]
    if not names:
        raise Skip
    for name in names:
        try:
            w.sch.tensorize(inner, name, preserve_unit_iters=w.rng.random() < 0.7)
        except tir.ScheduleError:
            if name == names[-1]:
                raise
        else:
            return


def loop_partition(w: Walk) -> None:
    factors = w.rng.choice([[2, None], [None, 3], [1, None, 2]])
    w.sch.loop_partition(w.loop, factors, preserve_unit_iters=w.rng.random() < 0.7)


def merge(w: Walk) -> None:
    """Loops at one depth of two nests, mostly next to each other."""
    if w.rng.random() < 0.2:
        return w.sch.merge(w.loop, w.other)
    nests = [w.sch.get_loops(b) for b in w.neighbours]
    refs = [[w.sch.get_sref(loop) for loop in loops] for loops in nests]
    depth = min(map(len, refs))
    apart = [n for n in range(depth) if refs[0][n] is not refs[1][n]] if len(refs) > 1 else []
    if not apart:
        raise Skip
    at = apart[0] if w.rng.random() < 0.7 else w.rng.choice(apart)
    w.sch.merge(*(loops[at] for loops in nests))


def sample_perfect_tile(w: Walk) -> None:
    loop = w.loop
    w.sch.split(loop, w.sch.sample_perfect_tile(loop, w.rng.choice([2, 3]), 4))


def sample_partitioned_tile(w: Walk) -> None:
    loop = w.loop
    w.sch.split(loop, w.sch.sample_partitioned_tile(loop, 3, w.rng.choice([1, 2]), 2))


def sample_categorical(w: Walk) -> None:
    w.sch.split(w.loop, [None, w.sch.sample_categorical([2, 3, 4], [0.5, 0.25, 0.25])])


def sample_compute_location(w: Walk) -> None:
    at = w.sch.sample_compute_location(w.block)
    w.rng.choice([w.sch.compute_at, w.sch.compute_at, w.sch.reverse_compute_at])(w.block, at)


PLACES = [-1, -1, -1, -2, 0, 1]  # among the statements of a loop
SCOPES = ["shared", "local", "global"]
PRAGMAS = [
    ("pragma_auto_unroll_max_step", 16),
    ("pragma_unroll_explicit", 1),
    ("pragma_loop_partition_hint", 1),
]
MOVES: dict[str, tuple[int, Move]] = {
    "split": (10, split),
    "fuse": (8, fuse),
    "reorder": (8, reorder),
    "parallel": (5, lambda w: w.sch.parallel(w.loop)),
    "vectorize": (6, lambda w: w.sch.vectorize(w.loop)),
    "unroll": (3, lambda w: w.sch.unroll(w.loop)),
    "bind": (1, bind),
    "compute_at": (14, compute_at),
    "reverse_compute_at": (14, reverse_compute_at),
    "compute_inline": (6, lambda w: w.sch.compute_inline(w.block)),
    "reverse_compute_inline": (6, lambda w: w.sch.reverse_compute_inline(w.block)),
    "cache_read": (6, cache_read),
    "cache_write": (6, cache_write),
    "cache_inplace": (2, cache_inplace),
    "cache_index": (2, cache_index),
    "reindex": (4, reindex),
    "reindex_cache_read": (3, reindex_cache("read")),
    "reindex_cache_write": (3, reindex_cache("write")),
    "read_at": (2, read_at),
    "write_at": (2, write_at),
    "storage_align": (2, storage_align),
    "set_scope": (2, set_scope),
    "set_axis_separator": (1, set_axis_separator),
    "unsafe_set_dtype": (1, unsafe_set_dtype),
    "annotate": (1, annotate),
    "unannotate": (1, unannotate),
    "annotate_buffer_access": (1, annotate_buffer_access),
    "transform_layout": (8, transform_layout),
    "transform_block_layout": (5, transform_block_layout),
    "reorder_block_iter_var": (3, reorder_block_iter_var),
    "add_unit_loop": (3, lambda w: w.sch.add_unit_loop(w.rng.choice([w.block, w.loop]))),
    "rfactor": (12, rfactor),
    "decompose_reduction": (10, decompose_reduction),
    "decompose_padding": (10, decompose_padding),
    "pad_einsum": (6, pad_einsum),
    "rolling_buffer": (15, rolling_buffer),
    "blockize": (6, blockize),
    "tensorize": (10, tensorize),
    "loop_partition": (4, loop_partition),
    "merge": (4, merge),
    "enter_postproc": (1, lambda w: w.sch.enter_postproc()),
    "sample_perfect_tile": (2, sample_perfect_tile),
    "sample_partitioned_tile": (1, sample_partitioned_tile),
    "sample_categorical": (1, sample_categorical),
    "sample_compute_location": (3, sample_compute_location),
}
NAMES = list(MOVES)
WEIGHTS = [weight for weight, _ in MOVES.values()]


def random_schedule(
    func: tir.PrimFunc, seed: int, steps: int, limit: int = MOST_WORK
) -> tuple[tir.Schedule, list[str]]:
    """A schedule after some random moves, and which of them were done. Moves that make the
    program run for too long are taken back."""
    walk = Walk(func, seed, limit=limit).go(steps)
    return walk.sch, walk.done
