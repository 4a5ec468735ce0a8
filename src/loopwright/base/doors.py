"""Public paths that lead elsewhere: `loopwright.relay.op` is the module `loopwright.tvm.relay.op`.

The package has one wing for what exists only because TVM has it, with the tables of TVM's paths and
names. It is loaded when a module or a name is requested that the rest of the package does not have,
so that a compile never loads it. Requests are:

- a path below a door (`DOORS`), or below a module that has another name than its path;
- a path without a file;
- a name that a module does not have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Protocol

from .late import Slot
from .registry import PACKAGE, being_imported

# The parts of the wing that have a top-level name of their own.
DOORS = frozenset({"compat", "relay", "rpc", "testing", "topi"})


class Wing(Protocol):
    """The provider of TVM's paths and names. Paths are below the package."""

    def moved(self, path: str) -> ModuleType | None:
        """The module of a path that leads elsewhere."""
        ...

    def merged(self, path: str) -> ModuleType | None:
        """The module that a path without a file is part of."""
        ...

    def name(self, module: ModuleType, name: str) -> Any:
        """The value of a name in TVM's module of that path, if our module lacks it; else None."""
        ...


WING: Slot[Wing] = Slot("base.wing")


class AliasLoader(Loader):
    """Returns a module that is here already, or is imported by its own name."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        if self.spec is not None:
            module.__spec__ = self.spec  # the import system has put the alias's there


class _FallbackLoader(Loader):
    """Loads a module of ours that falls back to the wing for names it does not have."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)  # used by `python -m` and inspect: code, source

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        ask_for_names(module)


class _Doors(MetaPathFinder):
    """Finds the package's modules: those behind doors in the wing, others where their file is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_BELOW):
            return None
        below, above = fullname[len(_BELOW) :], sys.modules.get(fullname.rpartition(".")[0])
        leads_away = above is not None and above.__name__ != fullname.rpartition(".")[0]
        if below.endswith(".__main__"):  # run, not imported: `python -m loopwright.compat`
            return PathFinder.find_spec(fullname, path, target)
        if leads_away or below.partition(".")[0] in DOORS:
            module = WING.get().moved(below)
            return (
                None
                if module is None
                else ModuleSpec(fullname, AliasLoader(module), is_package=True)
            )
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _FallbackLoader(spec.loader)
        return spec


class _Elsewhere(MetaPathFinder):
    """Finds modules without a file in the wing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_BELOW):
            return None
        below = fullname[len(_BELOW) :]
        # Files of the wing are found at their own paths, except those served by one module:
        # topi.x86.conv2d.
        if below.partition(".")[0] == "tvm" and not below.startswith("tvm.compat.topi_"):
            return None
        module = WING.get().moved(below) or WING.get().merged(below)
        return (
            None if module is None else ModuleSpec(fullname, AliasLoader(module), is_package=True)
        )


def ask_for_names(module: ModuleType) -> None:
    """Let a module that is loaded give TVM's names too, and the modules that TVM has below it."""
    own: Callable[[str], Any] | None = vars(module).get("__getattr__")

    def get(name: str) -> Any:
        try:
            if own is not None:
                return own(name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        except AttributeError:
            if name.startswith("__") or being_imported(module.__name__) or _has_file(module, name):
                raise
            wing = WING.find()
            value = None if wing is None else wing.name(module, name)
            if value is None:
                raise
        setattr(module, name, value)
        return value

    vars(module).update(__getattr__=get, __own_getattr__=own)


def _has_file(module: ModuleType, name: str) -> bool:
    """Whether a package of ours has a module of that name, which an import statement would
    import."""
    folders = getattr(module, "__path__", None)
    return bool(folders) and PathFinder.find_spec(f"{module.__name__}.{name}", folders) is not None


def open_doors() -> None:
    """Let public paths lead to the wing (done by the package when it is imported)."""
    if any(isinstance(finder, _Doors) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Doors())
    sys.meta_path.append(_Elsewhere())
    for name, module in list(sys.modules.items()):
        if name == PACKAGE or name.startswith(_BELOW):  # loaded before
            ask_for_names(module)


_BELOW = f"{PACKAGE}."
