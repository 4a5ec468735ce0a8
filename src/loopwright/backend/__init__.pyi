"""Targets: one file each, with its record (`base.TargetBackend`) and pipelines; byoc/: external code generators.

Made by `python -m tools.make_stubs`.
"""

from loopwright.backend import (
    base as base, byoc as byoc, c as c, kernel as kernel, llvm as llvm, pipeline as pipeline,
    utils as utils,
)
from loopwright.backend.base import TargetBackend as TargetBackend
from loopwright.codegen.compiled import CompiledModel as CompiledModel
from loopwright.codegen.lowered import named_apart as named_apart
from loopwright.relax.byoc.patterns import (
    get_pattern as get_pattern, get_patterns_with_prefix as get_patterns_with_prefix,
)

cpu = llvm
cpu_generic = llvm
