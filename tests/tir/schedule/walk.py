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
    kind = rng.choice(["rfactor", "rfactor", "axes", "align", "scope"])
    writes = sch.get(block).writes
    if kind == "rfactor":
        sch.rfactor(loop, rng.randrange(len(writes[0].buffer.shape) + 1))
    elif kind == "axes":
        order = list(range(len(sch.get(block).iter_vars)))
        rng.shuffle(order)
        sch.reorder_block_iter_var(block, order)
    elif kind == "align":
        sch.storage_align(block, 0, 0, 8, 1)
    elif kind == "scope":
        sch.set_scope(block, 0, "local")


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
    "more",
    "more",
]


def random_schedule(func: tir.PrimFunc, seed: int, steps: int) -> tuple[tir.Schedule, list[str]]:
    """A schedule after some random steps, and which of them were done."""
    rng = random.Random(seed)
    sch = tir.Schedule(func, error_render_level="none")
    done: list[str] = []
    for _ in range(steps * 3):
        if len(done) == steps:
            break
        try:
            done.append(step(sch, rng))
        except tir.ScheduleError:
            continue
    return sch, done
