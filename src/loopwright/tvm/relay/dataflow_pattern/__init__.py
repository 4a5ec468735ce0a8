"""Patterns of Relay's graphs: what matches, as functions of their own, or rewritten.

- nodes.py: the patterns, those of `relax.dpl` and those of what only Relay has
- matcher.py: matches them
- rewriting.py: `partition` and `rewrite`
"""

from . import text as _text  # installs the printing of patterns
from .matcher import match
from .nodes import *
from .nodes import __all__ as _patterns
from .rewriting import DFPatternCallback, partition, rewrite

__all__ = ["DFPatternCallback", "match", "partition", "rewrite"]
__all__ += _patterns
