"""Targets: one file each, with its pipelines and what it does in its own way."""

import importlib as _importlib
from typing import Any as _Any

from .pattern_registry import get_pattern as get_pattern
from .pattern_registry import get_patterns_with_prefix as get_patterns_with_prefix

# Modules here, by TVM's names where they differ; imported when they are asked for.
_MODULES = {
    name: name for name in ("c", "cpu", "cuda", "pattern_registry", "patterns", "pipeline", "utils")
} | {"cpu_generic": "cpu"}


def __getattr__(name: str) -> _Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'backend' has no attribute {name!r}")
    return _importlib.import_module(f"{__name__}.{_MODULES[name]}")
