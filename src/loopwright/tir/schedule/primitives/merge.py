"""`merge`: adjacent loop nests into one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ....arith import Analyzer
from ....ir.literals import is_zero
from ....ir.prim_expr import PrimExpr, Var
from ....ir.prim_op import cast, const
from ...stmt import For, ForKind, seq
from ..machinery import LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.block_moves import check_reduced
from ..machinery.loop_nests import LONGEST, check_plain
from ..machinery.parallel_checks import check_independent_iterations
from ..machinery.rewriting import Rebind, substitute
from ..machinery.scope import check_bounds_keep, read_buffers, write_buffers
from ..machinery.state import bind_range


@primitive("Merge", inputs="*loops")
def merge(sch: ScheduleBase, *loops: LoopRV) -> LoopRV:
    """Run the bodies of loops of equal extent in one loop, one after the other.

    The loops, and those around them up to the statement that holds all of them, are directly
    inside each other, of equal extents, and start at 0. Returns the merged loop of `loops`.

    Raises ScheduleError for less than two loops, and for loops that do not fit each other.

    Before (-) and after (+) ``sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])``,
    with ``A: T.Buffer(8), B: T.Buffer(8), C: T.Buffer((8, 4))``::

        - for i in range(8):
        + for i_j_m in range(8):
              with T.block("B"):
        -         v = T.axis.spatial(8, i)
        +         v = T.axis.spatial(8, i_j_m)
                  B[v] = A[v] * 2.0
        - for j in range(8):
              for k in range(4):
                  with T.block("C"):
        -             vj, vk = T.axis.remap("SS", [j, k])
        +             vj, vk = T.axis.remap("SS", [i_j_m, k])
                      C[vj, vk] = A[vj] + 1.0
    """
    refs = [sch.loop(loop) for loop in loops]
    if len(refs) < 2:
        raise ScheduleError("merge takes two loops or more", got=len(refs))
    chains, parent = _chains(refs)
    values: list[dict[Var, Any]] = [{} for _ in chains]
    merged_loops: list[For] = []
    ana = sch.state.analyzer(refs[0])
    for level in zip(*chains, strict=True):
        # In the merged loops around them: an extent may use the variable of its own outer loop.
        extents = [
            substitute(ref.stmt.extent, table) for ref, table in zip(level, values, strict=True)
        ]
        _check_level(ana, level, extents)
        name = "_".join(r.stmt.loop_var.name for r in level) + "_m"
        wide = max(range(len(level)), key=lambda n: level[n].stmt.loop_var.dtype.bits)
        dtype, extent = level[wide].stmt.loop_var.dtype, extents[wide]
        var = Var(name if len(name) <= LONGEST else "merged", dtype)
        bind_range(ana, var, const(0, dtype), extent)
        merged_loops.append(level[0].stmt.replace(loop_var=var, min=const(0, dtype), extent=extent))
        for table, ref in zip(values, level, strict=True):
            table[ref.stmt.loop_var] = cast(ref.stmt.loop_var.dtype, var)
    renamed: dict[Any, Any] = {}
    bodies = []
    for table, chain in zip(values, chains, strict=True):
        rebind = Rebind(table, ana)
        rebind.renamed = renamed
        bodies.append(rebind.visit(chain[-1].stmt.body))
    nest: Any = seq(*bodies)
    for loop in reversed(merged_loops):
        nest = loop.replace(body=nest)
    changes: dict[Ref, Any] = {chain[0]: None for chain in chains}
    changes[chains[0][0]] = nest
    sch.state.update(parent.func, changes, renamed)
    merged = sch.state.index(parent.func).loops[merged_loops[-1].loop_var]
    if sch.enable_check:
        check_bounds_keep(merged.scope(), merged.blocks())
        _check_order(merged, merged.blocks())
        check_independent_iterations(sch.state, merged, merged.blocks())
    return sch.new_loop(parent.func, merged_loops[-1].loop_var)


def _check_order(merged: Ref, blocks: list[Ref]) -> None:
    """Raise ScheduleError where a body needs all iterations of another before it."""
    for n, later in enumerate(blocks):
        for earlier in blocks[:n]:
            if write_buffers(earlier.stmt) & read_buffers(later.stmt):
                check_reduced(earlier, merged, later)
            accessed = read_buffers(earlier.stmt) | write_buffers(earlier.stmt)
            lost = accessed & write_buffers(later.stmt)
            if lost and not _one_body(merged, earlier, later):
                name = next(iter(lost)).name
                what = f"block {later.stmt.name_hint!r} writes {name}, which other iterations of "
                what += f"{earlier.stmt.name_hint!r} access"
                raise ScheduleError(what, at=[earlier.node, later.node])


def _one_body(merged: Ref, a: Ref, b: Ref) -> bool:
    """Whether two blocks stood in one loop before the merge: then their order is kept."""
    common = next(r for r in a.ancestors() if b.is_under(r))
    return common is not merged


def _chains(refs: list[Ref]) -> tuple[list[list[Ref]], Ref]:
    """For each loop, the loops from below the common statement down to it; and what holds all."""
    paths = [[ref, *ref.ancestors()][::-1] for ref in refs]
    depth = 0
    while len({id(p[depth]) if depth < len(p) else n for n, p in enumerate(paths)}) == 1:
        depth += 1
    chains = [path[depth:] for path in paths]
    at = [ref.stmt for ref in refs]
    if len({len(chain) for chain in chains}) != 1 or not all(chains):
        what, hint = "merged loops are at one depth, next to each other", "loops of several nests"
        raise ScheduleError(what, instead=hint, at=at)
    if any(ref.is_block for chain in chains for ref in chain):
        raise ScheduleError("merged loops are in one scope", at=at)
    for chain in chains:
        for outer, inner in pairwise(chain):
            if outer.stmt.body is not inner.stmt:
                what = "merged loops are directly inside the loops around them"
                raise ScheduleError(what, at=[outer.stmt, inner.stmt])
    parent = paths[0][depth - 1]
    body = parent.stmt.body
    items = list(getattr(body, "seq", (body,)))
    positions = [next((n for n, s in enumerate(items) if s is c[0].stmt), -1) for c in chains]
    if positions != list(range(positions[0], positions[0] + len(positions))) or positions[0] < 0:
        what = "merged loops directly follow one another"
        raise ScheduleError(what, instead="loops in the order of the program", at=at)
    return chains, parent


def _check_level(ana: Analyzer, level: tuple[Ref, ...], extents: list[PrimExpr]) -> None:
    first: For = level[0].stmt
    for ref, extent in zip(level, extents, strict=True):
        check_plain(ref)
        node: For = ref.stmt
        if not is_zero(node.min) or not ana.can_prove_equal(extent, extents[0]):
            what = "merged loops start at 0 and have one extent"
            raise ScheduleError(what, got=f"{first.extent} and {node.extent}", at=[first, node])
        if node.kind != ForKind.SERIAL:
            raise ScheduleError("merged loops are serial", got=node.kind.name, at=node)
