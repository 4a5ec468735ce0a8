"""Helpers for tests: comparisons, and (with pytest installed) parameters and requirements."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ..ir.prim_expr import PrimExpr
from ..ir.structural import assert_structural_equal

# What needs pytest, which a user of the comparisons may not have.
_OF_PYTEST = (
    "fixture",
    "main",
    "parameter",
    "requires_cuda",
    "requires_gpu",
    "requires_llvm",
    "requires_package",
)


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


def __getattr__(name: str) -> Any:
    if name not in _OF_PYTEST:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.marks"), name)
