"""The layout in which the loops around an access read a buffer sequentially."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...arith import Analyzer, detect_iter_map, iter_sum_terms
from ...ir.prim_expr import PrimExpr, Range, Var
from ...ir.prim_op import add, const, floordiv, floormod, multiply
from ...ir.variables import vars_in
from ...tir.buffer import Buffer
from ...tir.index_map import IndexMap
from ...tir.stmt import For

if TYPE_CHECKING:
    from ...arith.iter_map_node import IterSplitExpr


def suggest_index_map(
    buffer: Buffer, indices: list[PrimExpr], loops: list[For], predicate: bool
) -> IndexMap | None:
    """A layout of `buffer` in which an access at `indices` walks it in the order of
    `loops` (the outermost first), one index for each digit that a loop drives. None where the
    indices are not digits of the loops.

    A[i0 * 8 + i1, k0 * 4 + k1] in loops i0, k0, i1, k1 of a buffer that they cover results in
    (i, k) -> (i // 8, k // 4, i % 8, k % 4).
    """
    domain = {f.loop_var: f.range for f in loops}
    dtype = indices[0].dtype if indices else buffer.shape[0].dtype if buffer.shape else None
    if dtype is None:
        return None
    iter_map = detect_iter_map([_flat(indices, buffer)], domain, predicate, "NoCheck")
    if not iter_map.indices:
        return None
    depth = {f.loop_var: n for n, f in enumerate(loops)}

    def order(digit: IterSplitExpr) -> tuple[int, int]:
        variables = vars_in(digit.source.source) & set(depth)
        lower = digit.lower_factor
        return (
            min((depth[v] for v in variables), default=-1),
            -(lower.value if hasattr(lower, "value") else 0),
        )

    digits = sorted(iter_sum_terms(Analyzer(), iter_map.indices[0]), key=order)
    if not digits:
        return None
    buffer_vars = [Var(f"i{n}", dtype) for n in range(len(buffer.shape))]
    ana = Analyzer({var: Range(n) for var, n in zip(buffer_vars, buffer.shape, strict=True)})
    flat = _flat(buffer_vars, buffer)
    final = [ana.simplify(floormod(floordiv(flat, d.scale), d.extent)) for d in digits]
    outs = [Var(f"i{n}", dtype) for n in range(len(digits))]
    back = Analyzer()
    total: PrimExpr = iter_map.indices[0].base
    for out, digit in zip(outs, digits, strict=True):
        back.bind(out, Range(digit.extent))
        total = add(total, multiply(out, digit.scale))
    source: list[PrimExpr] = []
    for extent in reversed(buffer.shape[1:]):
        source.append(back.simplify(floormod(total, extent)))
        total = floordiv(total, extent)
    source.append(back.simplify(total))
    return IndexMap(buffer_vars, final, IndexMap(outs, source[::-1]))


def _flat(indices: Sequence[PrimExpr], buffer: Buffer) -> PrimExpr:
    """The place in row-major order."""
    total: PrimExpr = const(0, indices[0].dtype)
    for index, extent in zip(indices, buffer.shape, strict=True):
        total = add(multiply(total, extent), index)
    return total
