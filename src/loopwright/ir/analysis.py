"""Questions about whole modules."""

from __future__ import annotations

from .expr import GlobalVar
from .module import IRModule, called_global_vars


def collect_call_map(module: IRModule) -> dict[GlobalVar, list[GlobalVar]]:
    """Which functions of the module each of its functions mentions, sorted by name."""
    return {
        gvar: sorted(called_global_vars(func) & module.functions.keys(), key=lambda g: g.name_hint)
        for gvar, func in module.functions_items()
    }
