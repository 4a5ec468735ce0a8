"""Serve Loopwright under another package's name, so that a script written for it runs as it is.

    import loopwright.compat
    loopwright.compat.alias("tvm")
    import tvm                          # is loopwright: the same module objects

    $ python -m loopwright.compat script.py --its --own arguments

`tvm.relax.frontend.nn` is the module `loopwright.frontend.nn`, and so on: `PATHS` maps the paths
that differ, all others keep their name. There is one identity: a class imported by either name is
the same class.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..base.errors import explain

PACKAGE = "loopwright"

# Paths below the package whose place differs here; longer ones first where they nest.
PATHS: dict[str, str] = {
    "relax.frontend.nn": "frontend.nn",
    "relax.frontend.onnx": "frontend.onnx",
    "relax.frontend": "frontend",
    "ir.base": "ir.structural",
    "transform": "ir.transform",
    "error": "base.errors",
    "nd": "runtime.tensor",
}


def target_name(path: str) -> str:
    """The module here that serves `path` (below the package): "relax.frontend.nn.op" gives
    "frontend.nn.op"."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        found = PATHS.get(".".join(parts[:cut]))
        if found is not None:
            return ".".join([found, *parts[cut:]])
    return path


class _Loader(Loader):
    def __init__(self, name: str) -> None:
        self.name = name
        self.module: ModuleType | None = None
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.module = importlib.import_module(self.name)
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the alias's there


class _Finder(MetaPathFinder):
    def __init__(self, alias: str) -> None:
        self.alias = alias

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.alias and not fullname.startswith(f"{self.alias}."):
            return None
        below = fullname[len(self.alias) + 1 :]
        name = f"{PACKAGE}.{target_name(below)}" if below else PACKAGE
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            return None
        return ModuleSpec(fullname, _Loader(name), is_package=True)


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


__all__ = ["PATHS", "alias", "target_name"]
