"""Targets: one file each, with its pipelines and what it does in its own way.

Made by `python -m tools.make_stubs`.
"""

from loopwright.backend import (
    c as c, cpu as cpu, cuda as cuda, pattern_registry as pattern_registry,
    patterns as patterns, pipeline as pipeline, utils as utils,
)
from loopwright.relax.byoc.patterns import (
    get_pattern as get_pattern, get_patterns_with_prefix as get_patterns_with_prefix,
)

cpu_generic = cpu
