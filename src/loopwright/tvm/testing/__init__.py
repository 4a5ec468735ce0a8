"""Helpers for tests: comparisons, and (with pytest installed) parameters and requirements."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arith import Analyzer
from ...base.late import late_names, public_names
from ...ir.dtype import numpy_dtype
from ...ir.prim_expr import PrimExpr
from ...ir.structural import structural_equal
from .functions import (
    ErrorTest,
    after_initializer,
    call_cpp_ffi,
    call_cpp_py_ffi,
    call_py_ffi,
    echo,
    fast_summation,
    identity_after,
    initializer,
    nop,
    register_ffi,
    slow_summation,
    terminate_self,
    test_check_eq_callback,
    test_raise_error,
    test_wrap_callback,
    timeout_job,
)
from .gradients import check_numerical_grads

if TYPE_CHECKING:
    from ...runtime.tensor import Tensor


def assert_allclose(
    actual: Tensor | np.ndarray[Any, Any] | float, desired: np.ndarray[Any, Any] | float,
    rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True,
) -> None:  # fmt: skip
    """Raise AssertionError unless shapes are equal and all elements within
    atol + rtol * |desired|."""
    got, expected = np.asanyarray(actual), np.asanyarray(desired)
    if got.shape != expected.shape:
        raise AssertionError(f"shapes differ: got {got.shape}, want {expected.shape}")
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None:
    """Raise ValueError unless both expressions are proven equal."""
    if not (structural_equal(lhs, rhs) or Analyzer().can_prove_equal(lhs, rhs)):
        raise ValueError(f"not proven equal\n  got: {lhs}\n  and: {rhs}")


def get_dtype_range(dtype: str) -> tuple[Any, Any]:
    """The smallest and the largest value of a dtype."""
    kind = numpy_dtype(dtype)
    info = np.iinfo(kind) if kind.kind in "iu" else np.finfo(kind)
    return info.min, info.max


__getattr__ = late_names(
    __name__
)  # what needs pytest, which a user of the comparisons may not have
__dir__ = public_names(__name__)
if "pytest" in sys.modules:
    for _name in __dir__():
        globals()[_name] = getattr(sys.modules[__name__], _name)
