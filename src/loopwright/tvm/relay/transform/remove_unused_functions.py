"""RemoveUnusedFunctions: functions that no entry function reaches are removed.

before: def @main(%x) { @f(%x) }  def @f(%x) { %x }  def @g(%x) { %x }
after:  def @main(%x) { @f(%x) }  def @f(%x) { %x }
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....ir.pass_context import PassContext
from ..expr import Function
from ..walk import post_order
from .base import RelayPass


class RemoveUnusedFunctions(RelayPass):
    """Functions that no entry function reaches are removed. entry_functions: names; by default
    "main"."""

    opt_level = 1

    def __init__(self, entry_functions: Sequence[str] | None = None) -> None:
        self.entry_functions = list(entry_functions or ["main"])

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        reached: set[str] = set()
        waiting = [name for name in self.entry_functions if name in mod]
        while waiting:
            name = waiting.pop()
            if name in reached or name not in mod:
                continue
            reached.add(name)
            func = mod[name]
            if isinstance(func, Function):
                waiting += [n.name_hint for n in post_order(func) if isinstance(n, GlobalVar)]
        unused = [g for g in mod.functions if g.name_hint not in reached]
        return mod.with_functions(remove=unused)
