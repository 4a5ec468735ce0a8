"""Builders of the operators `memory.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.op.storage import (
    ensure_zero_offset as ensure_zero_offset, memory_alloc_storage as _memory_alloc_storage,
    memory_alloc_tensor as _memory_alloc_tensor, memory_kill_storage as _memory_kill_storage,
    memory_kill_tensor as _memory_kill_tensor, view as view,
)

alloc_storage = _memory_alloc_storage
alloc_tensor = _memory_alloc_tensor
kill_storage = _memory_kill_storage
kill_tensor = _memory_kill_tensor
