"""Integer arithmetic of shapes and indices: simplification, bounds, sets, iteration maps."""

from .analyzer import (
    Analyzer,
    ConstIntBound,
    ConstraintScope,
    Extension,
    IntervalSet,
    IntSet,
    ModularSet,
    ProofStrength,
    RewriteSimplifyStats,
)
from .int_set import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    eval_ranges,
    eval_set,
)
from .interval import is_neg_inf, is_pos_inf, neg_inf, pos_inf
from .iter_affine_map import (
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    iter_sum_terms,
    normalize_iter_map_to_expr,
)
from .iter_map_node import (
    IterMapExpr,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
)
from .pattern import detect_clip_bound, detect_linear_equation
