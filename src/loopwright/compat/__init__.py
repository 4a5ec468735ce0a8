"""Serve Loopwright under another package's name, so that a script written for it runs as it is.

    import loopwright.compat
    loopwright.compat.alias("tvm")
    import tvm                          # is loopwright: the same module objects

    $ python -m loopwright.compat script.py --its --own arguments

`tvm.relax.frontend.nn` is the module `loopwright.frontend.nn`, and so on: `paths.PATHS` maps the
paths that differ, all others keep their name, and `names` has the names that lie in another module
here. There is one identity: a class imported by either name is the same class. The tables also work
below `loopwright` itself, so that a script needs nothing but the other package name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ..base.errors import explain
from ..base.names import Served
from ..base.registry import PACKAGE, being_imported
from ..composition import find_entry, find_module
from .names import ALSO, NAMES, named_modules
from .paths import MERGED, PATHS, target_name


class _Loader(Loader):
    """Gives a module that is here already, or is imported by its own name."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        if self.spec is not None:
            module.__spec__ = self.spec  # the import system has put the alias's there


class _Naming(Loader):
    """Loads a module of ours and gives it the names that TVM has there."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _serve_names(module)


class _OwnFinder(MetaPathFinder):
    """Finds the modules of ours that TVM's names lead to."""

    def __init__(self, modules: frozenset[str]) -> None:
        self.modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[2] not in self.modules or not fullname.startswith(_BELOW):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Naming(spec.loader)
        return spec


def _serve_names(module: ModuleType) -> None:
    """Let a module that is loaded give TVM's names too, and the modules that TVM has below it."""
    place = module.__name__.partition(".")[2]
    paths = list(dict.fromkeys([*named_modules().get(place, ()), place]))
    own: Callable[[str], Any] | None = vars(module).get("__getattr__")

    def get(name: str) -> Any:
        try:
            if own is not None:
                return own(name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        except AttributeError:
            if name.startswith("__") or being_imported(module.__name__) or _has_file(module, name):
                raise
            value = _tvm_name(paths, name, module)
            if value is None:
                raise
        setattr(module, name, value)
        return value

    vars(module).update(__getattr__=get, __own_getattr__=own)


def _has_file(module: ModuleType, name: str) -> bool:
    """Whether a package of ours has a module of that name, which an import statement asks for."""
    folders = getattr(module, "__path__", None)
    return bool(folders) and PathFinder.find_spec(f"{module.__name__}.{name}", folders) is not None


def _tvm_name(paths: Sequence[str], name: str, of: ModuleType) -> Any:
    """What one of TVM's modules, which `of` serves, has under a name: by the tables, or a module
    below; else None."""
    for path in paths:
        below = f"{path}.{name}" if path else name
        if below in NAMES:
            return find_entry(NAMES[below])
        module = _moved(below) or _merged(below)
        if module is not None and (module is not of or below in PATHS):  # else merged with `of`
            return module
    for path in paths:
        for place in ALSO.get(path, "").split():
            held = _held(find_entry(place), name)
            if held is not None:
                return held
    return None


def _held(module: ModuleType, name: str) -> Any:
    """What a module has under a name without the tables."""
    if name in vars(module):
        return vars(module)[name]
    own = vars(module).get("__own_getattr__", vars(module).get("__getattr__"))
    try:
        return None if own is None else own(name)
    except AttributeError:
        return None


class _Finder(MetaPathFinder):
    """Finds `<name>.relax.frontend.nn` and so on by one of the rules below."""

    def __init__(self, name: str, rule: Callable[[str], ModuleType | None]) -> None:
        self.name = name
        self.rule = rule

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name and not fullname.startswith(f"{self.name}."):
            return None
        module = self.rule(fullname[len(self.name) + 1 :])
        return None if module is None else ModuleSpec(fullname, _Loader(module), is_package=True)


def _moved(path: str) -> ModuleType | None:
    """The module of a path that the table maps elsewhere."""
    name = target_name(path)
    return None if name == path else find_module(name)


class _Merged(ModuleType):
    """A module that serves a folder of files: importing one of them, which is the same module, leaves a
    function of its name where it is (`topi.nn.conv2d` is both)."""

    def __setattr__(self, name: str, value: Any) -> None:
        if value is not self or name not in vars(self):
            super().__setattr__(name, value)


def _merged(path: str) -> ModuleType | None:
    """The module that a TVM file is merged into here; an empty one for a folder that exists only
    in the table."""
    parent = target_name(path).rpartition(".")[0]
    if parent in MERGED and path.rpartition(".")[2].islower():  # a class is not a file
        module = find_module(parent)
        if type(module) is ModuleType:
            module.__class__ = _Merged
        return module
    if any(known.startswith(f"{path}.") for known in PATHS):
        module = ModuleType(f"{PACKAGE}.{path}", "A folder of TVM's.")
        module.__path__ = []
        _serve_names(module)
        return module
    return None


def _any(path: str) -> ModuleType | None:
    """The module of any of TVM's paths."""
    module = find_module(target_name(path))
    return _merged(path) if module is None else module


def alias(name: str = "tvm") -> None:
    """Make `import name` give this package, and printed programs name it so. Raises
    ImportError when another package of that name has been imported already."""
    present = sys.modules.get(name)
    here = sys.modules[PACKAGE]
    if present is here:
        return
    if present is not None:
        what = f"a package called {name} has been imported already"
        hint = "call loopwright.compat.alias before it"
        raise ImportError(explain(what, got=getattr(present, "__file__", "?"), instead=hint))
    sys.meta_path.insert(0, _Finder(name, _any))
    import_module(name)
    Served.name = name


def serve_paths() -> None:
    """Let the paths and names of the tables work below this package's own name."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    named = frozenset(named_modules())
    sys.meta_path.insert(0, _OwnFinder(named))
    # A moved path comes first: its parent's folder would be searched for another copy.
    sys.meta_path.insert(0, _Finder(PACKAGE, _moved))
    sys.meta_path.append(_Finder(PACKAGE, _merged))
    for name in named:
        module = sys.modules.get(f"{PACKAGE}.{name}" if name else PACKAGE)
        if module is not None:  # loaded before
            _serve_names(module)


_BELOW = f"{PACKAGE}."

__all__ = ["MERGED", "PATHS", "alias", "serve_paths", "target_name"]
