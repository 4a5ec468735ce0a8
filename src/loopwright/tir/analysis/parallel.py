"""Parallel, vectorized and virtually threaded loops whose iterations conflict with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import explain
from ...ir.functor import Visitor
from ...ir.prim_expr import Add, FloatImm, IntImm, IterVar, Mul, PrimExpr, Sub, Var
from ...ir.structural import structural_equal
from ...ir.variables import uses_any
from ..function import PrimFunc
from ..stmt import For, ForKind
from .element_accesses import ElementAccess, ElementAccesses, accesses_of
from .query import free_of
from .value import iterations, lanes_at, samples, value_at

_FEW, _MOST = 4, 64
FirstAccess = dict[Any, tuple[int, ElementAccess]]


def together(loop: For) -> str | None:
    """How the iterations of a loop run concurrently, if they do: "parallel" (in any order),
    "vectorized" (each statement for all of them, in their order)."""
    if loop.kind == ForKind.PARALLEL:
        return "parallel"
    if loop.kind == ForKind.VECTORIZED:
        return "vectorized"
    thread = loop.thread_binding
    if thread is not None and thread.thread_tag.startswith(("vthread", "cthread")):
        return "parallel"
    return None


class _ParallelLoops(Visitor):
    def __init__(self) -> None:
        self.any = False

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def visit_For(self, node: For) -> None:
        self.any = self.any or together(node) is not None
        if not self.any:
            self.visit(node.body)


def race_errors(func: PrimFunc, only: Var | None = None) -> list[str]:
    """A text for each parallel loop (or loop of virtual threads) two of whose iterations write the
    same element, or one of which reads what another writes; for each vectorized loop that changes
    the order of such accesses. With `only`, just the loop of that variable is checked.

    Each is a real race: the text names the element and both iterations. Accesses at indices that
    depend on data are assumed to be right.
    """
    loops = _ParallelLoops()
    loops.visit(func.body)
    if not loops.any:
        return []
    walk = accesses_of(func)
    by_loop: dict[Var, tuple[For, list[ElementAccess]]] = {}
    for access in walk.accesses:
        for loop in access.loops:
            if together(loop) and (only is None or loop.loop_var is only):
                by_loop.setdefault(loop.loop_var, (loop, []))[1].append(access)
    checked = (_race(loop, accesses, walk) for loop, accesses in by_loop.values())
    return [text for text in checked if text is not None]


def order_errors(func: PrimFunc, before: list[Var], after: list[Var]) -> list[str]:
    """A conflict between two iterations of a nest whose loops are reordered, where the earlier one
    would run later; at most one text. Reductions may be in any order."""
    walk = accesses_of(func)
    outer = next((n for p in walk.accesses for n in p.loops if n.loop_var is before[0]), None)
    if outer is None:
        return []
    seen: dict[Any, list[tuple[ElementAccess, dict[Var, int]]]] = {}
    below = [p for p in walk.accesses if any(n.loop_var is before[-1] for n in p.loops)]
    written = {p.buffer.data for p in below if p.is_write}
    for access in below:
        axes = () if access.block is None else access.block.iter_vars
        if access.buffer.data not in written or any(a.iter_type != IterVar.DataPar for a in axes):
            continue
        if _own(access, outer, walk):
            continue
        for element, _, at in _elements(access, outer):
            others = seen.setdefault((access.buffer.data, element), [])
            for other, there in others:
                if not (access.is_write or other.is_write):
                    continue
                was = [at.get(v, 0) < there.get(v, 0) for v in before if at.get(v) != there.get(v)]
                now = [at.get(v, 0) < there.get(v, 0) for v in after if at.get(v) != there.get(v)]
                if was and was[0] != now[0]:
                    shown = ", ".join(map(str, element))
                    return [f"{access.buffer.name}[{shown}]"]
            others.append((access, at))
    return []


def _race(loop: For, accesses: list[ElementAccess], walk: ElementAccesses) -> str | None:
    shared = [p for p in accesses if not _own(p, loop, walk)]
    written = {p.buffer.data for p in shared if p.is_write}
    shared = [p for p in shared if p.buffer.data in written]
    if together(loop) == "vectorized":
        return _reordered(loop, shared)
    writes: dict[Var, FirstAccess] = {}
    by_buffer: dict[Var, list[ElementAccess]] = {}
    for access in shared:
        by_buffer.setdefault(access.buffer.data, []).append(access)
    shared = [p for group in by_buffer.values() if not _apart(loop, group) for p in group]
    for access in shared:
        if not access.is_write:
            continue
        table = writes.setdefault(access.buffer.data, {})
        for element, number, _ in _elements(access, loop):
            other = table.setdefault(element, (number, access))
            if other[0] != number:
                return _text(loop, access, element, number, other)
    for access in shared:
        if access.is_write:
            continue
        table = writes.get(access.buffer.data, {})
        for element, number, _ in _elements(access, loop):
            hit = table.get(element)
            if hit is not None and hit[0] != number:
                return _text(loop, access, element, number, hit)
    return None


def _reordered(loop: For, in_program_order: list[ElementAccess]) -> str | None:
    """The text for an element two of whose accesses a vectorized loop swaps: the first in the order
    of iterations is later in the order of statements. Indices that do not depend on the loop do
    not matter: such a statement runs once for each iteration."""
    by_buffer: dict[Var, list[tuple[int, ElementAccess]]] = {}
    for n, access in enumerate(in_program_order):
        by_buffer.setdefault(access.buffer.data, []).append((n, access))
    for accesses in by_buffer.values():
        if any(
            p.is_write and not any(uses_any(i, {loop.loop_var}) for i in p.indices)
            for _, p in accesses
        ):
            continue
        if _apart(loop, [p for _, p in accesses]):
            continue
        seen: dict[Any, list[tuple[int, int, ElementAccess, dict[Var, int]]]] = {}
        for n, access in accesses:
            for element, number, at in _elements(access, loop):
                before = seen.setdefault(element, [])
                for m, earlier, other, there in before:
                    if number == earlier or not (access.is_write or other.is_write):
                        continue
                    if _same_constant(access, other):
                        continue
                    after = _runs_after(loop, (access, at), (other, there), n > m)
                    if after is not None and after != (number > earlier):
                        if not other.is_write:
                            return _text(loop, other, element, earlier, (number, access))
                        return _text(loop, access, element, number, (earlier, other))
                before.append((n, number, access, at))
    return None


def _same_constant(access: ElementAccess, other: ElementAccess) -> bool:
    """Whether both store the same literal, as the init of a reduction does: lanes may do so in any
    order."""
    if not (access.is_write and other.is_write):
        return False
    value = access.node.value
    return isinstance(value, (IntImm, FloatImm)) and structural_equal(value, other.node.value)


def _apart(loop: For, accesses: list[ElementAccess]) -> bool:
    """Whether some index of a buffer proves that iterations touch different elements: the same in all
    accesses, and a sum in which the loop's variable is the only one that iterations change."""
    buffer, first = accesses[0].buffer, accesses[0].indices
    around = {outer.loop_var for outer in accesses[0].loops[: _depth(accesses[0], loop)]}
    return all(p.buffer is buffer for p in accesses) and any(
        _steps(index, loop.loop_var, around) == 1
        and all(structural_equal(p.indices[n], index) for p in accesses)
        for n, index in enumerate(first)
    )


def _steps(expr: PrimExpr, var: Var, fixed: set[Var]) -> int:
    """How many terms of a sum are `var`, or a multiple of it; more than one where the sum has others
    than these, variables of `fixed` and numbers."""
    if isinstance(expr, (Add, Sub)):
        return _steps(expr.a, var, fixed) + _steps(expr.b, var, fixed)
    if isinstance(expr, Mul) and isinstance(expr.b, IntImm) and expr.b.value:
        return _steps(expr.a, var, fixed)
    if isinstance(expr, Var):
        return 1 if expr is var else 0 if expr in fixed else 2
    return 0 if isinstance(expr, IntImm) else 2


def _runs_after(
    loop: For,
    one: tuple[ElementAccess, dict[Var, int]],
    two: tuple[ElementAccess, dict[Var, int]],
    later: bool,
) -> bool | None:
    """Whether, statement by statement, an access runs after another: by the inner loops that both
    share, then by program order. None for one statement, which keeps the order of the lanes.
    """
    (access, at), (other, there) = one, two
    for a, b in zip(access.loops, other.loops, strict=False):
        if a.loop_var is not b.loop_var:
            break
        first, second = at.get(a.loop_var), there.get(b.loop_var)
        if a.loop_var is loop.loop_var or first == second:
            continue
        return None if first is None or second is None else first > second
    return None if access is other else later


def _own(access: ElementAccess, loop: For, walk: ElementAccesses) -> bool:
    """Whether each iteration has its own memory."""
    pointer = access.buffer.data
    around = walk.allocated.get(pointer)
    if around is None:
        return False
    if any(outer.loop_var is loop.loop_var for outer in around):
        return True
    if pointer not in walk.by_block:
        return False
    return all(
        any(outer.loop_var is loop.loop_var for outer in other.loops)
        for other in walk.accesses
        if other.buffer.data is pointer
    )


def _elements(access: ElementAccess, loop: For) -> Any:
    """(element, iteration of the loop, all loop variables) for some of the iterations."""
    depth = _depth(access, loop)
    outer, inner = access.loops[:depth], access.loops[depth + 1 :]
    start: dict[Var, int] = {}
    for around in outer:  # both iterations run within one of the loops around
        first = samples(around, start, 1)
        if not first:
            return
        start[around.loop_var] = first[0]
    for number in samples(loop, start, _FEW):
        for at in iterations(inner, {**start, loop.loop_var: number}, 2, _MOST):
            if not all(g is not None and value_at(g, at) for g in access.guards):
                continue
            lanes = [lanes_at(index, at) for index in access.indices]
            if any(values is None for values in lanes):
                break
            width = max((len(values) for values in lanes if values), default=1)
            for n in range(width):
                yield tuple(v[n] if len(v) > 1 else v[0] for v in lanes if v), number, at


def _depth(access: ElementAccess, loop: For) -> int:
    return next(n for n, p in enumerate(access.loops) if p.loop_var is loop.loop_var)


def _text(
    loop: For,
    access: ElementAccess,
    element: Sequence[int],
    number: int,
    other: tuple[int, ElementAccess],
) -> str:
    name = loop.loop_var.name
    what = f"iterations of the {together(loop)} loop {name} conflict with each other"
    does = "writes" if access.is_write else "reads"
    at = ", ".join(map(str, element))
    got = f"{access.buffer.name}[{at}], which {name} = {number} {does} "
    got += f"and {name} = {other[0]} writes"
    hint = "make the loop serial, or take one whose iterations write elements of their own"
    spans = [s for s in (access.span, other[1].span) if s is not None]
    text = explain(what, got=got, instead=hint, span=loop.span)
    return "\n".join([text, *dict.fromkeys(s.render() for s in spans)])


def verify_parallel(obj: PrimFunc, assert_mode: bool = True) -> bool:
    """Whether no parallel or vectorized loop of a PrimFunc (or of all those of a module) is known to race.

    Raises ValueError naming the first that does, unless `assert_mode` is false.
    """
    return free_of(race_errors, obj, ValueError if assert_mode else None)
