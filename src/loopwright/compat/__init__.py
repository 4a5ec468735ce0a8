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

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..base.errors import explain
from ..base.registry import PACKAGE
from ..composition import find_module
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


def _merged(path: str) -> ModuleType | None:
    """The module that a TVM file is merged into here; an empty one for a folder that exists only
    in the table."""
    parent = target_name(path).rpartition(".")[0]
    if parent in MERGED and path.rpartition(".")[2].islower():  # a class is not a file
        return find_module(parent)
    if any(known.startswith(f"{path}.") for known in PATHS):
        module = ModuleType(f"{PACKAGE}.{path}", "A folder of TVM's.")
        module.__path__ = []
        return module
    return None


def _any(path: str) -> ModuleType | None:
    """The module of any of TVM's paths."""
    module = find_module(target_name(path))
    return _merged(path) if module is None else module


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
    sys.meta_path.insert(0, _Finder(name, _any))
    import_module(name)


def serve_paths() -> None:
    """Let the paths of the table work below this package's own name."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # A moved path comes first: its parent's folder would be searched for another copy.
        sys.meta_path.insert(0, _Finder(PACKAGE, _moved))
        sys.meta_path.append(_Finder(PACKAGE, _merged))


__all__ = ["MERGED", "PATHS", "alias", "serve_paths", "target_name"]
