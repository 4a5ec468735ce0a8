"""Running Relay: what a module is compiled to, and the executors."""

from __future__ import annotations

from . import executor_factory, interpreter, name_transforms, utils, vm
from .config import Executor, Runtime

__all__ = [
    "Executor",
    "Runtime",
    "executor_factory",
    "interpreter",
    "name_transforms",
    "utils",
    "vm",
]
