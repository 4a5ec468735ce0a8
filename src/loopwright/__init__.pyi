"""Loopwright: a tensor compiler in Python.

Made by `python -m tools.make_stubs`.
"""

from loopwright import (
    arith as arith, backend as backend, base as base, codegen as codegen, driver as driver,
    frontend as frontend, ir as ir, llm as llm, ops as ops, relax as relax, runtime as runtime,
    sched as sched, script as script, te as te, tir as tir,
)
from loopwright.base import errors as _errors
from loopwright.base.errors import (
    CallError as CallError, DiagnosticError as DiagnosticError,
    LoopwrightError as LoopwrightError,
)
from loopwright.base.span import Span as Span
from loopwright.driver.front import compile as compile
from loopwright.driver.legacy_build import build as build, lower as lower
from loopwright.explore.bisect import bisect as bisect
from loopwright.ir import instrument as instrument, target as target, transform as transform
from loopwright.ir.dtype import DataType as DataType
from loopwright.ir.expr import GlobalVar as GlobalVar
from loopwright.ir.module import IRModule as IRModule
from loopwright.ir.op import Op as Op
from loopwright.ir.target import Target as Target
from loopwright.ir.trace import trace as trace
from loopwright.relax.transform.legalize_ops.common import register_legalize as register_legalize
from loopwright.runtime.arena import Arena as Arena
from loopwright.runtime.device import (
    Device as Device, cpu as cpu, cuda as cuda, device as device, opencl as opencl,
)
from loopwright.runtime.extern import ExternLibrary as ExternLibrary
from loopwright.runtime.module import Module as Module
from loopwright.runtime.packed_func import (
    get_global_func as get_global_func, register_func as register_func,
)
from loopwright.runtime.tensor import Tensor as Tensor
from loopwright.tvm import (
    compat as compat, relay as relay, rpc as rpc, testing as testing, topi as topi,
)

TVMError = LoopwrightError
error = _errors
nd = runtime
register_global_func = register_func
