"""The next strip of a product's packed right side is fetched while this one is used.

    for strip, rows, k:
        prefetch(packed[strip + 1, <a part that grows with rows and k>])
        ...

All rows read a strip from the cache but the first ones, which would wait for memory.
"""

from __future__ import annotations

import math
from typing import Any

from ..ir.prim_expr import IterVar, Range, Var
from ..ir.prim_op import add, const, floordiv, floormod, minimum, multiply
from ..ir.variables import substitute, uses_any, vars_in
from ..tir import stmt as st
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.op import address_of, call_intrin
from ..tir.stmt_functor import LeafKeeper
from .analysis import loads_in

ROWS = "strip_rows"  # annotates a loop over k with the axis of the block's rows and their number


def prefetch_strips(func: PrimFunc) -> PrimFunc:
    """In each step of the loops annotated `ROWS`, fetch a part of the next strip."""
    return func.replace(body=_Prefetch().visit(func.body))


class _Prefetch(LeafKeeper):
    def visit_For(self, node: st.For) -> Any:
        if ROWS not in node.annotations:
            return self.visit_default(node)
        notes = dict(node.annotations)
        axis, rows = notes.pop(ROWS)
        inner, tile = node.body, {}
        while isinstance(inner, st.For):
            tile[inner.loop_var] = inner.range
            inner = inner.body
        assert isinstance(inner, st.BlockRealize)
        fetch = _next_part(inner, tile, int(axis), int(rows))
        body = node.body if fetch is None else st.seq(fetch, node.body)
        return node.replace(body=body, annotations=notes)


def _next_part(
    realize: st.BlockRealize, tile: dict[Var, Range], axis: int, rows: int
) -> st.Stmt | None:
    """Prefetch the part of the next strip at the offset that the product has reached in this
    one; None for strips of one step."""
    block = realize.block
    values = dict(zip([v.var for v in block.iter_vars], realize.iter_values, strict=True))
    term = next(v.var for v in block.iter_vars if v.iter_type == IterVar.CommReduce)
    packed = [x for x in loads_in(block.body) if len(x.indices) > 2]
    strips: Any = next((x for x in packed if uses_any(x.indices[1], (term,))), None)
    if strips is None:
        return None
    starts = {v: const(0, v.dtype) for v in tile}
    row, strip, k = (
        substitute(substitute(e, values), starts)
        for e in (block.iter_vars[axis].var, *strips.indices[:2])
    )
    at_once = [tile[v].extent for v in vars_in(values[block.iter_vars[axis].var]) if v in tile]
    count, terms, *inner = strips.buffer.shape
    width = math.prod(int(d) for d in inner)
    done = add(multiply(row, terms), multiply(k, at_once[0] if at_once else const(1, k.dtype)))
    step = 1 << max(-(-rows // width) - 1, 0).bit_length()
    offset = floordiv(done, step)
    following = minimum(add(strip, 1), add(count, -1))
    at = [floormod(offset, width)]
    if len(inner) > 1:  # of the terms of an instruction
        at = [floordiv(at[0], inner[-1]), floormod(at[0], inner[-1])]
    part = BufferLoad(strips.buffer, (following, floordiv(offset, width), *at))
    hints = (0, 2, 1)  # to read, into the L2 cache, data
    return st.Evaluate(call_intrin("void", "tir.prefetch", address_of(part), *hints))
