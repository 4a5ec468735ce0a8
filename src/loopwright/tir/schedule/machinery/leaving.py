"""Whether a block may leave a loop in which what it reads is written over."""

from __future__ import annotations

from itertools import takewhile

from ....ir.prim_expr import IterVar, Var
from ....ir.variables import uses_any, vars_in
from ...analysis.parallel import together
from .axis_bindings import linear_terms
from .errors import ScheduleError
from .refs import Ref
from .scope import AXES, producers, siblings, write_apart


def check_may_leave(ref: Ref, at: Ref | None) -> None:
    """Raise ScheduleError where a block would leave a loop (for `at`, or for anywhere) in which
    what it reads is written over, as after `rolling_buffer`."""
    for other in producers(ref):
        shared = _loop_left(ref, other, at)
        if shared is not None:
            _check_not_parallel(ref, other, shared, at)
    for other in takewhile(lambda b: b is not ref, siblings(ref)):
        if write_apart(other.stmt):
            continue
        shared = _loop_left(ref, other, at)
        if shared is not None and _sees(ref, other, shared):
            what = (
                f"block {ref.stmt.name_hint!r} reads what {other.stmt.name_hint!r} has just "
                f"written in loop {shared.stmt.loop_var.name!r}, and writes over later"
            )
            raise ScheduleError(what, instead="leave it there", at=[ref.node, other.node])


def _loop_left(ref: Ref, other: Ref, at: Ref | None) -> Ref | None:
    """The innermost loop around two blocks, if the first leaves it for `at`."""
    shared = next(a for a in other.ancestors() if ref.is_under(a))
    return None if shared.is_block or (at is not None and at.is_under(shared)) else shared


def _sees(ref: Ref, source: Ref, loop: Ref) -> bool:
    """Whether a block reads what `source` writes over in a loop, or copies of it that the
    iterations write over too."""
    axes = zip(source.stmt.iter_vars, source.realize.iter_values, strict=True)
    used = {v for axis, e in axes if axis.iter_type not in AXES for v in vars_in(e)}
    moving = used & {r.stmt.loop_var for r in (loop, *loop.loops())}
    seen: set[Ref] = set()
    todo = producers(ref)
    while todo:
        block = todo.pop()
        if block is source:
            return True
        if block not in seen and not _has_own_elements(block, moving):
            todo += producers(block)
        seen.add(block)
    return False


def _has_own_elements(block: Ref, loops: set[Var]) -> bool:
    """Whether the elements that a block writes depend on the loops."""
    axes = zip(block.stmt.iter_vars, block.realize.iter_values, strict=True)
    kinds = (IterVar.DataPar, IterVar.DimInfo) if write_apart(block.stmt) else (IterVar.DataPar,)
    spatial = [value for axis, value in axes if axis.iter_type in kinds]
    atoms = {atom for value in spatial for atom, _ in linear_terms(value) or ()}
    return bool(loops) and loops <= atoms


def _check_not_parallel(ref: Ref, other: Ref, loop: Ref, at: Ref | None) -> None:
    """Raise ScheduleError where `ref` would leave a parallel loop around `loop`, every iteration of
    which has a copy of what `other` writes: all would write the one that is used outside."""
    for above in [loop, *loop.ancestors()]:
        if above.is_block or (at is not None and at.is_under(above)):
            return
        var = above.stmt.loop_var
        binds_loop = any(uses_any(v, {var}) for v in other.realize.iter_values)
        if together(above.stmt) == "parallel" and not binds_loop:
            what = (
                f"block {ref.stmt.name_hint!r} reads what each iteration of the parallel loop "
                f"{var.name!r} writes in {other.stmt.name_hint!r}"
            )
            raise ScheduleError(what, instead="leave it there", at=[ref.node, other.node])
