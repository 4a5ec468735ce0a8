"""Running Relay: compiled modules, and the executors."""

from __future__ import annotations

from . import (
    executor_factory,
    graph_executor_codegen,
    interpreter,
    name_transforms,
    te_compiler,
    utils,
    vm,
)
from .config import Executor, Runtime
