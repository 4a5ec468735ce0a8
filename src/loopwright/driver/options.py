"""`CompileOptions`: everything that `compile`, `lower` and the command line can be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from ..base.errors import explain, suggest
from ..runtime.arena import Arena, as_arenas

Pipeline = str | Sequence[Callable[..., Any]] | Callable[..., Any] | None


class Keywords(TypedDict, total=False):
    """The options as keywords; what they mean says `CompileOptions`."""

    options: CompileOptions | None
    params: Mapping[str, Any] | None
    relax_pipeline: Pipeline
    tir_pipeline: Pipeline
    backends: Iterable[Any]
    arenas: Iterable[Arena | str]


@dataclass(frozen=True)
class CompileOptions:
    """How a model is compiled, whatever the target.

    params: arrays bound to parameters of `main` by name.
    relax_pipeline, tir_pipeline: "default", or passes (a Pass, a list of them) to run instead; the
        first may be the name of a pipeline.
    backends: names of external back ends (`relax.byoc`) to offload to where they pay.
    arenas: memory (`Arena`) that all tensors are placed in at compile time, by preference.

    Raises TypeError or ValueError for what is none of these.
    """

    params: Mapping[str, Any] | None = None
    relax_pipeline: Pipeline = "default"
    tir_pipeline: Pipeline = "default"
    backends: tuple[Any, ...] = ()
    arenas: tuple[Arena, ...] = ()

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
        put(self, "arenas", as_arenas(self.arenas) if self.arenas else ())

    @staticmethod
    def of(keywords: Keywords) -> CompileOptions:
        """Those of the keyword `options`, or the default ones, with the others replaced. Raises
        TypeError for an unknown one."""
        given: dict[str, Any] = {**keywords}
        base = given.pop("options", None) or DEFAULTS
        known = [field.name for field in fields(base)]
        for name in given:
            if name not in known:
                what = "compile and lower have no option of this name"
                raise TypeError(explain(what, got=name, instead=suggest(name, known, "one of")))
        return replace(base, **given)

    @property
    def is_default(self) -> bool:
        """Whether nothing but the target and the package decides what a model becomes."""
        pipelines = (self.relax_pipeline, self.tir_pipeline)
        given = self.params or self.backends or self.arenas
        return not given and all(isinstance(p, str) and p == "default" for p in pipelines)


DEFAULTS = CompileOptions()

__all__ = ["DEFAULTS", "CompileOptions", "Keywords"]
