"""A pipeline by name."""

from __future__ import annotations

from loopwright.ir.transform import Sequential
from loopwright.relax.transform import CanonicalizeBindings


def tidy(times: int = 1) -> Sequential:
    """Canonicalize some times."""
    return Sequential([CanonicalizeBindings()] * times)
