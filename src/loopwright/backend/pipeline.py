"""Graph pipelines by name, under TVM's names: "zero", "default", and those that users register.

@relax.register_pipeline("mine")
def mine():
    return Sequential([...])

mod = relax.get_pipeline("mine")(mod)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import LoopwrightError, explain, suggest
from ..base.plugins import broken, load_group, taker
from ..base.registry import registering
from ..ir import trace
from ..ir.rule_table import DEFAULT, RuleTable, ask
from ..ir.target import Target
from ..ir.transform import Pass, Sequential
from ..relax import transform as rt
from . import c, llvm  # noqa: F401  the targets that are always there
from .base import TargetBackend, backend_of, find_target, list_targets


def zero_pipeline(*, enable_warning: bool = False) -> Sequential:
    """From operators to fused loops, without target-specific steps."""
    return Sequential(
        [
            rt.LegalizeOps(enable_warning=enable_warning),
            rt.AnnotateTIROpPattern(),
            rt.FoldConstant(),
            rt.FuseOps(),
            rt.FuseTIR(),
        ],
        name="zero_pipeline",
    )


def default_build_pipeline() -> Pass:
    """The graph pipeline of the current target (LLVM if none is set), as `compile` runs it, under the
    name that TVM's has."""
    target = Target.current() or Target("llvm")
    return Sequential([backend_of(target).graph_pipeline(target)], name="_pipeline")


PIPELINES: RuleTable[Callable[..., Pass | None]] = RuleTable("pipeline")
with registering(__name__):
    PIPELINES.add(zero_pipeline, subject="zero", name="zero_pipeline")
    for _name in ("default", "default_build"):
        PIPELINES.add(default_build_pipeline, subject=_name, name="default_build_pipeline")


def get_pipeline(name: str = "zero", **kwargs: int) -> Pass:
    """The pipeline of that name for the current target, or a plug-in's pass. Raises
    ValueError with the known names."""
    if name not in PIPELINES.subjects():
        load_group("loopwright.passes")
    choice = ask(PIPELINES.candidates(Target.current(), name), lambda rule: rule.rule(**kwargs))
    if choice.winner is None:
        what = "the pipeline is not registered"
        hint = broken("loopwright.passes", name) or suggest(name, PIPELINES.subjects(), "one of")
        raise ValueError(explain(what, got=name, instead=hint))
    trace.note("pipeline", name, **choice.facts())
    return choice.result


def register_pipeline(
    name: str, target: str = DEFAULT
) -> Callable[[Callable[..., Pass | None]], Callable[..., Pass | None]]:
    """Decorator for a function that builds a pipeline, for a target kind or key or for all; it may
    return None to decline a target. Raises ValueError if the name is taken."""
    if PIPELINES.at(target, name):
        what = "there is a pipeline of this name already"
        raise ValueError(explain(what, got=name, instead="give it another name"))

    def register(make: Callable[..., Pass | None]) -> Callable[..., Pass | None]:
        label = getattr(make, "__name__", name)
        PIPELINES.add(make, target, subject=name, name=label)
        return make

    return register


@taker("loopwright.passes")
def _take(name: str, value: Sequential | int | Callable[..., Any], package: str) -> list[str]:
    if not callable(value) and not isinstance(value, Pass):
        what = f"the entry point {name} is not a pass"
        hint = "a pass, or a function that makes one"
        raise LoopwrightError(explain(what, got=repr(value), instead=hint))
    make: Any = (lambda: value) if isinstance(value, Pass) else value
    register_pipeline(name)(make)
    return [name]


def _record(target: Target | str) -> TargetBackend:
    target = Target(target)
    record = find_target(target)
    if record is None:
        what = "this target does not have a default pipeline"
        hint = f"one of {', '.join(list_targets())}"
        raise ValueError(explain(what, got=target.kind_name, instead=hint))
    return record


def _phase(target: Target | str, name: str) -> list[Pass]:
    target = Target(target)
    phases = _record(target).phases
    if name not in phases:
        what = f"the pipeline of target {target.kind_name} has no part {name}"
        raise ValueError(explain(what, instead="get_default_pipeline(target) is the whole"))
    return list(phases[name](target))


def library_dispatch_passes(target: Target | str) -> list[Pass]:
    """The passes that offload operators to libraries."""
    return _phase(target, "library_dispatch")


def legalize_passes(target: Target | str) -> list[Pass]:
    """The passes from operators to scheduled loops."""
    return _phase(target, "legalize")


def dataflow_lower_passes(target: Target | str) -> list[Pass]:
    """The passes from values to storage."""
    return _phase(target, "dataflow_lower")


def finalize_passes(target: Target | str) -> list[Pass]:
    """The passes from storage to planned memory."""
    return _phase(target, "finalize")


def get_default_pipeline(target: Target | str) -> Pass:
    """All four phases. Raises ValueError for a target without a pipeline."""
    return _record(target).graph_pipeline(Target(target))


def get_default_tir_pipeline(target: Target | str) -> Pass:
    """The whole lowering of scheduled loops. Raises ValueError for a target without a pipeline."""
    return _record(target).loop_pipeline(Target(target))
