"""Back ends that other packages bring, by the entry points `loopwright.backends`.

    [project.entry-points."loopwright.backends"]
    mine = "my_package.offload:BACKEND"

An entry point is a `Backend`, a list of them, or a function that gives either. One that cannot be
imported is told of by a warning, once, and by `loopwright plugins`; the others work.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ...base.errors import LoopwrightError, explain
from .registry import _LOADERS, Backend, _load, origin_of, register_backend

GROUP = "loopwright.backends"


@dataclass(frozen=True)
class Plugin:
    """An entry point: its name, the package that has it, its back ends, what went wrong."""

    name: str
    package: str
    backends: tuple[str, ...] = ()
    error: str = ""


_PLUGINS: list[Plugin] = []


def plugins() -> list[Plugin]:
    """All plug-ins found, broken ones too."""
    _load()
    return list(_PLUGINS)


def load_plugins(found: Iterable[Any]) -> list[Plugin]:
    """Register what entry points bring."""
    made = []
    for point in found:
        package = getattr(getattr(point, "dist", None), "name", "") or point.value
        try:
            backends = _backends(point, point.load())
            for backend in backends:
                register_backend(backend, origin=package)
            plugin = Plugin(point.name, package, tuple(b.name for b in backends))
        except Exception as err:  # whatever a foreign package raises
            error = f"{type(err).__name__}: {err}"
            plugin = Plugin(point.name, package, error=error)
            text = f"the plug-in {point.name} of {package} cannot be used: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        made.append(plugin)
    _PLUGINS.extend(made)
    return made


def _backends(point: Any, loaded: Any) -> list[Backend]:
    given = loaded() if callable(loaded) and not isinstance(loaded, Backend) else loaded
    listed = [given] if isinstance(given, Backend) else given
    if not isinstance(listed, (list, tuple)) or not all(isinstance(b, Backend) for b in listed):
        what = f"the entry point {point.name} is no Backend"
        hint = "a Backend, a list of them, or a function that gives either"
        raise LoopwrightError(explain(what, got=repr(given), instead=hint))
    return list(listed)


# Loopwright's own, where its package is a source tree on the path, or was installed before they came.
_OWN_FILES = {"blas": "blas", "onednn": "onednn", "tensorrt": "tensorrt_json"}
_OWN = {name: f"loopwright.backend.byoc.{file}:backend" for name, file in _OWN_FILES.items()}


def _find() -> list[Any]:
    found = list(entry_points(group=GROUP))
    missing = set(_OWN.values()).difference(point.value for point in found)
    return found + [EntryPoint(n, v, GROUP) for n, v in _OWN.items() if v in missing]


_LOADERS.append(lambda: load_plugins(_find()) and None)

__all__ = ["Plugin", "load_plugins", "origin_of", "plugins"]
