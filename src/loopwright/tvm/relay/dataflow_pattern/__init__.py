"""Patterns of Relay's graphs: what matches, as functions of their own, or rewritten.

- nodes.py: the patterns, those of `relax.dpl` and those of what only Relay has
- matcher.py: matches them
- rewriting.py: `partition` and `rewrite`
"""

from . import text as _text  # installs the printing of patterns
from .matcher import match
from .nodes import *
from .rewriting import DFPatternCallback, partition, rewrite
