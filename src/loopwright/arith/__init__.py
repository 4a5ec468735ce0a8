"""Integer arithmetic of shapes and indices: simplification, bounds, sets, iteration maps."""

from .analyzer import (
    Analyzer,
    ConstIntBound,
    ConstraintScope,
    Extension,
    ModularSet,
    ProofStrength,
)
from .int_set import (
    IntervalSet,
    IntSet,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_ranges,
    eval_set,
    neg_inf,
    pos_inf,
    union_lower_bound,
)
from .pattern import detect_clip_bound, detect_linear_equation
