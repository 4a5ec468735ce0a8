"""Questions about a schedule's program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tir.schedule.machinery import BlockRV, ScheduleError
from ...tir.schedule.machinery.scope import is_output
from ...tir.schedule.schedule import Schedule
from .suggest_index_map import suggest_index_map
from .tensorize_mapping import (
    AutoTensorizeMappingInfo,
    TensorizeInfo,
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
)

if TYPE_CHECKING:
    from ...tir.schedule.machinery.random_variables import LoopRV


def has_block(sch: Schedule, block_name: str) -> bool:
    """Whether the current function has a block of that name."""
    return any(b.name_hint == block_name for b in sch.state.index(sch.working_function()).blocks)


def is_output_block(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block writes what its scope does not allocate."""
    ref = sch.block(block)
    return is_output(ref, sch.state.func(ref.func))


def can_tensorize(sch: Schedule, block: LoopRV, tensor_intrin: str) -> bool:
    """Whether `tensorize` would succeed."""
    try:
        sch.copy().tensorize(block, tensor_intrin)
    except ScheduleError:
        return False
    return True


__all__ = [
    "AutoTensorizeMappingInfo",
    "TensorizeInfo",
    "can_tensorize",
    "get_auto_tensorize_mapping_info",
    "get_tensorize_loop_mapping",
    "has_block",
    "is_output_block",
    "suggest_index_map",
]
