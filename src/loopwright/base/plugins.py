"""Extensions by other packages, found by entry points.

    [project.entry-points."loopwright.backends"]
    mine = "my_package.offload:BACKEND"

- loopwright.targets: a `backend.base.TargetBackend` (a target with its code generator), a list of
  them, or a function that returns either
- loopwright.backends: the same of a `relax.byoc.Backend` (an external code generator)
- loopwright.ops, loopwright.legalize: a module that registers operators or legalizations when it is
  imported, or a function that does when it is called; loaded before the first model is compiled
- loopwright.passes: a pass, or a function that makes one: `relax.get_pipeline(NAME)`
- loopwright.frontends: a function that imports a model, see `frontend.importers`

One that cannot be imported does not affect the others. `loopwright plugins` lists it, and the error
for its name mentions it (a warning for an operator's name); broken legalizations, which are not
looked up by name, are warned of when a model is compiled.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .errors import LoopwrightError, explain
from .late import Slot
from .registry import Registry, registering, registries

# Registers what an entry point (its name, what it is, its package) brings, and returns the names.
Taker = Callable[[str, Any, str], Sequence[str]]


@dataclass(frozen=True)
class Plugin:
    """An entry point: its name, the package that has it, the names of what it brings, what went
    wrong, its group."""

    name: str
    package: str
    brings: tuple[str, ...] = ()
    error: str = ""
    group: str = ""


TAKERS: Registry[str, Taker] = Registry("group of plug-ins")
# Registries that an operator's definition adds to: for such a plug-in, the operator's name is
# enough.
_PARTS = ("plug-in", "operator", "fact of operators", "node type")
_TOLD: set[Plugin] = set()
PLUGINS: Registry[tuple[str, str, str], Plugin] = Registry("plug-in")  # by group, package, name
# Entry points of Loopwright's own, where its package is a source tree on the path, or was installed
# before they came: group -> name -> value.
OWN: Slot[Mapping[str, Mapping[str, str]]] = Slot("base.own_plugins")
_LOADED: set[str] = set()  # groups


def taker(group: str) -> Callable[[Taker], Taker]:
    """Decorates what registers the entry points of a group."""
    return lambda take: TAKERS.register(group, take)


def plugins() -> list[Plugin]:
    """All plug-ins found, broken ones too."""
    for group in TAKERS:
        load_group(group)
    return list(PLUGINS.values())


def load_extensions() -> None:
    """Load operators and legalizations that other packages bring, once."""
    load_group("loopwright.ops")
    load_group("loopwright.legalize")
    warn_of_broken("loopwright.legalize")


def broken(group: str, name: str = "") -> str:
    """The faults of a group's plug-ins that cannot be used (only those of `name`, if given): for
    errors about names they may have registered; "" if all plug-ins work."""
    bad = [p for p in PLUGINS.values() if p.error and p.group == group and name in ("", p.name)]
    return "; ".join(f"the plug-in {p.name} of {p.package} cannot be used: {p.error}" for p in bad)


def warn_of_broken(group: str) -> None:
    """Warn of the plug-ins of a group that cannot be used, once of each."""
    for plugin in PLUGINS.values():
        if plugin.error and plugin.group == group and plugin not in _TOLD:
            _TOLD.add(plugin)
            warnings.warn(broken(group, plugin.name), RuntimeWarning, stacklevel=3)


def load_group(group: str) -> None:
    """Load the entry points of a group, once."""
    if group not in _LOADED:
        _LOADED.add(group)
        load_plugins(_points(group))


def load_plugins(points: Iterable[Any]) -> list[Plugin]:
    """Register what entry points bring."""
    loaded = []
    for point in points:
        package = _package(point)
        try:
            with registering(package):
                value = point.load()  # its modules may be what first imports the taker's
                brings = TAKERS[point.group](point.name, value, package)
            brings = brings or _registered_by(package, point.value.partition(".")[0])
            plugin = Plugin(point.name, package, tuple(brings), group=point.group)
        except Exception as err:  # whatever a foreign package raises
            error = f"{type(err).__name__}: {err}"
            plugin = Plugin(point.name, package, error=error, group=point.group)
        key = (point.group, package, point.name)
        loaded.append(PLUGINS.register(key, plugin, origin=package, override=True))
    return loaded


def records(name: str, value: object, kind: type) -> list[Any]:
    """The records of a kind that an entry point is: one, a list of them, or a function that returns
    either. Raises LoopwrightError for anything else."""
    value = value() if callable(value) and not isinstance(value, kind) else value
    listed = [value] if isinstance(value, kind) else value
    if not isinstance(listed, (list, tuple)) or not all(isinstance(r, kind) for r in listed):
        what = f"the entry point {name} is not a {kind.__name__}"
        hint = f"a {kind.__name__}, a list of them, or a function that returns either"
        raise LoopwrightError(explain(what, got=repr(value), instead=hint))
    return list(listed)


def _package(point: Any) -> str:
    return getattr(getattr(point, "dist", None), "name", "") or point.value.partition(".")[0]


@taker("loopwright.ops")
@taker("loopwright.legalize")
def _take_registrations(name: str, value: object, package: str) -> list[str]:
    if callable(value):
        value()
    elif not isinstance(value, ModuleType):
        what = f"the entry point {name} registers nothing"
        raise LoopwrightError(explain(what, got=repr(value), instead="a module, or a function"))
    return []


def _registered_by(package: str, module: str) -> list[str]:
    """The registrations of a package, except those that its other plug-ins list."""
    listed = {name for p in PLUGINS.values() if p.package == package for name in p.brings}
    names = []
    for registry in registries():
        for entry in registry.entries() if registry.name not in _PARTS else ():
            if entry.origin.partition(".")[0] in (package, module):
                names.append(f"{registry.name} {_shown(entry.key)}")
    return [name for name in dict.fromkeys(names) if name not in listed]


def _shown(key: str | Sequence[str | int]) -> str:
    """A registry's key: of a rule (subject, target, number) without its number."""
    parts = key if isinstance(key, tuple) else (key,)
    return " ".join(str(part) for part in parts if part and not isinstance(part, int))


def _points(group: str) -> list[Any]:
    # Not at the top: it would be a tenth of the package's import time.
    metadata = importlib.import_module("importlib.metadata")
    points = metadata.entry_points(group=group)
    # Sorted, so that the file system does not decide which of two with the same name counts.
    points = sorted(points, key=lambda point: (_package(point), point.name))
    own = OWN.get().get(group, {})
    values = {point.value for point in points}
    return points + [metadata.EntryPoint(n, v, group) for n, v in own.items() if v not in values]
