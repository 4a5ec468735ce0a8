"""`decompose_padding`: the padding's constant and its copy as separate blocks."""

from __future__ import annotations

from ....arith import detect_clip_bound
from ....ir.literals import conjunction, conjuncts
from ....ir.op import Op
from ....ir.prim_expr import Call, FloatImm, IntImm, PrimExpr, Select, Var
from ....ir.prim_op import add, const, maximum, minimum, subtract
from ....ir.variables import vars_in
from ...stmt import Block, BlockRealize, BufferStore, ForKind, Stmt, seq
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
from ..machinery.loop_nests import single_path
from ..machinery.rewriting import substitute
from ..machinery.scope import check_complete


@primitive("DecomposePadding", inputs="block loop")
def decompose_padding(sch: ScheduleBase, block: BlockArg, loop: LoopRV) -> BlockRV:
    """Write the constant everywhere before `loop`; the block then only copies the inside.

    Returns the block that writes the constant.

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
        +         v = T.axis.spatial(10, i + 1)
        +         B[v] = A[v - 1]
    """
    ref, at = sch.block(block), sch.loop(loop)
    node: Block = ref.stmt
    store = single_store(ref)
    condition, inside, fill = _parts(ref, store.value)
    check_complete(ref)
    chain = single_path(ref)
    if not any(r is at for r in chain):
        what = f"the loop is not around block {node.name_hint!r} alone"
        raise ScheduleError(what, instead="one of its loops", at=[at.stmt, ref.node])
    below = [r for r in chain if r.is_under(at)]
    used, _ = driven(ref)
    loops = {
        r.stmt.loop_var: r.stmt.loop_var.copy_with_suffix("_pad")
        for r in below
        if r.stmt.loop_var in used
    }
    axes = {a.var: a.var.copy_with_suffix("_pad") for a in node.iter_vars}
    indices = tuple(substitute(i, axes) for i in store.indices)
    first = with_detected_regions(
        Block._make(
            tuple(a.replace(var=axes[a.var]) for a in node.iter_vars),
            (),
            (),
            f"{node.name_hint}_pad_const",
            BufferStore._make(store.buffer, fill, indices, None, span=store.span),
            None,
            (),
            (),
            {},
            span=node.span,
        )
    )
    values = tuple(substitute(v, loops) for v in ref.realize.iter_values)
    dropped = {r.stmt.loop_var for r in below} - set(loops)
    tests = [p for p in conjuncts(ref.realize.predicate) if not vars_in(p) & dropped]
    nest: Stmt = BlockRealize._make(values, substitute(conjunction(tests), loops), first)
    for r in reversed(below):
        if r.stmt.loop_var in loops:
            kind = r.stmt.kind if r.stmt.kind != ForKind.PARALLEL else ForKind.SERIAL
            nest = r.stmt.replace(loop_var=loops[r.stmt.loop_var], body=nest, kind=kind)
    second = with_detected_regions(node.replace(body=store.replace(value=inside)))
    rest = _trimmed(sch, ref, below, condition, second)
    sch.state.update(ref.func, {at: seq(nest, rest)}, {node: second})
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


def _trimmed(
    sch: ScheduleBase, ref: Ref, below: list[Ref], condition: PrimExpr, block: Block
) -> Stmt:
    """The copying block in loops limited to the inside where possible, else under the condition."""
    node: Block = ref.stmt
    ana = sch.state.analyzer(ref)
    bound = dict(zip([a.var for a in node.iter_vars], ref.realize.iter_values, strict=True))
    owner: dict[Var, Ref] = {}
    plain = isinstance(ref.realize.predicate, IntImm)
    drivers = [v for e in bound.values() for v in vars_in(e)]
    for r in below:
        if drivers.count(r.stmt.loop_var) == 1:
            owner[r.stmt.loop_var] = r
    shifts: dict[Var, PrimExpr] = {}
    extents: dict[Var, PrimExpr] = {}
    tests: list[PrimExpr] = []
    for part in conjuncts(condition):
        mine = [v for v in vars_in(part) if v in bound]
        ends = detect_clip_bound(part, mine) if len(mine) == 1 else []
        loop = bound[mine[0]] if len(mine) == 1 else None
        if not ends or not plain or not isinstance(loop, Var) or loop not in owner:
            tests.append(substitute(part, bound))
            continue
        low, high = ends
        f = owner[loop].stmt
        start = shifts.get(loop, f.min)
        size = extents.get(loop, f.extent)
        last = subtract(add(start, size), 1)
        start_new = start if low is None else maximum(start, low)
        last = last if high is None else minimum(last, high)
        shifts[loop] = ana.simplify(start_new)
        extents[loop] = ana.simplify(subtract(add(last, 1), start_new))
    values = {v: add(v, shifts[v]) for v in shifts}
    predicate = ref.realize.predicate
    if tests:
        predicate = conjunction([*conjuncts(predicate), *(substitute(t, values) for t in tests)])
    realized = tuple(substitute(e, values) for e in ref.realize.iter_values)
    nest: Stmt = BlockRealize._make(realized, predicate, block, span=ref.realize.span)
    for r in reversed(below):
        f = r.stmt
        if f.loop_var in shifts:
            zero = const(0, f.loop_var.dtype)
            f = f.replace(min=zero, extent=maximum(extents[f.loop_var], zero))
            nest = f.replace(loop_var=f.loop_var, body=nest)
        else:
            nest = f.replace(body=nest)
    return nest
