"""`CompileOptions`: the options of `compile`, `lower` and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from ..base.errors import explain, suggest
from ..runtime.arena import Arena, as_arenas
from ..runtime.threads import checked

EXEC_MODES = ("bytecode", "compiled")  # TVM's; both give native code and generated code here
Pipeline = str | Sequence[Callable[..., Any]] | Callable[..., Any] | None


@dataclass(frozen=True)
class Described:
    """A module that is built only where the cache does not have its code. text: all that it depends on."""

    text: str
    build: Callable[[], Any]


class Keywords(TypedDict, total=False):
    """The options as keywords, documented in `CompileOptions`."""

    options: CompileOptions | None
    params: Mapping[str, Any] | None
    relax_pipeline: Pipeline
    tir_pipeline: Pipeline
    backends: Iterable[Any]
    arenas: Iterable[Arena | str]
    threads: int | None
    args: Iterable[Any] | None
    decisions: Mapping[str, Mapping[str, int]] | None


@dataclass(frozen=True)
class CompileOptions:
    """How a model is compiled, for any target.

    params: arrays bound to parameters of `main` by name.
    relax_pipeline, tir_pipeline: "default", or passes (a Pass, a list of them) to run instead; the
        first may be the name of a pipeline.
    backends: names of external back ends (`relax.byoc`) to offload to if that pays.
    arenas: memory (`Arena`) that all tensors are placed in at compile time, by preference.
    threads: how many threads the compiled model uses, in a pool that it shares with models of the
        same number; None: the number of `runtime.set_num_threads`. Results do not depend on it.
    args: example inputs of a torch module, which is exported with them.
    decisions: what default schedules do otherwise than by default, {kernel: {decision: value}}:
        `lower(model).schedules[kernel]` shows a kernel's decisions and their candidates.

    Raises TypeError or ValueError for invalid values.
    """

    params: Mapping[str, Any] | None = None
    relax_pipeline: Pipeline = "default"
    tir_pipeline: Pipeline = "default"
    backends: tuple[Any, ...] = ()
    arenas: tuple[Arena, ...] = ()
    threads: int | None = None
    args: tuple[Any, ...] | None = None
    decisions: Mapping[str, Mapping[str, int]] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("relax_pipeline", "tir_pipeline"):
            pipeline = getattr(self, name)
            named = isinstance(pipeline, str) and (
                name == "relax_pipeline" or pipeline == "default"
            )
            if pipeline is None:
                put(self, name, "default")
            elif not (named or callable(pipeline) or isinstance(pipeline, (list, tuple))):
                what = "a pipeline is a pass or a list of passes"
                raise TypeError(explain(what, got=repr(pipeline), instead='or "default"'))
        if isinstance(self.backends, str):
            what = "backends are given as a list"
            raise TypeError(explain(what, got=self.backends, instead=f'["{self.backends}"]'))
        put(self, "backends", tuple(self.backends))
        if self.backends and self.relax_pipeline != "default":
            what = "backends are for the default relax_pipeline, which offloads to them"
            hint = (
                "relax_pipeline=backend.llvm.graph_pipeline(backends=[...]), with your passes in it"
            )
            raise ValueError(explain(what, got="a relax_pipeline as well", instead=hint))
        put(self, "arenas", as_arenas(self.arenas) if self.arenas else ())
        if self.threads is not None:
            checked(self.threads)
        if self.args is not None:
            put(self, "args", tuple(self.args))

    @staticmethod
    def of(keywords: Keywords) -> CompileOptions:
        """The keyword `options`, or the defaults, with the other keywords replacing fields. Raises
        TypeError for an unknown keyword."""
        values: dict[str, Any] = {**keywords}
        base = values.pop("options", None) or DEFAULTS
        names = [field.name for field in fields(base)]
        for name in values:
            if name not in names:
                what = "compile and lower have no option of this name"
                raise TypeError(explain(what, got=name, instead=suggest(name, names, "one of")))
        return replace(base, **values)

    @property
    def is_default(self) -> bool:
        """Whether the code depends on the target and the package only."""
        pipelines = (self.relax_pipeline, self.tir_pipeline)
        extra = self.params or self.backends or self.arenas or self.decisions
        return not extra and all(isinstance(p, str) and p == "default" for p in pipelines)


DEFAULTS = CompileOptions()
