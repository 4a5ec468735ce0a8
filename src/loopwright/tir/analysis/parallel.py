"""Parallel loops whose iterations are in each other's way."""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...ir.functor import Visitor
from ...ir.prim_expr import Var
from ..function import PrimFunc
from ..stmt import For, ForKind
from .places import Place, Places, places_of
from .value import iterations, lanes_at, samples, value_at

_FEW, _MOST = 4, 64
Found = dict[Any, tuple[int, Place]]


class _ParallelLoops(Visitor):
    def __init__(self) -> None:
        self.any = False

    def visit_PrimExpr(self, node: Any) -> None:
        pass

    def visit_For(self, node: For) -> None:
        self.any = self.any or node.kind == ForKind.PARALLEL
        if not self.any:
            self.visit(node.body)


def race_errors(func: PrimFunc) -> list[str]:
    """A text for each parallel loop of which two iterations write the same element, or one reads
    what the other writes.

    Each is a real race: the text names the element and both iterations. Accesses at indices that
    depend on data are taken to be as their author means them.
    """
    loops = _ParallelLoops()
    loops.visit(func.body)
    if not loops.any:
        return []
    walk = places_of(func)
    by_loop: dict[Var, tuple[For, list[Place]]] = {}
    for place in walk.found:
        for loop in place.loops:
            if loop.kind == ForKind.PARALLEL:
                by_loop.setdefault(loop.loop_var, (loop, []))[1].append(place)
    checked = (_race(loop, places, walk) for loop, places in by_loop.values())
    return [text for text in checked if text is not None]


def _race(loop: For, places: list[Place], walk: Places) -> str | None:
    shared = [p for p in places if not _own(p, loop, walk)]
    written = {p.buffer.data for p in shared if p.is_write}
    shared = [p for p in shared if p.buffer.data in written]
    writes: dict[Var, Found] = {}
    for place in shared:
        if not place.is_write:
            continue
        table = writes.setdefault(place.buffer.data, {})
        for element, number in _elements(place, loop):
            other = table.setdefault(element, (number, place))
            if other[0] != number:
                return _text(loop, place, element, number, other)
    for place in shared:
        if place.is_write:
            continue
        table = writes.get(place.buffer.data, {})
        for element, number in _elements(place, loop):
            hit = table.get(element)
            if hit is not None and hit[0] != number:
                return _text(loop, place, element, number, hit)
    return None


def _own(place: Place, loop: For, walk: Places) -> bool:
    """Whether each iteration has memory of its own."""
    pointer = place.buffer.data
    around = walk.made.get(pointer)
    if around is None:
        return False
    if any(outer.loop_var is loop.loop_var for outer in around):
        return True
    if pointer not in walk.by_block:
        return False
    return all(
        any(outer.loop_var is loop.loop_var for outer in other.loops)
        for other in walk.found
        if other.buffer.data is pointer
    )


def _elements(place: Place, loop: For) -> Any:
    """(element, iteration of the loop) for some of the iterations."""
    depth = next(n for n, p in enumerate(place.loops) if p.loop_var is loop.loop_var)
    outer, inner = place.loops[:depth], place.loops[depth + 1 :]
    start: dict[Var, int] = {}
    for around in outer:  # both iterations run within one of the loops around
        first = samples(around, start, 1)
        if not first:
            return
        start[around.loop_var] = first[0]
    for number in samples(loop, start, _FEW):
        for at in iterations(inner, {**start, loop.loop_var: number}, 2, _MOST):
            if not all(g is not None and value_at(g, at) for g in place.guards):
                continue
            lanes = [lanes_at(index, at) for index in place.indices]
            if any(values is None for values in lanes):
                break
            width = max((len(values) for values in lanes if values), default=1)
            for n in range(width):
                yield tuple(v[n] if len(v) > 1 else v[0] for v in lanes if v), number


def _text(loop: For, place: Place, element: Any, number: int, other: tuple[int, Place]) -> str:
    name = loop.loop_var.name
    what = f"iterations of the parallel loop {name} are in each other's way"
    does = "writes" if place.is_write else "reads"
    at = ", ".join(map(str, element))
    got = f"{place.buffer.name}[{at}], which {name} = {number} {does} "
    got += f"and {name} = {other[0]} writes"
    hint = "make the loop serial, or parallelize one whose iterations write elements of their own"
    spans = [s for s in (place.span, other[1].span) if s is not None]
    text = explain(what, got=got, instead=hint, span=loop.span)
    return "\n".join([text, *dict.fromkeys(s.render() for s in spans)])


def verify_parallel(obj: Any, assert_mode: bool = True) -> bool:
    """Whether no parallel loop of a PrimFunc (or of all those of a module) is known to race.

    Raises ValueError naming the first that does, unless `assert_mode` is false.
    """
    functions = [obj] if isinstance(obj, PrimFunc) else list(obj.functions.values())
    for func in functions:
        if isinstance(func, PrimFunc) and (errors := race_errors(func)):
            if assert_mode:
                raise ValueError(errors[0])
            return False
    return True


__all__ = ["race_errors", "verify_parallel"]
