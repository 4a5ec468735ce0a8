"""MergeCompilerRegions: adjacent regions for one compiler become one, where no value would have to
leave it and come back.

before: compiler_end(tanh(compiler_begin(compiler_end(abs(compiler_begin(%x))))))
after:  compiler_end(tanh(abs(compiler_begin(%x))))
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from ..expr import Expr, Function, If
from ..stackless import Step, run
from ..walk import post_order, rewrite
from .annotate_target import BEGIN, END, is_begin, is_end
from .base import RelayPass


class MergeCompilerRegions(RelayPass):
    """Adjacent regions for one compiler become one, where no value would have to leave it and come
    back."""

    def run_function(self, func: Function, mod: IRModule) -> Function:
        regions = AnnotatedRegionSet(func, BEGIN, END)
        if not len(regions):
            return func
        merger = _Merger(regions)
        for node in post_order(func):
            if is_end(node):
                run(merger.merge(node))

        def post(old: Op | Expr, new: Op | Expr) -> Any:
            if is_begin(old) and is_end(old.args[0]):
                if regions.get_region(old) is regions.get_region(old.args[0]):
                    return new.args[0].args[0]
            return None

        return rewrite(func, post)


class _Merger:
    """Merges each region with those before it. Sets of regions are numbers, a bit for each.

    apart: the regions that a region depends on by way of one of another compiler: it cannot be one with
    them. members: the regions that one is made of.
    """

    def __init__(self, regions: AnnotatedRegionSet) -> None:
        self.regions = regions
        self.done: set[int] = set()
        self.apart: dict[int, int] = {region.id: 0 for region in regions}
        self.members: dict[int, int] = {region.id: 1 << region.id for region in regions}

    def merge(self, end: Expr) -> Step:
        """Merge the region that ends here with those before it, which are merged first."""
        region: Any = self.regions.get_region(end)
        if region.id in self.done:
            return
        self.done.add(region.id)
        for begin in region.args:
            if is_end(begin.args[0]):
                yield self.merge(begin.args[0])
        before: dict[int, AnnotatedRegion] = {}
        related: dict[int, AnnotatedRegion] = {}
        for begin in region.args:
            before_region = self.regions.get_region(begin.args[0])
            if before_region is not None:
                before[before_region.id] = before_region
            else:
                related.update((r.id, r) for r in self._behind_branches(begin.args[0]))
        apart = self.apart[region.id]
        for number in {**before, **related}:
            apart |= self.apart[number]
        for other in before.values():
            if other.target != region.target:
                apart |= self.members[other.id]
            elif not apart & self.members[other.id]:
                self.regions.merge(other, region)
                self.members[region.id] |= self.members[other.id]
        self.apart[region.id] = apart

    def _behind_branches(self, expr: Expr) -> list[AnnotatedRegion]:
        """The regions that the condition and the branches of an `if` end in."""
        regions: list[AnnotatedRegion] = []
        waiting = [expr]
        while waiting:
            node = waiting.pop()
            region = self.regions.get_region(node)
            if region is not None:
                regions.append(region)
            elif isinstance(node, If):
                waiting += [node.cond, node.true_branch, node.false_branch]
        return regions
