"""Analyses for tests of passes, under TVM's names: normal forms, in-place calls in dataflow blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax.block_builder import BlockBuilder
from ...relax.expr import DataflowBlock, Function, Var
from ..relax.in_place import Aliases, InplaceOpportunity, in_place_calls, liveness
from ..relax.in_place_kernels import with_call_in_place

dataflow_liveness_analysis = liveness
dataflow_single_inplace_call = with_call_in_place


def dataflow_alias_analysis(
    block: DataflowBlock, inputs: Iterable[Var]
) -> tuple[dict[Var, set[int]], dict[int, list[set[int]]]]:
    """(The numbers of the memory locations that each variable may have, for the number of a tuple the
    locations of each field)."""
    aliases = Aliases(block, inputs)
    return aliases.memory, aliases.fields


def dataflow_inplace_analysis(
    block: DataflowBlock, inputs: Iterable[Var], mod: IRModule
) -> tuple[list[InplaceOpportunity], list[InplaceOpportunity]]:
    """The calls that may overwrite an argument: (one of at least the result's size, one of the result's
    struct info). Both lists are the same, since only the latter are searched for."""
    calls = list(in_place_calls(block, inputs))
    return calls, calls


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
