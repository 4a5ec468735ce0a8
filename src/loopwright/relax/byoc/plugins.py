"""What other packages bring, by entry points.

    [project.entry-points."loopwright.backends"]
    mine = "my_package.offload:BACKEND"

- loopwright.backends: a `Backend`, a list of them, or a function that gives either
- loopwright.ops, loopwright.legalize: a module that registers operators or legalizations when it is
  imported, or a function that does when it is called; loaded before the first model is compiled
- loopwright.passes: a pass, or a function that makes one: `relax.get_pipeline(NAME)`

One that cannot be imported is told of by a warning, once, and by `loopwright plugins`; the others
work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.registry import registering
from ...ir.transform import Pass
from .registry import _LOADERS, Backend, _load, origin_of, register_backend, remove_backend

GROUP = "loopwright.backends"


@dataclass(frozen=True)
class Plugin:
    """An entry point: its name, the package that has it, its back ends, what went wrong, its
    group."""

    name: str
    package: str
    backends: tuple[str, ...] = ()
    error: str = ""
    group: str = GROUP


_PLUGINS: list[Plugin] = []
_PASSES: dict[str, Any] = {}
_LOADED: set[str] = set()


def plugins() -> list[Plugin]:
    """All plug-ins found, broken ones too."""
    _load()
    for group in _TAKE:
        load_group(group)
    return list(_PLUGINS)


def load_extensions() -> None:
    """Load operators and legalizations that other packages bring, once."""
    load_group("loopwright.ops")
    load_group("loopwright.legalize")


def find_pass(name: str) -> Any:
    """The pass of that name that a package brings, or the function that makes it; None if none."""
    load_group("loopwright.passes")
    return _PASSES.get(name)


def load_group(group: str) -> None:
    """Load the entry points of a group, once."""
    if group not in _LOADED:
        _LOADED.add(group)
        load_plugins(_find(group), group)


def load_plugins(found: Iterable[Any], group: str = GROUP) -> list[Plugin]:
    """Register what entry points bring."""
    made = []
    for point in found:
        package = _package(point)
        try:
            with registering(package):
                backends = _TAKE[group](point, point.load(), package)
            plugin = Plugin(point.name, package, tuple(backends), group=group)
        except Exception as err:  # whatever a foreign package raises
            error = f"{type(err).__name__}: {err}"
            plugin = Plugin(point.name, package, error=error, group=group)
            text = f"the plug-in {point.name} of {package} cannot be used: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        made.append(plugin)
    _PLUGINS.extend(made)
    return made


def _package(point: Any) -> str:
    return getattr(getattr(point, "dist", None), "name", "") or point.value.partition(".")[0]


def _take_backends(point: Any, loaded: Any, package: str) -> list[str]:
    given = loaded() if callable(loaded) and not isinstance(loaded, Backend) else loaded
    listed = [given] if isinstance(given, Backend) else given
    if not isinstance(listed, (list, tuple)) or not all(isinstance(b, Backend) for b in listed):
        what = f"the entry point {point.name} is no Backend"
        hint = "a Backend, a list of them, or a function that gives either"
        raise LoopwrightError(explain(what, got=repr(given), instead=hint))
    done: list[str] = []
    try:
        for backend in listed:
            register_backend(backend, origin=package)
            done.append(backend.name)
    except Exception:
        for name in done:  # all of them or none
            remove_backend(name)
        raise
    return done


def _take_registrations(point: Any, loaded: Any, package: str) -> list[str]:
    if callable(loaded):
        loaded()
    elif not isinstance(loaded, ModuleType):
        what = f"the entry point {point.name} registers nothing"
        raise LoopwrightError(explain(what, got=repr(loaded), instead="a module, or a function"))
    return []


def _take_pass(point: Any, loaded: Any, package: str) -> list[str]:
    if not callable(loaded) and not isinstance(loaded, Pass):
        what = f"the entry point {point.name} is no pass"
        hint = "a pass, or a function that makes one"
        raise LoopwrightError(explain(what, got=repr(loaded), instead=hint))
    if point.name in _PASSES:
        what = f"two packages bring a pass {point.name}"
        raise LoopwrightError(explain(what, instead="rename one of them"))
    _PASSES[point.name] = loaded
    return []


_TAKE: dict[str, Callable[[Any, Any, str], list[str]]] = {
    GROUP: _take_backends,
    "loopwright.ops": _take_registrations,
    "loopwright.legalize": _take_registrations,
    "loopwright.passes": _take_pass,
}

# Loopwright's own, where its package is a source tree on the path, or was installed before they came.
_OWN_FILES = {"blas": "blas", "onednn": "onednn", "tensorrt": "tensorrt_json"}
_OWN = {name: f"loopwright.backend.byoc.{file}:backend" for name, file in _OWN_FILES.items()}


def _find(group: str) -> list[Any]:
    # Sorted: which one of two with the same name counts is no question of the file system.
    found = sorted(entry_points(group=group), key=lambda point: (_package(point), point.name))
    if group != GROUP:
        return found
    missing = set(_OWN.values()).difference(point.value for point in found)
    return found + [EntryPoint(n, v, GROUP) for n, v in _OWN.items() if v in missing]


_LOADERS.append(lambda: load_group(GROUP))

__all__ = ["Plugin", "find_pass", "load_extensions", "load_plugins", "origin_of", "plugins"]
