"""Serve Loopwright under another package's name, so that a script written for it runs as it is.

    import loopwright.compat
    loopwright.compat.alias("tvm")
    import tvm                          # is loopwright: the same module objects

    $ python -m loopwright.compat script.py --its --own arguments

`tvm.relax.frontend.nn` is the module `loopwright.frontend.nn`, and so on: `paths.PATHS` maps the
paths that differ, all others keep their name. There is one identity: a class imported by either
name is the same class. The paths of the table also work below `loopwright` itself, so that a script
needs nothing but the other package name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..base.errors import explain
from .paths import MERGED, PATHS, target_name

PACKAGE = "loopwright"


class _Loader(Loader):
    """Gives a module that is here already, or is imported by its own name."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the alias's there


class _Finder(MetaPathFinder):
    """Finds `<name>.relax.frontend.nn` and so on, `name` being the package's own or an alias."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name and not fullname.startswith(f"{self.name}."):
            return None
        module = _find(fullname[len(self.name) + 1 :], fullname)
        return None if module is None else ModuleSpec(fullname, _Loader(module), is_package=True)


def _find(below: str, asked: str) -> ModuleType | None:
    name = target_name(below)
    if name == below and asked == f"{PACKAGE}.{below}":
        found = None  # it was looked for where it stands
    else:
        found = _import(f"{PACKAGE}.{name}" if name else PACKAGE)
    parent = name.rpartition(".")[0]
    return _import(f"{PACKAGE}.{parent}") if found is None and parent in MERGED else found


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return None


def alias(name: str = "tvm") -> None:
    """Make `import name` give this package. Raises ImportError when another package of that name
    has been imported already."""
    present = sys.modules.get(name)
    here = sys.modules[PACKAGE]
    if present is here:
        return
    if present is not None:
        what = f"a package called {name} has been imported already"
        hint = "call loopwright.compat.alias before it"
        raise ImportError(explain(what, got=getattr(present, "__file__", "?"), instead=hint))
    sys.meta_path.insert(0, _Finder(name))
    importlib.import_module(name)


def serve_paths() -> None:
    """Let the paths of the table work below this package's own name."""
    if not any(isinstance(f, _Finder) and f.name == PACKAGE for f in sys.meta_path):
        sys.meta_path.append(_Finder(PACKAGE))


__all__ = ["MERGED", "PATHS", "alias", "serve_paths", "target_name"]
