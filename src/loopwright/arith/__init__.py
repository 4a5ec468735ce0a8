"""Integer arithmetic of shapes and indices: simplification, bounds, sets, iteration maps."""

from .analyzer import (
    Analyzer,
    ConstIntBound,
    ConstraintScope,
    Extension,
    ModularSet,
    ProofStrength,
)
