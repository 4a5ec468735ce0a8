"""Serve Loopwright under another package's name, so that a script written for it runs as it is.

    import loopwright.compat
    loopwright.compat.alias("tvm")
    import tvm                          # is loopwright: the same module objects

    $ python -m loopwright.compat script.py --its --own arguments

`tvm.relax.frontend.nn` is the module `loopwright.frontend.nn`, and so on: `paths.PATHS` maps the
paths that differ, all others keep their name, and `names` has the names that are in another module
here. There is one identity: a class imported by either name is the same class. The tables also work
below `loopwright` itself, so that a script needs nothing but the other package name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ...base.doors import AliasLoader, ask_for_names
from ...base.errors import explain
from ...base.names import Served
from ...base.registry import PACKAGE
from ...composition import find_entry, find_module
from .names import ALSO, NAMES, named_modules
from .paths import MERGED, PATHS, target_name


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
        for dotted in ALSO.get(path, "").split():
            member = _member(find_entry(dotted), name)
            if member is not None:
                return member
    return None


def _member(module: ModuleType, name: str) -> Any:
    """A module's own member of a name, without the tables."""
    if name in vars(module):
        return vars(module)[name]
    own = vars(module).get("__own_getattr__", vars(module).get("__getattr__"))
    try:
        return None if own is None else own(name)
    except AttributeError:
        return None


class _Finder(MetaPathFinder):
    """Finds `tvm.relax.frontend.nn` and so on under another package's name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name and not fullname.startswith(f"{self.name}."):
            return None
        module = _module_at(fullname[len(self.name) + 1 :])
        return (
            None if module is None else ModuleSpec(fullname, AliasLoader(module), is_package=True)
        )


def _moved(path: str) -> ModuleType | None:
    """The module of a path that the table maps elsewhere."""
    name = target_name(path)
    return None if name == path else find_module(name)


class _Merged(ModuleType):
    """A module that serves a folder of files: importing one of them, which is the same module, leaves a
    function of its name where it is (`topi.nn.conv2d` is both)."""

    def __setattr__(self, name: str, value: object) -> None:
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
    if any(served.startswith(f"{path}.") for served in PATHS):
        module = ModuleType(f"{PACKAGE}.{path}", "A folder of TVM's.")
        module.__path__ = []
        ask_for_names(module)
        return module
    return None


def _module_at(path: str) -> ModuleType | None:
    """The module of any of TVM's paths."""
    module = find_module(target_name(path))
    return _merged(path) if module is None else module


def alias(name: str = "tvm") -> None:
    """Let `import name` import this package, and printed programs name it so. Raises
    ImportError when another package of that name has been imported already."""
    present = sys.modules.get(name)
    here = sys.modules[PACKAGE]
    if present is here:
        return
    if present is not None:
        what = f"a package called {name} has been imported already"
        hint = "call loopwright.compat.alias before it"
        raise ImportError(explain(what, got=getattr(present, "__file__", "?"), instead=hint))
    sys.meta_path.insert(0, _Finder(name))
    import_module(name)
    Served.name = name


class _Wing:
    """Answers the package's doors (`base.doors.Wing`)."""

    moved = staticmethod(_moved)
    merged = staticmethod(_merged)

    def __init__(self) -> None:
        self.served = named_modules()

    def name(self, module: ModuleType, name: str) -> Any:
        dotted = module.__name__.partition(".")[2]
        paths = self.served.get(dotted)
        return None if paths is None else _tvm_name([*paths, dotted], name, module)


WING = _Wing()
