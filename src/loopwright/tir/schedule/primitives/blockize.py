"""`blockize`: a block and loops around it as one block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....arith import Analyzer, eval_ranges
from ....arith.interval import is_infinite
from ....ir.literals import conjunction, conjuncts, is_one
from ....ir.prim_expr import LT, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import add, const, floordiv, multiply, subtract
from ....ir.variables import uses_any, vars_in
from ...buffer import Buffer, BufferRegion
from ...stmt import Block, BlockRealize, For, SeqStmt, Stmt, seq
from ..machinery import BlockRV, LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.loop_nests import check_ranges, only_block, single_path
from ..machinery.refs import body_fields
from ..machinery.regions import Box, loop_domain, region_covers, relax, union_box, whole
from ..machinery.rewriting import substitute


@primitive("Blockize", inputs="target", attrs="preserve_unit_iters", name="blockize")
def _blockize_loop(
    sch: ScheduleBase, target: LoopRV | BlockRV, preserve_unit_iters: bool = True
) -> BlockRV:
    """Turn a loop around one block into a block. Returns the outer block.

    The axes split into an outer and an inner part; the init of a reduction that continues outside
    becomes the outer block's.

    Raises ScheduleError when more than one block is below the loop, or an axis does not split.

    Before (-) and after (+) ``i, j = sch.get_loops("B"); sch.blockize(j)``,
    with ``A: T.Buffer(32), B: T.Buffer(32)``::

        - for i, j in T.grid(4, 8):
        -     with T.block("B"):
        -         v = T.axis.spatial(32, i * 8 + j)
        -         B[v] = A[v] * 2.0
        + for i in range(4):
        +     with T.block("B_o"):
        +         v_o = T.axis.spatial(4, i)
        +         T.reads(A[v_o * 8:v_o * 8 + 8])
        +         T.writes(B[v_o * 8:v_o * 8 + 8])
        +         for j in range(8):
        +             with T.block("B"):
        +                 v_i = T.axis.spatial(8, j)
        +                 B[v_o * 8 + v_i] = A[v_o * 8 + v_i] * 2.0
    """
    at = sch.get_sref(target)
    realize, renamed = outer_block(sch, at, preserve_unit_iters)
    sch.state.update(at.func, {at: realize}, renamed)
    return sch.new_block(at.func, realize.block)


@primitive("Blockize2", inputs="*target", attrs="preserve_unit_iters", name="blockize")
def _blockize_blocks(
    sch: ScheduleBase, target: list[BlockRV], preserve_unit_iters: bool = True
) -> BlockRV:
    """Put consecutive blocks below the same loops into one block. Returns the outer block.

    The parts of the axes that the shared loops drive become axes of the outer block. What an inner
    block produces for a later one is not among the outer block's reads.

    Raises ScheduleError when other blocks are between them, or a reduction continues in a shared
    loop.

    Before (-) and after (+) ``sch.blockize([sch.get_block("B"), sch.get_block("C")])``,
    with ``A: T.Buffer(8), C: T.Buffer(8)``::

          B = T.alloc_buffer(8)
          for i in range(8):
        -     with T.block("B"):
        -         v = T.axis.spatial(8, i)
        -         B[v] = A[v] * 2.0
        -     with T.block("C"):
        -         v = T.axis.spatial(8, i)
        -         C[v] = B[v] + 1.0
        +     with T.block("outer_B_C_"):
        +         v_o = T.axis.spatial(8, i)
        +         T.reads(A[v_o])
        +         T.writes(B[v_o], C[v_o])
        +         with T.block("B"):
        +             B[v_o] = A[v_o] * 2.0
        +         with T.block("C"):
        +             C[v_o] = B[v_o] + 1.0
    """
    refs = [sch.block(block) for block in target]
    tops = _tops(refs)
    positions = _positions(tops)
    order = sorted(range(len(positions)), key=positions.__getitem__)
    refs, tops = [refs[n] for n in order], [tops[n] for n in order]
    if not positions or positions[order[-1]] - positions[order[0]] != len(positions) - 1:
        what = "the blocks do not follow each other directly"
        hint = "blocks with nothing else between them"
        raise ScheduleError(what, instead=hint, at=[r.node for r in refs])
    realize, renamed = _outer_of_several(sch, refs, tops, preserve_unit_iters)
    changes: dict[Ref, Any] = dict.fromkeys(tops[1:])
    changes[tops[0]] = realize
    sch.state.update(refs[0].func, changes, renamed)
    return sch.new_block(refs[0].func, realize.block)


def blockize(
    sch: ScheduleBase, target: LoopRV | list[BlockRV], preserve_unit_iters: bool = True
) -> BlockRV:
    """Turn a loop around one block, or consecutive blocks below the same loops, into one block.
    Returns the outer block.

    Raises ScheduleError when more than one block is below the loop, an axis does not split, or the
    blocks do not follow each other.
    """
    if isinstance(target, (list, tuple)):
        return _blockize_blocks(sch, target, preserve_unit_iters)
    return _blockize_loop(sch, target, preserve_unit_iters)


class Halves:
    """An axis as `outer * size + inner`; a missing axis (None) has one value, 0."""

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


def outer_block(
    sch: ScheduleBase, at: Ref, keep_unit: bool
) -> tuple[BlockRealize, dict[Block, Block]]:
    """The block that replaces a loop, and which blocks became which."""
    ref = only_block(at, "blockize")
    node: Block = ref.stmt
    chain = single_path(ref)
    inside = [] if at.is_block else [r for r in chain if r.is_under(at)]
    if not at.is_block and (not inside or inside[0] is not at):
        what = "something other than loops is between the loop and the block"
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
    goes_on = _goes_on(node, halves, once=True)
    init = None if node.init is None else substitute(node.init, whole_axes)
    inner = node.replace(
        iter_vars=tuple(h.inner for h in halves if h.inner is not None),
        reads=reads,
        writes=writes,
        body=body,
        init=None if goes_on else init,
        match_buffers=substitute(node.match_buffers, whole_axes),
    )
    if goes_on and init is not None:
        read = {r.buffer for r in reads}
        inner = inner.replace(reads=(*(w for w in writes if w.buffer not in read), *reads))
    outer_init = None
    if goes_on and init is not None:
        outer_init = _init_nest(node, init, halves, inside, writes, inner_tests)
    outer = Block(
        [h.outer for h in halves if h.outer is not None],
        _relaxed(ana, reads, halves, inside),
        _relaxed(ana, writes, halves, inside),
        f"{node.name_hint}_o",
        _inner_nest(ref, inside, halves, inner, inner_tests),
        outer_init,
        span=node.span,
    )
    values = tuple(h.outer_value for h in halves if h.outer is not None)
    realize = BlockRealize._make(values, conjunction(outer_tests), outer, span=ref.realize.span)
    return realize, {node: inner}


def _parent(ref: Ref) -> Ref:
    assert ref.parent is not None
    return ref.parent


def _tops(refs: list[Ref]) -> list[Ref]:
    """For each block, the loop (or the block itself) directly below what encloses all of them."""
    if len(set(refs)) != len(refs) or not refs:
        what = "blockize takes distinct blocks"
        raise ScheduleError(what, got=f"{len(refs)} blocks", at=[r.node for r in refs])
    around = [ref.parent for ref in refs]
    shared = around[0]
    while shared is not None and not all(r.is_under(shared) for r in refs):
        shared = shared.parent
    while shared is not None and not shared.is_block and len(refs) == 1:
        shared = shared.parent  # of one block, all of its loops
    if shared is None or any(ref.scope() is not refs[0].scope() for ref in refs):
        raise ScheduleError("the blocks are not in one scope", at=[r.node for r in refs])
    tops = []
    for ref in refs:
        top = ref
        while top.parent is not shared:
            top = _parent(top)
        if top.node is not ref.node and top not in single_path(ref):
            what = f"loop {top.stmt.loop_var.name!r} holds more than block {ref.stmt.name_hint!r}"
            hint = "blocks that share all of the loops or none of those that are inside"
            raise ScheduleError(what, instead=hint, at=[top.stmt, ref.node])
        tops.append(top)
    return tops


def _positions(tops: list[Ref]) -> list[int]:
    """The positions of statements in the one sequence that holds them all; empty if there is not
    one."""
    parent = _parent(tops[0]).stmt
    todo: list[Any] = [
        parent.body,
        *([parent.init] if isinstance(parent, Block) and parent.init else []),
    ]
    while todo:
        stmt = todo.pop()
        items = stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)
        at = {id(item): n for n, item in enumerate(items)}
        if all(id(top.node) in at for top in tops):
            return [at[id(top.node)] for top in tops]
        for item in items:
            if not isinstance(item, (For, BlockRealize)):
                parts = (getattr(item, name) for name in body_fields(type(item)))
                todo += [part for part in parts if part is not None]
    return []


def _outer_of_several(
    sch: ScheduleBase, refs: list[Ref], tops: list[Ref], keep_unit: bool
) -> tuple[BlockRealize, dict[Block, Block]]:
    """The block that holds several, and which blocks became which."""
    ana = sch.state.analyzer(refs[0])
    shared = _OuterAxes()
    tests: dict[Any, PrimExpr] | None = None
    nests: list[Stmt] = []
    renamed: dict[Block, Block] = {}
    reads: dict[Buffer, Box] = {}
    writes: dict[Buffer, Box] = {}
    for ref, top in zip(refs, tops, strict=True):
        node: Block = ref.stmt
        ana = sch.state.analyzer(ref)
        inside = [r for r in ref.loops() if r.is_under(top)]
        moving = {r.stmt.loop_var for r in inside}
        halves = [
            _divide(ana, axis, value, inside, moving, keep_unit, ref)
            for axis, value in zip(node.iter_vars, ref.realize.iter_values, strict=True)
        ]
        if node.init is not None and _goes_on(node, halves):
            what = f"the reduction of block {node.name_hint!r} continues in a shared loop"
            raise ScheduleError(what, instead="decompose_reduction before", at=ref.node)
        outer_tests, inner_tests = _divide_tests(ref, moving)
        own = {ana.key(t): t for t in outer_tests}
        if tests is not None and tests.keys() != own.keys():
            what = "the blocks run under different predicates of the shared loops"
            raise ScheduleError(what, at=[r.node for r in refs])
        tests = own
        same = shared.add(ana, halves)
        whole_axes = {
            a.var: substitute(h.total, same) for a, h in zip(node.iter_vars, halves, strict=True)
        }
        inner_axes = tuple(h.inner for h in halves if h.inner is not None)
        inner = substitute(node.replace(iter_vars=()), whole_axes).replace(iter_vars=inner_axes)
        renamed[node] = inner
        domain = loop_domain(inside) | {axis.var: axis.dom for axis in inner_axes}
        for region in inner.reads:
            box = relax(ana, region.region, domain, region.buffer.shape)
            if not region_covers(ana, writes.get(region.buffer), box, region.buffer.shape):
                reads[region.buffer] = union_box(ana, reads.get(region.buffer), box)
        for region in inner.writes:
            box = relax(ana, region.region, domain, region.buffer.shape)
            writes[region.buffer] = union_box(ana, writes.get(region.buffer), box)
        nests.append(_inner_nest(ref, inside, halves, inner, inner_tests))
    name = f"outer_{''.join(f'{r.stmt.name_hint}_' for r in refs)}"
    outer = Block(shared.axes, _regions(ana, reads), _regions(ana, writes), name, seq(*nests))
    predicate = conjunction((tests or {}).values())
    return BlockRealize._make(tuple(shared.values), predicate, outer), renamed


class _OuterAxes:
    """The axes of an outer block, with their values. Blocks share an axis of the same value,
    domain and kind."""

    def __init__(self) -> None:
        self.axes: list[IterVar] = []
        self.values: list[PrimExpr] = []
        self.variables: dict[Any, Var] = {}

    def add(self, ana: Analyzer, halves: list[Halves]) -> dict[Var, Var]:
        """Add the outer axes of a block; returns the variables that other blocks' axes replace."""
        same: dict[Var, Var] = {}
        counts: dict[Any, int] = {}
        for h in halves:
            if h.outer is None or h.outer_value is None:
                continue
            dom = h.outer.dom
            key = ana.key((h.outer_value, dom.min, dom.extent)), h.outer.iter_type
            counts[key] = counts.get(key, 0) + 1
            var = self.variables.setdefault((key, counts[key]), h.outer.var)
            if var is h.outer.var:
                self.axes.append(h.outer)
                self.values.append(h.outer_value)
                ana.bind(var, dom)
            else:
                same[h.outer.var] = var
        return same


def _inner_nest(
    ref: Ref, inside: list[Ref], halves: list[Halves], inner: Block, tests: list[PrimExpr]
) -> Stmt:
    """The inner block of `ref` in the loops that are inside.

    Raises ScheduleError where the range of one depends on a loop that is not.
    """
    outside = {r.stmt.loop_var for r in ref.loops()} - {r.stmt.loop_var for r in inside}
    for r in inside:
        if uses_any(r.stmt.range, outside):
            what = (
                f"the range of loop {r.stmt.loop_var.name!r} depends on loops outside of the block"
            )
            raise ScheduleError(what, got=r.stmt.extent, instead="a loop further out", at=r.stmt)
    values = tuple(h.inner_value for h in halves if h.inner is not None)
    nest: Stmt = BlockRealize._make(values, conjunction(tests), inner, span=ref.realize.span)
    for r in reversed(inside):
        nest = r.stmt.replace(body=nest)
    return nest


def _regions(ana: Analyzer, boxes: dict[Buffer, Box]) -> list[BufferRegion]:
    return [
        BufferRegion(b, tuple(Range.from_min_extent(*pair) for pair in whole(box, ana)))
        for b, box in boxes.items()
    ]


def _goes_on(node: Block, halves: list[Halves], once: bool = False) -> bool:
    """Whether the outer part of a reduction has more than one iteration; once: or just one."""
    return any(
        h.outer is not None
        and a.iter_type == IterVar.CommReduce
        and (once or not is_one(h.outer.dom.extent))
        for a, h in zip(node.iter_vars, halves, strict=True)
    )


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

    def new_axis(name: str, extent: PrimExpr) -> IterVar:
        dom = Range.from_min_extent(zero, extent)
        return IterVar(dom, Var(axis.var.name + name, dtype), axis.iter_type)

    if not used & moving:
        outer = axis.replace(var=Var(axis.var.name + "_o", dtype))
        return Halves(outer, value, None, None, outer.var)
    start = substitute(value, {r.stmt.loop_var: r.stmt.min for r in inside})
    rest = ana.simplify(subtract(value, start))
    low = ana.simplify(start)
    values = eval_ranges([Range.from_min_extent(rest, one)], loop_domain(inside), ana)[0]
    # `start` is where the loops begin, which is not the least value of, say, (i + 2) % 4.
    if is_infinite(values.max_value) or not ana.can_prove(values.min_value >= 0):
        return _refuse(axis, value, ref)
    size = ana.simplify(add(values.max_value, 1))
    for part in conjuncts(
        ref.realize.predicate
    ):  # a tail inside: fewer iterations than the loops have
        if isinstance(part, LT) and ana.key(part.a) == ana.key(rest):
            size = part.b
    if vars_in(rest) - moving or vars_in(size) & moving:
        return _refuse(axis, value, ref)
    if ana.can_prove_equal(size, zero):  # a predicate that never holds
        return _refuse(axis, value, ref)
    extent = axis.dom.extent
    if ana.can_prove_equal(low, zero) and ana.can_prove(size >= extent):
        step = Analyzer().simplify(floordiv(start, size)) if keep_unit else zero
        if not ana.can_prove_equal(step, zero):
            step = zero
        outer = new_axis("_o", one)
        if is_one(extent) and not keep_unit:
            return Halves(outer, step, None, None, axis.dom.min)
        inner = axis.replace(var=Var(axis.var.name + "_i", dtype))
        return Halves(outer, step, inner, rest, inner.var)
    begin = subtract(low, axis.dom.min)
    step = ana.simplify(floordiv(begin, size))
    count = ana.simplify(floordiv(add(extent, subtract(size, 1)), size))
    if not ana.can_prove_equal(multiply(step, size), begin):
        return _refuse(axis, value, ref)
    if not ana.can_prove_equal(multiply(count, size), extent):
        return _refuse(axis, value, ref)
    outer = new_axis("_o", count)
    inner = new_axis("_i", size)
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


def _relaxed(
    ana: Analyzer, regions: Sequence[BufferRegion], halves: list[Halves], inside: list[Ref]
) -> list[BufferRegion]:
    """The regions over all inner axes."""
    domain = loop_domain(inside) | {h.inner.var: h.inner.dom for h in halves if h.inner is not None}
    for h in halves:
        if h.outer is not None:
            ana.bind(h.outer.var, h.outer.dom)
    relaxed = []
    for region in regions:
        box = relax(ana, region.region, domain, region.buffer.shape)
        ranges = [Range.from_min_extent(low, extent) for low, extent in whole(box, ana)]
        relaxed.append(BufferRegion(region.buffer, tuple(ranges)))
    return relaxed


def _init_nest(
    node: Block,
    init: Stmt,
    halves: list[Halves],
    inside: list[Ref],
    writes: Sequence[BufferRegion],
    tests: list[PrimExpr],
) -> Stmt:
    """The init of the outer block: a block over the inner axes that do not reduce (rolling_buffer
    leaves opaque ones)."""
    spatial: list[Any] = [
        h
        for a, h in zip(node.iter_vars, halves, strict=True)
        if h.inner is not None and h.inner_value is not None and a.iter_type != IterVar.CommReduce
    ]
    values = [h.inner_value for h in spatial]
    used: set[Var] = set().union(*map(vars_in, values))
    loops: list[For] = [r.stmt for r in inside if r.stmt.loop_var in used]
    dropped = {r.stmt.loop_var for r in inside} - used
    check_ranges(loops, dropped)
    predicate = conjunction(t for t in tests if not vars_in(t) & dropped)
    block = Block([h.inner for h in spatial], [], writes, f"{node.name_hint}_init", init)
    nest: Stmt = BlockRealize(values, predicate, block)
    for f in reversed(loops):
        nest = f.replace(body=nest)
    defined = [f.loop_var for f in loops] + [h.inner.var for h in spatial]
    nest = substitute(nest, {v: v.copy_with_suffix("_init") for v in defined})
    return nest
