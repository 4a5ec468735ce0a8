"""The regions of a program between marks that begin and end them, each for one compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.op import Op
from .expr import Call, Expr, Tuple, TupleGetItem
from .walk import post_order


@dataclass(eq=False)
class AnnotatedRegion:
    """A region: its number, its compiler, the expressions in it, and the marks where values come in and
    leave it."""

    id: int
    target: str
    func_name: str
    _nodes: dict[int, Any] = field(default_factory=dict)
    _args: dict[int, Any] = field(default_factory=dict)
    _rets: dict[int, Any] = field(default_factory=dict)
    _into: AnnotatedRegion | None = None  # the region that this one is part of now

    @property
    def nodes(self) -> list[Any]:
        """The expressions in it."""
        return list(self._nodes.values())

    @property
    def args(self) -> list[Any]:
        """The marks where it begins."""
        return list(self._args.values())

    @property
    def rets(self) -> list[Any]:
        """The marks where it ends."""
        return list(self._rets.values())

    def last(self) -> AnnotatedRegion:
        """The region that this one is part of now; it may be itself."""
        at = self
        while at._into is not None:
            at = at._into
        step = self
        while step is not at:  # path compression: the next lookup takes one step
            step._into, step = at, step._into or at
        return at


class AnnotatedRegionSet:
    """The regions of an expression. Raises LoopwrightError where marks do not match."""

    def __init__(
        self,
        expr: Expr,
        region_begin_op: Op | None,
        region_end_op: Op | None,
        func_name: str = "default",
    ) -> None:
        self.begin_op, self.end_op, self.func_name = region_begin_op, region_end_op, func_name
        self._of: dict[int, AnnotatedRegion] = {}
        self._all: dict[int, AnnotatedRegion] = {}
        self._count = 0
        self._order = list(post_order(expr))  # keeps identities
        for node in self._order:
            self._visit(node)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        return iter(self._all.values())

    def get_region(self, expr: Expr | Op) -> AnnotatedRegion | None:
        """The region that an expression is in."""
        region = self._of.get(id(expr))
        return None if region is None else region.last()

    def merge(self, source: AnnotatedRegion, into: AnnotatedRegion) -> None:
        """Make one region of two: values passed from the first to the second stay inside."""
        if source is into:
            return
        source._into = into
        del self._all[source.id]
        into._args.update(source._args)
        into._rets.update(source._rets)
        for mark in list(into._args.values()):
            before = mark.args[0]
            if id(before) in source._nodes:
                into._rets.pop(id(before), None)
                del into._args[id(mark)]
        small, large = sorted((source._nodes, into._nodes), key=len)
        large.update(small)
        into._nodes = large

    # ------------------------------------------------------------------ finding them

    def _add(self, region: AnnotatedRegion, node: Expr) -> None:
        self._of[id(node)] = region
        region._nodes[id(node)] = node

    def _visit(self, node: Op | Expr) -> None:
        if isinstance(node, Call) and node.op is self.begin_op:
            region = AnnotatedRegion(self._count, node.attrs.compiler, self.func_name)
            self._all[region.id] = region
            self._count += 1
            self._add(region, node)
            region._args[id(node)] = node
        elif isinstance(node, Call) and node.op is self.end_op:
            self._end(node)
        elif isinstance(node, (Call, Tuple)):
            self._inside(node, node.args if isinstance(node, Call) else node.fields)
        elif isinstance(node, TupleGetItem):
            self._inside(node, (node.tuple_value,))

    def _end(self, node: Call) -> None:
        region = self.get_region(node.args[0])
        target = node.attrs.compiler
        if region is None:
            what = "Cannot find the corresponding region for end annotation"
            hint = "a compiler_begin for the same compiler, on each argument of the region"
            raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
        if region.target != target:
            what = f"a region of compiler {region.target} ends as one of {target}"
            raise LoopwrightError(explain(what, got=str(node), span=node.span))
        self._add(region, node)
        region._rets[id(node)] = node

    def _inside(self, node: Expr, args: Sequence[Expr]) -> None:
        """What uses open regions makes one of them, and is in it."""
        ended = (a for a in args if isinstance(a, Call) and a.op is self.end_op)
        closed = {id(a) for a in ended}
        regions = [self.get_region(a) for a in args if id(a) not in closed]
        inner = [r for r in regions if r is not None]
        if not inner:
            return
        if len(inner) < len(regions):
            what = "some arguments are in a region, and some are not"
            hint = "compiler_begin on each argument of the region's expressions"
            raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
        for other in inner[1:]:
            self.merge(other.last(), inner[0])
        self._add(inner[0], node)
