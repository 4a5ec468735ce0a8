"""`blockize`: the loops around a block, and the block, as one block."""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer, eval_ranges
from ...ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ...ir.prim_op import add, const, floordiv, multiply, subtract
from ..buffer import BufferRegion
from ..stmt import Block, BlockRealize, For, Stmt
from .error import ScheduleError
from .primitive import primitive
from .region import loop_domain, relax, whole
from .rewrite import conjunction, conjuncts, substitute, vars_in
from .rfactor import single_path
from .rv import BlockRV, LoopRV
from .state import Ref


@primitive("Blockize", inputs="target", attrs="preserve_unit_iters")
def blockize(sch: Any, target: LoopRV | BlockRV, preserve_unit_iters: bool = True) -> BlockRV:
    """Make one block of a loop and all that is inside it, one block. Gives the outer block.

    The axes split into an outer and an inner part; the init of a reduction that goes on outside
    becomes the outer block's.

    Raises ScheduleError when more than one block is below the loop, or an axis does not split.

    Before::

        @T.prim_func
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
            for i, j in T.grid(4, 8):
                with T.block("B"):
                    v = T.axis.spatial(32, i * 8 + j)
                    B[v] = A[v] * T.float32(2)

    After ``i, j = sch.get_loops("B"); sch.blockize(j)``::

        @T.prim_func
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
            for i in range(4):
                with T.block("B_o"):
                    v_o = T.axis.spatial(4, i)
                    T.reads(A[v_o * 8:v_o * 8 + 8])
                    T.writes(B[v_o * 8:v_o * 8 + 8])
                    for j in range(8):
                        with T.block("B"):
                            v_i = T.axis.spatial(8, j)
                            B[v_o * 8 + v_i] = A[v_o * 8 + v_i] * T.float32(2)
    """
    at = sch.get_sref(target)
    realize, renamed = outer_block(sch, at, preserve_unit_iters)
    sch.state.update(at.func, {at: realize}, renamed)
    return sch.new_block(at.func, realize.block)


class Halves:
    """An axis as `outer * size + inner`; an axis that is None has one value, 0."""

    __slots__ = ("inner", "inner_value", "outer", "outer_value", "total")

    def __init__(
        self,
        outer: IterVar | None,
        outer_value: PrimExpr | None,
        inner: IterVar | None,
        inner_value: PrimExpr | None,
        total: PrimExpr,
    ) -> None:
        self.outer, self.outer_value = outer, outer_value
        self.inner, self.inner_value = inner, inner_value
        self.total = total


def outer_block(sch: Any, at: Ref, keep_unit: bool) -> tuple[BlockRealize, dict[Block, Block]]:
    """The block that takes the place of a loop, and which blocks became which."""
    blocks = [at] if at.is_block else at.blocks()
    if len(blocks) != 1:
        what = "blockize is for a loop around one block"
        raise ScheduleError(what, got=f"{len(blocks)} blocks", at=at.node)
    ref = blocks[0]
    node: Block = ref.stmt
    chain = single_path(ref)
    inside = [] if at.is_block else [r for r in chain if r.is_under(at)]
    if not at.is_block and (not inside or inside[0] is not at):
        what = "something else than loops stands between the loop and the block"
        raise ScheduleError(what, at=[at.stmt, ref.node])
    ana = sch.state.analyzer(ref)
    moving = {r.stmt.loop_var for r in inside}
    halves = [
        _divide(ana, axis, value, inside, moving, keep_unit, ref)
        for axis, value in zip(node.iter_vars, ref.realize.iter_values, strict=True)
    ]
    outer_tests, inner_tests = _divide_tests(ref, moving)
    whole_axes = {a.var: h.total for a, h in zip(node.iter_vars, halves, strict=True)}
    body = substitute(node.body, whole_axes)
    reads = tuple(substitute(r, whole_axes) for r in node.reads)
    writes = tuple(substitute(r, whole_axes) for r in node.writes)
    goes_on = any(
        h.outer is not None and a.iter_type != IterVar.DataPar and not _unit(h.outer.dom.extent)
        for a, h in zip(node.iter_vars, halves, strict=True)
    )
    init = None if node.init is None else substitute(node.init, whole_axes)
    inner = node.replace(
        iter_vars=tuple(h.inner for h in halves if h.inner is not None),
        reads=reads,
        writes=writes,
        body=body,
        init=None if goes_on else init,
    )
    if goes_on and init is not None:
        read = {r.buffer for r in reads}
        inner = inner.replace(reads=(*(w for w in writes if w.buffer not in read), *reads))
    inner_values = tuple(h.inner_value for h in halves if h.inner is not None)
    nest: Stmt = BlockRealize._make(
        inner_values, conjunction(inner_tests), inner, span=ref.realize.span
    )
    for r in reversed(inside):
        nest = r.stmt.replace(body=nest)
    outer_init = None
    if goes_on and init is not None:
        outer_init = _init_nest(node, init, halves, inside, writes, inner_tests)
    outer = Block(
        [h.outer for h in halves if h.outer is not None],
        _relaxed(ana, reads, halves),
        _relaxed(ana, writes, halves),
        f"{node.name_hint}_o",
        nest,
        outer_init,
        span=node.span,
    )
    values = tuple(h.outer_value for h in halves if h.outer is not None)
    realize = BlockRealize._make(values, conjunction(outer_tests), outer, span=ref.realize.span)
    return realize, {node: inner}


def _unit(e: Any) -> bool:
    return isinstance(e, IntImm) and e.value == 1


def _divide(
    ana: Analyzer,
    axis: IterVar,
    value: PrimExpr,
    inside: list[Ref],
    moving: set[Var],
    keep_unit: bool,
    ref: Ref,
) -> Halves:
    """An axis bound to `value`, split at the loops that are inside."""
    dtype = axis.var.dtype
    zero, one = const(0, dtype), const(1, dtype)
    used = vars_in(value)

    def made(name: str, extent: PrimExpr) -> IterVar:
        dom = Range.from_min_extent(zero, extent)
        return IterVar(dom, Var(axis.var.name + name, dtype), axis.iter_type)

    if not used & moving:
        outer = axis.replace(var=Var(axis.var.name + "_o", dtype))
        return Halves(outer, value, None, None, outer.var)
    low = substitute(value, {r.stmt.loop_var: r.stmt.min for r in inside})
    rest = ana.simplify(subtract(value, low))
    low = ana.simplify(low)
    high = eval_ranges([Range.from_min_extent(rest, one)], loop_domain(inside), ana)[0].max_value
    size = ana.simplify(add(high, 1))
    if vars_in(rest) - moving or vars_in(size) & moving:
        return _refuse(axis, value, ref)
    extent = axis.dom.extent
    if isinstance(low, IntImm) and low.value == 0 and ana.can_prove(size >= extent):
        inner = axis.replace(var=Var(axis.var.name + "_i", dtype))
        if not keep_unit:
            return Halves(None, None, inner, rest, inner.var)
        outer = made("_o", one)
        return Halves(outer, zero, inner, rest, inner.var)
    begin = subtract(low, axis.dom.min)
    step = ana.simplify(floordiv(begin, size))
    count = ana.simplify(floordiv(add(extent, subtract(size, 1)), size))
    if not ana.can_prove_equal(multiply(step, size), begin):
        return _refuse(axis, value, ref)
    if not ana.can_prove_equal(multiply(count, size), extent):
        return _refuse(axis, value, ref)
    outer = made("_o", count)
    inner = made("_i", size)
    total = add(add(multiply(outer.var, size), inner.var), axis.dom.min)
    return Halves(outer, step, inner, rest, total)


def _refuse(axis: IterVar, value: PrimExpr, ref: Ref) -> Any:
    what = f"axis {axis.var.name!r} does not split at the loop"
    hint = "bindings such as i * 8 + j, with j all of the inner part, of a domain that 8 divides"
    raise ScheduleError(what, got=f"it is bound to {value}", instead=hint, at=ref.node)


def _divide_tests(ref: Ref, moving: set[Var]) -> tuple[list[PrimExpr], list[PrimExpr]]:
    outer, inner = [], []
    own = {r.stmt.loop_var for r in ref.loops()}
    for part in conjuncts(ref.realize.predicate):
        used = vars_in(part) & own
        if not used & moving:
            outer.append(part)
        elif used <= moving:
            inner.append(part)
        else:
            what = "the block's predicate does not split at the loop"
            raise ScheduleError(what, got=part, instead="factors that divide", at=ref.node)
    return outer, inner


def _relaxed(ana: Analyzer, regions: Any, halves: list[Halves]) -> list[BufferRegion]:
    """The regions over all inner axes."""
    domain = {h.inner.var: h.inner.dom for h in halves if h.inner is not None}
    for h in halves:
        if h.outer is not None:
            ana.bind(h.outer.var, h.outer.dom)
    made = []
    for region in regions:
        box = relax(ana, region.region, domain, region.buffer)
        ranges = [Range.from_min_extent(low, extent) for low, extent in whole(box, ana)]
        made.append(BufferRegion(region.buffer, tuple(ranges)))
    return made


def _init_nest(
    node: Block,
    init: Stmt,
    halves: list[Halves],
    inside: list[Ref],
    writes: Any,
    tests: list[PrimExpr],
) -> Stmt:
    """The init of the outer block: a block over the inner spatial axes."""
    axes = {
        h.inner.var: h.inner.var.copy_with_suffix("_init")
        for a, h in zip(node.iter_vars, halves, strict=True)
        if h.inner is not None and a.iter_type == IterVar.DataPar
    }
    values: list[PrimExpr] = []
    kept: list[IterVar] = []
    used: set[Var] = set()
    for a, h in zip(node.iter_vars, halves, strict=True):
        if h.inner is not None and h.inner_value is not None and a.iter_type == IterVar.DataPar:
            kept.append(h.inner.replace(var=axes[h.inner.var]))
            values.append(h.inner_value)
            used |= vars_in(h.inner_value)
    loops: list[For] = [r.stmt for r in inside if r.stmt.loop_var in used]
    fresh = {f.loop_var: f.loop_var.copy_with_suffix("_init") for f in loops}
    inner_loops = {r.stmt.loop_var for r in inside}
    predicate = conjunction(
        substitute(t, fresh) for t in tests if not vars_in(t) & (inner_loops - set(fresh))
    )
    block = Block(
        kept,
        [],
        [substitute(w, axes) for w in writes],
        f"{node.name_hint}_init",
        substitute(init, axes),
    )
    nest: Stmt = BlockRealize._make(tuple(substitute(v, fresh) for v in values), predicate, block)
    for f in reversed(loops):
        nest = f.replace(loop_var=fresh[f.loop_var], body=nest)
    return nest
