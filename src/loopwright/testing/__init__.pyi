"""Helpers for tests: comparisons, and (with pytest installed) parameters and requirements.

Made by `python -m tools.make_stubs`.
"""

from _pytest.fixtures import fixture as fixture
from loopwright.ir.prim_expr import PrimExpr as PrimExpr
from loopwright.ir.structural import assert_structural_equal as assert_structural_equal
from loopwright.testing import files as files, marks as marks, nn as nn, vm as vm
from loopwright.testing.marks import (
    Requirement as _Requirement, main as main, parameter as parameter,
    requires_package as requires_package,
)
from typing import Any as _Any

def assert_allclose(actual: _Any, desired: _Any, rtol: float = 1e-07, atol: float = 1e-07, verbose: bool = True) -> None: """Raise AssertionError unless shapes are equal and all elements within atol + rtol * |desired|."""
def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None: """Raise unless both expressions are structurally equal."""
requires_cuda: _Requirement
requires_gpu: _Requirement
requires_llvm: _Requirement
