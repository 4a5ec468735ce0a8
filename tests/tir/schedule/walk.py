"""Random sequences of primitives."""

from __future__ import annotations

import random
from typing import Any

from loopwright import tir


def blocks_of(sch: tir.Schedule) -> list[Any]:
    """All blocks below the root."""
    found, todo = [], [sch.get_block("root")]
    while todo:
        children = sch.get_child_blocks(todo.pop())
        found += children
        todo += children
    return found


def step(sch: tir.Schedule, rng: random.Random) -> str:
    """One random primitive. Raises ScheduleError where it is refused."""
    blocks = blocks_of(sch)
    block = rng.choice(blocks)
    loops = sch.get_loops(block)
    kind = rng.choice(STEPS)
    if not loops and kind not in ("compute_inline", "reverse_compute_inline"):
        return "nothing"
    loop = rng.choice(loops) if loops else None
    if kind == "split":
        factors = [rng.choice([1, 2, 3, 4, 5, 8]) for _ in range(rng.choice([1, 1, 2]))]
        factors.insert(rng.randrange(len(factors) + 1), None)
        sch.split(loop, factors, preserve_unit_iters=rng.random() < 0.7)
    elif kind == "fuse":
        at = rng.randrange(len(loops))
        sch.fuse(*loops[at : at + rng.choice([2, 2, 3])])
    elif kind == "reorder":
        chosen = rng.sample(loops, min(len(loops), rng.choice([2, 3, 4])))
        sch.reorder(*chosen)
    elif kind == "kinds":
        rng.choice([sch.parallel, sch.vectorize, sch.unroll])(loop)
    elif kind == "compute_at":
        target = rng.choice(sch.get_loops(rng.choice(blocks)) or [loop])
        sch.compute_at(block, target, rng.random() < 0.3, rng.choice([-1, -1, -2]))
    elif kind == "reverse_compute_at":
        target = rng.choice(sch.get_loops(rng.choice(blocks)) or [loop])
        sch.reverse_compute_at(block, target, rng.random() < 0.3, rng.choice([-1, -1, -2]))
    elif kind == "cache_read":
        reads = sch.get(block).reads
        if reads:
            sch.cache_read(block, rng.randrange(len(reads)), rng.choice(["global", "local"]))
    elif kind == "cache_write":
        sch.cache_write(block, 0, rng.choice(["global", "local"]))
    elif kind == "decompose_reduction":
        sch.decompose_reduction(block, loop)
    elif kind == "add_unit_loop":
        sch.add_unit_loop(rng.choice([block, loop]))
    elif kind == "merge":
        other = rng.choice(sch.get_loops(rng.choice(blocks)) or [loop])
        sch.merge(loop, other)
    elif kind == "transform_layout":
        buffer = sch.get(block).writes[0].buffer
        root = sch.get(sch.get_block("root"))
        if buffer in root.alloc_buffers and len(buffer.shape) == 2:
            maps: list[Any] = [
                lambda i, j: (j, i),
                lambda i, j: (i // 2, j, i % 2),
                lambda i, j: (j // 4, i, j % 4),
            ]
            sch.transform_layout(block, ("write", 0), rng.choice(maps), pad_value=0.0)
    elif kind == "more":
        more(sch, rng, block, loop)
    else:
        getattr(sch, kind)(block)
    return kind


def more(sch: tir.Schedule, rng: random.Random, block: Any, loop: Any) -> None:
    """Rarer primitives."""
    writes, reads = sch.get(block).writes, sch.get(block).reads
    if not writes:
        return
    kind = rng.choice(MORE)
    axes = sch.get(block).iter_vars
    if kind == "rfactor":
        sch.rfactor(loop, rng.randrange(len(writes[0].buffer.shape) + 1))
    elif kind == "axes":
        order = list(range(len(axes)))
        rng.shuffle(order)
        sch.reorder_block_iter_var(block, order)
    elif kind == "align":
        sch.storage_align(block, 0, 0, 8, 1)
    elif kind == "scope":
        sch.set_scope(block, 0, "local")
    elif kind == "blockize":
        sch.blockize(rng.choice([loop, loop, block]))
    elif kind == "reindex":
        side = rng.choice(["read", "write"])
        regions = reads if side == "read" else writes
        if regions:
            sch.reindex(block, (side, rng.randrange(len(regions))))
    elif kind == "reindex_cache":
        fn = rng.choice([sch.reindex_cache_read, sch.reindex_cache_write])
        fn(block, 0, "global", lambda *v: v[::-1])
    elif kind == "pad_einsum":
        sch.pad_einsum(block, [rng.choice([1, 3, 4]) for _ in axes])
    elif kind == "loop_partition":
        sch.loop_partition(loop, rng.choice([[2, None], [None, 3], [1, None, 2]]))
    elif kind == "transform_block_layout" and axes:
        maps: list[Any] = [
            lambda *v: v[::-1],
            lambda *v: (v[0] // 2, v[0] % 2, *v[1:]),
            lambda *v: (*v[:-1], v[-1] // 2, v[-1] % 2),
        ]
        sch.transform_block_layout(block, rng.choice(maps))
    elif kind == "cache_index":
        sch.cache_index(block, "global")
    elif kind == "read_at":
        sch.read_at(loop, block, 0, "shared")
    elif kind == "write_at":
        sch.write_at(loop, block, 0, "shared")
    elif kind == "decompose_padding":
        sch.decompose_padding(block, loop)
    elif kind == "rolling_buffer":
        sch.rolling_buffer(block, 0)
    elif kind == "cache_inplace":
        sch.cache_inplace(block, 0, "local")
    elif kind == "sample":
        tiles = sch.sample_perfect_tile(loop, 2, 4)
        sch.split(loop, tiles)
    elif kind == "sample_location":
        sch.compute_at(block, sch.sample_compute_location(block))
    LOG.append(kind)


LOG: list[str] = []
MORE = [
    "rfactor",
    "rfactor",
    "axes",
    "align",
    "scope",
    "blockize",
    "blockize",
    "reindex",
    "reindex_cache",
    "pad_einsum",
    "loop_partition",
    "transform_block_layout",
    "cache_index",
    "read_at",
    "write_at",
    "decompose_padding",
    "decompose_padding",
    "rolling_buffer",
    "rolling_buffer",
    "cache_inplace",
    "sample",
    "sample_location",
]

STEPS = [
    "split",
    "split",
    "split",
    "fuse",
    "reorder",
    "reorder",
    "kinds",
    "kinds",
    "compute_at",
    "compute_at",
    "compute_at",
    "reverse_compute_at",
    "reverse_compute_at",
    "reverse_compute_at",
    "cache_read",
    "cache_write",
    "decompose_reduction",
    "add_unit_loop",
    "merge",
    "transform_layout",
    "compute_inline",
    "reverse_compute_inline",
    *["more"] * 12,
]


def work(sch: tir.Schedule) -> int:
    """About how many block iterations a program takes."""
    total, todo = 0, [(sch.get_sref(sch.get_block("root")), 1)]
    while todo:
        ref, times = todo.pop()
        for child in ref.children:
            extent = 1 if child.is_block else getattr(child.stmt.extent, "value", 16)
            total += times if child.is_block else 0
            todo.append((child, times * extent))
    return total


def random_schedule(
    func: tir.PrimFunc, seed: int, steps: int, limit: int = 30_000
) -> tuple[tir.Schedule, list[str]]:
    """A schedule after some random steps, and which of them were done. Steps that make the
    program run for too long are taken back."""
    rng = random.Random(seed)
    sch = tir.Schedule(func, error_render_level="none", debug_mask="all")
    done: list[str] = []
    for _ in range(steps * 3):
        if len(done) == steps:
            break
        before = sch.copy()
        try:
            kind = step(sch, rng)
        except tir.ScheduleError:
            continue
        if work(sch) > limit:
            sch = before
        else:
            done.append(kind)
    return sch, done
