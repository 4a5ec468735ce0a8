"""The record of a back end, and the registry of back ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...base.errors import LoopwrightError, explain, suggest
from ...base.foreign import named_errors
from ...base.plugins import broken, load_group, records, taker
from ...base.registry import Registry, origin_of
from ...ir.target import Target
from ...runtime.extern import ExternLibrary
from ...runtime.packed_func import get_global_func
from ..expr import Function
from ..transform.fuse.fuse_ops_by_pattern import FusionPattern

Codegen = Callable[[Sequence[Any], Mapping[str, Any], Mapping[Any, str]], Sequence[Any]]


class Cost(NamedTuple):
    """The cost of a composite function offloaded and by default, in one unit (seconds, cycles)."""

    offloaded: float
    default: float


@dataclass(frozen=True)
class Backend:
    """An external code generator.

    patterns: the operators it supports, in the form FuseOpsByPattern takes, or a function that returns
        them. Names start with the back end's: "mine.conv2d".
    codegen: at graph level: (functions, options, constant names) -> modules that have, under each
        function's symbol, a packed function (`runtime.Module`, called with inputs, then results)
        or a C function (`ExternLibrary`, called with their pointers, then symbolic extents).
    target: at loop level: the regions are legalized for this target, composites by the rules of
        `register_legalize("mine.conv2d", ..., target=...)`; the kernels are compiled with the rest.
    lower: at loop level, after that: (module of the region's kernels, options) -> the kernels to
        use instead, and optional libraries: an IRModule, or a pair (IRModule, libraries).
    libraries: C functions that its kernels call.
    cost: of a composite function; if it returns None, the function is always offloaded.
    available: why it cannot be used here; "" if it can.
    bind_constants: whether weights are part of the regions' functions.
    options: defaults of the options that `codegen` and `lower` get.
    needs: what its regions need to run, where `codegen` only describes them.
    """

    name: str
    patterns: Sequence[Any] | Callable[[], Sequence[Any]] = ()
    codegen: Codegen | None = None
    target: Target | str | None = None
    lower: Callable[[Any, Mapping[str, Any]], Any] | None = None
    libraries: Sequence[ExternLibrary] = ()
    cost: Callable[[Any], Cost | None] | None = None
    available: Callable[[], str] | None = None
    bind_constants: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""

    def fusion_patterns(self) -> list[FusionPattern]:
        """Its patterns. Raises LoopwrightError if one has another back end's name."""
        entries: Any = self.patterns
        if callable(self.patterns):
            with self.named("patterns"):
                entries = self.patterns()
        patterns = [FusionPattern.of(p) for p in entries]
        for pattern in patterns:
            if not pattern.name.startswith(f"{self.name}."):
                what = f"a pattern of back end {self.name} has another back end's name"
                hint = f"call it {self.name}.{pattern.name.split('.', 1)[-1]}"
                raise LoopwrightError(explain(what, got=pattern.name, instead=hint))
        return patterns

    def check_level(self) -> None:
        """Raise LoopwrightError where it generates nothing."""
        if self.codegen is None and self.target is None:
            what = f"back end {self.name} has neither a codegen nor a target"
            hint = "give codegen= (graph level) or target= (loop level)"
            raise LoopwrightError(explain(what, instead=hint))

    def why_not(self) -> str:
        """Why it cannot be used here; "" if it can."""
        if self.available is None:
            return ""
        with self.named("available"):
            return self.available()

    def check_usable(self) -> None:
        """Raise LoopwrightError where it cannot be used here."""
        why = self.why_not()
        if why:
            what = f"the back end {self.name} cannot be used here"
            hint = "compile without partitioning for it"
            raise LoopwrightError(explain(what, got=why, instead=hint))

    def named(
        self, part: str, what: str = "", of: Function | None = None
    ) -> AbstractContextManager[None]:
        """Within it, an error of its function `part` names it and `what` it was called for, at the
        span of the node `of`."""
        text = f"the function {part} of back end {self.name}{what and f', called for {what},'}"
        return named_errors(text, getattr(self, part), lambda: getattr(of, "span", None))


BACKENDS: Registry[str, Backend] = Registry("back end", compiles=True)
_GROUP = "loopwright.backends"


def register_backend(
    backend: Backend, *, override: bool = False, origin: str | None = None
) -> Backend:
    """Add a back end. Raises LoopwrightError if its name is taken or it generates nothing."""
    if not isinstance(backend, Backend):
        raise TypeError(explain("register_backend takes a relax.byoc.Backend", got=repr(backend)))
    backend.check_level()
    origin = origin_of(backend) if origin is None else origin
    if backend.name in BACKENDS and not override:
        what = f"two back ends are named {backend.name}"
        registered = BACKENDS.origin(backend.name)
        got = f"one of {registered or 'this process'}, one of {origin or 'this process'}"
        raise LoopwrightError(explain(what, got=got, instead="rename one, or pass override=True"))
    return BACKENDS.register(backend.name, backend, origin=origin, override=override)


def remove_backend(name: str) -> None:
    """Remove a back end from the registry; an unknown name is left alone."""
    BACKENDS.remove(name)


@taker(_GROUP)
def _take(name: str, value: Backend | str | Callable[..., Any], package: str) -> list[str]:
    """Register the back ends of an entry point of a package, all of them or none; returns their names."""
    added: list[str] = []
    try:
        for backend in records(name, value, Backend):
            register_backend(backend, origin=package)
            added.append(backend.name)
    except Exception:
        for each in added:
            remove_backend(each)
        raise
    return added


def find_backend(name: str) -> Backend | None:
    """The back end of that name: a registered one, a plug-in's, or one wrapping the packed function
    `relax.ext.NAME`; None if the name is unknown."""
    if name not in BACKENDS:
        load_group(_GROUP)
    if name in BACKENDS:
        return BACKENDS[name]
    function = get_global_func(f"relax.ext.{name}", allow_missing=True)
    return None if function is None else Backend(name, codegen=function)


def get_backend(name: str | Backend) -> Backend:
    """The back end of that name. Raises LoopwrightError with the known names."""
    if isinstance(name, Backend):
        return name
    backend = find_backend(name)
    if backend is None:
        what = "unknown back end"
        hint = f"{suggest(name, list_backends(), 'one of')}; register_backend adds one"
        raise LoopwrightError(explain(what, got=name, instead=broken(_GROUP, name) or hint))
    return backend


def list_backends() -> list[str]:
    """The names of all back ends."""
    load_group(_GROUP)
    return sorted(BACKENDS)
