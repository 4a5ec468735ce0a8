"""A pass for tests of normal forms, under TVM's name."""

from __future__ import annotations

from typing import Any

from ..ir.module import IRModule
from ..ir.transform import ModulePass, PassContext
from ..relax.block_builder import BlockBuilder
from ..relax.expr import Function


class _EmptyMutator(ModulePass):
    """Rebuilds each graph function in normal form, and changes nothing else."""

    name = "ApplyEmptyCppMutator"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        graphs: dict[Any, Any] = {g: f for g, f in mod.functions.items() if isinstance(f, Function)}
        normalize = BlockBuilder(mod).normalize
        return mod.with_functions({gvar: normalize(func) for gvar, func in graphs.items()})


def ApplyEmptyCppMutator() -> ModulePass:
    """The pass that rebuilds each graph function in normal form, and changes nothing else."""
    return _EmptyMutator()


__all__ = ["ApplyEmptyCppMutator"]
