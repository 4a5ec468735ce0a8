"""Why a back end's patterns match nothing: the node that comes nearest to one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...base.span import Span
from ...ir.module import IRModule
from ..analysis.variables import get_var2val
from ..dpl.miss import nearest, shown
from ..expr import Call, DataflowBlock, If, SeqExpr, TupleGetItem, Var, VarBinding
from ..transform.fuse.fuse_ops_by_pattern import FusionPattern
from ..transform.queries import functions_of, is_outlined

NO_PATTERN = "no pattern matches it"


class Nearest(NamedTuple):
    """The part nearest to a match: its depth, why it does not match, and where it is."""

    depth: int
    text: str
    span: Span | None = None


def nearest_miss(
    mods: Iterable[IRModule], patterns: Sequence[FusionPattern], refused: Sequence[tuple[str, str]]
) -> Nearest:
    """Why nothing in some modules is a match: the check that refused one, else the node where the
    search for a pattern got furthest.

    refused: the reasons of FuseOpsByPattern for rejected matches.
    """
    if not patterns:
        return Nearest(0, "it has no patterns, and the model no regions of it")
    if refused:
        operator, reason = refused[0]
        return Nearest(0, f"{operator} matches, but {reason}")
    sites = [site for mod in mods for site in _sites(mod)]
    if not sites:
        hint = "relax.transform.ConvertToDataflow makes them"
        return Nearest(0, f"no function in it has a call in a dataflow block; {hint}")
    misses = [miss for site in sites for miss in _misses(*site, patterns)]
    first = patterns[0]
    none = f"no operator in it is the last of a pattern, as in {first.name}: {first.pattern}"
    return max(misses, key=lambda miss: miss.depth, default=Nearest(0, none))


def nearest_misses(mod: IRModule, patterns: Sequence[FusionPattern]) -> dict[str, str]:
    """For each unmatched operator, the part nearest to a match."""
    by_name: dict[str, list[Nearest]] = {}
    for binding, values in _sites(mod):
        name = getattr(getattr(binding.value, "op", None), "name", "")
        by_name.setdefault(name, []).extend(_misses(binding, values, patterns))
    best = {name: max(misses, key=lambda m: m.depth) for name, misses in by_name.items() if misses}
    return {name: miss.text for name, miss in best.items()}


def _sites(mod: IRModule) -> Iterator[tuple[VarBinding, Mapping[Var, Any]]]:
    """Where patterns are tried, calls and fields that are bound in dataflow blocks, with the values
    that they see."""
    for func in (f for _, f in functions_of(mod) if not is_outlined(f)):
        values = get_var2val(func)
        for block in _blocks(func.body):
            for binding in block.bindings:
                is_call = isinstance(binding.value, (Call, TupleGetItem))
                if isinstance(binding, VarBinding) and is_call:
                    yield binding, values


def _blocks(seq: SeqExpr) -> Iterator[DataflowBlock]:
    """The dataflow blocks of a body, also those in branches."""
    for block in seq.blocks:
        if isinstance(block, DataflowBlock):
            yield block
        for binding in block.bindings:
            if isinstance(binding.value, If):
                yield from _blocks(binding.value.true_branch)
                yield from _blocks(binding.value.false_branch)


def _misses(
    binding: VarBinding, values: Mapping[Var, Any], patterns: Sequence[FusionPattern]
) -> Iterator[Nearest]:
    """The misses of the patterns that end with the operator of a call."""
    call, var = binding.value, binding.var.name_hint
    for pattern in patterns:
        miss = nearest(pattern.pattern, call, values)
        if miss is not None and miss.value is not call:
            text = f"{shown(call)} ({var}) comes nearest to {pattern.name}: {miss.text()}"
            yield Nearest(miss.depth, text, call.span)
