"""The importers of `compile` and the command line, those of other packages among them.

[project.entry-points."loopwright.frontends"]
mine = "my_package:from_mine"       # an IRModule from a model, None for a model of another kind
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..base.errors import LoopwrightError, explain
from ..base.plugins import load_group, taker
from ..base.registry import Registry, is_own, origin_of
from ..ir.module import IRModule

GROUP = "loopwright.frontends"
Import = Callable[[Any], IRModule | None]
IMPORTERS: Registry[str, Import] = Registry("importer", compiles=True)


def register_importer(name: str, convert: Import) -> Import:
    """Let `compile` take models of another kind: `convert` returns the module of a model, None for a model
    that is not of that kind. Raises LoopwrightError if the name is taken.

    >>> from loopwright.frontend import register_importer
    >>> def convert(model):
    ...     return None if not isinstance(model, set) else lw.IRModule({})
    >>> register_importer("sets", convert) is convert
    True
    """
    IMPORTERS.register(name, convert, origin=origin_of(convert))
    return convert


def importers() -> Iterator[Import]:
    """All of them, the newest first, those of other packages before our own, whenever the compiler is
    imported: ONNX's, which takes any file, comes last."""
    load_group(GROUP)
    newest = reversed(list(IMPORTERS.entries()))
    yield from (entry.value for entry in sorted(newest, key=lambda entry: is_own(entry.origin)))


@taker(GROUP)
def _take(name: str, convert: Import, package: str) -> list[str]:
    if not callable(convert):
        what = f"the entry point {name} is not an importer"
        raise LoopwrightError(explain(what, got=repr(convert), instead="a function of a model"))
    IMPORTERS.register(name, convert, origin=package)
    return [name]
