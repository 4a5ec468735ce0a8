"""Simplifications of a kernel with a softmax.

    top = max(x[:])                  # a NaN of x is in the sum, too: the maximum may ignore it
    y[:] = exp(x[:] - top)           # in the place of x, or of the result
    y[:] = y[:] / sum(y[:])

A maximum without NaN takes one instruction instead of four, and a row less is in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.prim_expr import Add, BinaryOpExpr, Div, Max, Mul, PrimExpr, Sub
from ..ir.structural import structural_equal
from ..tir.buffer import Buffer
from ..tir.expr import BufferLoad
from ..tir.op import is_call_to
from ..tir.schedule import Schedule
from ..tir.stmt import BufferStore
from .analysis import BlockInfo, Stage, is_identity, loads_in


def is_softmax(top: Stage, power: Stage) -> bool:
    """Whether the elements of `power` are exp(x - max(x)), with the maximum of the stage `top`: that of
    -inf is 0."""
    info, store, axes = top.reduction, power.last.store, power.last.spatial
    scores = None if info is None or top.last is not info else _folded(info, Max)
    if info is None or scores is None or power.reduction is not None:
        return False
    if store is None or not is_call_to(store.value, "exp"):
        return False
    value = store.value.args[0]
    for b in power.inlined:
        if isinstance(value, BufferLoad) and value.buffer is b.writes[0] and b.store:
            value, axes = b.store.value, b.spatial
    return (
        isinstance(value, Sub)
        and all(isinstance(x, BufferLoad) for x in (value.a, value.b))
        and value.a.buffer is scores
        and is_identity(value.a.indices, axes, scores)
        and value.b.buffer is info.writes[0]
    )


def _folded(info: BlockInfo, operator: type[BinaryOpExpr]) -> Buffer | None:
    """The buffer whose whole rows a block folds, each into the element at the row's place, or None."""
    value = None if info.store is None else info.store.value
    if len(info.reduce) != 1 or not isinstance(value, operator):
        return None
    load, axis = value.b, info.reduce[0]
    if not isinstance(load, BufferLoad) or axis.dom is None:
        return None
    axes = [*info.spatial[: len(load.indices) - 1], axis]
    whole = structural_equal(axis.dom.extent, load.buffer.shape[-1])
    return load.buffer if whole and is_identity(load.indices, axes, load.buffer) else None


def is_softmax_of_rows(stages: Sequence[Stage]) -> bool:
    """Whether the stages are a softmax, or its logarithm, and what follows of its elements one by one."""
    if len(stages) not in (3, 4):
        return False
    top, power, total, *after = stages
    if power.reduction is not None and power.inlined:  # the powers are only summed
        *others, last = power.inlined
        power, total, after = Stage(others, None, last), power, [total, *after]
    if total.reduction is None or any(s.reduction for s in after):
        return False
    return is_softmax(top, power) and _folded(total.reduction, Add) is power.last.writes[0]


def lean_rows(sch: Schedule, stages: Sequence[Stage], parts: Sequence[Any]) -> None:
    """Simplify the scheduled kernel of the stages of a softmax of rows. parts: the blocks of partial
    maxima."""
    total = next(s for s in stages[1:] if s.reduction is not None)
    last = sch.get(sch.get_block(stages[-1].last.name))
    assert isinstance(last.body, BufferStore)
    if _takes_nan(last.body.value, total.last.writes[0]):
        for block in (sch.get_block(stages[0].last.name), *parts):
            sch.unsafe_ignore_nan(block)
    old, new = stages[1].last.writes[0], last.body.buffer
    if stages[1] is total:  # no powers are kept
        return
    same = old.dtype == new.dtype and structural_equal(old.shape, new.shape)
    loads = [x for x in loads_in(last.body.value) if x.buffer is old]
    if same and all(structural_equal(x.indices, last.body.indices) for x in loads):
        sch.unsafe_reuse_buffer(stages[1].last.name, sch.get_block(last.name_hint))


def _takes_nan(value: PrimExpr, buffer: Buffer) -> bool:
    """Whether a value is NaN where an element of the buffer is."""
    if isinstance(value, BufferLoad):
        return value.buffer is buffer
    if isinstance(value, Add | Sub | Mul | Div):
        return _takes_nan(value.a, buffer) or _takes_nan(value.b, buffer)
    return is_call_to(value, "log") and _takes_nan(value.args[0], buffer)
