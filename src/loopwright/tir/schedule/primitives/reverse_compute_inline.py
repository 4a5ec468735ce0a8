"""`reverse_compute_inline`: a consumer's expression replaces its producer's store."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any

from ....arith import (
    Analyzer,
    IterMapLevel,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
)
from ....base.span import merge_spans
from ....ir.functor import nodes_of
from ....ir.literals import conjunction, conjuncts, is_one
from ....ir.prim_expr import CmpExpr, FloorDiv, FloorMod, IntImm, PrimExpr, Range, Var
from ....ir.prim_op import add, ceildiv, less, logical_and, multiply
from ....ir.variables import vars_in
from ...buffer import Buffer
from ...expr import BufferLoad
from ...stmt import Block, BufferStore
from ..machinery import BlockArg, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import (
    MapLoads,
    check_no_pointer,
    loads_of,
    single_store,
    with_detected_regions,
)
from ..machinery.buffer_lookup import check_allocated, drop_buffer
from ..machinery.parallel_checks import check_parallel_with_sources
from ..machinery.predicates import check_runs_everywhere
from ..machinery.regions import axis_values, loop_domain
from ..machinery.rewriting import substitute
from ..machinery.scope import (
    check_bounds_keep,
    check_complete,
    check_complete_or_reduction,
    read_buffers,
    siblings,
    write_buffers,
)


@primitive("ReverseComputeInline", inputs="block")
def reverse_compute_inline(sch: ScheduleBase, block: BlockArg) -> None:
    """Compute a block's result where the element it reads is computed, and remove the block.

    The index of the load may be any one-to-one affine map of the block's axes (`B[v // 4, v % 4]`);
    where the block reads only a part of the producer's result, only that part is computed.

    Raises ScheduleError unless the block is complete, one store that reads one producer's buffer
    at such an index, the producer is complete and one store, and nothing else reads that buffer.
    A block that only copies may read a reduction's result: the reduction then runs on the copy.

    Before (-) and after (+) ``sch.reverse_compute_inline("C")``,
    with ``A: T.Buffer((2, 4)), C: T.Buffer(8)``::

        - B = T.alloc_buffer((2, 4))
          for i, j in T.grid(2, 4):
              with T.block("B"):
                  vi, vj = T.axis.remap("SS", [i, j])
        -         B[vi, vj] = A[vi, vj] * 2.0
        - for i in range(8):
        -     with T.block("C"):
        -         v = T.axis.spatial(8, i)
        -         C[v] = B[v // 4, v % 4] + 1.0
        +         C[vj + vi * 4] = A[vi, vj] * 2.0 + 1.0
    """
    ref = sch.block(block)
    scope = ref.scope()
    store = single_store(ref)
    check_complete(ref)
    limits = where_it_runs(sch, ref) if sch.enable_check else []
    producer = sole_producer(ref, scope)
    reduces = isinstance(store.value, BufferLoad) and producer.stmt.init is not None
    producer_store = reduction_store(sch, producer) if reduces else single_store(producer)
    buffer = producer_store.buffer
    check_allocated(producer, scope, buffer)
    check_bounds_keep(scope, [ref, producer])
    if not reduces:
        check_complete(producer)
    check_no_pointer(buffer, ref)
    check_others(ref, producer, buffer)
    values, tests = solve(sch, ref, producer, producer_store)
    if sch.enable_check:
        check_all_computed(sch, ref, buffer, limits)
    value = MapLoads(buffer, lambda load: producer_store.value).visit(
        substitute(store.value, values)
    )
    indices = tuple(
        sch.state.analyzer(producer).simplify(substitute(i, values)) for i in store.indices
    )
    span = merge_spans(producer_store.span, store.span)
    init = producer.stmt.init
    if isinstance(init, BufferStore):
        value = MapLoads(buffer, lambda load: BufferLoad(store.buffer, indices)).visit(value)
        init = BufferStore._make(store.buffer, init.value, indices, None, span=init.span)
    body = BufferStore._make(store.buffer, value, indices, None, span=span)
    fused: Block = with_detected_regions(producer.stmt.replace(body=body, init=init))
    predicate = producer.realize.predicate
    bound = axis_values(producer)
    ana = sch.state.analyzer(producer)
    for test in (*tests, *(substitute(limit, values) for limit in limits)):
        needed = substitute(test, bound)
        with ana.constraint_scope(predicate):
            proved = ana.can_prove(needed)
        if not proved:
            predicate = logical_and(predicate, _in_order(needed, loop_domain(producer.loops())))
    realize = producer.realize.replace(block=fused, predicate=predicate)
    sch.state.update(
        ref.func,
        {ref: None, producer: realize},
        {producer.stmt: fused},
        {scope: drop_buffer(buffer)},
    )
    if sch.enable_check:
        check_parallel_with_sources(sch.state, sch.state.index(ref.func).blocks[fused])


def reduction_store(sch: ScheduleBase, ref: Ref) -> BufferStore:
    """The store of a block that sets an element to its initial value and updates it. Raises
    ScheduleError for another block."""
    check_complete_or_reduction(ref)
    body, init, key = ref.stmt.body, ref.stmt.init, sch.state.analyzer(ref).key
    if isinstance(body, BufferStore) and isinstance(init, BufferStore):
        used = [init, *loads_of(body, body.buffer)]
        if init.buffer is body.buffer and all(key(u.indices) == key(body.indices) for u in used):
            return body
    what = f"block {ref.stmt.name_hint!r} does not set and update one element"
    raise ScheduleError(what, instead="a reduction of one assignment and its init", at=ref.node)


def sole_producer(ref: Ref, scope: Ref) -> Ref:
    """The one block of the scope that computes what this one reads, and is read by it alone."""
    own = set(scope.stmt.alloc_buffers)
    makers = []
    for other in siblings(ref):
        if other is ref:
            break
        if write_buffers(other.stmt) & read_buffers(ref.stmt) & own:
            makers.append(other)
    if not makers:
        what = f"block {ref.stmt.name_hint!r} reads nothing that its scope makes"
        raise ScheduleError(what, instead="a block with a producer", at=ref.node)
    return makers[-1]


def check_others(ref: Ref, producer: Ref, buffer: Buffer) -> None:
    """Raise ScheduleError where something else reads the buffer, or other inputs of the consumer
    are not ready when the producer runs."""
    blocks = siblings(ref)
    between = blocks[blocks.index(producer) + 1 :]
    if read_buffers(producer.stmt) & write_buffers(ref.stmt):
        what = f"block {ref.stmt.name_hint!r} overwrites what {producer.stmt.name_hint!r} reads"
        raise ScheduleError(what, at=[ref.node, producer.node])
    for other in blocks:
        if other is not ref and buffer in read_buffers(other.stmt):
            what = f"block {other.stmt.name_hint!r} also reads {buffer.name}"
            raise ScheduleError(
                what, instead="a buffer with one consumer", at=[ref.node, other.node]
            )
    for other in between[: between.index(ref)]:
        accessed = read_buffers(ref.stmt) | write_buffers(ref.stmt)
        if accessed & write_buffers(other.stmt) or write_buffers(ref.stmt) & read_buffers(
            other.stmt
        ):
            what = (
                f"block {other.stmt.name_hint!r} runs between the two and shares a buffer with them"
            )
            raise ScheduleError(what, at=[ref.node, other.node])


def solve(
    sch: ScheduleBase, ref: Ref, producer: Ref, producer_store: BufferStore
) -> tuple[dict[Var, PrimExpr], list[PrimExpr]]:
    """The consumer's axes in terms of the producer's, and which of its elements are read at all."""
    block, buffer = ref.stmt, producer_store.buffer
    loads = loads_of(block.body, buffer)
    key = sch.state.analyzer(ref).key
    what = f"the axes of {block.name_hint!r} do not follow from its load of {buffer.name}"
    hint = (
        "one load, at a one-to-one affine map of the axes such as [v0 * 4 + v1] or [v // 4, v % 4]"
    )
    if not loads or any(key(load.indices) != key(loads[0].indices) for load in loads):
        got = ", ".join(dict.fromkeys(str(load) for load in loads)) or f"no load of {buffer.name}"
        raise ScheduleError(what, got=got, instead=hint, at=ref.node)
    fixed = {a.var: a.dom.min for a in block.iter_vars if is_one(a.dom.extent)}
    needed = vars_in(block.body)
    axes = [a for a in block.iter_vars if a.var in needed and a.var not in fixed]
    read = [substitute(i, fixed) for i in loads[0].indices]
    ana = sch.state.analyzer(producer)
    inverse = left_inverse(ana, read, {a.var: a.dom for a in axes})
    if inverse is None:
        raise ScheduleError(what, got=loads[0], instead=hint, at=ref.node)
    values = {**fixed, **inverse(producer_store.indices)}
    tests: list[PrimExpr] = []
    for axis in axes:
        tests += outside(ana, values[axis.var], axis.dom)
    for index, written in zip(read, producer_store.indices, strict=True):
        back = substitute(index, values)
        if not ana.can_prove_equal(back, written):
            tests.append(written == ana.simplify(back))
    return values, tests


def check_all_computed(sch: ScheduleBase, ref: Ref, buffer: Buffer, limits: list[PrimExpr]) -> None:
    """Raise ScheduleError where the block has elements that read nothing of the buffer: the
    producer would not compute them."""
    ana = sch.state.analyzer(ref)
    with ana.constraint_scope(conjunction(limits)):
        for index, extent in zip(loads_of(ref.stmt.body, buffer)[0].indices, buffer.shape):
            if not (ana.can_prove(index >= 0) and ana.can_prove(index < extent)):
                what = (
                    f"block {ref.stmt.name_hint!r} has elements that read outside of {buffer.name},"
                    " under a condition"
                )
                hint = "a block each of whose elements comes from one of its producer's"
                raise ScheduleError(what, got=index, instead=hint, at=ref.node)


def outside(ana: Analyzer, value: PrimExpr, dom: Range) -> list[PrimExpr]:
    """The tests needed for `value` to be in `dom`."""
    tests: list[PrimExpr] = []
    end = add(dom.min, dom.extent)
    if not ana.can_prove(value >= dom.min):
        tests.append(dom.min <= value)
    if not ana.can_prove(value < end):
        tests.append(less(value, end))
    return tests


def left_inverse(ana: Analyzer, exprs: list[PrimExpr], domain: dict[Var, Range]) -> Any:
    """A function that computes the variables of `domain` from the values of `exprs`, wherever the
    variables are in their ranges; None where they do not follow."""
    if all(e in domain or not vars_in(e) & set(domain) for e in exprs):  # nothing to solve
        position = {e: n for n, e in reversed(list(enumerate(exprs))) if e in domain}
        if len(position) < len(domain):
            return None
        return lambda results: {v: results[n] for v, n in position.items()}
    iter_map = detect_iter_map(exprs, domain, True, IterMapLevel.Bijective)
    if not iter_map.indices:
        wider = _whole_tiles(exprs, domain)
        iter_map = detect_iter_map(exprs, wider, True, IterMapLevel.Bijective)
    if not iter_map.indices:
        return None
    targets = [Var(f"t{n}", e.dtype) for n, e in enumerate(exprs)]
    inverse = inverse_affine_iter_map(iter_map.indices, targets)
    if not set(domain) <= set(inverse):
        return None

    def values(results: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
        table = dict(zip(targets, results, strict=True))
        return {v: ana.simplify(substitute(inverse[v], table)) for v in domain}

    return values


def _in_order(test: PrimExpr, loops: dict[Var, Range]) -> PrimExpr:
    """A comparison whose sums have the largest steps first."""
    if not isinstance(test, CmpExpr) or not test.a.dtype.is_int:
        return test
    return test.replace(a=iter_map_simplify([test.a], loops)[0])


def _whole_tiles(exprs: list[PrimExpr], domain: dict[Var, Range]) -> dict[Var, Range]:
    """The domain with extents that the divisors in the expressions divide: v // 16 and v % 16 say
    which v it is, however many there are."""
    divisors = (node.b for node in nodes_of(exprs, FloorDiv, FloorMod))
    size = lcm(*(abs(b.value) or 1 for b in divisors if isinstance(b, IntImm)))
    return {
        v: Range.from_min_extent(r.min, multiply(ceildiv(r.extent, size), size))
        for v, r in domain.items()
    }


def where_it_runs(sch: ScheduleBase, ref: Ref) -> list[PrimExpr]:
    """Conditions on a block's axes where it runs, beyond their domains: usually none."""
    try:
        check_runs_everywhere(sch.state, ref)
        return []
    except ScheduleError:
        loops = loop_domain(ref.loops())
        values = list(ref.realize.iter_values)
        used = set().union(*map(vars_in, values)) & set(loops)
        ana = sch.state.analyzer(ref)
        inverse = left_inverse(ana, values, {v: loops[v] for v in loops if v in used})
        predicate = conjuncts(ref.realize.predicate)
        limits = [*predicate, *(loops[v] for v in used)]
        if inverse is None or any(vars_in(p) & set(loops) - used for p in limits):
            raise
    table = inverse([a.var for a in ref.stmt.iter_vars])
    tests = [substitute(p, table) for p in predicate]
    for var, value in table.items():
        tests += outside(ana, value, substitute(loops[var], table))
    for axis, value in zip(ref.stmt.iter_vars, values, strict=True):
        back = substitute(value, table)
        if not ana.can_prove_equal(back, axis.var):
            tests.append(axis.var == ana.simplify(back))
    return tests
