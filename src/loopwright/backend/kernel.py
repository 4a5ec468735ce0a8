"""Single kernels compiled for this machine and run on numpy arrays, while a model is compiled for any."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import lru_cache
from typing import Any

from ..base.stack import roomy
from ..codegen.llvm.debug_info import SHORT_LIVED
from ..codegen.llvm.jit import gc_paused
from ..codegen.lowered import Lowered
from ..ir.module import IRModule
from ..ir.target import Target
from ..sched import ApplyDefaultSchedule
from ..tir.function import PrimFunc
from . import llvm


def run_kernel(kernel: PrimFunc, arrays: list[Any]) -> None:
    """Run a kernel in place on arrays, outside of the current compilation, its trace and its budget."""
    Context().run(_compiled, kernel)(*arrays)


@lru_cache(maxsize=16)  # weights of one shape are packed by one kernel
@roomy
def _compiled(kernel: PrimFunc) -> Callable[..., None]:
    SHORT_LIVED.set(True)
    llvm.TARGET.prepare()
    mod = IRModule({"kernel": kernel.with_attr("global_symbol", "kernel")})
    with gc_paused(), Target("llvm") as host:
        scheduled = ApplyDefaultSchedule()(mod)
        return llvm.emit(Lowered(scheduled, llvm.loop_pipeline(), host, one_by_one=True))["kernel"]
