"""The graph passes, under TVM's names: a file for each."""

from . import legalize_ops as legalize_ops
from .annotate_op_pattern import AnnotateTIROpPattern as AnnotateTIROpPattern
from .canonicalize import CanonicalizeBindings as CanonicalizeBindings
from .dead_code import DeadCodeElimination as DeadCodeElimination
from .fuse_ops import FuseOps as FuseOps
from .fuse_tir import FuseTIR as FuseTIR
from .legalize import LegalizeOps as LegalizeOps
