"""Helpers for tests: comparisons, and (with pytest installed) parameters and requirements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.late import late_names
from ..ir.prim_expr import PrimExpr
from ..ir.structural import assert_structural_equal


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raise AssertionError unless shapes are equal and all elements within
    atol + rtol * |desired|."""
    got, wanted = np.asanyarray(actual), np.asanyarray(desired)
    if got.shape != wanted.shape:
        raise AssertionError(f"shapes differ: got {got.shape}, want {wanted.shape}")
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None:
    """Raise unless both expressions are structurally equal."""
    assert_structural_equal(lhs, rhs)


__getattr__ = late_names(
    __name__
)  # what needs pytest, which a user of the comparisons may not have
