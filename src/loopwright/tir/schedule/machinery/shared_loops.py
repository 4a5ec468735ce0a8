"""Blocks that share loops: whether what one reads, another has written in the same iteration."""

from __future__ import annotations

from typing import Any

from .errors import ScheduleError
from .regions import region_covers, relaxed_region
from .scope import read_buffers, write_buffers
from .state import Ref


def check_independent_iterations(sch: Any, loop: Ref, blocks: list[Ref]) -> None:
    """Raise ScheduleError unless the iterations of `loop` and of the loops around it can run in
    any order: what a block below reads of another block below is written in the same iteration.
    """
    for n, reader in enumerate(blocks):
        for buffer in read_buffers(reader.stmt):
            writers = [b for b in blocks if b is not reader and buffer in write_buffers(b.stmt)]
            if not writers:
                continue
            ana = sch.state.analyzer(loop)
            needed = relaxed_region(sch, reader, loop, buffer, write=False)
            if any(
                w in blocks[:n]
                and region_covers(
                    ana, relaxed_region(sch, w, loop, buffer, write=True), needed, buffer.shape
                )
                for w in writers
            ):
                continue
            what = (
                f"block {reader.stmt.name_hint!r} reads of {buffer.name} what other iterations "
                f"of loop {loop.stmt.loop_var.name!r} write"
            )
            hint = "a loop in which each iteration writes what it reads"
            raise ScheduleError(what, instead=hint, at=[reader.node, writers[0].node])
