"""A target: one record with everything that differs between targets.

    register_target(TargetBackend("toy", graph_pipeline, emit, ToyModel))

`llvm.py`, `c.py` and other packages (entry points of the group `loopwright.targets`) register theirs.
The driver, the command line and the pipelines by name read the target's record (`backend_of`) and
have no special cases of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import LoopwrightError, explain
from ..base.plugins import load_group, records, taker
from ..base.registry import Registry, origin_of
from ..codegen.compiled import CompiledModel
from ..codegen.lowered import Lowered
from ..ir.target import Target, register_target_kind
from ..ir.transform import Pass
from ..tir.transform import default_tir_pipeline

GROUP = "loopwright.targets"


def _default_loops(target: Target | None = None, **options: Sequence[Any]) -> Pass:
    return default_tir_pipeline()


@dataclass(frozen=True)
class TargetBackend:
    """How models are compiled for a target.

    kind: the target kind that it compiles for, including kinds derived from it.
    graph_pipeline: (target, backends=..., arenas=...) -> the passes from operators to direct calls of
        kernels. backends: external back ends to offload to; arenas: the memory to plan for.
    emit: the code generator: the lowered model -> the compiled model, a `result`.
    result: the class of compiled models.
    loop_pipeline: (target, arenas=...) -> the passes from scheduled loops to what `emit` reads; by
        default `tir.transform.default_tir_pipeline()`.
    native_graphs: whether `GraphToTIR` is appended to a graph pipeline that does not end in it;
        without it, the graph is not compiled and `emit` sees only its kernels.
    one_by_one: whether `emit` runs while functions are lowered: it requests each by name.
    phases: the parts of the graph pipeline under TVM's names (`library_dispatch`, `legalize`,
        `dataflow_lower`, `finalize`): (target) -> passes.
    check: (target) -> None; raises LoopwrightError for a target that the code generator cannot serve.
    prepare: starts work that a compilation needs at its end, in parallel with its passes.
    keys, options, parent: as in `register_target_kind`, for a kind that is not registered yet.
    """

    kind: str
    graph_pipeline: Callable[..., Pass]
    emit: Callable[[Lowered], CompiledModel]
    result: type[CompiledModel]
    loop_pipeline: Callable[..., Pass] = _default_loops
    native_graphs: bool = True
    one_by_one: bool = False
    phases: Mapping[str, Callable[[Target], Sequence[Pass]]] = field(default_factory=dict)
    check: Callable[[Target], None] = lambda target: None
    prepare: Callable[[], None] = lambda: None
    keys: Sequence[str] | None = None
    options: Mapping[str, type] = field(default_factory=dict)
    parent: str | None = None


TARGETS: Registry[str, TargetBackend] = Registry(
    "code generator of target", error=LoopwrightError, compiles=True
)


def register_target(target: TargetBackend, *, override: bool = False) -> TargetBackend:
    """Add a target, and its kind if that is new. Raises LoopwrightError if the kind already has
    a code generator."""
    if target.kind not in Target.list_kinds():
        register_target_kind(target.kind, target.keys, target.options, parent=target.parent)
    return TARGETS.register(target.kind, target, origin=origin_of(target.emit), override=override)


def list_targets() -> list[str]:
    """The kinds that have a code generator."""
    load_group(GROUP)
    return list(TARGETS)


def find_target(target: Target) -> TargetBackend | None:
    """The record of a target's kind, or of the nearest kind that it is derived from."""
    if target.kind_name not in TARGETS:
        load_group(GROUP)
    return next((TARGETS[kind] for kind in target.kind.lineage if kind in TARGETS), None)


def backend_of(target: Target) -> TargetBackend:
    """The record of a target. Raises LoopwrightError if the target has no code generator."""
    record = find_target(target)
    if record is None:
        name = target.kind_name
        what = f"target {name} has no code generator here"
        targets = " or ".join(f'target="{kind}"' for kind in TARGETS)
        hint = f'use {targets}, or register_target_kind("{name}", parent="llvm", override=True)'
        raise LoopwrightError(explain(what, instead=hint))
    return record


@taker(GROUP)
def _take(name: str, value: Any, package: str) -> list[str]:
    targets = [register_target(target) for target in records(name, value, TargetBackend)]
    return [target.kind for target in targets]


__all__ = [
    "TARGETS",
    "TargetBackend",
    "backend_of",
    "find_target",
    "list_targets",
    "register_target",
]
