"""Targets: one file each, with its record (`base.TargetBackend`) and pipelines; byoc/: external code
generators."""

import importlib as _importlib
from typing import Any as _Any

# What is here, by TVM's names where they differ: (module, attribute; "" for the module itself).
# Imported when it is asked for.
_NAMES = {
    name: (name, "")
    for name in ("base", "c", "cuda", "llvm", "pattern_registry", "patterns", "pipeline", "utils")
} | {
    "cpu": ("llvm", ""),
    "cpu_generic": ("llvm", ""),
    "CompiledModel": ("base", "CompiledModel"),
    "TargetBackend": ("base", "TargetBackend"),
    "get_pattern": ("pattern_registry", "get_pattern"),
    "get_patterns_with_prefix": ("pattern_registry", "get_patterns_with_prefix"),
}


def __getattr__(name: str) -> _Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'backend' has no attribute {name!r}")
    module, attribute = _NAMES[name]
    part = _importlib.import_module(f"{__name__}.{module}")
    return getattr(part, attribute) if attribute else part
