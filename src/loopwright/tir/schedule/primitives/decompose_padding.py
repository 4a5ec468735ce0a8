"""`decompose_padding`: the padding's constant and its copy as separate blocks."""

from __future__ import annotations

from ....arith import Analyzer, detect_clip_bound
from ....ir.literals import conjunction, conjuncts, is_one
from ....ir.op import Op
from ....ir.prim_expr import (
    Call,
    FloatImm,
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    Select,
    Var,
)  # fmt: skip
from ....ir.prim_op import add, const, maximum, minimum, subtract
from ....ir.structural import structural_equal
from ....ir.variables import vars_in
from ...expr import reads_memory
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt, seq
from ..machinery import (
    BlockArg,
    BlockRV,
    LoopRV,
    Ref,
    ScheduleBase,
    ScheduleError,
    primitive,
    unrecorded,
)
from ..machinery.axis_bindings import driven
from ..machinery.buffer_accesses import single_store, with_detected_regions
from ..machinery.loop_nests import check_ranges, single_path
from ..machinery.parallel_checks import check_parallel_around
from ..machinery.rewriting import substitute
from ..machinery.scope import check_complete
from ..machinery.state import replaced


@primitive("DecomposePadding", inputs="block loop")
def decompose_padding(sch: ScheduleBase, block: BlockArg, loop: LoopRV) -> BlockRV:
    """Write the constant everywhere before `loop`; the block then only copies the inside, which its
    axes then run over.

    Returns the block that writes the constant.

    Raises ScheduleError when the loop is not around the block, and for a block that is not a
    constant padding.

    Before (-) and after (+) ``sch.decompose_padding("B", sch.get_loops("B")[0])``,
    with ``A: T.Buffer(8), B: T.Buffer(10)``::

        - for i in range(10):
        + for i_pad in range(10):
        +     with T.block("B_pad_const"):
        +         v_pad = T.axis.spatial(10, i_pad)
        +         T.reads()
        +         B[v_pad] = 0.0
        + for i in range(8):
              with T.block("B"):
        -         v = T.axis.spatial(10, i)
        -         B[v] = T.if_then_else(1 <= v and v < 9, A[v - 1], 0.0)
        +         v = T.axis.spatial(8, i)
        +         B[v + 1] = A[v]
    """
    ref, at = sch.block(block), sch.loop(loop)
    node: Block = ref.stmt
    store = single_store(ref)
    condition, inside, fill = _parts(ref, store.value)
    check_complete(ref)
    around = ref.loops()
    if at not in around:
        what = f"the loop is not around block {node.name_hint!r}"
        raise ScheduleError(what, instead="one of its loops", at=[at.stmt, ref.node])
    first, nest = _constant(ref, around[around.index(at) :], store, fill)
    below = [r for r in single_path(ref) if r.is_under(at)]
    top = below[0] if below else ref
    second, rest = _trimmed(sch, ref, below, condition, store, inside)
    stmt = rest if top is at else replaced(at.stmt, top, rest)
    sch.state.update(ref.func, {at: seq(nest, stmt)}, {node: second})
    if sch.enable_check:  # private values of an iteration may be shared by all now
        check_parallel_around(sch.state, sch.state.index(ref.func).blocks[second])
    return sch.new_block(ref.func, first)


@primitive("CanDecomposePadding", inputs="block loop")
def can_decompose_padding(sch: ScheduleBase, block: BlockArg, loop: LoopRV) -> bool:
    """Whether `decompose_padding` would succeed."""
    try:
        unrecorded(decompose_padding)(sch.copy(), block, loop)
    except ScheduleError:
        return False
    return True


def _parts(ref: Ref, value: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """(condition, value inside, constant) of a padding expression."""
    is_choice = isinstance(value, Select) or (
        isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "tir.if_then_else"
    )
    if is_choice:
        parts = (
            (value.condition, value.true_value, value.false_value)
            if isinstance(value, Select)
            else tuple(value.args)
        )
        if isinstance(parts[2], (IntImm, FloatImm)):
            return parts
    what = f"block {ref.stmt.name_hint!r} does not pad"
    hint = "T.if_then_else(condition, value, constant)"
    raise ScheduleError(what, got=value, instead=hint, at=ref.node)


def _still(ref: Ref, loops: list[Ref]) -> dict[Var, PrimExpr]:
    """The values of loops around a block, other than `loops`, that run once."""
    others = [r.stmt for r in ref.loops() if r not in loops]
    return {f.loop_var: f.min for f in others if is_one(f.extent)}


def _constant(ref: Ref, below: list[Ref], store: BufferStore, fill: PrimExpr) -> tuple[Block, Stmt]:
    """(the block that writes the constant, its nest in loops like those `below`)"""
    node: Block = ref.stmt
    used, _ = driven(ref)
    loops = [r.stmt for r in below if r.stmt.loop_var in used or is_one(r.stmt.extent)]
    name = f"{node.name_hint}_pad_const"
    body = store.replace(value=fill)
    block = Block._make(node.iter_vars, (), (), name, body, None, (), (), {}, span=node.span)
    block = with_detected_regions(block)
    dropped = {r.stmt.loop_var for r in below} - {f.loop_var for f in loops}
    check_ranges(loops, dropped)
    tests = [p for p in conjuncts(ref.realize.predicate) if not vars_in(p) & dropped]
    still = _still(ref, below)
    values = tuple(substitute(v, still) for v in ref.realize.iter_values)
    nest: Stmt = BlockRealize._make(values, conjunction(tests), block)
    for f in reversed(loops):
        kind = f.kind if f.kind != ForKind.PARALLEL else ForKind.SERIAL
        thread = f.thread_binding
        if thread is not None:
            thread = thread.replace(var=thread.var.copy_with_suffix(""))
        nest = f.replace(thread_binding=thread, body=nest, kind=kind)
    defined = [f.loop_var for f in loops] + [a.var for a in node.iter_vars]
    renamed: dict[Block, Block] = {}
    nest = substitute(nest, {v: v.copy_with_suffix("_pad") for v in defined}, renamed)
    return renamed.get(block, block), nest


def _trimmed(
    sch: ScheduleBase,
    ref: Ref,
    below: list[Ref],
    condition: PrimExpr,
    store: BufferStore,
    inside: PrimExpr,
) -> tuple[Block, Stmt]:
    """(the copying block, over the inside only; its nest). Loops that drive an axis by themselves
    run over the inside; where others leave it, a predicate holds them back."""
    node: Block = ref.stmt
    ana = sch.state.analyzer(ref)
    bound = dict(zip([a.var for a in node.iter_vars], ref.realize.iter_values, strict=True))
    plain = isinstance(ref.realize.predicate, IntImm)
    drivers = [v for e in bound.values() for v in vars_in(e)]
    owner = {r.stmt.loop_var: r for r in below if drivers.count(r.stmt.loop_var) == 1 and plain}
    spans, guarded, rest = _inside(ana, node, condition)
    tests: list[PrimExpr] = []
    loops: dict[Var, For] = {}
    axes: list[IterVar] = []
    old: dict[Var, PrimExpr] = {}
    values: list[PrimExpr] = []
    moved: dict[Var, PrimExpr] = {}
    still = _still(ref, below)
    for axis in node.iter_vars:
        value = bound[axis.var]
        own = owner.get(value) if isinstance(value, Var) else None
        fresh = axis.var.copy_with_suffix("")
        if axis.var not in spans:
            axes.append(axis.replace(var=fresh))
            old[axis.var] = fresh
            values.append(substitute(value, still))
            continue
        low, extent = spans[axis.var]
        axes.append(axis.replace(var=fresh, dom=Range.upto(extent)))
        old[axis.var] = ana.simplify(add(fresh, low))
        if own is not None and structural_equal(own.stmt.range, axis.dom):
            zero = const(0, own.stmt.loop_var.dtype)
            loops[own.stmt.loop_var] = own.stmt.replace(min=zero, extent=extent)
            moved[own.stmt.loop_var] = add(own.stmt.loop_var, low)
        else:
            tests += [substitute(t, bound) for t in guarded.get(axis.var, ())]
            value = ana.simplify(subtract(substitute(value, still), low))
        values.append(value)
    predicate = conjuncts(ref.realize.predicate)
    # Tests that read memory may do so only inside.
    tests += [substitute(substitute(t, bound), moved) for t in rest]
    order = [*predicate, *tests] if any(map(reads_memory, tests)) else [*tests, *predicate]
    body = store.replace(
        value=ana.simplify(substitute(inside, old)),
        indices=tuple(ana.simplify(substitute(i, old)) for i in store.indices),
    )
    block = with_detected_regions(node.replace(iter_vars=tuple(axes), body=body))
    nest: Stmt = BlockRealize._make(tuple(values), conjunction(order), block, span=ref.realize.span)
    for r in reversed(below):
        loop = loops.get(r.stmt.loop_var)
        nest = (r.stmt if loop is None else loop).replace(body=nest)
    return block, nest


def _inside(
    ana: Analyzer, node: Block, condition: PrimExpr
) -> tuple[dict[Var, tuple[PrimExpr, PrimExpr]], dict[Var, list[PrimExpr]], list[PrimExpr]]:
    """(where axes start, and their extents, so that the condition may hold; by axis what of the
    condition says so; the rest of the condition)"""
    ends = {a.var: (a.dom.min, add(a.dom.min, a.dom.extent)) for a in node.iter_vars}
    whole = dict(ends)
    guarded: dict[Var, list[PrimExpr]] = {}
    rest: list[PrimExpr] = []
    for part in conjuncts(condition):
        axes_in = [v for v in vars_in(part) if v in ends]
        clip = detect_clip_bound(part, axes_in) if len(axes_in) == 1 else []
        if not clip:
            rest.append(part)
            continue
        low, after = ends[axes_in[0]]
        low = low if clip[0] is None else maximum(low, clip[0])
        after = after if clip[1] is None else minimum(after, add(clip[1], 1))
        ends[axes_in[0]] = ana.simplify(low), ana.simplify(after)
        guarded.setdefault(axes_in[0], []).append(part)
    same = all(
        ana.can_prove_equal(a, b) for v in ends for a, b in zip(ends[v], whole[v], strict=True)
    )
    if same and not rest:
        what = f"the condition of block {node.name_hint!r} always holds"
        raise ScheduleError(what, got=condition, instead="a block that pads")
    spans = {}
    for axis in node.iter_vars:
        low, after = ends[axis.var]
        if axis.var not in guarded:
            continue
        size = ana.simplify(subtract(after, low))
        positive = ana.can_prove(size >= 0)
        spans[axis.var] = low, size if positive else maximum(size, const(0, size.dtype))
    return spans, guarded, rest
