"""`build` and `lower` as TVM's older scripts call them: also of a `te.Schedule`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .front import compile


def _is_schedule(model: Any) -> bool:
    te = sys.modules.get(f"{__name__.split('.')[0]}.te")  # nobody has one before it is in
    return te is not None and isinstance(model, te.Schedule)


def build(model: Any, *args: Any, **options: Any) -> Any:
    """`compile(model, target, ...)`; of a schedule `te.build(s, args, target, name)`."""
    if _is_schedule(model):
        return importlib.import_module("..te", __package__).build(model, *args, **options)
    return compile(model, *args, **options)


def lower(model: Any, *args: Any, **options: Any) -> Any:
    """`driver.lower(model, target, ...)`; of a schedule `te.lower(s, args, name, simple_mode)`."""
    above = "..te" if _is_schedule(model) else ".build"
    return importlib.import_module(above, __package__).lower(model, *args, **options)


__all__ = ["build", "lower"]
