"""Patterns by name: "cublas.matmul" is the pattern matmul of the back end cublas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...base import customised
from ..transform.fuse.fuse_ops_by_pattern import FusionPattern

_PATTERNS: list[FusionPattern] = []


def register_patterns(patterns: Iterable[Any]) -> None:
    """Add patterns, as `FuseOpsByPattern` takes them; the later ones have priority."""
    customised.note()
    _PATTERNS.extend(FusionPattern.of(p) for p in patterns)


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """The patterns whose name begins with `prefix`, those with priority first."""
    return [p for p in reversed(_PATTERNS) if p.name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern | None:
    """The pattern of that name, or None."""
    return next((p for p in reversed(_PATTERNS) if p.name == name), None)


__all__ = ["get_pattern", "get_patterns_with_prefix", "register_patterns"]
