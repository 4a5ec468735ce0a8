"""Graph pipelines by name, under TVM's names: "zero", "default", and those that users register.

@relax.register_pipeline("mine")
def mine():
    return Sequential([...])

mod = relax.get_pipeline("mine")(mod)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import explain, suggest
from ..ir.target import Target
from ..ir.transform import Pass, Sequential
from ..relax import transform as rt
from ..relax.byoc.plugins import find_pass
from . import llvm

_MODULES = {"llvm": llvm, "c": llvm}  # a target kind -> the module with its passes


def zero_pipeline(*, enable_warning: bool = False) -> Sequential:
    """From operators to fused loops, without a target's own steps."""
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


def default_build_pipeline() -> Sequential:
    """What `compile` runs on a graph for the current target."""
    return llvm.graph_pipeline()


_PIPELINES: dict[str, Callable[..., Pass]] = {
    "zero": zero_pipeline,
    "default": default_build_pipeline,
    "default_build": default_build_pipeline,
}


def get_pipeline(name: str = "zero", **kwargs: Any) -> Pass:
    """The pipeline of that name, or the pass of a plug-in. Raises ValueError, naming those there
    are."""
    found = find_pass(name) if name not in _PIPELINES else None
    if found is not None:
        return found if isinstance(found, Pass) else found(**kwargs)
    if name not in _PIPELINES:
        what = "there is no pipeline of this name"
        raise ValueError(explain(what, got=name, instead=suggest(name, _PIPELINES, "one of")))
    return _PIPELINES[name](**kwargs)


def register_pipeline(name: str) -> Callable[[Callable[..., Pass]], Callable[..., Pass]]:
    """Decorates a function that makes a pipeline. Raises ValueError where the name is taken."""
    if name in _PIPELINES:
        what = "there is a pipeline of this name already"
        raise ValueError(explain(what, got=name, instead="give it another name"))

    def register(make: Callable[..., Pass]) -> Callable[..., Pass]:
        _PIPELINES[name] = make
        return make

    return register


def _passes_of(target: Target) -> Any:
    kind = target.kind_name
    if kind not in _MODULES:
        what = "there is no default pipeline for this target"
        raise ValueError(explain(what, got=kind, instead=f"one of {', '.join(_MODULES)}"))
    return _MODULES[kind]


def library_dispatch_passes(target: Target) -> list[Pass]:
    """The passes that give operators to libraries."""
    return _passes_of(target).library_dispatch_passes(target)


def legalize_passes(target: Target) -> list[Pass]:
    """The passes from operators to scheduled loops."""
    return _passes_of(target).legalize_passes(target)


def dataflow_lower_passes(target: Target) -> list[Pass]:
    """The passes from values to storage that is written."""
    return _passes_of(target).dataflow_lower_passes(target)


def finalize_passes(target: Target) -> list[Pass]:
    """The passes from storage to planned memory."""
    return _passes_of(target).finalize_passes(target)


def get_default_pipeline(target: Target) -> Sequential:
    """All of the four. Raises ValueError for a target that has none."""
    return _passes_of(target).get_default_pipeline(target)


__all__ = [
    "dataflow_lower_passes",
    "default_build_pipeline",
    "finalize_passes",
    "get_default_pipeline",
    "get_pipeline",
    "legalize_passes",
    "library_dispatch_passes",
    "register_pipeline",
    "zero_pipeline",
]
