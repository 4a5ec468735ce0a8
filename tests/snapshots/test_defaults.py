"""What parameters of public functions and classes are by default."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import loopwright

PLAIN = (bool, int, float, str, type(None))


def _plain(value: Any) -> bool:
    """Whether a default is written the same on every machine."""
    return all(map(_plain, value)) if isinstance(value, tuple) else isinstance(value, PLAIN)


def _defaults(name: str, made: Any) -> list[str]:
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return []
    known = [p for p in parameters if p.default is not p.empty and _plain(p.default)]
    return [f"{name}: {', '.join(f'{p.name}={p.default!r}' for p in known)}"] if known else []


def _all_defaults(module: ModuleType) -> list[str]:
    """Of what a module defines itself, with the methods of its classes."""
    made = []
    for name, value in sorted(vars(module).items()):
        own = getattr(value, "__module__", None) == module.__name__
        if name.startswith("_") or not own or not callable(value):
            continue
        made += _defaults(name, value)
        for method, inner in sorted(vars(value).items()) if isinstance(value, type) else ():
            if not method.startswith("_") and callable(inner):
                made += _defaults(f"{name}.{method}", inner)
    return made


def test_defaults(snapshot: Any) -> None:
    rows = {}
    for info in pkgutil.walk_packages(loopwright.__path__, "loopwright."):
        if not info.name.endswith("__main__"):
            texts = _all_defaults(importlib.import_module(info.name))
            if texts:
                rows[info.name.removeprefix("loopwright.")] = {"": "\n".join(texts)}
    snapshot("defaults", rows)
