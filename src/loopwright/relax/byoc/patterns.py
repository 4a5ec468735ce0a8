"""Patterns by name: "cublas.matmul" is the pattern matmul of the back end cublas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...ir.rule_table import RuleTable
from ...ir.target import Target
from ..transform.fuse.fuse_ops_by_pattern import FusionPattern

PATTERNS: RuleTable[FusionPattern] = RuleTable("pattern", lambda pattern: pattern.name)


def register_patterns(patterns: Iterable[Any], target: str = "default") -> None:
    """Add patterns, in the form `FuseOpsByPattern` takes; later ones have priority.

    target: a target kind or key that they are restricted to.
    """
    for pattern in patterns:
        PATTERNS.add(FusionPattern.of(pattern), target)


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """The patterns for the current target whose names start with `prefix`, in order of
    priority."""
    candidates = PATTERNS.candidates(Target.current())
    return [c.rule for c in candidates if c.name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern | None:
    """The pattern of that name for the current target, or None."""
    return next((p for p in get_patterns_with_prefix(name) if p.name == name), None)
