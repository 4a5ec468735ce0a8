"""Patterns by name, under TVM's name of this module."""

from ..relax.byoc.patterns import get_pattern, get_patterns_with_prefix, register_patterns

__all__ = ["get_pattern", "get_patterns_with_prefix", "register_patterns"]
