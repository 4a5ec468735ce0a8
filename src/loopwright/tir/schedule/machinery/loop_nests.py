"""The shape of loop nests: loops that hold nothing else, and loops that may be rewritten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.variables import uses_any
from ...stmt import For, ForKind
from .errors import ScheduleError
from .refs import Ref


def check_plain(ref: Ref) -> None:
    """Raise ScheduleError for a loop that is bound to a thread or annotated."""
    node = ref.stmt
    if node.kind == ForKind.THREAD_BINDING:
        what = "a loop bound to a thread cannot be split or fused"
        raise ScheduleError(what, got=node.thread_binding.thread_tag, instead="bind later", at=node)
    if node.annotations:
        what = "a loop with annotations cannot be split or fused"
        got = ", ".join(node.annotations)
        raise ScheduleError(what, got=got, instead="annotate later, or unannotate", at=node)


LONGEST = 80  # characters at most of a name composed of others


def check_nest(refs: list[Ref]) -> None:
    """Raise ScheduleError unless each loop is the whole body of the one before it, plain, and of
    an extent that does not depend on those before."""
    seen: set[Var] = set()
    for n, ref in enumerate(refs):
        check_plain(ref)
        node = ref.stmt
        if n and refs[n - 1].stmt.body is not node:
            before = refs[n - 1].stmt
            what = f"{node.loop_var.name!r} is not all that is inside {before.loop_var.name!r}"
            hint = "loops directly inside each other, the outermost first"
            raise ScheduleError(what, instead=hint, at=[before, node])
        if uses_any(node.extent, seen) or uses_any(node.min, seen):
            what = f"the range of {node.loop_var.name!r} depends on an outer loop"
            got = f"range({node.min}, {node.min} + {node.extent})"
            raise ScheduleError(what, got=got, instead="loops of fixed ranges", at=node)
        seen.add(node.loop_var)


def check_ranges(loops: Iterable[For], left_out: set[Var]) -> None:
    """Raise ScheduleError where the range of a loop that is to be copied depends on one that is
    left out of the copy."""
    for loop in loops:
        if uses_any(loop.min, left_out) or uses_any(loop.extent, left_out):
            what = f"the range of loop {loop.loop_var.name!r} depends on a loop that repeats it"
            raise ScheduleError(what, got=loop.range, instead="loops of fixed ranges", at=loop)


def only_block(at: Ref, step: str) -> Ref:
    """A block itself, or the block in a loop; raise ScheduleError where there are several."""
    blocks = [at] if at.is_block else at.blocks()
    if len(blocks) != 1:
        what = f"{step} is for a loop around one block"
        raise ScheduleError(what, got=f"{len(blocks)} blocks", at=at.node)
    return blocks[0]


def single_path(ref: Ref) -> list[Ref]:
    """The loops around a block that hold nothing else, the outermost first."""
    chain: list[Ref] = []
    inner: Any = ref.node
    for above in ref.ancestors():
        if above.is_block or above.stmt.body is not inner:
            break
        chain.append(above)
        inner = above.stmt
    return chain[::-1]


def equal_extents(a: PrimExpr | None, b: PrimExpr) -> bool:
    return a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)


def check_loops(ref: Ref) -> list[Ref]:
    """The block's loops: one for each axis, around nothing else."""
    chain = single_path(ref)
    values = list(ref.realize.iter_values)
    own = [r.stmt.loop_var for r in chain]
    plain = all(isinstance(v, Var) for v in values) and len(set(values)) == len(values)
    whole = isinstance(ref.realize.predicate, IntImm)
    ends = {r.stmt.loop_var: (r.stmt.min, r.stmt.extent) for r in chain}
    for axis, value in zip(ref.stmt.iter_vars, values, strict=True):
        low, extent = ends.get(value, (None, None)) if isinstance(value, Var) else (None, None)
        plain = (
            plain and equal_extents(low, axis.dom.min) and equal_extents(extent, axis.dom.extent)
        )
    if not plain or not whole or chain != ref.loops() or set(values) != set(own):
        what = f"the loops of block {ref.stmt.name_hint!r} are not those of its axes"
        raise ScheduleError(what, instead="pad before other steps", at=ref.node)
    return chain
