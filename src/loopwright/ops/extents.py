"""Extents compared: now where they can be, else by checks that LegalizeOps puts before the kernel.

`differ(a, b)` is what an operator's inference asks of extents that must be equal. Where the answer is
open it is noted, and `open_pairs` gives the notes: what must be equal when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..arith import Analyzer, ConstIntBound
from ..base.errors import explain
from ..ir.literals import broadcast_parts, int_value, is_one, is_zero
from ..ir.prim_expr import IntImm, Or, PrimExpr, Select, Var
from ..ir.prim_op import const, equal, floormod, match_types, minimum, not_equal, subtract
from ..ir.variables import vars_in

Shape = Sequence[PrimExpr]
_NOTES: ContextVar[list[tuple[PrimExpr, PrimExpr]] | None] = ContextVar("open_pairs", default=None)


def dims_equal(a: Any, b: Any) -> bool:
    """Whether two dimensions are provably equal."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return a is b or Analyzer().can_prove_equal(*match_types(a, b))


def dims_gap(a: Any, b: Any) -> int | None:
    """The difference of two dimensions, None where it is not known."""
    gap = simplify(subtract(a, b))
    return gap.value if isinstance(gap, IntImm) else None


def simplify(expr: Any) -> Any:
    """A dimension or index simplified."""
    return Analyzer().simplify(expr) if isinstance(expr, PrimExpr) else expr


def of_extent(dim: Any) -> Callable[[Any], Any]:
    """`simplify` for expressions of an extent: the sizes in it are not negative."""
    analyzer = Analyzer()
    for size in vars_in(dim):
        analyzer.update(size, ConstIntBound(0, ConstIntBound.POS_INF))
    return analyzer.simplify


def text(dim: Any) -> str:
    """A dimension in a message."""
    return str(dim.value if isinstance(dim, IntImm) else dim)


def differ(a: Any, b: Any) -> bool:
    """Whether two extents that must be equal are known to differ; where that is open, it is
    checked at run time."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value != b.value
    if a is b or (gap := dims_gap(a, b)) == 0:
        return False
    notes = _NOTES.get()
    if notes is not None and gap is None and not dims_equal(a, b):
        notes.append((a, b))
    return gap is not None


@contextmanager
def open_pairs() -> Iterator[list[tuple[PrimExpr, PrimExpr]]]:
    """The pairs of which `differ` does not know the answer, while the context lasts."""
    notes: list[tuple[PrimExpr, PrimExpr]] = []
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)


def check_filled(what: str, *extents: PrimExpr) -> None:
    """Check that no extent is 0. Raises ValueError where a literal is; what is open is checked at run time."""
    if any(shorter(d, 1) for d in extents):
        raise ValueError(explain(f"{what} may not be empty", got=", ".join(map(text, extents))))


def broadcast_differ(shape: Shape, other: Shape, both: bool = True) -> bool:
    """`differ` of shapes that broadcast: each extent is equal to the other's, or 1. both: the other's
    may be 1 as well."""
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return any(differ(*pair) for dims in pairs for pair in _to_compare(*dims, both))


def _to_compare(dim: PrimExpr, have: PrimExpr, both: bool) -> list[tuple[PrimExpr, PrimExpr]]:
    """Extents and what they must be. Of one that is a part of the other, only the parts before it are
    compared: where they are 1, the other is this one."""
    before = _parts_before(dim, have)
    if before is not None:
        return [(dim, _beside(dim, part, True)) for part in before]
    before = _parts_before(have, dim) if both else None
    if before is not None:
        return [(part, _beside(part, have, True)) for part in before]
    return [(dim, _beside(dim, have, both))]


def _parts_before(dim: PrimExpr, extent: PrimExpr) -> list[PrimExpr] | None:
    parts = broadcast_parts(extent)
    places = (k for k, part in enumerate(parts) if len(parts) > 1 and dims_equal(part, dim))
    place = next(places, None)
    return None if place is None else parts[:place]


def _beside(dim: PrimExpr, have: PrimExpr, both: bool) -> PrimExpr:
    """What a dimension must be beside one of another shape."""
    if is_one(dim) or (both and is_one(have)) or dims_equal(dim, have):
        return dim
    if isinstance(dim, IntImm) and isinstance(have, IntImm):
        return have
    kept = equal(dim, 1)
    if both and not isinstance(have, IntImm):
        kept = Or(kept, equal(have, 1))
    return simplify(Select(kept, dim, have))


def broadcast_extent(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The extent that two broadcast to, of which each is 1 or equal to the other (`broadcast_differ` has
    that checked): one of them where that is known, else the first of their parts that is not 1.

    The parts stand in one order and each once, so that x + y, y + x and (x + y) * x have one extent."""
    if is_one(a) or is_one(b):
        return b if is_one(a) else a
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        return a if isinstance(a, IntImm) else b
    if covers(a, b):
        return a
    if covers(b, a):
        return b
    for one, other in ((a, b), (b, a)):
        if not may_be_one(one) or _is_unit_of(other, one):
            return one
    more = [p for p in broadcast_parts(b) if not any(dims_equal(p, q) for q in broadcast_parts(a))]
    *first, extent = sorted([*broadcast_parts(a), *more], key=_rank)
    for part in reversed(first):
        extent = Select(equal(part, 1), *match_types(extent, part))
    return extent


def is_in_order(extent: PrimExpr) -> bool:
    """Whether the parts of an extent stand as `broadcast_extent` puts them."""
    parts = broadcast_parts(extent)
    return len(parts) == 1 or (ranks := [*map(_rank, parts)]) == sorted(ranks)


def _rank(part: PrimExpr) -> tuple[bool, str]:
    """Names first, of which the order of their letters decides."""
    return not isinstance(part, Var), str(part)


def covers(extent: PrimExpr, dim: PrimExpr) -> bool:
    """Whether an extent is what `dim` broadcasts to beside others: all parts of the one are among
    those of the other."""
    parts = broadcast_parts(extent)
    return all(any(dims_equal(p, q) for q in parts) for p in broadcast_parts(dim))


def may_be_one(dim: PrimExpr) -> bool:
    """Whether an extent is not known to be another than 1."""
    if isinstance(dim, Var | IntImm):
        return isinstance(dim, Var) or is_one(dim)
    return not _proven(not_equal(dim, 1))


def at_most_one(dim: PrimExpr) -> bool:
    """Whether an extent is known to be 0 or 1: that of x[:1]."""
    return not isinstance(dim, Var) and _proven(dim <= 1)


def equal_beside(a: PrimExpr, b: PrimExpr, known: Analyzer) -> bool:
    """Whether two extents that broadcast are equal, because neither is 1 unless both are: n and
    min(512, n). known: what is known of their variables."""
    if not {*vars_in(a)} & {*vars_in(b)}:
        return not (may_be_one(a) or may_be_one(b))
    a, b = known.simplify(a), known.simplify(b)
    return _one_with(a, b, known) and _one_with(b, a, known)


def _one_with(a: PrimExpr, b: PrimExpr, known: Analyzer) -> bool:
    """Whether the first of two extents is known to be 1 only where the other is."""
    apart = (_proven(not_equal(a, 1), where, known) for where in (b < 1, b > 1))
    return _proven(equal(b, 1), equal(a, 1), known) or all(apart)


def _is_unit_of(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether an extent is known to be at most 1, and less only where `b` is: that of x[:1] beside x."""
    return at_most_one(a) and _proven(a >= 1, b >= 1)


def _proven(
    condition: PrimExpr, given: PrimExpr | None = None, known: Analyzer | None = None
) -> bool:
    """Whether a condition holds wherever `given` does. What is in an extent may be negative, such as
    where a slice begins, where nothing is known of it."""
    analyzer = Analyzer() if known is None else known
    if given is None:
        return analyzer.can_prove(condition)
    with analyzer.constraint_scope(given):
        return analyzer.can_prove(condition)


def check_within(shape: Shape, other: Shape, axis: int) -> None:
    """Check that `shape` lies within another on all axes but one. Raises ValueError where literals
    do not; what is open is checked at run time."""
    for a, (d, most) in enumerate(zip(shape, other, strict=True)):
        least = d if a == axis else simplify(minimum(d, most))
        if differ(d, least):
            what = f"axis {a} is longer than the data's"
            raise ValueError(explain(what, got=f"{text(d)} and {text(most)}"))


def extents_of(tensor: Any, what: str, *wanted: Any) -> list[PrimExpr]:
    """The extents of a tensor that must be the wanted ones, where None stands for any. Raises
    ValueError where they are not; what is open is checked at run time."""
    shape = list(tensor.shape)
    pairs = [(d, w) for d, w in zip(shape, wanted, strict=False) if w is not None]
    if len(shape) != len(wanted) or any(differ(d, const(w, "int64")) for d, w in pairs):
        need = ", ".join("any" if w is None else text(w) for w in wanted)
        got = ", ".join(map(text, shape))
        raise ValueError(explain(f"{what} must have the shape ({need})", got=f"({got})"))
    return shape


def check_multiple(size: Any, factor: Any, what: str) -> None:
    """Check that an extent is a multiple of another. Raises ValueError where it is not; what is open is
    checked at run time."""
    size, factor = match_types(size, factor)
    if is_zero(factor) or differ(simplify(floormod(size, factor)), const(0, "int64")):
        raise ValueError(explain(f"{what} must be a multiple of {text(factor)}", got=text(size)))


def shorter(size: PrimExpr, least: PrimExpr | int) -> bool:
    """`differ` of an extent that must be at least so long."""
    wanted = const(least, "int64") if isinstance(least, int) else least
    known = int_value(wanted)
    if known is not None and known <= 0:  # no extent is negative
        return False
    return differ(simplify(minimum(wanted, size)), wanted)


def check_columns(size: PrimExpr, **columns: int) -> None:
    """Check that columns are of rows of a size. Raises ValueError where they are not; an open size
    is checked at run time."""
    for name, column in columns.items():
        if column < 0 or shorter(size, column + 1):
            raise ValueError(explain(f"{name} is no column of {text(size)}", got=str(column)))
