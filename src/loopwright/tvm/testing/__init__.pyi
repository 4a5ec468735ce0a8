"""Helpers for tests: comparisons, and (with pytest installed) parameters and requirements.

Made by `python -m tools.make_stubs`.
"""

from _pytest.mark.structures import MarkDecorator as _MarkDecorator
from collections.abc import Callable as _Callable
from loopwright.arith.analyzer import Analyzer as Analyzer
from loopwright.ir.dtype import numpy_dtype as numpy_dtype
from loopwright.ir.prim_expr import PrimExpr as PrimExpr
from loopwright.ir.structural import structural_equal as structural_equal
from loopwright.runtime.tensor import Tensor as _Tensor
from loopwright.tvm.testing.ast_printer import dump_ast as dump_ast
from loopwright.tvm.testing.cases import (
    fixture as fixture, parameter as parameter, parameters as parameters,
    skip_parameterizations as skip_parameterizations,
    xfail_parameterizations as xfail_parameterizations,
)
from loopwright.tvm.testing.compare import CompareBeforeAfter as CompareBeforeAfter
from loopwright.tvm.testing.functions import (
    ErrorTest as ErrorTest, after_initializer as after_initializer,
    call_cpp_ffi as call_cpp_ffi, call_cpp_py_ffi as call_cpp_py_ffi,
    call_py_ffi as call_py_ffi, echo as echo, fast_summation as fast_summation,
    identity_after as identity_after, initializer as initializer, nop as nop,
    register_ffi as register_ffi, slow_summation as slow_summation,
    terminate_self as terminate_self, test_check_eq_callback as test_check_eq_callback,
    test_raise_error as test_raise_error, test_wrap_callback as test_wrap_callback,
    timeout_job as timeout_job,
)
from loopwright.tvm.testing.gradients import check_numerical_grads as check_numerical_grads
from loopwright.tvm.testing.marks import (
    Requirement as Requirement, _requires_cuda as __requires_cuda,
    device_enabled as device_enabled, enabled_targets as enabled_targets,
    exclude_targets as exclude_targets, known_failing_targets as known_failing_targets,
    main as main, parametrize_targets as parametrize_targets,
    requires_llvm_minimum_version as requires_llvm_minimum_version,
    requires_package as requires_package, skip_if_32bit as skip_if_32bit,
    skip_if_wheel_test as skip_if_wheel_test,
)
from numpy import ndarray as _ndarray
from typing import Any as _Any

def assert_allclose(actual: _Tensor | _ndarray[_Any, _Any] | float, desired: _ndarray[_Any, _Any] | float, rtol: float = 1e-07, atol: float = 1e-07, verbose: bool = True) -> None: """Raise AssertionError unless shapes are equal and all elements within atol + rtol * |desired|."""
def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None: """Raise ValueError unless both expressions are proven equal."""
def get_dtype_range(dtype: str) -> tuple[_Any, _Any]: """The smallest and the largest value of a dtype."""
requires_aarch64: Requirement
requires_aarch64_sme: Requirement
requires_aarch64_sve: Requirement
requires_adreno_opencl: Requirement
requires_aprofile_aem_fvp: Requirement
requires_arm_dot: Requirement
requires_arm_fp16: Requirement
requires_cublas: Requirement
requires_cuda: Requirement
requires_cuda_compute_version = __requires_cuda
requires_cudagraph: Requirement
requires_cudnn: Requirement
requires_cutlass: Requirement
requires_gpu: Requirement
requires_hexagon: Requirement
requires_hipblas: Requirement
requires_libtorch: Requirement
requires_llvm: Requirement
requires_matrixcore: Requirement
requires_metal: Requirement
requires_mrvl: Requirement
requires_multi_gpu: Requirement
requires_nccl: Requirement
requires_nnapi: Requirement
requires_nvcc_version = __requires_cuda
requires_nvptx: Requirement
requires_opencl: Requirement
requires_openclml: Requirement
requires_rocm: Requirement
requires_rpc: Requirement
requires_tensorcore: Requirement
requires_vulkan: Requirement
requires_x86: Requirement
requires_x86_amx: Requirement
requires_x86_avx512: Requirement
requires_x86_vnni: Requirement
slow: _MarkDecorator
def uses_gpu(test: _Callable[..., _Any]) -> _Any: ...
