"""The language of graph patterns: finds patterns in graphs and rewrites them.

- nodes.py: the patterns; pattern.py builds them; text.py prints them; matcher.py matches them
  with a plan (plan.py)
- constraints.py, context.py: patterns that form a graph (`PatternContext`)
- rewrite.py: the rewriters; below it rules.py (the engine), graft.py (what callbacks return),
  script_rules.py (`@R.rewriter`)
"""

from . import context, matcher, pattern, rewrite
from . import text as _text  # installs the printing of patterns
from .context import PatternContext
from .matcher import match, matcher_of
from .pattern import *
from .rewrite import (
    ExprPatternRewriter,
    OrRewriter,
    PatternMatchingRewriter,
    TupleRewriter,
    rewrite_bindings,
    rewrite_call,
)
